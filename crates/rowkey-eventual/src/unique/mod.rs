//! Unique values across partitions: an e-mail address that one user alone has, wherever they are.
//!
//! A table keeps its keys unique, and nothing else. So each value gets a row, with the value in its
//! key, that says whose it is: a reservation. It is written before the entity, with an end; then the
//! entity; then the reservation is confirmed and has no end any more. Whoever stops in between
//! leaves a reservation that ends.
//!
//! - [`Unique`]: the constraint, through which its entities are written
//! - [`Claimed`]: whether the value was to be had
//! - [`Report`]: what [`Unique::verify`] found
//!
//! # Why no value is had twice
//!
//! The key of the reservation admits one owner at a time, and every change of it carries the ETag
//! that was read. A reservation is taken over only when it is no claim in progress and its owner's
//! entity, read after the reservation, does not have the value. A claimant begins to write its entity
//! only in the first half of its time, and confirms afterwards: one that was overtaken nevertheless
//! fails to, and undoes its write.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Outcome, Result, Stored, Table};
use rowkey_patterns::rounds::Rounds;

mod reservation;
mod verify;

use reservation::{Keys, Reservation};
pub use verify::Report;

const OPERATION: &str = "Unique";

type Value<E> = Arc<dyn Fn(&E) -> Option<String> + Send + Sync>;

/// What became of a value that was asked for.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the value may be somebody else's"]
pub enum Claimed<T> {
    /// Another entity has the value, or is about to get it. Nothing was written.
    Taken {
        /// When it may be free again: the end of a reservation that is not confirmed. `None` when
        /// an entity has it.
        until: Option<DateTime<Utc>>,
    },
    /// The entity is written, and the value is its own.
    Written(T),
}

/// A value that no two entities of a table have, in whatever partitions they are.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_eventual::unique::{Claimed, Unique};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{country}", row = "user_{id:6}")]
/// struct User { country: String, id: u32, email: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("users").create().await?;
/// # account.table("reservations").create().await?;
/// let (users, reservations) = (account.table("users"), account.table("reservations"));
/// let users = Unique::new(users, reservations, "email", |user: &User| Some(user.email.clone()))
///     .normalized(|email| email.trim().to_lowercase());
///
/// let ada = User { country: "uk".into(), id: 1, email: "Ada@contoso.com".into() };
/// assert!(matches!(users.insert(&ada).await?, Claimed::Written(_)));
///
/// let other = User { country: "us".into(), id: 2, email: "ada@contoso.com".into() };
/// assert_eq!(users.insert(&other).await?, Claimed::Taken { until: None });
/// assert_eq!(users.find("ADA@contoso.com").await?.map(|found| found.entity), Some(ada));
/// # Ok(()) }
/// ```
///
/// All writers have to write the value through this: what is written past it is not reserved, which
/// [`verify`](Self::verify) finds and [`repair`](Self::repair) mends, where it can.
#[must_use = "it writes nothing by itself"]
pub struct Unique<E> {
    entities: Table,
    reservations: Table,
    name: &'static str,
    value: Value<E>,
    normalize: fn(&str) -> String,
    expiry: Duration,
}

/// A reservation of one's own that is not confirmed.
struct Hold {
    etag: ETag,
    /// Until when the writing of the entity may begin.
    usable_until: DateTime<Utc>,
}

enum Reserved {
    Ours(Hold),
    Taken { until: Option<DateTime<Utc>> },
}

/// What a reservation means for others.
enum Standing {
    /// Its owner has the value.
    Holds,
    /// Its owner may be about to write the entity.
    Pending(DateTime<Utc>),
    /// Nobody has the value.
    Vacant,
}

