//! Lookup: a small reference table cached in memory, for joins in the client.
//!
//! The Table service has no joins. [`Lookup`] reads a small table (the names of states, the rates of a
//! tariff) completely with one query, and serves it from memory until its time to live has passed.
//!
//! A cache of single rows would cost one request for each row that is not cached, including rows that do not
//! exist. Reading the whole table costs one request for each thousand rows, also shows which rows do not
//! exist, and gives one consistent snapshot. The trade-off is a size limit: tables that grow are refused.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, lock, stream};
use rowkey_client::table::Stream;
use rowkey_client::{
    Entity, Error, ErrorKind, FailedRow, Key, Partition, Result, ScanPolicy, Table,
};

/// The name of the operation in errors.
const OPERATION: &str = "Lookup";

/// The default maximum number of entities; set by [`Lookup::limit`].
const LIMIT: usize = 10_000;

/// A table, or a partition of one, that is read completely and served from memory.
///
/// Clones share the data. Concurrent callers wait for the same read.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::patterns::lookup::Lookup;
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "states", row = "{code}")]
/// struct State {
///     code: String,
///     name: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("states");
/// # table.create().await?;
/// table.insert(&State { code: "WA".into(), name: "Washington".into() }).await?;
///
/// let states = Lookup::of_partition(&table, State::partition(), Duration::from_secs(300));
/// let washington = states.get(&State::key("WA")).await?.ok_or("not there")?;
/// assert_eq!(washington.name, "Washington");
/// assert!(states.get(&State::key("XX")).await?.is_none());
/// assert_eq!(server.journal().count(rowkey_emulator::Operation::QueryEntities), 1);
/// # Ok(())
/// # }
/// ```
pub struct Lookup<E> {
    table: Table,
    /// `None` for the whole table.
    partition: Option<Partition<E>>,
    time_to_live: Duration,
    stale_if_error: Duration,
    limit: usize,
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    /// Locked while the table is read.
    reading: lock::Mutex<()>,
    state: Mutex<State<E>>,
}

struct State<E> {
    current: Option<Current<E>>,
    /// The number of failed reads, and the last error.
    failures: u64,
    failure: Option<(ErrorKind, String)>,
}

struct Current<E> {
    snapshot: Arc<Snapshot<E>>,
    good_until: DateTime<Utc>,
}

/// The entities of one read.
pub struct Snapshot<E> {
    entities: Vec<Arc<E>>,
    /// The index of each entity, by PartitionKey and RowKey.
    places: HashMap<String, HashMap<String, usize>>,
    failed_rows: Vec<FailedRow>,
    read_at: DateTime<Utc>,
}

