//! Keys: how values become a PartitionKey and a RowKey, and addresses that carry their type.
//!
//! - [`part`]: [`KeyPart`], what may stand in a key template, and its implementations
//! - [`write`](mod@write): [`KeyWriter`], which puts parts together so that text order is value order
//! - [`read`](mod@read): [`KeyReader`], which takes a key apart again
//! - [`address`]: [`Key`], [`Partition`]
//! - [`template`]: [`Piece`], templates as the derives state them
//! - `bucket`: [`bucket_of`], which of several buckets a value is in
//! - `stretch`: RowKeys that lie side by side; `between`: which of them lie between two values

pub mod address;
pub(crate) mod between;
pub(crate) mod bucket;
pub mod part;
pub mod read;
pub(crate) mod stretch;
pub mod template;
#[cfg(test)]
mod tests;
pub mod write;

pub use address::{Key, Partition};
pub use bucket::bucket_of;
pub use part::{KeyPart, PartFormat};
pub use read::{KeyReadError, KeyReader};
pub use template::Piece;
pub use write::{KeyError, KeyWriter};
