//! Keys: how values become a PartitionKey and a RowKey, and addresses that carry their type.
//!
//! - `part`: [`KeyPart`](crate::KeyPart), what may stand in a key template, and its implementations
//! - `notation`: [`Notation`], how a part is written, and [`PartKind`], which types have which
//! - `write`: [`KeyWriter`], which puts parts together so that text order is value order
//! - `read`: [`KeyReader`], which takes a key apart again
//! - `address`: [`Key`], [`Partition`]
//! - `template`: [`Piece`], templates as the derives state them
//! - `bucket`: [`bucket_of`], which of several buckets a value is in
//! - `instant`: dates in all their notations
//! - `stretch`: RowKeys that lie side by side; `between`: which of them lie between two values

pub(crate) mod address;
pub(crate) mod between;
pub(crate) mod bucket;
mod instant;
pub(crate) mod notation;
pub(crate) mod part;
pub(crate) mod read;
pub(crate) mod stretch;
#[cfg(test)]
mod strict_tests;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod write;

pub(crate) use address::{Key, Partition};
pub use bucket::bucket_of;
pub use notation::{Notation, PartKind};
pub use part::PartFormat;
pub use read::{KeyReadError, KeyReader};
pub use template::Piece;
pub use write::{KeyError, KeyWriter};
