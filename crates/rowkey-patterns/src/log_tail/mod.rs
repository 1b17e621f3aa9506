//! Log tail: the newest entries of a partition first, without a scan.
//!
//! Keys sort ascending, so the RowKey of an entry begins with inverted time: .NET's `DateTime.MaxValue.Ticks`
//! (3155378975999999999) minus the entry's ticks of 100 ns, in 19 digits. A tie-breaker for entries of the
//! same tick follows.
//!
//! - [`LogTail`]: appends entries; reads the newest `n`, those since a time, or those between two times
//! - [`EntryId`]: time and tie-breaker, as a part of a row template
//! - [`Tail`]: continues reading, oldest first, from a [`Position`] that is stored between runs
//!
//! ```
//! use rowkey::patterns::log_tail::{EntryId, LogTail};
//! use rowkey::{Entity, StorageAccount};
//!
//! #[derive(Debug, Entity)]
//! #[entity(partition = "{employee}", row = "{id}")]
//! struct Expense {
//!     employee: u32,
//!     id: EntryId,
//!     cents: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rowkey::Result<()> {
//! # let server = rowkey_emulator::Server::start().await.unwrap();
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let log = LogTail::new(account.table("expenses"));
//! log.table().create_if_missing().await?;
//! for cents in [100, 250, 995] {
//!     log.append(&Expense { employee: 7, id: log.next_id(), cents }).await?;
//! }
//! let newest = log.latest(Expense::partition(7), 2).await?;
//! assert_eq!(newest.iter().map(|stored| stored.entity.cents).collect::<Vec<_>>(), [995, 250]);
//! # Ok(()) }
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::Utc;
use rowkey_client::edm::DateTime;
use rowkey_client::key::KeyWriter;
use rowkey_client::{Entity, Error, ErrorKind, Partition, Query, Result, Rows, Stored, Table};

mod id;
mod position;
mod tail;
#[cfg(test)]
mod tests;

pub use id::EntryId;
pub use position::Position;
pub use tail::{Batch, Tail};

use crate::unique;

/// The number of digits of inverted ticks.
const DIGITS: usize = 19;

/// A log in a table: entries are appended with their time and read newest first.
///
/// Works with every entity whose row template begins with the inverted time, optionally after a literal
/// prefix: `{id}` with an [`EntryId`], or `{at:desc}_{seq}` with a date and your own tie-breaker. Entries are
/// never changed, and are distinguished by their keys only.
///
/// Clones are the same writer and never produce the same id twice.
///
/// The guide's section is
/// [Log tail pattern](https://learn.microsoft.com/azure/storage/tables/table-storage-design-guide#log-tail-pattern).
/// Azure Cosmos DB for Table does not return entities in key order, so the ordering guarantees do not hold
/// there.
#[derive(Clone, Debug)]
pub struct LogTail {
    table: Table,
    writer: Arc<Writer>,
}

#[derive(Debug)]
struct Writer {
    name: String,
    /// The ticks of the last id.
    last: AtomicI64,
}

impl LogTail {
    /// Creates a log in this table, and a writer with a random name.
    pub fn new(table: Table) -> Self {
        Self::with_name(table, unique::name())
    }

    /// Sets the writer's name, which ends each RowKey that it creates. No other writer that runs at the same
    /// time may have the same name.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// let writer = log.with_writer("host-7");
    /// let id = writer.next_id();
    /// assert_eq!(id.tie_breaker(), "host-7");
    /// # Ok(()) }
    /// ```
    #[must_use = "the log itself does not change"]
    pub fn with_writer(&self, name: impl Into<String>) -> Self {
        Self::with_name(self.table.clone(), name.into())
    }

