//! Indexes in other partitions and tables: copies that are updated after the commit of the entity.

use std::sync::Arc;

use async_trait::async_trait;
use rowkey_client::index::{Copied, Index, Scope};
use rowkey_client::table::{EncodedRow, RowWrite};
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Match, Result, Stored};

use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::has_keys;
use crate::layer::place::{OtherTable, OtherTables, Place};
use crate::plan::inline::{Effect, Known, RowElsewhere};
use crate::row::op::{keys_at, row_address};
use crate::row::{Content, CopyRow, Head, INDEX, Keys, MARK, index_keys, primary_keys, text};

/// One declared index of `E` in another partition or table.
pub(crate) struct RemoteIndex {
    position: usize,
    index: &'static Index,
    /// `None` if the copies are in the table of the entities.
    table: Option<Arc<OtherTable>>,
}

impl RemoteIndex {
    /// Returns all indexes of this kind among those of a type.
    pub(crate) fn all(indexes: &'static [Index], tables: &OtherTables) -> Vec<Self> {
        let indexes = indexes.iter().enumerate();
        let remote = indexes.filter(|(_, index)| index.scope == Scope::OtherPartition);
        let table = |index: &Index| tables.get(index.name).cloned();
        remote.map(|(position, index)| Self { position, index, table: table(index) }).collect()
    }

    /// Whether the change does not alter the copy, which stays at its key.
    fn is_same<E: Entity>(&self, change: Change<'_, E>, copy: &CopyRow<'_, E>) -> Result<bool> {
        let (Some(before), Copied::Only(_)) = (change.before, self.index.copy) else {
            // A whole copy has the mark of the write.
            return Ok(false);
        };
        let content = Content::of(before, change.unknown, change.stored);
        let before = CopyRow { content, index: self.index, ..*copy };
        Ok(DynamicEntity::of(&before)? == DynamicEntity::of(copy)?)
    }

    /// Names a target. `known` is what the writer knows of its row; `None` if settling must read it.
    fn target<E: Entity>(
        &self,
        change: Change<'_, E>,
        plan: &mut Contribution<'_>,
        (keys, write): (&Keys, Option<EncodedRow>),
        known: Option<Known>,
    ) {
        let address = row_address(keys);
        let Some(known) = known else { return plan.target(address) };
        let is_whole = self.index.copy == Copied::All;
        let marks = (change.mark.map(str::to_owned), change.op.mark().to_owned());
        plan.target_inline(
            address,
            Effect::Row(RowElsewhere {
                place: Place::new(self.table.as_ref(), keys.clone()),
                write,
                known,
                index: self.index.name,
                owner: change.keys.clone(),
                marks: is_whole.then_some(marks),
            }),
        );
    }