impl<E: Entity + Send + Sync + 'static> Lookup<E> {
    /// Caches all entities of type `E` in the table, and reads them again when `time_to_live` has passed.
    ///
    /// Reading the table is a table scan; it is allowed under every scan policy of the account, because this
    /// call requests it.
    ///
    /// ```
    /// # use rowkey::patterns::lookup::Lookup;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::time::Duration;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(partition = "states", row = "{code}")]
    /// # struct State { code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("states");
    /// # table.create().await?;
    /// # table.insert(&State { code: "WA".into() }).await?;
    /// # let day = Duration::from_secs(86_400);
    /// let states: Lookup<State> = Lookup::of_table(&table, day).limit(1000);
    /// assert_eq!(states.snapshot().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn of_table(table: &Table, time_to_live: Duration) -> Self {
        Self::new(table, None, time_to_live)
    }

    /// Caches a partition, or a part of one.
    pub fn of_partition(table: &Table, partition: Partition<E>, time_to_live: Duration) -> Self {
        Self::new(table, Some(partition), time_to_live)
    }

    fn new(table: &Table, partition: Option<Partition<E>>, time_to_live: Duration) -> Self {
        let state = State { current: None, failures: 0, failure: None };
        Self {
            table: table.clone(),
            partition,
            time_to_live,
            stale_if_error: Duration::ZERO,
            limit: LIMIT,
            shared: Arc::new(Shared { reading: lock::Mutex::new(()), state: Mutex::new(state) }),
        }
    }

    /// Sets the maximum number of entities. Default: 10,000. A larger result is an error of kind
    /// [`ErrorKind::TooLarge`]: query a growing table instead of caching it.
    #[must_use]
    pub fn limit(mut self, entities: usize) -> Self {
        self.limit = entities;
        self
    }

    /// If the service fails, serves the previous data for up to `duration` after its time to live. Off by
    /// default: then an outage is an error, and stale data is never returned.
    ///
    /// After a failed read, the next one is tried after a tenth of the time to live. Permanent errors (no
    /// permission, no such table, too many entities) are returned in any case.
    ///
    /// ```
    /// # use rowkey::patterns::lookup::Lookup;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::time::Duration;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(partition = "states", row = "{code}")]
    /// # struct State { code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("states");
    /// # table.create().await?;
    /// # table.insert(&State { code: "WA".into() }).await?;
    /// # let day = Duration::from_secs(86_400);
    /// # let retry = rowkey::RetryOptions { max_attempts: 1, ..Default::default() };
    /// # let table = table.with_options(rowkey::ClientOptions { retry, ..Default::default() });
    /// let lookup = Lookup::of_table(&table, Duration::ZERO).stale_if_error(day);
    /// assert!(lookup.get(&State::key("WA")).await?.is_some());
    ///
    /// drop(server); // an outage
    /// assert!(lookup.get(&State::key("WA")).await?.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn stale_if_error(mut self, duration: Duration) -> Self {
        self.stale_if_error = duration;
        self
    }

    /// Returns the entity at `key`, or `None` if it did not exist when the table was read.
    ///
    /// No request within the time to live; then one for each page of 1000 entities. Fails with [`ErrorKind::Decode`]
    /// if the row at `key` does not decode; other rows do not matter.
    pub async fn get(&self, key: &Key<E>) -> Result<Option<Arc<E>>> {
        self.find(&*self.snapshot().await?, key)
    }

    /// Returns all entities, as of the time when the table was read. Rows that do not decode are [listed
    /// separately](Snapshot::failed_rows).
    pub async fn snapshot(&self) -> Result<Arc<Snapshot<E>>> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let failures = self.state().failures;
        let _reading = self.shared.reading.lock().await;
        // Another task may have read it, or failed to, while this one waited.
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        if let Some(error) = self.failed_since(failures) {
            return Err(error);
        }
        self.read().await.or_else(|error| self.stale(&error).ok_or(error))
    }

    /// Reads the table again now, for example after a change by this program.
    ///
    /// Returns every error, even with [`stale_if_error`](Self::stale_if_error); the previous data still
    /// serves [`get`](Self::get) if it may.
    ///
    /// ```
    /// # use rowkey::patterns::lookup::Lookup;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::time::Duration;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(partition = "states", row = "{code}")]
    /// # struct State { code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("states");
    /// # table.create().await?;
    /// # table.insert(&State { code: "WA".into() }).await?;
    /// # let day = Duration::from_secs(86_400);
    /// let states = Lookup::of_table(&table, day);
    /// assert!(states.get(&State::key("OR")).await?.is_none());
    /// table.insert(&State { code: "OR".into() }).await?;
    /// states.refresh().await?;
    /// assert!(states.get(&State::key("OR")).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn refresh(&self) -> Result<Arc<Snapshot<E>>> {
        let _reading = self.shared.reading.lock().await;
        self.read().await.inspect_err(|error| drop(self.stale(error)))
    }

    /// Pairs each item of `items` with the entity at the key that `key` returns for it, or with `None`.
    ///
    /// All pairs use one snapshot, the current one when the stream is first polled. An error of `items` or of
    /// reading the table ends the stream. An item whose entity does not decode is an error that names the row
    /// ([`failed_rows`](rowkey_client::ErrorDetails::failed_rows)), and the stream continues.
    ///
    /// ```
    /// use futures_util::{TryStreamExt as _, stream};
    ///
    /// # use rowkey::patterns::lookup::Lookup;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::time::Duration;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(partition = "states", row = "{code}")]
    /// # struct State { code: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("states");
    /// # table.create().await?;
    /// # table.insert(&State { code: "WA".into() }).await?;
    /// # let day = Duration::from_secs(86_400);
    /// let states = Lookup::of_table(&table, day);
    /// let airports = stream::iter([Ok(("SEA", "WA")), Ok(("AMS", "NL"))]);
    /// let pairs = states.join(airports, |(_, state)| State::key(*state));
    /// let known = pairs.map_ok(|((code, _), state)| (code, state.is_some()));
    /// assert_eq!(known.try_collect::<Vec<_>>().await?, [("SEA", true), ("AMS", false)]);
    /// # Ok(()) }
    /// ```
    pub fn join<T: Send + 'static>(
        &self,
        items: impl futures_util::Stream<Item = Result<T>> + Send + 'static,
        key: impl Fn(&T) -> Key<E> + Send + 'static,
    ) -> Stream<(T, Option<Arc<E>>)> {
        let lookup = self.clone();
        stream::once(async move {
            let snapshot = lookup.snapshot().await?;
            Ok::<_, Error>(items.map(move |item| {
                let item = item?;
                let found = lookup.find(&snapshot, &key(&item))?;
                Ok((item, found))
            }))
        })
        .try_flatten()
        .boxed()
    }

    /// An entity of a snapshot; an error if its row does not decode.
    fn find(&self, snapshot: &Snapshot<E>, key: &Key<E>) -> Result<Option<Arc<E>>> {
        if let Some(found) = snapshot.get(key) {
            return Ok(Some(Arc::clone(found)));
        }
        let Ok((partition_key, row_key)) = key.parts() else { return Ok(None) };
        let is_asked =
            |row: &&FailedRow| (&*row.partition_key, &*row.row_key) == (partition_key, row_key);
        match snapshot.failed_rows.iter().find(is_asked) {
            Some(row) => Err(Error::of_rows(vec![row.clone()]).of(OPERATION, self.table.name())),
            None => Ok(None),
        }
    }

    fn fresh(&self) -> Option<Arc<Snapshot<E>>> {
        let now = self.now();
        let state = self.state();
        let current = state.current.as_ref()?;
        // A clock that was set back does not extend the time to live.
        let fresh = now < current.good_until && current.snapshot.read_at <= now;
        fresh.then(|| Arc::clone(&current.snapshot))
    }

    /// The error of a concurrent read that this caller waited for.
    fn failed_since(&self, failures: u64) -> Option<Error> {
        let state = self.state();
        let (kind, what) = state.failure.as_ref().filter(|_| state.failures != failures)?;
        let what = format!("the concurrent read that this call waited for failed: {what}");
        Some(Error::refused(*kind, what).of(OPERATION, self.table.name()))
    }

    async fn read(&self) -> Result<Arc<Snapshot<E>>> {
        // Changes made during the read may be missing, so the data is as old as the request.
        let read_at = self.now();
        let snapshot = Arc::new(self.query(read_at).await?);
        let good_until = later(read_at, self.time_to_live);
        let mut state = self.state();
        state.current = Some(Current { snapshot: Arc::clone(&snapshot), good_until });
        state.failure = None;
        Ok(snapshot)
    }

    async fn query(&self, read_at: DateTime<Utc>) -> Result<Snapshot<E>> {
        let query = match &self.partition {
            Some(partition) => self.table.query(partition.clone()),
            None => self.table.scan::<E>().scan_policy(ScanPolicy::Allow),
        };
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let rows = query.results().take(limit.saturating_add(1)).all().await?;
        if rows.len() > self.limit {
            let what = format!("more than {} entities would be kept in memory", self.limit);
            return Err(Error::refused(ErrorKind::TooLarge, what)
                .of(OPERATION, self.table.name())
                .advise("query the table instead, cache a part of it, or raise the limit"));
        }
        let mut snapshot = Snapshot::new(rows.len(), read_at);
        for row in rows {
            let entity = match row.entity {
                Ok(entity) => entity,
                Err(failed) => {
                    snapshot.failed_rows.push(failed);
                    continue;
                }
            };
            let key = Key::of(&entity);
            let Ok((partition_key, row_key)) = key.parts() else {
                let what = "an entity that was read has an invalid key";
                return Err(
                    Error::refused(ErrorKind::Decode, what).of(OPERATION, self.table.name())
                );
            };
            let rows = match snapshot.places.get_mut(partition_key) {
                Some(rows) => rows,
                None => snapshot.places.entry(partition_key.to_owned()).or_default(),
            };
            rows.insert(row_key.to_owned(), snapshot.entities.len());
            snapshot.entities.push(Arc::new(entity));
        }
        if let Some(first) = snapshot.failed_rows.first() {
            let rows = snapshot.failed_rows.len();
            tracing::warn!(table = self.table.name(), rows, reason = %first, "rows of a reference table do not decode");
        }
        Ok(snapshot)
    }

    /// Records a failed read. Returns the previous data if it may still be served.
    fn stale(&self, error: &Error) -> Option<Arc<Snapshot<E>>> {
        let now = self.now();
        let mut state = self.state();
        state.failures += 1;
        state.failure = Some((error.kind(), error.to_string()));
        let current = state.current.as_mut().filter(|_| error.is_retryable())?;
        let end = later(later(current.snapshot.read_at, self.time_to_live), self.stale_if_error);
        if now >= end || current.snapshot.read_at > now {
            return None;
        }
        tracing::warn!(
            table = self.table.name(),
            %error,
            "a reference table cannot be read; the previous data is used"
        );
        current.good_until = later(now, self.time_to_live / 10).min(end);
        Some(Arc::clone(&current.snapshot))
    }

    fn now(&self) -> DateTime<Utc> {
        self.table.account().clock().now()
    }
}

