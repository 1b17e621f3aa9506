//! Keys: how values become a PartitionKey and a RowKey, and addresses that carry their type.
//!
//! - [`part`]: [`KeyPart`], what may stand in a key template, and its implementations
//! - [`write`](mod@write): [`KeyWriter`], which puts parts together so that text order is value order
//! - [`read`](mod@read): [`KeyReader`], which takes a key apart again
//! - [`address`]: [`Key`], [`Partition`]

pub mod address;
pub mod part;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

pub use address::{Key, Partition};
pub use part::{KeyPart, PartFormat};
pub use read::{KeyReadError, KeyReader};
pub use write::{KeyError, KeyWriter};
