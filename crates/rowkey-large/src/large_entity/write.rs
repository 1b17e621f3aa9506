//! Rows written: always as an insert that is not repeated or under the ETag that was read, so that no
//! request that arrives late brings back a row whose blobs are gone.

use rowkey::entity::Write;
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Outcome, Result, Stored};
use rowkey_patterns::rounds::{Rounds, was_lost};

use super::Large;
use super::pointer::Pointer;
use super::store::{Fresh, Store, names};

/// Writing: blobs first, then the row, then what the row does not name any more is freed.
///
/// An error leaves the row as it was, and its blobs; with an unknown [`outcome`](Error::outcome) it may
/// be the new one, with its blobs. Blobs that nothing names in the end are left to the
/// [sweep](Self::sweep).
impl<E: Entity + Send + 'static> Large<E> {
    /// Stores a new entity. Fails with [`ErrorKind::AlreadyExists`] if there is one with its keys.
    ///
    /// One request, and one for each large property. When the answer is lost, the row is read to see
    /// whether it is this one.
    pub fn insert(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let entity = DynamicEntity::of_any_size(entity);
        async move {
            let mut fresh = Fresh::default();
            let written = async { self.store.put(entity?, None, &mut fresh).await }.await;
            self.store.settle(written, fresh).await
        }
    }

    /// Replaces an entity, as [`Table::replace`](rowkey::Table::replace) does: under the ETag it was
    /// read with, or, with [`Match::Any`], whoever wrote in between.
    ///
    /// Two requests; for each large property that is not what it was, one more to write it and one to
    /// free what was there.
    pub fn replace<'a>(
        &self,
        write: impl Into<Write<'a, E>>,
    ) -> impl Future<Output = Result<ETag>> + Send
    where
        E: 'a,
    {
        let (entity, condition) = write.into().into_parts();
        let entity = DynamicEntity::of_any_size(entity);
        async move {
            let mut fresh = Fresh::default();
            let written =
                async { self.store.overwrite(entity?, &condition, false, &mut fresh).await }.await;
            self.store.settle(written, fresh).await
        }
    }

    /// Stores an entity, whether or not there is one: replaces it, or inserts it. Costs what
    /// [`replace`](Self::replace) does.
    pub fn upsert(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let entity = DynamicEntity::of_any_size(entity);
        async move {
            let mut fresh = Fresh::default();
            let written =
                async { self.store.overwrite(entity?, &Match::Any, true, &mut fresh).await }.await;
            self.store.settle(written, fresh).await
        }
    }

    /// Reads the entity at `key` with its large properties, changes it and replaces it; if somebody
    /// else wrote in between, begins anew, up to 16 times. Large properties that stay the same are not
    /// written.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do nothing
    /// but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity.
    pub async fn update(&self, key: Key<E>, mut change: impl FnMut(&mut E)) -> Result<Stored<E>> {
        let mut fresh = Fresh::default();
        let updated = self.update_in_rounds(&key, &mut change, &mut fresh).await;
        self.store.settle(updated, fresh).await
    }

    /// Deletes the entity at `key`, under the ETag it was read with (`&stored`) or whatever is there
    /// ([`Match::Any`]), and then its blobs. Fails with [`ErrorKind::NotFound`] if there is none.
    ///
    /// Two requests, and one for each large property.
    pub async fn delete(&self, key: Key<E>, condition: impl Into<Match> + Send) -> Result<()> {
        let deleted = self.delete_if_exists(key, condition).await?;
        if deleted { Ok(()) } else { Err(self.store.error(not_found())) }
    }

    /// Deletes the entity at `key` and its blobs, if it is there; says whether it was.
    pub async fn delete_if_exists(
        &self,
        key: Key<E>,
        condition: impl Into<Match> + Send,
    ) -> Result<bool> {
        let deleted = self.store.delete(key.cast(), &condition.into()).await;
        deleted.map_err(|error| self.store.error(error))
    }

    /// Writes what is large of an entity to blobs, and returns the row to be stored in its place: for
    /// a transaction of the [table](Self::table) with others of the partition.
    ///
    /// Insert it, or replace it under an ETag, within half of the [guard](Self::guard); not by upsert,
    /// and not with [`repeat_inserts`](rowkey::RetryOptions::repeat_inserts), since a repetition may
    /// come after somebody has deleted the row and freed its blobs. If the transaction fails, and for
    /// the blobs of rows that it replaced or deleted, there is the [sweep](Self::sweep).
    pub fn stow(&self, entity: &E) -> impl Future<Output = Result<DynamicEntity>> + Send {
        let entity = DynamicEntity::of_any_size(entity);
        async move {
            let mut fresh = Fresh::default();
            let stowed = async {
                let row = self.store.stow(entity?, None, &mut fresh).await?;
                self.store.keep(&row, &mut fresh).await?;
                Ok(row)
            };
            let stowed = stowed.await;
            self.store.settle(stowed, fresh).await
        }
    }

    async fn update_in_rounds(
        &self,
        key: &Key<E>,
        change: &mut impl FnMut(&mut E),
        fresh: &mut Fresh,
    ) -> Result<Stored<E>> {
        let mut rounds = Rounds::new(&self.store.table, key.parts().ok());
        loop {
            let before = self.store.row(key.clone().cast()).await?.ok_or_else(not_found)?;
            let Some(whole) = self.store.complete(before.entity.clone()).await? else {
                // Another version has taken its place; if not, reading says what is wrong.
                self.get(key.clone()).await?;
                if rounds.again().await {
                    continue;
                }
                return Err(conflict());
            };
            let sent = changed(&whole, change)?;
            if sent.key() != whole.key() {
                let what = "the change alters a part of the key, and keys cannot change: delete the \
                            entity and insert the other one";
                return Err(Error::refused(ErrorKind::Invalid, what));
            }
            let etag = match self.store.put(sent.clone(), Some(before), fresh).await {
                Ok(etag) => etag,
                Err(error) if was_lost(&error) && rounds.again().await => {
                    continue;
                }
                Err(error) if error.is_conflict() && error.outcome() == Outcome::Unknown => {
                    // It may be the echo of this call's own write, whose answer was lost. Another
                    // writer may have written the same, though, which makes no difference unless the
                    // change adds to what is there.
                    let Ok(Some(now)) = self.whole(key).await else { return Err(error) };
                    let again = changed(&now.entity, change)?;
                    if !same(&now.entity, &sent) || !same(&again, &sent) {
                        return Err(error);
                    }
                    now.etag
                }
                Err(error) => return Err(error),
            };
            let timestamp = etag.timestamp().unwrap_or(rowkey::edm::DateTime::MIN);
            return Ok(Stored { entity: sent.read_as()?, etag, timestamp });
        }
    }
}

