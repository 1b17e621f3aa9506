//! Indexes in other partitions: copies that are updated after the commit of the entity.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::index::{Copied, Index, Scope};
use rowkey::table::{EncodedRow, RowWrite};
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Result, Stored};

use super::op::{keys_at, row_address};
use super::{Change, Contribution, Contributor};
use crate::execute::settle::{Settled, Settling};
use crate::layer::has_keys;
use crate::row::{CopyRow, Head, INDEX, Keys, MARK, index_keys, primary_keys, text};

/// One declared index of `E` in another partition.
pub(crate) struct RemoteIndex {
    position: usize,
    index: &'static Index,
}

impl RemoteIndex {
    /// Returns all indexes of this kind among those of a type.
    pub(crate) fn all(indexes: &'static [Index]) -> Vec<Self> {
        let indexes = indexes.iter().enumerate();
        let remote = indexes.filter(|(_, index)| index.scope == Scope::OtherPartition);
        remote.map(|(position, index)| Self { position, index }).collect()
    }

    async fn settle_at<E: Entity + Send + Sync + 'static>(
        &self,
        settling: &Settling<E>,
        keys: Keys,
    ) -> Result<Settled> {
        let table = settling.table();
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
                if is_own && self.is_right(&found, &head, &keys, settling.keys())? {
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
            (_, None) => return Ok(Settled::Done),
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

impl<E: Entity + Send + Sync + 'static> Contributor<E> for RemoteIndex {
    fn name(&self) -> &str {
        self.index.name
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        // The new copy comes first: a lookup finds both copies or one, never none.
        if let Some(entity) = change.after
            && let Some(keys) = index_keys(entity, self.position)?
        {
            // Check now whether the copy, which has a few more properties, is too large.
            let (index, mark) = (self.index, change.op.mark());
            let content = change.content(entity);
            EncodedRow::of(&CopyRow { content, index, keys: &keys, primary: change.keys, mark })?;
            plan.target(row_address(&keys));
        }
        if let Some(keys) = change.old_keys(self.position) {
            plan.target(row_address(&keys));
        }
        Ok(())
    }

    fn settle<'a>(
        &'a self,
        settling: &'a Settling<E>,
        address: &'a str,
    ) -> BoxFuture<'a, Result<Settled>> {
        async move {
            let keys = keys_at(address, self.index.name)?;
            self.settle_at(settling, keys).await
        }
        .boxed()
    }
}

/// The version of a row that was read; `None` if it did not exist.
pub(crate) type Version = Option<ETag>;
