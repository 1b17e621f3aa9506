//! Rows of entities: [`RowWriter`] and [`RowReader`], and the names of properties that are not data.

mod error;
mod read;
mod write;

pub use error::DecodeError;
pub use read::RowReader;
pub use write::RowWriter;

use crate::index::{COPIED_FROM, INDEX_NAME, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY, ROW_FORMAT};

/// The default name of the discriminator: the property that identifies the type if the keys do not.
pub(crate) const KIND: &str = "EntityType";

/// The property that holds the version of the type; an entity without it has version 1.
pub(crate) const VERSION: &str = "EntityVersion";

/// Properties that are not data of an entity: those of the service, of the type, and of the rows
/// that `rowkey::store::Store` writes. A field with `#[entity(rest)]` never contains them.
pub(crate) const OWN: [&str; 12] = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    KIND,
    VERSION,
    "EntityOp",
    "EntityParts",
    "EntityRows",
    INDEX_NAME,
    PRIMARY_PARTITION_KEY,
    PRIMARY_ROW_KEY,
    ROW_FORMAT,
];

/// Whether a property is one of [`OWN`], or names the source of a copy.
fn is_own(name: &str) -> bool {
    OWN.contains(&name) || name.starts_with(COPIED_FROM)
}
