//! One entity and its copy in one index, looked at closely: are they out of step, and if so, mended.
//!
//! What a page shows may be old by the time it is looked at, so nothing is called drift, let alone
//! mended, before entity and copy were read in an order that proves it. For an index in the partition
//! of its entities a transaction proves it: it writes the copy only if neither has changed since.
//! For one elsewhere, entity and copy cannot be written together; the copy is written under a
//! condition of its own, and the entity is looked at once more.

use rowkey::index::Scope;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Key, Outcome, Result, Stored, Table};

use super::report::{Drift, Finding};
use crate::index_row::{IndexRow, primary_key};
use crate::pace::Pace;
use crate::rounds::{Rounds, was_lost};

pub(super) const OPERATION: &str = "VerifyIndex";

/// Looks at rows of `E` and one of its indexes.
pub(super) struct Examiner<'a> {
    /// The table of the entities.
    pub(super) primary: &'a Table,
    /// The table of the index.
    pub(super) copies: &'a Table,
    /// The place of the index.
    pub(super) position: usize,
    /// Whether to mend what is found.
    pub(super) mend: bool,
    pub(super) pace: &'a Pace,
}

/// What reading an entity and its copy tells.
enum Seen<E> {
    Drifted(Box<Drifted<E>>),
    /// With the address of the copy, if there has to be one.
    InStep(Option<Key<DynamicEntity>>),
    /// The entity demands another copy than it did, or none.
    Moved(E),
    Unfit,
}

/// An entity and its copy that are out of step, unless somebody is just writing.
struct Drifted<E> {
    drift: Drift,
    address: Key<DynamicEntity>,
    copy: Option<Stored<DynamicEntity>>,
    now: Stored<DynamicEntity>,
    fresh: E,
}

/// What became of an attempt to mend, or to know that there is something to mend.
enum Attempt {
    Done,
    /// Somebody wrote meanwhile.
    Lost,
    /// It was written, and the entity has changed since it was read.
    Overtaken,
}

/// Whether an attempt was the last.
#[derive(Clone, Copy)]
enum Settled {
    Yes,
    /// Nothing was written, and it has to be looked at again.
    No,
    /// It may have been written, and has to be looked at again.
    InDoubt,
}

