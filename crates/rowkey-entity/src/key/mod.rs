//! Keys: how values become a PartitionKey and a RowKey, and typed addresses.
//!
//! - `part`: [`KeyPart`](crate::KeyPart), a value that a key template may contain, and its
//!   implementations
//! - `notation`: [`Notation`], how a part is written, and [`PartKind`], which types support which
//!   notation
//! - `write`: [`KeyWriter`], which joins parts so that text order is value order
//! - `read`: [`KeyReader`], which splits a key into its parts
//! - `address`: [`Key`], [`Partition`]
//! - `template`: [`Piece`], templates as the derives declare them
//! - `bucket`: [`bucket_of`], the bucket that a value belongs to
//! - `instant`: dates in all their notations
//! - `stretch`: contiguous ranges of RowKeys; `between`: those between two values; `successor`: the
//!   ends of prefixes

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
pub(crate) mod successor;
pub(crate) mod template;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod write;

pub(crate) use address::{Key, Partition};
pub use bucket::bucket_of;
pub use notation::{Notation, PartKind};
pub use part::PartFormat;
pub use read::{KeyReadError, KeyReader};
pub use template::Piece;
pub use write::{KeyError, KeyWriter, WrittenKeys};
