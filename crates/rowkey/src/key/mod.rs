//! Keys: how values become a PartitionKey and a RowKey, and addresses that carry their type.
//!
//! - [`part`]: [`KeyPart`], what may stand in a key template, and its implementations
//! - [`write`](mod@write): [`KeyWriter`], which puts parts together so that text order is value order
//! - [`read`](mod@read): [`KeyReader`], which takes a key apart again
//! - [`address`]: [`Key`], [`Partition`]
//! - [`template`]: [`Piece`], templates as the derives state them
//! - `stretch`: RowKeys that lie side by side; `between`: which of them lie between two values

pub mod address;
pub(crate) mod between;
pub mod part;
pub mod read;
pub(crate) mod stretch;
pub mod template;
#[cfg(test)]
mod tests;
pub mod write;

pub use address::{Key, Partition};
pub use part::{KeyPart, PartFormat};
pub use read::{KeyReadError, KeyReader};
pub use template::Piece;
pub use write::{KeyError, KeyWriter};