impl<E: Entity + Clone + Send + Sync + 'static> Unique<E> {
    /// A constraint on the entities of one table, with its reservations in another (or the same, if
    /// `E`'s rows have a head). `name` tells it from other constraints with the same table of
    /// reservations: letters and digits. Entities without a value are not constrained.
    ///
    /// Name and normalisation are part of what is stored: with others, nothing is found.
    pub fn new(
        entities: Table,
        reservations: Table,
        name: &'static str,
        value: impl Fn(&E) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            entities,
            reservations,
            name,
            value: Arc::new(value),
            normalize: str::to_owned,
            expiry: Duration::from_secs(600),
        }
    }

    /// Values are the same if this makes the same of them. Default: the text as it is.
    pub fn normalized(mut self, normalize: fn(&str) -> String) -> Self {
        self.normalize = normalize;
        self
    }

    /// How long a reservation holds that is not confirmed. Default: 10 minutes.
    ///
    /// In the first half of it the writing of the entity may begin. The other half has to cover the
    /// longest time that a request may take and the difference of the clocks of two machines.
    pub fn expires_after(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self
    }

    /// The table of the entities. Write nothing through it that changes the value.
    pub fn table(&self) -> &Table {
        &self.entities
    }

    /// Stores a new entity if its value is to be had. Three requests: the reservation, the entity,
    /// the confirmation.
    ///
    /// May be repeated with the same entity after any error: what was done before is found. Fails
    /// with [`ErrorKind::AlreadyExists`] if another entity has its keys.
    pub async fn insert(&self, entity: &E) -> Result<Claimed<ETag>> {
        self.insert_it(entity).await.map_err(|error| self.named(error))
    }

    async fn insert_it(&self, entity: &E) -> Result<Claimed<ETag>> {
        let Some(keys) = self.keys_of(entity)? else {
            return self.entities.insert_once(entity).await.map(Claimed::Written);
        };
        let owner = owner(&Key::of(entity))?;
        let hold = match self.reserve(&keys, &owner).await? {
            Reserved::Taken { until } => return Ok(Claimed::Taken { until }),
            Reserved::Ours(hold) => hold,
        };
        let written = match self.check_time(&hold) {
            Ok(()) => self.entities.insert_once(entity).await,
            Err(late) => Err(late),
        };
        let etag = match written {
            Ok(etag) => etag,
            Err(error) => return Err(self.given_up(&keys, &owner, &hold, error).await),
        };
        match self.confirm(&keys, &owner, hold).await.map_err(Error::after_unknown)? {
            Reserved::Ours(_) => Ok(Claimed::Written(etag)),
            Reserved::Taken { until } => {
                self.undo_insert(&keys, &owner, etag).await.map_err(Error::after_unknown)?;
                Ok(Claimed::Taken { until })
            }
        }
    }

    /// Reads the entity at `key`, changes it and replaces it under the ETag that was read, up to 40
    /// times; if its value changes, only if the new one is to be had. The old value is free
    /// afterwards.
    ///
    /// Two requests if the value stays, seven if it changes. `change` may run several times. After
    /// an error with [`Outcome::Unknown`], read the entity before you decide.
    pub async fn update(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) + Send,
    ) -> Result<Claimed<Stored<E>>> {
        let mut rounds = self.rounds();
        loop {
            match self.update_once(&key, &mut change).await {
                Err(error) if was_beaten(&error) && rounds.again().await => {}
                result => return result.map_err(|error| self.named(error)),
            }
        }
    }

    async fn update_once(
        &self,
        key: &Key<E>,
        change: &mut (impl FnMut(&mut E) + Send),
    ) -> Result<Claimed<Stored<E>>> {
        let Some(before) = self.entities.get(key.clone()).await? else {
            return Err(Error::refused(ErrorKind::NotFound, "there is no such entity"));
        };
        let after = before.clone().map(change);
        if Key::of(&after.entity) != *key {
            let what = "the change alters a part of the key, and keys cannot change";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        let (old, new) = (self.keys_of(&before.entity)?, self.keys_of(&after.entity)?);
        let owner = owner(key)?;
        let claim = match new.clone().filter(|_| new != old) {
            None => None,
            Some(keys) => match self.reserve(&keys, &owner).await? {
                Reserved::Taken { until } => return Ok(Claimed::Taken { until }),
                Reserved::Ours(hold) => Some((keys, hold)),
            },
        };
        let written = match claim.as_ref().map_or(Ok(()), |(_, hold)| self.check_time(hold)) {
            Ok(()) => self.entities.replace(&after).await,
            Err(late) => Err(late),
        };
        let etag = match (written, &claim) {
            (Ok(etag), _) => etag,
            (Err(error), None) => return Err(error),
            (Err(error), Some((keys, hold))) => {
                return Err(self.given_up(keys, &owner, hold, error).await);
            }
        };
        if let Some((keys, hold)) = claim {
            let confirmed = self.confirm(&keys, &owner, hold).await;
            if let Reserved::Taken { until } = confirmed.map_err(Error::after_unknown)? {
                let undone = self.entities.replace((&before.entity, etag)).await;
                undone.map_err(|error| error.during("undoing it").after_unknown())?;
                return Ok(Claimed::Taken { until });
            }
        }
        if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
            self.release(&old, &owner).await;
        }
        let timestamp = etag.timestamp().unwrap_or(after.timestamp);
        Ok(Claimed::Written(Stored { entity: after.entity, etag, timestamp }))
    }

    /// Deletes the entity at `key`, and frees its value; says whether there was one. Five requests.
    pub async fn delete(&self, key: Key<E>) -> Result<bool> {
        let mut rounds = self.rounds();
        loop {
            let Some(stored) = self.entities.get(key.clone()).await? else { return Ok(false) };
            match self.entities.delete_if_exists(key.clone(), &stored).await {
                Ok(deleted) => {
                    if let Some(keys) = self.keys_of(&stored.entity)? {
                        self.release(&keys, &owner(&key)?).await;
                    }
                    return Ok(deleted);
                }
                Err(error) if was_beaten(&error) && rounds.again().await => {}
                Err(error) => return Err(self.named(error)),
            }
        }
    }

    /// The entity that has this value. Two requests.
    pub async fn find(&self, value: &str) -> Result<Option<Stored<E>>> {
        let keys = reservation::keys(self.name, &(self.normalize)(value))?;
        let Some(reservation) = self.read(&keys).await? else { return Ok(None) };
        self.holder(&reservation).await
    }

    /// The owner's entity, if it has the value.
    async fn holder(&self, reservation: &Reservation) -> Result<Option<Stored<E>>> {
        let Some(stored) = self.entities.get(reservation.owner::<E>()).await? else {
            return Ok(None);
        };
        let has_it = self.keys_of(&stored.entity)?.as_ref() == Some(&reservation.keys);
        Ok(has_it.then_some(stored))
    }

    /// What a reservation means now. The entity is read after the reservation, so a change of the
    /// reservation under the ETag that was read is right whatever happens in between: an owner that
    /// is about to get the value writes its reservation first.
    async fn standing(&self, reservation: &Reservation) -> Result<Standing> {
        match reservation.expires {
            Some(expires) if expires > self.now() => Ok(Standing::Pending(expires)),
            _ if self.holder(reservation).await?.is_some() => Ok(Standing::Holds),
            _ => Ok(Standing::Vacant),
        }
    }

    /// Gets the value, or finds out whose it is.
    async fn reserve(&self, keys: &Keys, owner: &Keys) -> Result<Reserved> {
        let mut rounds = self.rounds();
        loop {
            let now = self.now();
            let row = reservation::row(keys, owner, Some(after(now, self.expiry)))?;
            let written = match self.reservations.insert(&row).await {
                Err(error) if error.is_already_exists() => {
                    self.take_over(keys, owner, &row).await?
                }
                result => Some(Ok(result?)),
            };
            let error = match written {
                None => None,
                Some(Ok(etag)) => {
                    let usable_until = after(now, self.expiry / 2);
                    return Ok(Reserved::Ours(Hold { etag, usable_until }));
                }
                Some(Err(Refusal::Taken { until })) => return Ok(Reserved::Taken { until }),
                Some(Err(Refusal::Beaten(error))) => Some(error),
            };
            if !rounds.again().await {
                let what = "others changed the reservation in every round";
                return Err(error.unwrap_or_else(|| Error::refused(ErrorKind::Conflict, what)));
            }
        }
    }

    /// Puts `row` in the place of the reservation that is there, if that may be; `None` when there
    /// is none any more.
    async fn take_over(
        &self,
        keys: &Keys,
        owner: &Keys,
        row: &DynamicEntity,
    ) -> Result<Option<Result<ETag, Refusal>>> {
        let Some(found) = self.read(keys).await? else { return Ok(None) };
        // One's own, of an attempt that was broken off, is always written anew: whoever thinks it
        // left over, and is about to remove it, meets another ETag then.
        if found.owner != *owner {
            match self.standing(&found).await? {
                Standing::Holds => return Ok(Some(Err(Refusal::Taken { until: None }))),
                Standing::Pending(until) => {
                    return Ok(Some(Err(Refusal::Taken { until: Some(until) })));
                }
                Standing::Vacant => {}
            }
        }
        match self.reservations.replace((row, found.etag)).await {
            Ok(etag) => Ok(Some(Ok(etag))),
            Err(error) if is_changed(&error) => Ok(Some(Err(Refusal::Beaten(error)))),
            Err(error) => Err(error),
        }
    }

    /// Takes the end from the reservation, now that the entity is written. If somebody changed it, it
    /// is reserved anew; if that cannot be, the claim was overtaken.
    async fn confirm(&self, keys: &Keys, owner: &Keys, mut hold: Hold) -> Result<Reserved> {
        let mut rounds = self.rounds();
        loop {
            let row = reservation::row(keys, owner, None)?;
            match self.reservations.replace((&row, hold.etag.clone())).await {
                Ok(etag) => return Ok(Reserved::Ours(Hold { etag, ..hold })),
                Err(error) if is_changed(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
            hold = match self.reserve(keys, owner).await? {
                Reserved::Ours(hold) => hold,
                taken @ Reserved::Taken { .. } => return Ok(taken),
            };
        }
    }

    /// Removes an entity that was written after its claim had been overtaken.
    async fn undo_insert(&self, keys: &Keys, owner: &Keys, mut etag: ETag) -> Result<()> {
        let key = || Key::<E>::new(&*owner.0, &*owner.1);
        let mut rounds = self.rounds();
        loop {
            match self.entities.delete_if_exists(key(), etag.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() && rounds.again().await => {}
                Err(error) => return Err(error.during("undoing it")),
            }
            // Changed since: it goes unless it has another value by now.
            match self.entities.get(key()).await? {
                Some(now) if self.keys_of(&now.entity)?.as_ref() == Some(keys) => etag = now.etag,
                _ => return Ok(()),
            }
        }
    }

    /// Ends a claim whose entity was not written, if that is certain.
    async fn given_up(&self, keys: &Keys, owner: &Keys, hold: &Hold, error: Error) -> Error {
        if error.outcome() != Outcome::Unknown
            && let Err(failed) = self.settle(keys, owner, Some(&hold.etag)).await
        {
            tracing::warn!(error = %failed, "a reservation stays until it expires");
        }
        error
    }

    /// Frees a value that its entity does not have any more. If that fails, the next claimant finds
    /// that nobody has it.
    async fn release(&self, keys: &Keys, owner: &Keys) {
        if let Err(error) = self.settle(keys, owner, None).await {
            tracing::warn!(%error, "a reservation stays until somebody claims its value");
        }
    }

    /// Makes the reservation of an owner agree with the owner's entity: confirms it or removes it. A
    /// claim in progress is left alone, unless it is the `own` one.
    async fn settle(&self, keys: &Keys, owner: &Keys, own: Option<&ETag>) -> Result<()> {
        let Some(found) = self.read(keys).await? else { return Ok(()) };
        if found.owner != *owner {
            return Ok(());
        }
        let is_own = own == Some(&found.etag);
        if !is_own && found.expires.is_some_and(|expires| expires > self.now()) {
            return Ok(());
        }
        let changed = if self.holder(&found).await?.is_none() {
            let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
            self.reservations.delete(key, found.etag).await
        } else if found.expires.is_some() {
            let row = reservation::row(keys, owner, None)?;
            self.reservations.replace((&row, found.etag)).await.map(drop)
        } else {
            Ok(())
        };
        match changed {
            // Whoever changed it meanwhile knows more.
            Err(error) if is_changed(&error) => Ok(()),
            result => result,
        }
    }

    async fn read(&self, keys: &Keys) -> Result<Option<Reservation>> {
        let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
        let stored = self.reservations.get(key).await?;
        stored.map(Reservation::read).transpose().map_err(|error| self.named(error))
    }

    /// Where the reservation of the entity's value is; `None` if it has no value.
    fn keys_of(&self, entity: &E) -> Result<Option<Keys>> {
        let value = (self.value)(entity);
        value.map(|value| reservation::keys(self.name, &(self.normalize)(&value))).transpose()
    }

    fn check_time(&self, hold: &Hold) -> Result<()> {
        if self.now() <= hold.usable_until {
            return Ok(());
        }
        let what = "the reservation is too old to be used";
        Err(Error::refused(ErrorKind::Unavailable, what).advise("call it again"))
    }

    fn now(&self) -> DateTime<Utc> {
        self.reservations.account().clock().now()
    }

    fn rounds(&self) -> Rounds<'_> {
        Rounds::new(&self.reservations, RandomState::new().hash_one(self.name))
    }

    fn named(&self, error: Error) -> Error {
        error.of(OPERATION, self.entities.name())
    }
}