    async fn settle_at<E: Entity + Send + Sync + 'static>(
        &self,
        settling: &Settling<E>,
        keys: Keys,
        rewrites: bool,
    ) -> Result<Settled> {
        let table = self.table.as_ref().map_or(settling.table(), |table| table.deciding());
        let found = table.row(&keys).await?;
        let head = settling.head().await?;
        let demanded =
            head.as_ref().is_some_and(|head| has_keys(&head.entity, self.position, &keys));
        let is_copy = |row: &DynamicEntity| text(row, INDEX) == Some(self.index.name);
        let owner = found.as_ref().filter(|row| is_copy(&row.entity));
        let owner = owner.and_then(|row| primary_keys(&row.entity));
        let is_own = owner.as_ref() == Some(settling.keys());
        let write = match (found, head.filter(|_| demanded)) {
            (None, Some(head)) => {
                let row = self.row(&head, &keys, settling.keys())?;
                table.write(table.transaction().row(&row, RowWrite::Insert)).await
            }
            (Some(found), Some(head)) => {
                if !is_own && self.is_taken::<E>(settling, owner, &keys).await? {
                    let index = self.index.name;
                    let what =
                        format!("another entity, or a foreign row, has its key in `{index}`");
                    return Err(Error::refused(ErrorKind::AlreadyExists, what)
                        .in_index(index)
                        .advise("change one of the entities, or move or delete the foreign row"));
                }
                if is_own && !rewrites && self.is_right(&found, &head, &keys, settling.keys())? {
                    return Ok(Settled::Done);
                }
                let row = self.row(&head, &keys, settling.keys())?;
                let condition = Match::ETag(found.etag);
                table.write(table.transaction().row(&row, RowWrite::Replace(condition))).await
            }
            (Some(found), None) if is_own => {
                let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
                table.write(table.transaction().delete(key, Match::ETag(found.etag))).await
            }
            (found, None) => {
                if found.is_none() {
                    settling.found_none(row_address(&keys));
                }
                return Ok(Settled::Done);
            }
        };
        settling.wrote(write)
    }

    /// Whether the row belongs to another entity, which has the value.
    async fn is_taken<E: Entity>(
        &self,
        settling: &Settling<E>,
        owner: Option<Keys>,
        keys: &Keys,
    ) -> Result<bool> {
        // A row that names no entity does not belong to the index and is left unchanged.
        let Some(owner) = owner else { return Ok(true) };
        match settling.table().row(&owner).await? {
            Some(head) => {
                settling.demands().ask(settling.table().table(), &head, self.position, keys).await
            }
            None => Ok(false),
        }
    }

    /// Whether a stored copy is the one that the head demands.
    fn is_right<E: Entity>(
        &self,
        found: &Stored<DynamicEntity>,
        head: &Head<E>,
        keys: &Keys,
        primary: &Keys,
    ) -> Result<bool> {
        if self.index.copy == Copied::All {
            return Ok(head.mark.is_some() && text(&found.entity, MARK) == head.mark.as_deref());
        }
        let expected = DynamicEntity::of(&self.copy(head, keys, primary))?;
        Ok(expected == found.entity)
    }

    fn row<E: Entity>(&self, head: &Head<E>, keys: &Keys, primary: &Keys) -> Result<EncodedRow> {
        EncodedRow::of(&self.copy(head, keys, primary))
    }

    fn copy<'r, E: Entity>(
        &self,
        head: &'r Head<E>,
        keys: &'r Keys,
        primary: &'r Keys,
    ) -> CopyRow<'r, E> {
        let mark = head.mark.as_deref().unwrap_or_default();
        CopyRow { content: head.content(), index: self.index, keys, primary, mark }
    }
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Declaration<E> for RemoteIndex {
    fn name(&self) -> &str {
        self.table.as_ref().map_or(self.index.name, |table| table.stored())
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        // The rows of an entity that another program may have written are looked at while settling.
        let is_known = !(change.reads_copies || change.rewrites);
        let old = change.old_keys(self.position);
        let new = match change.after {
            Some(entity) => index_keys(entity, self.position)?.map(|keys| (entity, keys)),
            None => None,
        };
        let kept = old.as_ref().filter(|old| new.as_ref().is_some_and(|(_, new)| new == *old));
        // The new copy comes first: a lookup finds both copies or one, never none.
        if let Some((entity, keys)) = &new {
            // Encoded now, because the copy, which has a few more properties, may be too large.
            let (index, mark) = (self.index, change.op.mark());
            let content = change.content(entity);
            let copy = CopyRow { content, index, keys, primary: change.keys, mark };
            let row = EncodedRow::of(&copy)?;
            if is_known && kept.is_some() && self.is_same(change, &copy)? {
                return Ok(());
            }
            // A new row is inserted in any case: if it is there, another writer may be about to delete it, and it is
            // written again.
            let known = match kept {
                Some(_) => is_known.then_some(Known::Unread),
                None => Some(Known::New),
            };
            self.target(change, plan, (keys, Some(row)), known);
        }
        if let Some(keys) = old.as_ref().filter(|_| kept.is_none()) {
            self.target(change, plan, (keys, None), is_known.then_some(Known::Unread));
        }
        Ok(())
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let keys = keys_at(address, self.index.name)?;
        let settled = self.settle_at(settling, keys, settling.has_met(address)).await;
        settled.map_err(|error| match &self.table {
            Some(table) => table.needed(error),
            None => error,
        })
    }
}
