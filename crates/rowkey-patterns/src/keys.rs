//! The keys of an entity.

pub use rowkey_client::internals::not_of_a_store;
use rowkey_client::key::{KeyError, KeyWriter};
use rowkey_client::{Entity, Error, Result};

/// The maximum number of operations in an entity group transaction.
pub const MAX_OPERATIONS: usize = 100;

/// A PartitionKey and a RowKey.
pub type Keys = (String, String);

/// Returns the keys of an entity.
pub fn keys_of<E: Entity>(entity: &E) -> Result<Keys> {
    let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
    entity.partition_key(&mut partition);
    entity.row_key(&mut row);
    finish(partition, row)
}

/// Returns the keys that were written.
pub fn finish(partition: KeyWriter, row: KeyWriter) -> Result<Keys> {
    let keys = || Ok::<_, KeyError>((partition.finish()?, row.finish()?));
    keys().map_err(|error| Error::no_such_key(&error))
}
