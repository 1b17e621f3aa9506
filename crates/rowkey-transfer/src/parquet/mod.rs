//! Parquet: columns for pyarrow, polars, DuckDB and others.
//!
//! # Columns
//!
//! | in the table | in the file |
//! |---|---|
//! | PartitionKey, RowKey | columns of these names, `BYTE_ARRAY` with the logical type String |
//! | Timestamp | a column of this name, as a DateTime; only if a row has one |
//! | a property that has one type in all rows | a column of its name |
//! | a property that has several types | a column for each, `Age@Int32` and `Age@String` |
//! | an absent property | null |
//!
//! | type | in Parquet |
//! |---|---|
//! | Binary | `BYTE_ARRAY` |
//! | Boolean | `BOOLEAN` |
//! | DateTime | `INT64` with the logical type Timestamp in UTC, in nanoseconds if all values are between 1677-09-21 and 2262-04-11. Otherwise in microseconds, with the rest beside it: a column `Created@ticks`, `INT32`, has 0 to 9 ticks of 100 ns |
//! | Double | `DOUBLE` |
//! | Guid | `FIXED_LEN_BYTE_ARRAY` of 16 bytes with the logical type UUID |
//! | Int32 | `INT32` |
//! | Int64 | `INT64` |
//! | String | `BYTE_ARRAY` with the logical type String |
//!
//! The metadata of the file says under the key `rowkey` which property and type each column has, so that all comes back
//! exactly:
//!
//! ```json
//! {"version":1,"columns":[{"column":"Age@Int32","property":"Age","type":"Edm.Int32"},{"column":"Created@ticks","property":"Created","type":"Edm.DateTime","part":"ticks"}]}
//! ```
//!
//! Where another program has removed it, the names say the same.
//!
//! # Files of other programs
//!
//! [`Decoder`] reads files with any number of row groups whose columns are not nested, and which have the columns
//! PartitionKey and RowKey with text. Integers of up to 32 bits become Int32, larger and unsigned 32-bit ones Int64,
//! floats Double, dates and timestamps DateTime (below 100 ns they are cut), text, enums and JSON String, other bytes
//! Binary. Decimals, times of day, lists, maps and structures are errors that name the column. Compression is none,
//! Snappy or, with the feature `zstd`, Zstandard. A page has at most 128 MiB; most programs write 1 MiB.

#[cfg(test)]
mod footer_tests;
mod pages;
mod read;
mod schema;
mod source;
mod thrift;
mod write;

pub use read::Decoder;
pub use write::{Codec, Encoder};
