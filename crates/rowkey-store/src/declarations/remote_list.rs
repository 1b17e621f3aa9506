//! Lists in other partitions and tables, which are updated after the commits of their entities.
//!
//! A list that has no room for an entity refuses the write before the commit. Writers in parallel may all find
//! room; the last property of a row is kept for them.

use std::sync::Arc;

use async_trait::async_trait;
use rowkey_client::index::{List, ListPlace};
use rowkey_client::{DynamicEntity, Entity, ErrorKind, Key, Match, Result};

use super::list::{edit, edits, list_keys, listed, note_full};
use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::place::{OtherTable, OtherTables, Place};
use crate::row::Keys;
use crate::row::op::{keys_at, row_address};

/// One declared list of `E` in another partition or table.
pub(crate) struct RemoteList {
    position: usize,
    list: &'static List,
    /// The prefix of the RowKeys of the type.
    of: &'static str,
    /// `None` if the lists are in the table of the entities.
    table: Option<Arc<OtherTable>>,
}

impl RemoteList {
    /// Returns all lists of this kind among those of a type.
    pub(crate) fn all(lists: &'static [List], of: &'static str, tables: &OtherTables) -> Vec<Self> {
        let lists = lists.iter().enumerate();
        let remote = lists.filter(|(_, list)| list.place == ListPlace::Elsewhere);
        let table = |list: &List| tables.get(list.name).cloned();
        remote.map(|(position, list)| Self { position, list, of, table: table(list) }).collect()
    }

    /// Adds the entity to the list, or removes it.
    ///
    /// The list is read before the entity and written under its ETag, so the write of a stale call
    /// fails.
    async fn settle_at<E: Entity + Send + Sync + 'static>(
        &self,
        settling: &Settling<E>,
        at: Keys,
    ) -> Result<Settled> {
        let table = self.table.as_ref().map_or(settling.table(), |table| table.deciding());
        let found = table.row(&at).await?;
        let entity = settling.entity().await?;
        let is_on = entity.is_some_and(|entity| list_keys(&entity, self.position).contains(&at));
        let before = found.as_ref().map(|found| found.entity.clone());
        let mut after = before.clone();
        let listed = listed(self.list, settling.keys(), self.of);
        if let Err(error) = edit(&mut after, &at, self.list, &listed, is_on) {
            if let (ErrorKind::TooLarge, Some(found)) = (error.kind(), found) {
                // Marks the list as incomplete for lookups.
                let mut full = found.entity;
                if note_full(&mut full) {
                    let noted = table.write(table.transaction().replace((&full, found.etag)));
                    let _ = settling.wrote(noted.await)?;
                }
            }
            return Err(error);
        }
        if after == before {
            return Ok(Settled::Done);
        }
        let transaction = table.transaction();
        let transaction = match (found, &after) {
            (None, Some(row)) => transaction.insert(row),
            (Some(found), Some(row)) => transaction.replace((row, found.etag)),
            (Some(found), None) => {
                let key = Key::<DynamicEntity>::new(&*at.0, &*at.1);
                transaction.delete(key, Match::ETag(found.etag))
            }
            (None, None) => return Ok(Settled::Done),
        };
        settling.wrote(table.write(transaction).await)
    }
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Declaration<E> for RemoteList {
    fn name(&self) -> &str {
        self.table.as_ref().map_or(self.list.name, |table| table.stored())
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        // The entity is added to new lists before it is removed from old ones, so that each lookup
        // finds it in at least one.
        for (keys, joins) in edits(change, self.position)? {
            plan.target(row_address(&keys));
            if joins {
                let at = Place::new(self.table.as_ref(), keys);
                plan.plan.join(at, self.list, listed(self.list, change.keys, self.of));
            }
        }
        Ok(())
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let keys = keys_at(address, self.list.name)?;
        let settled = self.settle_at(settling, keys).await;
        settled.map_err(|error| match &self.table {
            Some(table) => table.needed(error),
            None => error,
        })
    }
}
