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
//!
//! A [`Row`] is an entity with its Timestamp. Encoders take rows one at a time, decoders are iterators of rows; both use
//! `std::io` and hold no more than one row, or one row group of Parquet.
//!
//! An [`Error`] says what is wrong, where, and what to do. It shows neither keys nor values.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `zstd` | [`Compression::Zstd`], and Zstandard in Parquet. Needs a C compiler |

pub mod azcopy;
pub mod backup;
mod compression;
mod error;
pub mod json_lines;
mod objects;
mod row;

pub use compression::{Compression, Compressor, Decompressor};
pub use error::{Error, ErrorKind, Position, Result};
pub use row::Row;
