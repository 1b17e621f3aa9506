//! Entities of Azure Table storage in files.
//!
//! Each module is a format with an encoder and a decoder, exact for all eight types of properties, for the limits of
//! each, for empty keys and texts, and for absent properties:
//!
//! | module | format |
//! |---|---|
//! | [`json_lines`] | typed JSON, an entity a line: the default |
//! | [`backup`] | files of JSON lines, compressed, with a manifest of counts and SHA-256 checksums |
//! | [`azcopy`] | manifests and OData JSON of AzCopy 7.3 |
//! | [`storage_explorer`] | CSV with `@type` columns, and JSON, of Azure Storage Explorer |
//! | `parquet` | Parquet, with a column for each type of a property; by the feature `parquet` |
//!
//! A [`Row`] is an entity with its Timestamp. Encoders take rows one at a time, decoders are iterators of rows; both use
//! `std::io` and hold no more than one row, or one row group of Parquet. Formats whose header names all columns need to
//! know them before the first row: [`Spool`] keeps the rows in a file until then.
//!
//! ```
//! use rowkey_transfer::storage_explorer::{CsvDecoder, CsvOptions};
//! use rowkey_transfer::json_lines;
//!
//! // An export of Storage Explorer as JSON lines.
//! let csv = "PartitionKey,RowKey,Age,Age@type\nsales,7,36,Int32\n";
//! let mut lines = json_lines::Encoder::new(Vec::new());
//! for row in CsvDecoder::new(csv.as_bytes(), CsvOptions::default())? {
//!     lines.write(&row?)?;
//! }
//! let line = r#"{"PartitionKey":"sales","RowKey":"7","Age":36}"#;
//! assert_eq!(lines.finish()?, format!("{line}\n").as_bytes());
//! # Ok::<(), rowkey_transfer::Error>(())
//! ```
//!
//! An [`Error`] says what is wrong, where, and what to do. It shows neither keys nor values.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `jobs` | the module: whole tables to files and back |
//! | `parquet` | the module |
//! | `zstd` | [`Compression::Zstd`], and Zstandard in Parquet. Needs a C compiler |

pub mod azcopy;
pub mod backup;
mod columns;
mod compression;
mod error;
mod format;
#[cfg(feature = "jobs")]
pub mod jobs;
pub mod json_lines;
mod objects;
#[cfg(feature = "parquet")]
pub mod parquet;
mod row;
mod spool;
pub mod storage_explorer;

pub use columns::Columns;
pub use compression::{Compression, Compressor, Decompressor};
pub use error::{Error, ErrorKind, Position, Result};
pub use format::{Format, FormatEncoder, Rows};
pub use row::Row;
pub use spool::{Spool, SpooledRows};
