//! Lists in other partitions, which are updated after the commits of their entities.
//!
//! A list that has no room for an entity refuses the write before the commit. Writers in parallel may all find
//! room; the last property of a row is kept for them.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::index::{List, ListPlace};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, Result};

use super::list::{edit, edits, list_keys, listed, note_full};
use super::op::{keys_at, row_address};
use super::{Change, Contribution, Contributor};
use crate::execute::settle::{Settled, Settling};
use crate::row::Keys;

/// One declared list of `E` in another partition.
pub(crate) struct RemoteList {
    position: usize,
    list: &'static List,
    /// The prefix of the RowKeys of the type.
    of: &'static str,
}

impl RemoteList {
    /// Returns all lists of this kind among those of a type.
    pub(crate) fn all(lists: &'static [List], of: &'static str) -> Vec<Self> {
        let lists = lists.iter().enumerate();
        let remote = lists.filter(|(_, list)| list.place == ListPlace::Elsewhere);
        remote.map(|(position, list)| Self { position, list, of }).collect()
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
        let table = settling.table();
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

impl<E: Entity + Send + Sync + 'static> Contributor<E> for RemoteList {
    fn name(&self) -> &str {
        self.list.name
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
                plan.plan.join(keys, self.list, listed(self.list, change.keys, self.of));
            }
        }
        Ok(())
    }

    fn settle<'a>(
        &'a self,
        settling: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Settled>> {
        async move {
            let keys = keys_at(address, self.list.name)?;
            self.settle_at(settling, keys).await
        }
        .boxed()
    }
}
