//! Indexes in the entity's partition: copies that change in the transaction of the entity.

use rowkey::index::Scope;
use rowkey::{Entity, Match, Result, table::EncodedRow};

use super::{Change, Contribution, Contributor, CopyOf, Edit, Source, Write};
use crate::layer::{Demands, Layers};
use crate::row::{CopyRow, Keys, index_keys};

/// The declared indexes of `E` in its own partition.
pub(crate) struct LocalIndexes;

impl LocalIndexes {
    fn positions<E: Entity>() -> impl Iterator<Item = usize> {
        let is_local = |position: &usize| E::INDEXES[*position].scope == Scope::SamePartition;
        (0..E::INDEXES.len()).filter(is_local)
    }
}

impl<E: Entity + Send + Sync> Contributor<E> for LocalIndexes {
    fn name(&self) -> &'static str {
        "indexes of the partition"
    }

    fn operations(&self) -> usize {
        // An update deletes a copy and inserts another one.
        2 * Self::positions::<E>().count()
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        for position in Self::positions::<E>() {
            // What cannot be in the index never was.
            let old = change.before.and_then(|entity| index_keys(entity, position).ok().flatten());
            let new = match change.after {
                Some(entity) => index_keys(entity, position)?.map(|keys| (entity, keys)),
                None => None,
            };
            let is_kept = new.as_ref().is_some_and(|(_, keys)| old.as_ref() == Some(keys));
            if let Some((_, row_key)) = old.filter(|_| !is_kept) {
                let source = Source::Copy(copy_of::<E>(position, change.keys, plan.layers));
                plan.plan.push(Edit { row_key, write: Write::Delete(Match::Any), source })?;
            }
            let Some((entity, keys)) = new else { continue };
            let row = EncodedRow::of(&CopyRow {
                content: change.content(entity),
                index: &E::INDEXES[position],
                keys: &keys,
                primary: change.keys,
                mark: change.op.mark(),
            })?;
            // A value that the entity should have may be another's by now, if a program wrote past the index.
            let may_be_taken = change.rewrites && E::INDEXES[position].unique;
            let write =
                if is_kept && !may_be_taken { Write::Upsert(row) } else { Write::Insert(row) };
            let source = Source::Copy(copy_of::<E>(position, change.keys, plan.layers));
            plan.plan.push(Edit { row_key: keys.1, write, source })?;
        }
        Ok(())
    }
}

fn copy_of<E: Entity>(position: usize, owner: &Keys, layers: &Layers) -> CopyOf {
    let index = E::INDEXES[position].name;
    CopyOf { index, position, owner: owner.clone(), demands: Demands::of::<E>(layers) }
}
