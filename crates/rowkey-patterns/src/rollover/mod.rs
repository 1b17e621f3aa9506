//! One table per period, so that old entities are deleted by dropping tables.
//!
//! - this file: [`Rollover`], the tables of all periods; [`At`], the table of one
//! - [`period`](Period): hours, days, months, years, and the names of their tables

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use rowkey_client::internals::shown;
use rowkey_client::table::Stream;
use rowkey_client::{
    ETag, Entity, Error, ErrorCode, Key, Query, Result, StorageAccount, Stored, Table,
};

use crate::parallel::Parallel;

mod period;

pub use period::Period;

/// Separates prefix and period in the name of a table, so that a prefix may end in digits.
const SEPARATOR: char = 'x';

/// Entities in one table per period: an hour, a day, a month or a year.
///
/// A write goes to the table of its time, which is created if it is missing. A read covers the tables of
/// several periods in key order. [`expire`](Self::expire) drops tables with all their entities, with one
/// request each.
///
/// A period has one table, named after the prefix and the period only. All writers of a given time use the
/// same table even if their clocks differ, so of two inserts of one key one fails.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// use rowkey::patterns::rollover::{Period, Rollover};
/// use rowkey::{Entity, StorageAccount};
/// use std::time::Duration;
///
/// #[derive(Entity)]
/// #[entity(partition = "{service}", row = "{number:6}")]
/// struct Line { service: String, number: u32, text: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let log = Rollover::new(account, "log", Period::Day);
/// log.now().insert(&Line { service: "web".into(), number: 1, text: "up".into() }).await?;
///
/// let lines = log.query(.., |table| table.query(Line::partition("web"))).await?;
/// assert_eq!(lines.try_collect::<Vec<_>>().await?.len(), 1);
///
/// // Every day: delete tables older than thirty days.
/// let dropped = log.expire(Duration::from_secs(30 * 86_400)).await?;
/// assert!(dropped.is_empty());
/// # Ok(()) }
/// ```
///
/// The guide calls it "High volume delete pattern".
#[derive(Clone)]
pub struct Rollover {
    account: StorageAccount,
    prefix: Arc<str>,
    period: Period,
}

/// One table of a [`Rollover`].
#[derive(Clone, Debug)]
pub struct PeriodTable {
    /// The table.
    pub table: Table,
    /// The beginning of its period.
    pub start: DateTime<Utc>,
    /// The end of its period: the first instant after it.
    pub end: DateTime<Utc>,
}

/// The period that contains a time, from [`Rollover::at`].
#[derive(Clone, Debug)]
pub struct At {
    tables: Rollover,
    start: DateTime<Utc>,
}

impl Rollover {
    /// Uses tables named `prefix`, `x` and the period, such as `logx20261121`. Sends nothing.
    ///
    /// The prefix must begin with a letter, and contain only letters and digits. Two prefixes are two sets of
    /// tables even if one is a prefix of the other.
    pub fn new(account: StorageAccount, prefix: &str, period: Period) -> Self {
        Self { account, prefix: prefix.into(), period }
    }

    /// The period that contains `time`. All programs that write or read the same entity must pass the same
    /// time, so take it from the entity.
    ///
    /// ```
    /// # use rowkey::patterns::rollover::{Period, Rollover};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{service}", row = "{number:6}")]
    /// # struct Line { service: String, number: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = Rollover::new(account, "log", Period::Day);
    /// # let line = |number| Line { service: "web".into(), number };
    /// use chrono::{DateTime, Utc};
    ///
    /// let evening: DateTime<Utc> = "2026-11-21T23:59:59Z".parse()?;
    /// log.at(evening).insert(&line(1)).await?;
    /// assert!(log.at(evening).get(Line::key("web", 1)).await?.is_some());
    /// assert_eq!(log.tables().await?[0].table.name(), "logx20261121");
    /// # Ok(()) }
    /// ```
    pub fn at(&self, time: DateTime<Utc>) -> At {
        At { tables: self.clone(), start: self.period.start(time) }
    }

    /// The period that contains the current time of the account's clock.
    ///
    /// Around the end of a period, programs whose clocks differ may get different periods. If a key must not
    /// exist in both, use [`at`](Self::at) with a time from the entity.
    pub fn now(&self) -> At {
        self.at(self.account.clock().now())
    }

    /// Lists the existing tables, oldest period first.
    pub async fn tables(&self) -> Result<Vec<PeriodTable>> {
        let beginning = format!("{}{SEPARATOR}", self.prefix);
        let names = self.account.tables().starting_with(&beginning).stream();
        let tables = names.try_filter_map(|name| future::ready(Ok(self.parse(&name))));
        let mut tables: Vec<_> = tables.try_collect().await?;
        tables.sort_by_key(|table| table.start);
        Ok(tables)
    }