/// Why a reservation was not written.
enum Refusal {
    /// Somebody changed it since it was read.
    Beaten(Error),
    Taken {
        until: Option<DateTime<Utc>>,
    },
}

fn owner<E>(key: &Key<E>) -> Result<Keys> {
    let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
    Ok((partition_key.to_owned(), row_key.to_owned()))
}

/// Whether a reservation was changed since it was read, perhaps by this very write, whose answer
/// was lost. Reading it again tells.
fn is_changed(error: &Error) -> bool {
    error.is_conflict() || (error.is_not_found() && !is_missing_table(error))
}

/// Whether an entity was changed by somebody else since it was read.
fn was_beaten(error: &Error) -> bool {
    error.outcome() == Outcome::Rejected && error.is_conflict()
}

fn is_missing_table(error: &Error) -> bool {
    error.code() == Some(&rowkey::ErrorCode::TABLE_NOT_FOUND)
}

fn after(time: DateTime<Utc>, duration: Duration) -> DateTime<Utc> {
    let duration = TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX);
    time.checked_add_signed(duration).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

impl<E> Clone for Unique<E> {
    fn clone(&self) -> Self {
        Self {
            entities: self.entities.clone(),
            reservations: self.reservations.clone(),
            value: Arc::clone(&self.value),
            ..*self
        }
    }
}

impl<E> fmt::Debug for Unique<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unique")
            .field("entities", &self.entities.name())
            .field("reservations", &self.reservations.name())
            .field("name", &self.name)
            .field("expiry", &self.expiry)
            .finish_non_exhaustive()
    }
}