impl Store {
    /// Stores an entity in the place of the row that is there, or as a new one if `before` is `None`.
    ///
    /// When it fails, `fresh` is left with the blobs that no row names for certain.
    pub(super) async fn put(
        &self,
        entity: DynamicEntity,
        before: Option<Stored<DynamicEntity>>,
        fresh: &mut Fresh,
    ) -> Result<ETag> {
        let (before, etag) = before.map(|before| (before.entity, before.etag)).unzip();
        let row = self.stow(entity, before.as_ref(), fresh).await?;
        self.put_row(&row, before.as_ref(), etag, fresh).await
    }

    /// Writes a row whose blobs are there, and then frees what it does not name of `fresh` and of
    /// `before`.
    pub(super) async fn put_row(
        &self,
        row: &DynamicEntity,
        before: Option<&DynamicEntity>,
        etag: Option<ETag>,
        fresh: &mut Fresh,
    ) -> Result<ETag> {
        self.keep(row, fresh).await?;
        let written = match etag {
            None => self.rows.insert(row).await,
            Some(etag) => self.rows.replace((row, etag)).await,
        };
        let etag = match written {
            Err(error) if error.outcome() == Outcome::Unknown => {
                let fresh = std::mem::take(fresh);
                // No other row names these blobs. If this one does, it was written.
                let now = self.row(row.key()).await.ok().flatten();
                let ours = |now: &Stored<_>| fresh.is_in(&now.entity) && same(&now.entity, row);
                // It may come yet, or have come and gone: then the sweep knows.
                now.filter(ours).ok_or(error)?.etag
            }
            written => written?,
        };
        let unused = std::mem::take(fresh).unless_in(Some(row));
        let old = before.map(|before| gone(before, row)).transpose()?;
        self.free(unused.chain(old.unwrap_or_default())).await;
        Ok(etag)
    }