    fn with_name(table: Table, name: String) -> Self {
        Self { table, writer: Arc::new(Writer { name, last: AtomicI64::new(0) }) }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Creates the id of a new entry: the time of the account's clock, and this writer's name.
    ///
    /// The ids of a writer ascend, at least a tick apart, even if the clock stands still or is set back; then
    /// their times run ahead of the clock.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// let (first, second) = (log.next_id(), log.next_id());
    /// assert!(first.at() < second.at());
    /// # Ok(()) }
    /// ```
    pub fn next_id(&self) -> EntryId {
        let now = ticks_of(self.table.account().clock().now());
        let following = |last: i64| now.max(last + 1);
        let last = self
            .writer
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(following(last)))
            .unwrap_or_else(|last| last);
        EntryId::new(time_of(following(last)), &self.writer.name)
    }

    /// Stores an entry. Calling it again with the same entry, after an error or a crash, does not store it
    /// twice: the tie-breaker is part of the entry, so an existing row with its key is this entry. One
    /// request, and one more if the row already exists.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if another entry has its keys, which cannot happen with ids
    /// from [`next_id`](Self::next_id), and with [`ErrorKind::Invalid`] if the RowKey does not begin with
    /// inverted ticks. After an unknown outcome, append the same entry again.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// let expense = Expense { employee: 7, id: log.next_id(), cents: 995 };
    /// log.append(&expense).await?;
    /// log.append(&expense).await?; // stored once
    /// assert_eq!(log.latest(Expense::partition(7), 10).await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn append<E: Entity>(&self, entry: &E) -> impl Future<Output = Result<()>> + Send {
        let is_log = starts_with_ticks(entry);
        // Created here so that the future does not hold the entry.
        let insert = is_log.then(|| self.table.insert_once(entry));
        async move {
            let Some(insert) = insert else {
                let what = "the RowKey does not begin with the inverted ticks of a time";
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .of("Append", self.table.name())
                    .advise("begin the row template with an `EntryId` or with `{at:desc}`"));
            };
            insert.await.map(drop)
        }
    }

    /// Returns the newest `n` entries of a partition, newest first; fewer if there are no more.
    ///
    /// One request for up to 1,000 entries if the service returns them in one page; it may return fewer, and
    /// then the rest takes more requests.
    pub async fn latest<E>(&self, partition: Partition<E>, n: u64) -> Result<Vec<Stored<E>>>
    where
        E: Entity + Send + 'static,
    {
        self.since(partition, DateTime::MIN.to_chrono()).take(n).all().await
    }

    /// Queries the entries of this time and later, newest first. The query can be filtered, projected, read
    /// page by page and resumed.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// # for cents in [100, 250] { log.append(&Expense { employee: 7, id: log.next_id(), cents }).await?; }
    /// use std::time::Duration;
    ///
    /// let an_hour_ago = account.clock().now() - Duration::from_secs(3600);
    /// let large = log.since(Expense::partition(7), an_hour_ago).filter(Expense::CENTS.ge(200));
    /// assert_eq!(large.all().await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn since<E>(&self, partition: Partition<E>, time: chrono::DateTime<Utc>) -> Query<E>
    where
        E: Entity + Send + 'static,
    {
        self.table.query(slice(partition, ticks_of(time), DateTime::MAX.ticks() + 1))
    }

    /// Queries the entries from the first time (inclusive) to the second (exclusive), newest first.
    ///
    /// Both times are compared as stored, in whole ticks.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// use chrono::{DateTime, Utc};
    ///
    /// let day = |day: &str| format!("2026-11-{day}T12:00:00Z").parse::<DateTime<Utc>>();
    /// for (at, cents) in [("20", 100), ("21", 250), ("22", 995)] {
    ///     log.append(&Expense { employee: 7, id: EntryId::new(day(at)?, "import"), cents }).await?;
    /// }
    /// let found = log.between(Expense::partition(7), day("20")?..day("22")?).all().await?;
    /// assert_eq!(found.iter().map(|found| found.entity.cents).collect::<Vec<_>>(), [250, 100]);
    /// # Ok(()) }
    /// ```
    pub fn between<E>(
        &self,
        partition: Partition<E>,
        times: Range<chrono::DateTime<Utc>>,
    ) -> Query<E>
    where
        E: Entity + Send + 'static,
    {
        let (from, to) = (ticks_of(times.start), ticks_of(times.end));
        self.table.query(slice(partition, from, to))
    }

    /// Reads a partition from its oldest entry, oldest first, up to the entries that have settled: those at
    /// least `settle` old. See [`Tail`] for the guarantee, and for choosing `settle`.
    ///
    /// ```
    /// # use rowkey::patterns::log_tail::{EntryId, LogTail};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{employee}", row = "{id}")]
    /// # struct Expense { employee: u32, id: EntryId, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = LogTail::new(account.table("expenses"));
    /// # log.table().create().await?;
    /// # for cents in [100, 250, 995] { log.append(&Expense { employee: 7, id: log.next_id(), cents }).await?; }
    /// use std::time::Duration;
    ///
    /// let settle = Duration::ZERO; // some seconds, as a rule
    /// # let settled = log.next_id();
    /// # while account.clock().now() < settled.at() {}
    /// let mut tail = log.tail(Expense::partition(7), settle).batch_size(2);
    /// let first = tail.next_batch().await?.ok_or("there are entries")?;
    /// assert_eq!(first.entries[0].entity.cents, 100);
    ///
    /// // Another run, with the position that the first one stored.
    /// let stored = first.position.to_string();
    /// let mut tail = log.tail(Expense::partition(7), settle).resume(stored.parse()?);
    /// let second = tail.next_batch().await?.ok_or("there is one more")?;
    /// assert_eq!(second.entries.last().map(|last| last.entity.cents), Some(995));
    /// assert!(tail.next_batch().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn tail<E>(&self, partition: Partition<E>, settle: Duration) -> Tail<E>
    where
        E: Entity + Send + 'static,
    {
        Tail::new(self.table.clone(), partition, settle)
    }
}