    /// Reads the tables of all periods that overlap `times`, in key order.
    ///
    /// `query` creates the query of one table. An entity that is in the tables of several periods is returned
    /// several times, oldest period first. A table that is dropped during the read counts as finished. A row
    /// that does not decode is an error after which the stream continues.
    ///
    /// Memory holds a page of each table; [`Query::page_size`] makes pages smaller.
    pub async fn query<E: Entity + Send + 'static>(
        &self,
        times: impl RangeBounds<DateTime<Utc>> + Send,
        query: impl Fn(&Table) -> Query<E> + Send,
    ) -> Result<Stream<Stored<E>>> {
        let tables = self.tables().await?;
        let chosen = tables.into_iter().filter(|table| table.is_in(&times));
        let queries: Vec<_> = chosen.map(|table| query(&table.table)).collect();
        let found = Parallel::new(queries).by_key().keep_going().stream();
        let entities = found.filter_map(|found| async {
            match found {
                Ok(found) => Some((Ok(found.stored), false)),
                // A table that is dropped while it is read counts as finished.
                Err(failure) if is_missing(&failure.error) => None,
                // A row that does not decode ends nothing.
                Err(failure) => Some((Err(failure.error), failure.row.is_none())),
            }
        });
        // Any other error ends the stream.
        let ended_by = |is_over: &mut bool, (read, ends): (Result<_>, bool)| {
            let is_over = std::mem::replace(is_over, ends);
            future::ready((!is_over).then_some(read))
        };
        Ok(entities.scan(false, ended_by).boxed())
    }

    /// Drops the tables whose periods ended `keep` ago or earlier, by the account's clock; returns their
    /// names.
    ///
    /// Several programs may call it at the same time. If a call is interrupted, call it again.
    ///
    /// ```
    /// # use rowkey::patterns::rollover::{Period, Rollover};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{service}", row = "{number:6}")]
    /// # struct Line { service: String, number: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = Rollover::new(account, "log", Period::Day);
    /// # let line = |number| Line { service: "web".into(), number };
    /// use std::time::Duration;
    ///
    /// log.at("2020-01-01T00:00:00Z".parse()?).insert(&line(1)).await?;
    /// log.now().insert(&line(2)).await?;
    /// assert_eq!(log.expire(Duration::from_secs(30 * 86_400)).await?, ["logx20200101"]);
    /// # Ok(()) }
    /// ```
    pub async fn expire(&self, keep: Duration) -> Result<Vec<String>> {
        let now = self.account.clock().now();
        let mut dropped = Vec::new();
        for old in self.tables().await? {
            let age = (now - old.end).to_std();
            if age.is_ok_and(|age| age >= keep) {
                match old.table.delete_table_if_exists().await {
                    Err(error) if !is_missing(&error) => return Err(error),
                    _ => dropped.push(old.table.name().to_owned()),
                }
            }
        }
        Ok(dropped)
    }

    fn parse(&self, name: &str) -> Option<PeriodTable> {
        let stamp = name.strip_prefix(&*self.prefix)?.strip_prefix(SEPARATOR)?;
        let start = self.period.parse(stamp)?;
        let table = self.account.table(name);
        Some(PeriodTable { table, start, end: self.period.end(start) })
    }

    fn table(&self, start: DateTime<Utc>) -> Table {
        let stamp = self.period.stamp(start);
        self.account.table(&format!("{}{SEPARATOR}{stamp}", self.prefix))
    }
}

impl PeriodTable {
    fn is_in(&self, times: &impl RangeBounds<DateTime<Utc>>) -> bool {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let ends_before = match times.start_bound() {
            Included(from) | Excluded(from) => self.end <= *from,
            Unbounded => false,
        };
        let begins_after = match times.end_bound() {
            Included(to) => self.start > *to,
            Excluded(to) => self.start >= *to,
            Unbounded => false,
        };
        !ends_before && !begins_after
    }
}

/// Writes and reads in one period.
impl At {
    /// Inserts an entity into the table of the period, as [`Table::insert`] does.
    pub async fn insert<E: Entity + Sync>(&self, entity: &E) -> Result<ETag> {
        self.write(|table| async move { table.insert(entity).await }).await
    }

    /// Replaces or inserts an entity in the table of the period, as [`Table::upsert`] does.
    pub async fn upsert<E: Entity + Sync>(&self, entity: &E) -> Result<ETag> {
        self.write(|table| async move { table.upsert(entity).await }).await
    }

    /// Runs another operation on the table of the period, such as a transaction. If the table is missing,
    /// creates it and runs the operation again.
    ///
    /// Fails with [`ErrorCode::TABLE_BEING_DELETED`] for about 40 seconds after the table was dropped, while
    /// the service blocks its name.
    ///
    /// ```
    /// # use rowkey::patterns::rollover::{Period, Rollover};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{service}", row = "{number:6}")]
    /// # struct Line { service: String, number: u32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let log = Rollover::new(account, "log", Period::Day);
    /// # let line = |number| Line { service: "web".into(), number };
    /// let lines = [line(1), line(2)];
    /// log.now()
    ///     .write(|table| {
    ///         let transaction = lines.iter().fold(table.transaction(), |all, line| all.insert(line));
    ///         async move { transaction.submit().await }
    ///     })
    ///     .await?;
    /// assert_eq!(log.now().get(Line::key("web", 2)).await?.ok_or("not found")?.entity, line(2));
    /// # Ok(()) }
    /// ```
    pub async fn write<T: Send, F>(&self, write: impl Fn(Table) -> F + Send + Sync) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let table = self.tables.table(self.start);
        match write(table.clone()).await {
            Err(error) if is_missing(&error) => {
                // Other programs may create it concurrently; all get the same table.
                table.create_if_missing().await.map_err(blocked)?;
                write(table).await.map_err(blocked)
            }
            result => result,
        }
    }

    /// Reads an entity of the period; also `None` if the period has no table.
    pub async fn get<E: Entity>(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        match self.tables.table(self.start).get(key).await {
            Err(error) if is_missing(&error) => Ok(None),
            result => result,
        }
    }
}

/// Returns whether the table does not exist or is being deleted.
fn is_missing(error: &Error) -> bool {
    [ErrorCode::TABLE_NOT_FOUND, ErrorCode::TABLE_BEING_DELETED]
        .iter()
        .any(|code| error.code() == Some(code))
}

/// Adds advice for a table that is being deleted.
fn blocked(error: Error) -> Error {
    if error.code() != Some(&ErrorCode::TABLE_BEING_DELETED) {
        return error;
    }
    error.advise(
        "the period's table was dropped, and its name is free again after about 40 seconds; drop \
         periods when nothing is written to them any more",
    )
}

shown!(Rollover: prefix, period, account);
