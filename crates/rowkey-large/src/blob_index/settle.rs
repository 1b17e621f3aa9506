//! Entities written, and the lists that they join and leave.

use rowkey::{ETag, Entity, Error, ErrorKind, Key, Outcome, Result, Stored};
use rowkey_patterns::rounds::{Rounds, was_lost};

use super::BlobIndex;
use super::format::Listed;

/// Writing: the key is listed under the new value, then the entity is written, then the key is taken
/// off the list of the old value.
///
/// The result says what became of the entity. If a list cannot be read or written after that, there is a
/// warning, and a key may be left in a list that it does not belong to: lookups pass over it, and
/// [`repair`](Self::repair) takes it off.
impl<E: Entity + Send + Sync + 'static> BlobIndex<E> {
    /// Stores a new entity and lists its key: four requests, two more if the list is long.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is an entity with its keys.
    pub async fn insert(&self, entity: &E) -> Result<ETag> {
        let inserted = async {
            let listed = self.listed(&Key::of(entity))?;
            let value = self.value_of(entity);
            self.announce(&listed, value.as_deref()).await?;
            match self.rows.insert(entity).await {
                Ok(etag) => {
                    self.confirm(&listed, value.as_deref()).await;
                    Ok(etag)
                }
                Err(error) => Err(self.withdraw(&listed, value.as_deref(), error).await),
            }
        };
        inserted.await.map_err(|error| self.error(error))
    }

    /// Reads the entity at `key`, changes it and replaces it; if its value changes, its key moves from
    /// one list to the other. Two requests, or nine.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do nothing
    /// but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity.
    pub async fn update(&self, key: Key<E>, mut change: impl FnMut(&mut E)) -> Result<Stored<E>> {
        let updated = async {
            let listed = self.listed(&key)?;
            let mut rounds = Rounds::new(&self.rows, key.parts().ok());
            loop {
                match self.update_once(&listed, &mut change).await {
                    Err(error) if was_lost(&error) && rounds.again().await => {}
                    updated => return updated,
                }
            }
        };
        updated.await.map_err(|error| self.error(error))
    }

    /// Deletes the entity at `key` and takes its key off its list; says whether there was one. Six
    /// requests.
    pub async fn delete(&self, key: Key<E>) -> Result<bool> {
        let deleted = async {
            let listed = self.listed(&key)?;
            let mut rounds = Rounds::new(&self.rows, key.parts().ok());
            loop {
                let Some(stored) = self.rows.get::<E>(key.clone()).await? else {
                    return Ok(false);
                };
                match self.rows.delete_if_exists(key.clone(), &stored).await {
                    Ok(deleted) => {
                        let value = self.value_of(&stored.entity);
                        self.leave(&listed, value.as_deref()).await;
                        return Ok(deleted);
                    }
                    Err(error) if was_lost(&error) && rounds.again().await => {}
                    Err(error) => return Err(error),
                }
            }
        };
        deleted.await.map_err(|error| self.error(error))
    }

    /// Lists the entity at `key`, stored before there was an index or without this, under its value;
    /// says whether it was missing there.
    ///
    /// To index what a table holds already, let all writers use this first, then
    /// [`repair`](Self::repair).
    pub async fn index(&self, key: Key<E>) -> Result<bool> {
        let indexed = async {
            let listed = self.listed(&key)?;
            let Some(stored) = self.rows.get::<E>(key).await? else { return Ok(false) };
            match self.value_of(&stored.entity) {
                Some(value) => self.settle_listed(&listed, &value).await,
                None => Ok(false),
            }
        };
        indexed.await.map_err(|error| self.error(error))
    }

    /// Brings the list of `value` into agreement with what the entity at `key` is now: lists its key if
    /// it has that value, takes it off if it has another or is gone; says whether anything was to be
    /// done. Two requests if not.
    ///
    /// For whoever learns of changes in another way, such as a follower of `rowkey_eventual`: after a
    /// change, settle the value from before and that from after, as often as you like, in any order, and
    /// several at a time.
    ///
    /// The list is read before the entity and written under the ETag that was read, and the entity is
    /// read once more after: of two who settle the same at once, the one who comes last has seen what
    /// the entity is.
    pub async fn settle(&self, key: Key<E>, value: &str) -> Result<bool> {
        let settled = async {
            let listed = self.listed(&key)?;
            self.settle_listed(&listed, value).await
        };
        settled.await.map_err(|error| self.error(error))
    }

    pub(super) async fn settle_listed(&self, listed: &Listed, value: &str) -> Result<bool> {
        let mut rounds = Rounds::new(&self.rows, (listed, value));
        let mut changed = false;
        loop {
            if let Some(slot) = self.lists.locate(value, listed).await? {
                let belongs = self.belongs(listed, value).await?;
                if slot.contains() == belongs {
                    return Ok(changed);
                }
                if self.lists.set(slot, belongs).await? {
                    changed = true;
                    if self.belongs(listed, value).await? == belongs {
                        return Ok(changed);
                    }
                }
            }
            if !rounds.again().await {
                return Err(crowded());
            }
        }
    }

    async fn update_once(
        &self,
        listed: &Listed,
        change: &mut impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let Some(mut stored) = self.rows.get::<E>(listed.key()).await? else {
            return Err(Error::refused(ErrorKind::NotFound, "there is no such entity"));
        };
        let from = self.value_of(&stored.entity);
        change(&mut stored.entity);
        if self.listed(&Key::of(&stored.entity))? != *listed {
            let what = "the change alters a part of the key, and keys cannot change: delete the entity \
                        and insert the other one";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        let to = self.value_of(&stored.entity);
        let moved = to.as_deref().filter(|_| from != to);
        self.announce(listed, moved).await?;
        let etag = match self.rows.replace(&stored).await {
            Ok(etag) => etag,
            Err(error) => return Err(self.withdraw(listed, moved, error).await),
        };
        self.confirm(listed, moved).await;
        self.leave(listed, from.as_deref().filter(|from| Some(*from) != to.as_deref())).await;
        let timestamp = etag.timestamp().unwrap_or(stored.timestamp);
        Ok(Stored { entity: stored.entity, etag, timestamp })
    }

    /// Lists a key before its entity has the value.
    async fn announce(&self, listed: &Listed, value: Option<&str>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let mut rounds = Rounds::new(&self.rows, (listed, value));
        loop {
            if let Some(slot) = self.lists.locate(value, listed).await?
                && self.lists.set(slot, true).await?
            {
                return Ok(());
            }
            if !rounds.again().await {
                return Err(crowded());
            }
        }
    }

    /// Sees that the key is still listed after its entity has the value: somebody who settled it in
    /// between may have taken it off.
    async fn confirm(&self, listed: &Listed, value: Option<&str>) {
        let Some(value) = value else { return };
        let confirmed = async {
            match self.lists.locate(value, listed).await? {
                Some(slot) if slot.contains() => Ok(()),
                _ => self.settle_listed(listed, value).await.map(drop),
            }
        };
        if let Err(error) = confirmed.await {
            tracing::warn!(%error, "an entity is written, and whether it is still listed is not known");
        }
    }

    /// Takes the key off a list that its entity has left.
    async fn leave(&self, listed: &Listed, value: Option<&str>) {
        let Some(value) = value else { return };
        if let Err(error) = self.settle_listed(listed, value).await {
            tracing::warn!(%error, "a key is left in a list that it may not belong to");
        }
    }

    /// Takes a key off the list again after its entity was refused.
    async fn withdraw(&self, listed: &Listed, value: Option<&str>, error: Error) -> Error {
        // If nobody knows, it may be written yet.
        if error.outcome() != Outcome::Unknown {
            self.leave(listed, value).await;
        }
        error
    }

    /// Whether the entity with this key has this value.
    async fn belongs(&self, listed: &Listed, value: &str) -> Result<bool> {
        let stored = self.rows.get::<E>(listed.key()).await?;
        Ok(stored.and_then(|stored| self.value_of(&stored.entity)).as_deref() == Some(value))
    }
}

#[cold]
fn crowded() -> Error {
    let what = "others changed the list each time it was read";
    Error::refused(ErrorKind::Conflict, what).advise("try again later")
}
