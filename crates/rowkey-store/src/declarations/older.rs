//! Removal of rows that an older version of a type wrote for declarations that the type no longer
//! has.
//!
//! Declarations that still exist under their name remove their old rows themselves.

use async_trait::async_trait;
use rowkey_client::entity::Older;
use rowkey_client::index::{Index, List, ListPlace, Scope};
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Match, Result};

use super::list;
use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::{Demands, has_keys};
use crate::plan::{CopyOf, Edit, Source, Write};
use crate::row::op::{keys_at, row_address};
use crate::row::{Claim, Keys, primary_keys};

/// Removes the rows of older versions of `E`.
pub(crate) struct OlderVersions;

/// Returns the rows in indexes that `E` does not declare.
fn indexed<E: Entity>(older: &Older) -> impl Iterator<Item = &(&'static Index, Keys)> {
    older.indexed.iter().filter(|(index, _)| {
        let place = |index: &Index| (index.name, index.scope, index.table);
        let is_it = |own: &Index| place(own) == place(index);
        !E::DECLARED.indexes.iter().any(is_it)
    })
}

/// Returns the lists that `E` does not declare.
fn listed<E: Entity>(older: &Older) -> impl Iterator<Item = &(&'static List, Keys)> {
    older.listed.iter().filter(|(list, _)| {
        let place = |list: &List| (list.name, list.place, list.table);
        let is_it = |own: &List| place(own) == place(list);
        !E::DECLARED.lists.iter().any(is_it)
    })
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Declaration<E> for OlderVersions {
    fn name(&self) -> &'static str {
        "older versions"
    }

    fn operations(&self) -> usize {
        E::DECLARED.older.beside
    }

    fn reads(&self, change: Change<'_, E>) -> Result<Vec<String>> {
        let older = change.older.into_iter();
        Ok(older.flat_map(listed::<E>).map(|(_, keys)| keys.1.clone()).collect())
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        let Some(older) = change.older else { return Ok(()) };
        for (index, (partition_key, row_key)) in indexed::<E>(older) {
            if let Some(table) = index.table {
                let what = format!(
                    "version {} of the type declares the index `{}` in the table `{table}`, and this \
                     version does not",
                    older.version, index.name
                );
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("keep the declaration until `migrate` has finished"));
            }
            if index.scope == Scope::SamePartition {
                let copy = CopyOf {
                    index: index.name,
                    position: usize::MAX,
                    owner: change.keys.clone(),
                    demands: Demands::of::<E>(plan.layers),
                };
                let (write, source) = (Write::Delete(Match::Any), Source::Copy(copy));
                plan.plan.push(Edit { row_key: row_key.clone(), write, source })?;
            } else {
                plan.target(row_address(&(partition_key.clone(), row_key.clone())));
            }
        }
        for (list, keys) in listed::<E>(older) {
            if list.place != ListPlace::Partition {
                let what = format!(
                    "version {} of the type declares the list `{}` outside the partition, and this \
                     version does not",
                    older.version, list.name
                );
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("keep the declaration until `migrate` has finished"));
            }
            let listed = list::listed(list, change.keys, plan.of);
            plan.edit(&keys.1, |row| list::edit(row, keys, list, &listed, false))?;
        }
        Ok(())
    }

    /// Deletes a copy or a claim that the entity no longer demands.
    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let keys = keys_at(address, "older versions")?;
        let table = settling.table();
        let Some(found) = table.row(&keys).await? else { return Ok(Settled::Done) };
        let owner = primary_keys(&found.entity)
            .or_else(|| Claim::read(&found.entity).ok().map(|claim| claim.owner));
        let head = settling.head().await?;
        let is_demanded = head.is_some_and(|head| {
            let has = |position: usize| {
                E::DECLARED.indexes[position].table.is_none()
                    && has_keys(&head.entity, position, &keys)
            };
            // A program of an older version wrote the entity again, with the row.
            head.older.is_some() || (0..E::DECLARED.indexes.len()).any(has)
        });
        if is_demanded || owner.as_ref() != Some(settling.keys()) {
            return Ok(Settled::Done);
        }
        let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
        let deleted = table.transaction().delete(key, Match::ETag(found.etag));
        settling.wrote(table.write(deleted).await)
    }
}
