//! The inbox: rows that record processed tasks, so that a redelivered task takes effect only once.
//!
//! A queue delivers at least once. The transaction of the effect also inserts a row for the task. The
//! transaction of a second delivery fails because the row exists, so the effect happens once. (Other libraries
//! call this pattern an idempotent consumer.)

use std::fmt;
use std::time::Duration;

use rowkey_client::{Clock, DynamicEntity, Error, ErrorKind, Filter, Key, Operator, Result};
use rowkey_patterns::job::{Interrupted, Job, Report, Walk};
use rowkey_store::Deciding;

use crate::errors::may_be_applied;
use crate::task::key_part;
use crate::worker::{Attempt, Done};

/// The prefix of RowKeys of the inbox.
const PREFIX: &str = "inbox_";
/// The exclusive end of the range of these keys.
const END: &str = "inbox`";
/// How much longer than [`keep`](Inbox::keep) rows stay: for handlers that began just before, and for clocks.
const SLACK: Duration = Duration::from_secs(6 * 3600);
/// The largest sum of clock differences: the clocks of the programs that wrote the row, accept a task and delete
/// the row may each differ from the service's by a quarter of an hour.
const CLOCKS: Duration = Duration::from_secs(45 * 60);
/// The property with the time after which the row may be deleted.
const EXPIRES: &str = "InboxExpires";

/// Records processed tasks in the partition that their effect changes.
///
/// One transaction writes the effect and the row. Rows are kept for [`keep`](Self::keep), 30 days by default.
/// An older task becomes a dead letter, because its effect might happen twice. [`expire`](Self::expire) deletes
/// old rows, six hours later: a handler that has begun may still be at work, and clocks differ.
///
/// ```
/// use rowkey::store::Deciding;
/// use rowkey::worker::inbox::Inbox;
/// use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
/// use rowkey::{Entity, StorageAccount};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{owner}", row = "balance")]
/// struct Balance { owner: String, cents: i64 }
///
/// #[derive(Serialize, Deserialize)]
/// struct Deposit { owner: String, cents: i64 }
/// impl Task for Deposit { const KIND: &'static str = "deposit"; }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let balances = Deciding::new(&account.table("balances"));
/// balances.table().create().await?;
/// balances.table().insert(&Balance { owner: "ada".into(), cents: 0 }).await?;
/// let deposits = Tasks::<Deposit>::new(account.queue("deposits"));
/// deposits.create_if_missing().await?;
///
/// let inbox = Inbox::new(&balances);
/// let of_handler = balances.clone();
/// let worker = Worker::new(deposits.clone(), move |task: Deposit, attempt: Attempt| {
///     let (balances, inbox) = (of_handler.clone(), inbox.clone());
///     async move {
///         let key = Balance::key(&task.owner);
///         inbox.once(&key.clone(), &attempt, async |row| {
///             let Some(mut balance) = balances.get(key.clone()).await? else { return Ok(()) };
///             balance.entity.cents += task.cents;
///             let transaction = balances.table().transaction().replace(&balance).insert(row);
///             transaction.submit().await.map(drop)
///         })
///         .await
///     }
/// });
///
/// // Put twice with one key, as after a lost response: this is one task.
/// for _ in 0..2 {
///     deposits.put_with_key("order-4711", &Deposit { owner: "ada".into(), cents: 100 }).await?;
/// }
/// assert_eq!(worker.step().await?, Step::Handled);
/// assert_eq!(worker.step().await?, Step::Suppressed);
/// let balance = balances.get(Balance::key("ada")).await?.ok_or("no balance")?;
/// assert_eq!(balance.entity.cents, 100);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inbox {
    table: Deciding,
    keep: Duration,
}

impl Inbox {
    /// Creates the inbox of a table, with rows kept for 30 days. Sends nothing.
    pub fn new(table: &Deciding) -> Self {
        Self { table: table.clone(), keep: Duration::from_secs(30 * 24 * 3600) }
    }

