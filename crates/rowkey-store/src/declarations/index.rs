//! Indexes in the entity's partition: copies that are written in the transaction of the entity.

use rowkey_client::index::{Index, Scope};
use rowkey_client::{DynamicEntity, Entity, Match, Result, table::EncodedRow};

use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::{Demands, Layers};
use crate::plan::{CopyOf, Edit, Source, Write};
use crate::row::{CopyRow, Keys, index_keys, is_copy_of};

/// The name of the declaration.
pub(crate) const NAME: &str = "indexes of the partition";

/// The declared indexes of `E` in its own partition.
pub(crate) struct LocalIndexes;

/// Returns the positions of the indexes in the entity's partition.
fn positions(indexes: &'static [Index]) -> Vec<usize> {
    let is_local = |position: &usize| indexes[*position].scope == Scope::SamePartition;
    (0..indexes.len()).filter(is_local).collect()
}

impl<E: Entity + Send + Sync> Declaration<E> for LocalIndexes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> usize {
        // An update deletes one copy and inserts another.
        2 * positions(E::DECLARED.indexes).len()
    }

    /// Returns the keys of the entity's copies, to read them, if another program may have written rows
    /// there. The copies of an entity that a store wrote need no read.
    fn reads(&self, change: Change<'_, E>) -> Result<Vec<String>> {
        if !change.reads_copies {
            return Ok(Vec::new());
        }
        let mut reads = Vec::new();
        for position in positions(E::DECLARED.indexes) {
            let new = change.after.and_then(|entity| index_keys(entity, position).ok().flatten());
            reads.extend(row_key_of(change.old_keys(position)));
            reads.extend(row_key_of(new));
        }
        Ok(reads)
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        for position in positions(E::DECLARED.indexes) {
            let is_own = |row: &DynamicEntity| {
                is_copy_of(row, E::DECLARED.indexes[position].name, change.keys)
            };
            let old = change.old_keys(position);
            let new = match change.after {
                Some(entity) => index_keys(entity, position)?.map(|keys| (entity, keys)),
                None => None,
            };
            let is_kept = new.as_ref().is_some_and(|(_, keys)| old.as_ref() == Some(keys));
            if let Some((_, row_key)) = old.filter(|_| !is_kept) {
                let condition = match plan.plan.rows.get(&row_key).map(|row| &row.before) {
                    None => Some(Match::Any),
                    Some(Some((row, etag))) if is_own(row) => Some(Match::ETag(etag.clone())),
                    // There is no row, or it belongs to something else.
                    Some(_) => None,
                };
                if let Some(condition) = condition {
                    let source = Source::Copy(copy_of::<E>(position, change.keys, plan.layers));
                    plan.plan.push(Edit { row_key, write: Write::Delete(condition), source })?;
                }
            }
            let Some((entity, keys)) = new else { continue };
            let row = EncodedRow::of(&CopyRow {
                content: change.content(entity),
                index: &E::DECLARED.indexes[position],
                keys: &keys,
                primary: change.keys,
                mark: change.op.mark(),
            })?;
            let write = match plan.plan.rows.get(&keys.1).map(|row| &row.before) {
                Some(Some((stored, etag))) if is_own(stored) => {
                    Write::Replace(row, Match::ETag(etag.clone()))
                }
                None if is_kept => Write::Replace(row, Match::Any),
                // If the insert is refused, the existing row decides.
                _ => Write::Insert(row),
            };
            let source = Source::Copy(copy_of::<E>(position, change.keys, plan.layers));
            plan.plan.push(Edit { row_key: keys.1, write, source })?;
        }
        Ok(())
    }
}

fn row_key_of(keys: Option<Keys>) -> Option<String> {
    keys.map(|(_, row_key)| row_key)
}

fn copy_of<E: Entity>(position: usize, owner: &Keys, layers: &Layers) -> CopyOf {
    let index = E::DECLARED.indexes[position].name;
    CopyOf { index, position, owner: owner.clone(), demands: Demands::of::<E>(layers) }
}
