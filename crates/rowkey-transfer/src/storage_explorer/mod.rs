//! CSV and JSON of Azure Storage Explorer.
//!
//! # CSV
//!
//! ```text
//! PartitionKey,RowKey,Timestamp,Age,Age@type,Name,Name@type
//! sales,7,2020-06-22T15:16:05.333Z,36,Int32,Ada,String
//! ```
//!
//! Beside the column of a property is one with its type in each row, as `Name@type`. The columns may have any order. Both
//! cells of a property that the entity does not have are empty; an empty text has the type `String`. The type is that of
//! the row: one property may have different types.
//!
//! What is known, and from where:
//!
//! - Versions of 2017 to 2021 write `Edm.Int32`, with the columns in the order of their names, keys and Timestamp
//!   included, and dates cut to milliseconds: `HLA,HLA@type,PartitionKey,RowKey,Timestamp,isGeneric,isGeneric@type` with
//!   `01/02,Edm.String,3,ABC,2020-06-22T15:16:05.333Z,true,Edm.Boolean`, in programs on GitHub that read such files; on the
//!   names of types [issue 4212](https://github.com/microsoft/AzureStorageExplorer/issues/4212), on milliseconds
//!   [issue 3095](https://github.com/microsoft/AzureStorageExplorer/issues/3095).
//! - Newer ones write `Int32`, and the keys first:
//!   [issue 8772](https://github.com/microsoft/AzureStorageExplorer/issues/8772). The package
//!   Medienstudio.Azure.Data.Tables.CSV for .NET writes the same. Both spellings are read, and this one is written.
//! - Version 1.40.0 wrote the types of the first row only (issue 8772). [`Untyped::AsColumn`] restores such files.
//! - Before 1.40.0 was released, rows had fewer cells than the header ([issue
//!   8730](https://github.com/microsoft/AzureStorageExplorer/issues/8730)). Such rows are errors: which cells are missing
//!   is not known.
//! - Types can be left out of an export, and the delimiter can be chosen ([issue
//!   4968](https://github.com/microsoft/AzureStorageExplorer/issues/4968)): [`Untyped`] and [`CsvOptions::delimiter`].
//!
//! # JSON
//!
//! Version 1.40 added JSON. No public file shows it. Known is that an import refuses values that are not text ([issue
//! 8725](https://github.com/microsoft/AzureStorageExplorer/issues/8725)). Assumed is the form of the CSV: a list of
//! objects whose values are text, with the type beside each as `Name@type`. That is written; numbers, `true`, `false` and
//! annotations of OData, `Name@odata.type`, are read as well.

mod csv_read;
mod csv_write;
mod input;
mod json;
mod types;

pub use csv_read::{CsvDecoder, CsvOptions};
pub use csv_write::CsvEncoder;
pub use json::{JsonDecoder, JsonEncoder};
pub use types::Untyped;