impl<E> Lookup<E> {
    fn state(&self) -> MutexGuard<'_, State<E>> {
        // No code that holds the lock can panic.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Snapshot<E> {
    fn new(rows: usize, read_at: DateTime<Utc>) -> Self {
        let entities = Vec::with_capacity(rows);
        Self { entities, places: HashMap::new(), failed_rows: Vec::new(), read_at }
    }

    /// The entity at `key`. An invalid key has no entity, and a row that does not decode is [listed
    /// separately](Self::failed_rows).
    pub fn get(&self, key: &Key<E>) -> Option<&Arc<E>> {
        let (partition_key, row_key) = key.parts().ok()?;
        let place = self.places.get(partition_key)?.get(row_key)?;
        self.entities.get(*place)
    }

    /// The entities, in the order of the service.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<E>> {
        self.entities.iter()
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.entities.len()
    }

    /// Returns whether there are no entities.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// The rows that do not decode, with their keys: other programs wrote them, or programs of another version. They
    /// are not among the entities.
    ///
    /// ```
    /// # use rowkey::patterns::lookup::Lookup;
    /// # use rowkey::{DynamicEntity, Entity, ErrorKind, StorageAccount};
    /// # use std::time::Duration;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(partition = "states", row = "{code}")]
    /// # struct State { code: String, name: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("states");
    /// # table.create().await?;
    /// table.insert(&State { code: "WA".into(), name: "Washington".into() }).await?;
    /// // Another program writes a state without a name.
    /// table.insert(&DynamicEntity::new("states", "OR")).await?;
    ///
    /// let states = Lookup::<State>::of_table(&table, Duration::from_secs(300));
    /// let snapshot = states.refresh().await?;
    /// assert_eq!((snapshot.len(), snapshot.failed_rows().len()), (1, 1));
    /// assert_eq!(states.get(&State::key("OR")).await.unwrap_err().kind(), ErrorKind::Decode);
    /// assert!(states.get(&State::key("WA")).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn failed_rows(&self) -> &[FailedRow] {
        &self.failed_rows
    }

    /// When the read began.
    pub fn read_at(&self) -> DateTime<Utc> {
        self.read_at
    }
}

/// Adds a duration; saturates at the end of time.
fn later(time: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    time.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

impl<E> Clone for Lookup<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            partition: self.partition.clone(),
            time_to_live: self.time_to_live,
            stale_if_error: self.stale_if_error,
            limit: self.limit,
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E> fmt::Debug for Lookup<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("table", &self.table.name())
            .field("time_to_live", &self.time_to_live)
            .finish_non_exhaustive()
    }
}

impl<E> fmt::Debug for Snapshot<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("entities", &self.entities.len())
            .field("read_at", &self.read_at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlimited_time_to_live_does_not_overflow() {
        let now = DateTime::<Utc>::UNIX_EPOCH;
        assert_eq!(later(now, Duration::from_secs(60)).timestamp(), 60);
        assert_eq!(later(now, Duration::MAX), DateTime::<Utc>::MAX_UTC);
    }
}