    /// Replaces the row under a condition, or inserts it if there is none and that is allowed.
    async fn overwrite(
        &self,
        entity: DynamicEntity,
        condition: &Match,
        insert: bool,
        fresh: &mut Fresh,
    ) -> Result<ETag> {
        let mut rounds = Rounds::new(&self.table, (&entity.partition_key, &entity.row_key));
        loop {
            let before = self.row(entity.key()).await?;
            match (&before, condition) {
                (None, _) if !insert => return Err(not_found()),
                (Some(before), Match::ETag(etag)) if before.etag != *etag => return Err(conflict()),
                _ => {}
            }
            match self.put(entity.clone(), before, fresh).await {
                Err(error)
                    if was_lost(&error) && *condition == Match::Any && rounds.again().await => {}
                written => return written,
            }
        }
    }

    async fn delete(&self, key: Key<DynamicEntity>, condition: &Match) -> Result<bool> {
        let mut rounds = Rounds::new(&self.table, key.parts().ok());
        loop {
            let Some(before) = self.row(key.clone()).await? else { return Ok(false) };
            if matches!(condition, Match::ETag(etag) if before.etag != *etag) {
                return Err(conflict());
            }
            match self.rows.delete_if_exists(key.clone(), before.etag).await {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    let pointers = Pointer::all(&before.entity)?;
                    self.free(pointers.into_iter().map(|(_, pointer)| pointer)).await;
                    return Ok(true);
                }
                Err(error)
                    if was_lost(&error) && *condition == Match::Any && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The end of a write: if it failed, frees the blobs that no row names for certain.
    pub(super) async fn settle<T>(&self, written: Result<T>, fresh: Fresh) -> Result<T> {
        if written.is_err() {
            self.free(fresh.unless_in(None)).await;
        }
        written.map_err(|error| self.error(error))
    }
}

/// Whether two entities have the same properties, in whatever order.
fn same(one: &DynamicEntity, other: &DynamicEntity) -> bool {
    one.iter().len() == other.iter().len()
        && one.iter().all(|(name, value)| other.get(name) == Some(value))
}

/// The blobs that `before` names and `after` does not.
fn gone(before: &DynamicEntity, after: &DynamicEntity) -> Result<Vec<Pointer>> {
    let mut gone = Vec::new();
    for (_, pointer) in Pointer::all(before)? {
        if !names(after, &pointer.blob)? {
            gone.push(pointer);
        }
    }
    Ok(gone)
}

fn changed<E: Entity>(
    whole: &DynamicEntity,
    change: &mut impl FnMut(&mut E),
) -> Result<DynamicEntity> {
    let mut entity: E = whole.read_as()?;
    change(&mut entity);
    DynamicEntity::of_any_size(&entity)
}

pub(super) fn not_found() -> Error {
    Error::refused(ErrorKind::NotFound, "there is no such entity")
}

pub(super) fn conflict() -> Error {
    Error::refused(ErrorKind::Conflict, "the entity was changed since it was read")
}
