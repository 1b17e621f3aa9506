//! Rows as a store writes them, for tests of the client alone.

use rowkey::index::{Copied, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY, Scope};
use rowkey::key::KeyWriter;
use rowkey::{DynamicEntity, Entity, Error, Result};

/// The copy of an entity in the index at `position`; `None` if it is not in that index.
pub fn index_row<E: Entity>(entity: &E, position: usize) -> Result<Option<DynamicEntity>> {
    let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
    if !entity.index_key(position, &mut partition, &mut row) {
        return Ok(None);
    }
    let key = |key: KeyWriter| key.finish().map_err(|error| Error::no_such_key(&error));
    let head = DynamicEntity::of(entity)?;
    let mut copy = DynamicEntity::new(key(partition)?, key(row)?);
    let index = &E::DECLARED.indexes[position];
    if index.scope == Scope::OtherPartition {
        copy.set(PRIMARY_PARTITION_KEY, &*head.partition_key);
    }
    copy.set(PRIMARY_ROW_KEY, &*head.row_key);
    copy.set("IndexName", index.name);
    for (name, value) in head.iter() {
        if matches!(index.copy, Copied::All) || index.has_column(name) {
            copy.set(name, value.clone());
        }
    }
    Ok(Some(copy))
}
