//! Makes a summary agree with what entities are now.
//!
//! The order is everything. The summary is read first, then the entity and its row beside the summary,
//! and whatever comes of it, the summary is written under the tag it was read with. So of all who settle
//! into one summary each is refused if another one has written since it began, and decides again by what
//! the entity is then: however late a write comes, it is never one that was decided by an older entity
//! than the last. This is also why a summary that needs no change is touched, and why one of nobody is
//! kept.

use futures_util::TryStreamExt as _;
use futures_util::future::try_join;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Result, Stored, Transaction};
use rowkey_patterns::rounds::Rounds;

use super::group::{Group, VIEW, is_of_view};
use super::{OPERATION, View};
use crate::settling::{all, is_open};

/// How many rows are read at a time.
pub(super) const CONCURRENCY: usize = 16;

/// What an entity contributes, and what it should.
struct Contribution {
    stored: Option<Stored<DynamicEntity>>,
    wanted: Option<DynamicEntity>,
}

impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> View<E, S> {
    /// Makes a summary agree with what the entity at `entity` is now, if it is at all. Three point
    /// queries and one write, and again if somebody else wrote to the summary in between, up to 40
    /// times.
    ///
    /// Call it after each change of an entity for the summary it was part of, and for the one it has
    /// become part of. It may be called again, later, by several at once, and in any order.
    pub async fn settle(&self, entity: Key<E>, summary: Key<S>) -> Result<()> {
        let group = Group::of(&summary).map_err(|error| self.named(error))?;
        self.settle_all(&group, &[entity]).await
    }

    /// The same for several entities, at most [`BATCH`](super::BATCH).
    pub(super) async fn settle_all(&self, group: &Group, entities: &[Key<E>]) -> Result<()> {
        let first = entities.first().and_then(|key| key.parts().ok());
        let mut rounds = Rounds::new(&self.table, (group.address(), first));
        loop {
            match self.settle_once(group, entities).await {
                Ok(()) => return Ok(()),
                Err(error) if is_open(&error) && rounds.again().await => {}
                Err(error) => return Err(self.named(error)),
            }
        }
    }

    async fn settle_once(&self, group: &Group, entities: &[Key<E>]) -> Result<()> {
        let summary = self.table.get::<DynamicEntity>(group.summary()).await?;
        if let Some(summary) = &summary {
            self.is_own(&summary.entity)?;
        }
        let wanted: Vec<_> = entities.iter().map(|key| self.wanted(group, key)).collect();
        let wanted = all(wanted, CONCURRENCY);
        let (stored, wanted) = try_join(self.stored(group, entities), wanted).await?;
        let changes = stored.into_iter().zip(wanted);
        let changes = changes.map(|(stored, wanted)| Contribution { stored, wanted });
        let changes: Vec<_> = changes.filter(|change| !change.is_settled()).collect();
        self.write(group, summary, &changes).await
    }

    /// What entities contribute.
    pub(super) async fn stored(
        &self,
        group: &Group,
        entities: &[Key<E>],
    ) -> Result<Vec<Option<Stored<DynamicEntity>>>> {
        let rows: Vec<_> = entities.iter().map(|key| self.stored_of(group, key)).collect();
        all(rows, CONCURRENCY).await
    }

    async fn stored_of(
        &self,
        group: &Group,
        key: &Key<E>,
    ) -> Result<Option<Stored<DynamicEntity>>> {
        let row = group.contribution(self.name, key)?;
        self.table.get(row.key()).await
    }

    /// What the entity at `key` has to contribute.
    async fn wanted(&self, group: &Group, key: &Key<E>) -> Result<Option<DynamicEntity>> {
        match self.entities.get(key.clone()).await? {
            Some(Stored { entity, .. }) => self.contribution(group, key, &entity),
            None => Ok(None),
        }
    }

    /// What an entity has to contribute to a group.
    pub(super) fn contribution(
        &self,
        group: &Group,
        key: &Key<E>,
        entity: &E,
    ) -> Result<Option<DynamicEntity>> {
        let Some(summary) = (self.group)(entity) else { return Ok(None) };
        if Group::of(&summary)? != *group {
            return Ok(None);
        }
        let mut row = group.contribution(self.name, key)?;
        self.columns.contribute(entity, &mut row)?;
        Ok(Some(row))
    }

    async fn write(
        &self,
        group: &Group,
        summary: Option<Stored<DynamicEntity>>,
        changes: &[Contribution],
    ) -> Result<()> {
        let Some(summary) = summary else {
            let new = self.summed(group, group.new_summary(), changes).await?;
            let transaction = self.table.transaction().insert(&new);
            return add(transaction, changes).submit().await.map(drop);
        };
        if changes.is_empty() {
            return self.table.merge((&group.new_summary(), &summary)).await.map(drop);
        }
        let mut new = summary.entity.clone();
        let mut is_known = is_of_view(&new, self.name);
        for Contribution { stored, wanted } in changes {
            let stored = stored.as_ref().map(|stored| &stored.entity);
            is_known = is_known && self.columns.replace(&mut new, stored, wanted.as_ref())?;
        }
        if !is_known {
            new = self.summed(group, new, changes).await?;
        }
        let transaction = self.table.transaction().replace((&new, &summary));
        add(transaction, changes).submit().await.map(drop)
    }

    /// A summary of all contributions as they will be after the changes.
    ///
    /// They may come in several pages: whoever writes one in between writes the summary, too, and the
    /// condition on it fails.
    async fn summed(
        &self,
        group: &Group,
        mut summary: DynamicEntity,
        changes: &[Contribution],
    ) -> Result<DynamicEntity> {
        self.mark(&mut summary);
        self.columns.empty(&mut summary);
        let changed = |row: &DynamicEntity| {
            changes.iter().any(|change| change.row_key() == Some(&*row.row_key))
        };
        let mut rows = self.table.query(group.contributions()).stream();
        while let Some(Stored { entity: row, .. }) = rows.try_next().await? {
            if !changed(&row) {
                self.columns.replace(&mut summary, None, Some(&row))?;
            }
        }
        for Contribution { wanted, .. } in changes {
            self.columns.replace(&mut summary, None, wanted.as_ref())?;
        }
        Ok(summary)
    }

    /// Whether the totals of a summary that was read are those of its contributions; if not, and if it
    /// is to be mended, writes them.
    pub(super) async fn recount(&self, group: &Group, mend: bool) -> Result<bool> {
        let mut rounds = Rounds::new(&self.table, group.address());
        loop {
            let summary = self.table.get::<DynamicEntity>(group.summary()).await?;
            let old = summary.as_ref().map(|stored| stored.entity.clone());
            let new = self.summed(group, old.unwrap_or_else(|| group.new_summary()), &[]).await?;
            let Some(summary) = summary else {
                if !mend {
                    return Ok(false);
                }
                match self.table.insert(&new).await {
                    Ok(_) => return Ok(false),
                    Err(error) if is_open(&error) && rounds.again().await => continue,
                    Err(error) => return Err(self.named(error)),
                }
            };
            if self.columns.agree(&summary.entity, &new) {
                return Ok(true);
            }
            let attempt = if mend {
                self.table.replace((&new, &summary)).await.map(|_| true)
            } else {
                // Those who wrote while the pages were read may have made the difference.
                let now = self.table.get::<DynamicEntity>(group.summary()).await?;
                Ok(now.is_some_and(|now| now.etag == summary.etag))
            };
            match attempt {
                Ok(true) => return Ok(false),
                Ok(false) if rounds.again().await => {}
                Err(error) if is_open(&error) && rounds.again().await => {}
                Ok(false) => return Err(self.restless()),
                Err(error) => return Err(self.named(error)),
            }
        }
    }

    /// Writes on a summary whose it is, and of what type.
    fn mark(&self, summary: &mut DynamicEntity) {
        summary.mark_as::<S>();
        summary.set(VIEW, self.name);
    }

    fn is_own(&self, summary: &DynamicEntity) -> Result<()> {
        if summary.get(VIEW).is_none() || is_of_view(summary, self.name) {
            return Ok(());
        }
        Err(Error::refused(ErrorKind::Invalid, "the summary is one of another view")
            .advise("give the summaries of each view keys of their own"))
    }

    pub(super) fn restless(&self) -> Error {
        self.named(Error::refused(
            ErrorKind::Conflict,
            "the summary changed every time it was read",
        ))
    }

    pub(super) fn named(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }
}

impl Contribution {
    fn is_settled(&self) -> bool {
        is_settled(self.stored.as_ref(), self.wanted.as_ref())
    }

    fn row_key(&self) -> Option<&str> {
        let stored = self.stored.as_ref().map(|stored| &stored.entity);
        stored.or(self.wanted.as_ref()).map(|row| &*row.row_key)
    }
}

/// Whether what is stored says what is wanted, and nothing else.
pub(super) fn is_settled(
    stored: Option<&Stored<DynamicEntity>>,
    wanted: Option<&DynamicEntity>,
) -> bool {
    match (stored.map(|stored| &stored.entity), wanted) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.iter().len() == b.iter().len()
                && a.iter().all(|(name, value)| b.get(name) == Some(value))
        }
        _ => false,
    }
}

fn add(transaction: Transaction, changes: &[Contribution]) -> Transaction {
    changes.iter().fold(transaction, |transaction, change| match (&change.stored, &change.wanted) {
        (None, None) => transaction,
        (None, Some(wanted)) => transaction.insert(wanted),
        (Some(stored), Some(wanted)) => transaction.replace((wanted, stored)),
        (Some(stored), None) => transaction.delete(stored.entity.key(), stored),
    })
}