/// The rows with ticks from `from` (inclusive) to `to` (exclusive): later times have smaller RowKeys.
fn slice<E: Entity>(partition: Partition<E>, from: i64, to: i64) -> Partition<E> {
    let (first, end) = (row_of::<E>(to - 1), row_of::<E>(from - 1));
    partition.row_keys(&*first..&*end)
}

/// The literal text before the ticks.
fn head<E: Entity>() -> &'static str {
    const {
        assert!(
            !matches!(E::ROWS, Rows::One(_)),
            "the row template of a log must begin with a time, and this one has no parts"
        );
    }
    match E::ROWS {
        Rows::Head(head) => head,
        _ => "",
    }
}

/// The smallest RowKey of a tick: prefix and inverted ticks, without a tie-breaker.
fn row_of<E: Entity>(ticks: i64) -> String {
    format!("{}{:0DIGITS$}", head::<E>(), DateTime::MAX.ticks() - ticks)
}

/// Parses the ticks in a RowKey.
fn ticks_in<E: Entity>(row_key: &str) -> Option<i64> {
    let digits = row_key.strip_prefix(head::<E>())?.get(..DIGITS)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let inverted: i64 = digits.parse().ok()?;
    DateTime::from_ticks(DateTime::MAX.ticks() - inverted).ok().map(DateTime::ticks)
}

/// Returns whether the RowKey of an entry begins with ticks. For an invalid key returns `true`: the insert
/// then fails with the reason.
fn starts_with_ticks<E: Entity>(entry: &E) -> bool {
    let mut row_key = KeyWriter::new();
    entry.row_key(&mut row_key);
    row_key.finish().map_or(true, |row_key| ticks_in::<E>(&row_key).is_some())
}

/// Ticks as .NET counts them. Times that the service cannot store are clamped.
fn ticks_of(time: chrono::DateTime<Utc>) -> i64 {
    match DateTime::try_from(time) {
        Ok(time) => time.ticks(),
        Err(_) if time < DateTime::MIN.to_chrono() => DateTime::MIN.ticks(),
        Err(_) => DateTime::MAX.ticks(),
    }
}

fn time_of(ticks: i64) -> chrono::DateTime<Utc> {
    DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX).to_chrono()
}