    /// Sets how long rows are kept. It must exceed the longest time from the first put of a task to its last
    /// delivery, including retries and the time as a dead letter before a redrive.
    ///
    /// If the worker's [time limit](crate::worker::Worker::time_limit) is longer than 5 hours and 15 minutes,
    /// tasks become too old earlier, by the difference.
    ///
    /// ```
    /// # use rowkey::store::Deciding;
    /// # use rowkey::worker::inbox::Inbox;
    /// # use rowkey::{DynamicEntity, Key, StorageAccount};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let balances = Deciding::new(&account.table("balances"));
    /// # balances.table().create().await?;
    /// let inbox = Inbox::new(&balances).keep(Duration::from_secs(90 * 86_400));
    /// let key = Key::<DynamicEntity>::new("ada", "balance");
    /// let row = inbox.row(&key, "order-4711")?;
    /// balances.table().insert(&row).await?; // with the effect, in one transaction
    /// assert!(inbox.has(&key, "order-4711").await?);
    /// assert_eq!(inbox.expire().await?.total.right, 0);
    /// # Ok(()) }
    /// ```
    #[must_use = "use the returned inbox"]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Applies the effect of a task once. `effect` receives the row that its transaction must insert into the
    /// partition of `key`.
    ///
    /// Costs no extra request if the effect succeeds, and one read if it fails, to check whether an earlier
    /// delivery applied it. Returns [`Done::TooOld`] for a task older than the rows, and the error of `effect`
    /// if the effect has not been applied.
    ///
    /// If `effect` returns without inserting the row, because it has nothing to change, the next delivery
    /// calls it again. It must insert the row anyway if its result may differ by then.
    pub async fn once<E, F>(&self, key: &Key<E>, attempt: &Attempt, effect: F) -> Result<Done>
    where
        F: AsyncFnOnce(&DynamicEntity) -> Result<()>,
    {
        if let Some(done) = self.refuse(attempt) {
            return Ok(done);
        }
        let row = self.row(key, attempt.id())?;
        match effect(&row).await {
            Ok(()) => Ok(Done::Applied),
            Err(error) if may_be_applied(&error) && self.has(key, attempt.id()).await? => {
                Ok(Done::AlreadyApplied)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the effect of the task with this id was applied. Sends one request to the primary.
    pub async fn has<E>(&self, key: &Key<E>, id: &str) -> Result<bool> {
        let key = Key::<DynamicEntity>::new(partition(key)?, row_key(id));
        Ok(self.table.get(key).await?.is_some())
    }

    /// The row that records the effect of the task with this id. The transaction of the effect inserts it
    /// (`Transaction::insert` of a table, `Transaction::row` of a store).
    ///
    /// Fails with [`ErrorKind::Invalid`] if `key` is not a valid key.
    pub fn row<E>(&self, key: &Key<E>, id: &str) -> Result<DynamicEntity> {
        let now = self.clock().now();
        let keep = self.keep.saturating_add(SLACK);
        let keep = chrono::TimeDelta::from_std(keep).unwrap_or(chrono::TimeDelta::MAX);
        let expires =
            now.checked_add_signed(keep).unwrap_or(chrono::DateTime::<chrono::Utc>::MAX_UTC);
        let mut row = DynamicEntity::new(partition(key)?, row_key(id));
        row.set(EXPIRES, expires.timestamp());
        Ok(row)
    }

    /// Deletes expired rows. It scans the table, which costs a request for each page that the service returns,
    /// and one request for each 100 old rows of a partition. Run it once a day.
    pub async fn expire(&self) -> std::result::Result<Report, Interrupted> {
        let now = self.clock().now().timestamp();
        let walk = Walk::new(self.table.table(), move |table| {
            let keys = Filter::dynamic("RowKey", Operator::GreaterOrEqual, PREFIX)
                .and(Filter::dynamic("RowKey", Operator::Less, END));
            let is_old = Filter::dynamic(EXPIRES, Operator::Less, now);
            table.scan::<DynamicEntity>().filter(keys.and(is_old))
        });
        Job::delete(walk).run().await
    }

    /// Rejects a task older than the rows: its row may have been deleted, so a missing row does not prove that
    /// the task is new.
    pub(crate) fn refuse(&self, attempt: &Attempt) -> Option<Done> {
        let age = self.clock().now() - attempt.first_seen();
        // It must have ended before its row may be deleted, whichever clocks are wrong.
        let end = attempt.time_limit().saturating_add(CLOCKS);
        let is_old = age.to_std().is_ok_and(|age| {
            age >= self.keep || age.saturating_add(end) >= self.keep.saturating_add(SLACK)
        });
        is_old.then(|| {
            Done::TooOld(
                "it is older than the rows of the inbox, so it may have been processed already"
                    .to_owned(),
            )
        })
    }

    pub(crate) fn table(&self) -> &Deciding {
        &self.table
    }

    fn clock(&self) -> &dyn Clock {
        self.table.table().account().clock()
    }
}

fn partition<E>(key: &Key<E>) -> Result<&str> {
    match key.parts() {
        Ok((partition_key, _)) => Ok(partition_key),
        Err(error) => Err(Error::refused(ErrorKind::Invalid, error.to_string())),
    }
}

/// The RowKey of a task's row.
fn row_key(id: &str) -> String {
    format!("{PREFIX}{}", key_part(id))
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("table", self.table.table())
            .field("keep", &self.keep)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_invalid_in_keys_are_hashed() {
        assert_eq!(row_key("5f0c-1"), "inbox_5f0c-1");
        for id in ["a/b", "a?b", "", &"x".repeat(2000), "inbox_\u{1}"] {
            let key = row_key(id);
            assert!(key.len() <= 80 && *key > *PREFIX && *key < *END, "{key}");
        }
        assert_ne!(row_key("a/b"), row_key("a?b"));
    }
}