impl Examiner<'_> {
    /// Looks at the copy of the entity at `key`, which was `entity` a while ago.
    pub(super) async fn entity<E: Entity + Send + Sync>(
        &self,
        key: Key<DynamicEntity>,
        entity: E,
    ) -> Result<Option<Finding>> {
        let mut written = Vec::new();
        let found = self.bring_in_step(key, entity, &mut written).await;
        // Copies elsewhere that were written while their entity changed: it may demand another by now.
        for address in written {
            if let Some(copy) = self.read(self.copies, address).await? {
                Box::pin(self.copy::<E>(copy)).await?;
            }
        }
        found
    }

    async fn bring_in_step<E: Entity + Send + Sync>(
        &self,
        key: Key<DynamicEntity>,
        mut entity: E,
        written: &mut Vec<Key<DynamicEntity>>,
    ) -> Result<Option<Finding>> {
        let mut rounds = Rounds::new(self.primary, key.parts().ok());
        let (mut is_first, mut in_doubt) = (true, None);
        loop {
            let seen = self.compare(&key, &entity, is_first).await?;
            is_first = false;
            let Drifted { drift, address, copy, now, fresh } = match seen {
                Seen::Drifted(drifted) => *drifted,
                Seen::InStep(address) => {
                    return Ok(in_doubt.map(|drift| self.finding(drift, key, address)));
                }
                Seen::Unfit => return Ok(Some(self.finding(Drift::Unfit, key, None))),
                Seen::Moved(fresh) => {
                    entity = fresh;
                    if rounds.again().await {
                        continue;
                    }
                    return Err(self.restless());
                }
            };
            let mends = self.mend && drift != Drift::Taken;
            let attempt = match IndexRow::of(&fresh, self.position)? {
                Some(expected) if mends => self.write(&expected, copy.as_ref(), &now).await,
                _ => self.unchanged(address.clone(), copy.as_ref()).await,
            };
            let settled = self.settled(attempt, &mut rounds).await;
            if matches!(settled, Ok(Settled::Yes)) {
                return Ok(Some(self.finding(drift, key, Some(address))));
            }
            if mends && is_elsewhere::<E>(self.position) {
                written.push(address);
            }
            if let Settled::InDoubt = settled? {
                in_doubt = Some(drift);
            }
            entity = fresh;
        }
    }

    /// Reads the copy that `entity` demands, and the entity again.
    ///
    /// In this order: a copy that is newer than its entity does not exist, while one that is older is
    /// what is looked for.
    async fn compare<E: Entity + Send + Sync>(
        &self,
        key: &Key<DynamicEntity>,
        entity: &E,
        is_first: bool,
    ) -> Result<Seen<E>> {
        let demanded = match IndexRow::of(entity, self.position) {
            Ok(Some(demanded)) => demanded,
            Ok(None) => return Ok(Seen::InStep(None)),
            Err(_) => return Ok(Seen::Unfit),
        };
        let address = demanded.key::<DynamicEntity>();
        let copy = self.read(self.copies, address.clone()).await?;
        // In later rounds `entity` may be what the copy was written for, and old.
        if is_first && is_stored(&demanded, copy.as_ref())? {
            return Ok(Seen::InStep(Some(address)));
        }
        let Some(now) = self.read(self.primary, key.clone()).await? else {
            return Ok(Seen::InStep(None));
        };
        let Ok(fresh) = now.entity.read_as::<E>() else { return Ok(Seen::Unfit) };
        let drift = match IndexRow::of(&fresh, self.position) {
            Ok(Some(expected)) if expected.key::<DynamicEntity>() == address => match &copy {
                None => Drift::Missing,
                Some(_) if is_stored(&expected, copy.as_ref())? => {
                    return Ok(Seen::InStep(Some(address)));
                }
                Some(copy) if self.is_taken::<E>(&copy.entity, key).await? => Drift::Taken,
                Some(_) => Drift::Stale,
            },
            // Another copy, none, or one that cannot be: the next round tells.
            _ => return Ok(Seen::Moved(fresh)),
        };
        Ok(Seen::Drifted(Box::new(Drifted { drift, address, copy, now, fresh })))
    }

    /// Looks at the entity of a copy that was read.
    pub(super) async fn copy<E: Entity + Send + Sync>(
        &self,
        mut copy: Stored<DynamicEntity>,
    ) -> Result<Option<Finding>> {
        let address = copy.entity.key();
        let mut rounds = Rounds::new(self.copies, address.parts().ok());
        loop {
            let Some(owner) = primary_key::<DynamicEntity>(&copy.entity) else { return Ok(None) };
            if self.is_demanded::<E>(&address, &owner).await? {
                return Ok(None);
            }
            let attempt = if self.mend {
                self.delete(&copy).await
            } else {
                self.unchanged(address.clone(), Some(&copy)).await
            };
            let settled = self.settled(attempt, &mut rounds).await?;
            let now = match settled {
                Settled::Yes => None,
                Settled::InDoubt | Settled::No => self.read(self.copies, address.clone()).await?,
            };
            match (now, settled) {
                (Some(now), _) => copy = now,
                (None, Settled::No) => return Ok(None),
                (None, _) => {
                    if self.mend && is_elsewhere::<E>(self.position) {
                        self.restore::<E>(&address, &owner).await?;
                    }
                    return Ok(Some(self.finding(Drift::Orphan, owner, Some(address))));
                }
            }
        }
    }

    /// Whether the entity at `owner` is one whose copy has this address.
    async fn is_demanded<E: Entity>(
        &self,
        address: &Key<DynamicEntity>,
        owner: &Key<DynamicEntity>,
    ) -> Result<bool> {
        let Some(owner) = self.read(self.primary, owner.clone()).await? else { return Ok(false) };
        // A copy of what cannot be read, and is reported for that, may be all that is left of it.
        let Ok(entity) = owner.entity.read_as::<E>() else { return Ok(true) };
        // One that makes no key of the index demands nothing.
        Ok(self.address(&entity).is_ok_and(|demanded| demanded.as_ref() == Some(address)))
    }

    /// Whether a row in the place of a copy of the entity at `key` is to stay there.
    async fn is_taken<E: Entity>(
        &self,
        row: &DynamicEntity,
        key: &Key<DynamicEntity>,
    ) -> Result<bool> {
        match primary_key::<DynamicEntity>(row) {
            None => Ok(true),
            Some(owner) if owner == *key => Ok(false),
            Some(owner) => self.is_demanded::<E>(&row.key(), &owner).await,
        }
    }

    /// Writes the copy that the entity demands in place of what was read there.
    async fn write<E: Entity + Send + Sync>(
        &self,
        expected: &IndexRow<'_, E>,
        read: Option<&Stored<DynamicEntity>>,
        entity: &Stored<DynamicEntity>,
    ) -> Result<Attempt> {
        let condition = read.map(|read| read.etag.clone());
        self.pace.take(self.primary.account().clock(), 1).await;
        if !is_elsewhere::<E>(self.position) {
            // Merging nothing leaves the entity as it is, and fails if it was changed.
            let entity_key = &entity.entity;
            let nothing = DynamicEntity::new(&*entity_key.partition_key, &*entity_key.row_key);
            let transaction = self.primary.transaction().merge((&nothing, entity));
            let transaction = match condition {
                Some(etag) => transaction.replace((expected, etag)),
                None => transaction.insert(expected),
            };
            return transaction.submit().await.map(|_| Attempt::Done);
        }
        match condition {
            Some(etag) => self.copies.replace((expected, etag)).await?,
            None => self.copies.insert(expected).await?,
        };
        let now = self.read(self.primary, entity.entity.key()).await?;
        let is_same = now.is_some_and(|now| now.etag == entity.etag);
        Ok(if is_same { Attempt::Done } else { Attempt::Overtaken })
    }

    /// Deletes a copy if it is as it was read.
    ///
    /// That the entity did not demand it was read after the copy: whoever came to demand it since has
    /// written it, and it has another tag.
    async fn delete(&self, copy: &Stored<DynamicEntity>) -> Result<Attempt> {
        self.pace.take(self.copies.account().clock(), 1).await;
        self.copies.delete(copy.entity.key(), copy).await.map(|()| Attempt::Done)
    }

    /// Writes a copy again that was deleted while its entity came to demand it. (Beside the entity
    /// that cannot be: the tag of the copy would have changed.)
    async fn restore<E: Entity + Send + Sync>(
        &self,
        address: &Key<DynamicEntity>,
        owner: &Key<DynamicEntity>,
    ) -> Result<()> {
        let Some(now) = self.read(self.primary, owner.clone()).await? else { return Ok(()) };
        let Ok(entity) = now.entity.read_as::<E>() else { return Ok(()) };
        if self.address(&entity).is_ok_and(|demanded| demanded.as_ref() == Some(address)) {
            Box::pin(self.entity(owner.clone(), entity)).await?;
        }
        Ok(())
    }

    /// Whether the row at `address` is still the one that was read.
    async fn unchanged(
        &self,
        address: Key<DynamicEntity>,
        read: Option<&Stored<DynamicEntity>>,
    ) -> Result<Attempt> {
        let now = self.read(self.copies, address).await?;
        let is_same = now.as_ref().map(|now| &now.etag) == read.map(|read| &read.etag);
        Ok(if is_same { Attempt::Done } else { Attempt::Lost })
    }

    /// Whether there is nothing left to do after an attempt. Otherwise there is another one, after a
    /// wait perhaps.
    async fn settled(&self, attempt: Result<Attempt>, rounds: &mut Rounds<'_>) -> Result<Settled> {
        let (settled, error) = match attempt {
            Ok(Attempt::Done) => return Ok(Settled::Yes),
            Ok(Attempt::Lost) => (Settled::No, None),
            Ok(Attempt::Overtaken) => (Settled::InDoubt, None),
            Err(error) if was_lost(&error) => (Settled::No, Some(error)),
            Err(error) if error.outcome() == Outcome::Unknown => (Settled::InDoubt, Some(error)),
            Err(error) => return Err(error),
        };
        if rounds.again().await {
            return Ok(settled);
        }
        Err(error.unwrap_or_else(|| self.restless()))
    }

    async fn read(
        &self,
        table: &Table,
        key: Key<DynamicEntity>,
    ) -> Result<Option<Stored<DynamicEntity>>> {
        self.pace.take(table.account().clock(), 1).await;
        table.get(key).await
    }

    fn address<E: Entity>(&self, entity: &E) -> Result<Option<Key<DynamicEntity>>> {
        Ok(IndexRow::of(entity, self.position)?.map(|row| row.key()))
    }

    fn restless(&self) -> Error {
        Error::refused(ErrorKind::Conflict, "an entity or its copy changed every time it was read")
            .advise("go on from the checkpoint later")
            .of(OPERATION, self.primary.name())
    }

    fn finding(
        &self,
        drift: Drift,
        entity: Key<DynamicEntity>,
        copy: Option<Key<DynamicEntity>>,
    ) -> Finding {
        let mended = self.mend && !matches!(drift, Drift::Taken | Drift::Unfit);
        Finding { drift, index: None, entity, copy, mended }
    }
}

/// Whether the copies in an index cannot be written together with their entities.
pub(super) fn is_elsewhere<E: Entity>(position: usize) -> bool {
    E::INDEXES[position].scope == Scope::OtherPartition
}

fn is_stored<E: Entity>(
    expected: &IndexRow<'_, E>,
    stored: Option<&Stored<DynamicEntity>>,
) -> Result<bool> {
    stored.map_or(Ok(false), |stored| expected.is(&stored.entity))
}
