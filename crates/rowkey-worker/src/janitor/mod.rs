//! The janitor: any number of programs elect a leader by a lease, and the leader runs the chores that are
//! due.
//!
//! - [`Janitor`]: configuration and reports
//! - [`Chore`], [`Leadership`]: a unit of work, and the leadership passed to each run
//! - `lead`: standing by, leading, and shutting down
//! - `schedule`: when chores are due, stored in the lock's blob

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::internals::shown;
use rowkey_client::telemetry::metrics;
use rowkey_client::{ClientOptions, Error, ErrorKind, Result};
use rowkey_patterns::lease_lock::LeaseLock;
use serde::{Deserialize, Serialize};

mod chore;
mod lead;
mod schedule;

pub use chore::{Chore, Counts, Leadership};
use schedule::Schedule;

use crate::panics::text;

/// Runs chores on a schedule, in one program at a time.
///
/// Each program that can run the chores has a janitor on the same lock. One acquires the lease and leads; the
/// others stand by, and one of them takes over when the leader stops, dies, is suspended or cannot renew the
/// lease. The schedule is stored in the lock's blob, so a new leader continues where the last one stopped.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::patterns::lease_lock::LeaseLock;
/// use rowkey::store::Store;
/// use rowkey::worker::janitor::{Chore, Counts, Janitor, Leadership};
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// #[entity(unique(name = by_number, value = "{number}"))]
/// struct Order { tenant: String, id: u32, number: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let orders = Store::<Order>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
/// orders.create_if_missing().await?;
/// let locks = account.container("locks");
/// locks.create_if_missing().await?;
///
/// let (ran, mut has_run) = tokio::sync::mpsc::channel(1);
/// let hello = Chore::new("hello", Duration::from_secs(3600), move |leadership: Leadership| {
///     let ran = ran.clone();
///     async move { ran.send(leadership.token()).await.map(|()| Counts::new()) }
/// });
/// let lock = LeaseLock::new(locks.blob("janitor")).term(Duration::from_secs(60));
/// let janitor = Janitor::new(lock)
///     .chore(Chore::drain_backlog(&orders))
///     .chore(Chore::repair(&orders).every(Duration::from_secs(24 * 3600)))
///     .chore(hello.jitter(Duration::ZERO));
/// janitor.run_until(async { drop(has_run.recv().await) }).await?;
///
/// let runs = janitor.reports().await?;
/// let hello = runs.iter().find(|run| run.chore == "hello").ok_or("it did not run")?;
/// assert!(hello.is_done() && hello.leader == 1);
/// # Ok(()) }
/// ```
///
/// Each run of a chore is its own task in the tokio runtime that polls the janitor. Its error, panic or
/// timeout is recorded in a [`Report`] and does not affect other chores. The lease is renewed by the thread
/// that renews the messages of workers.
pub struct Janitor {
    lock: LeaseLock,
    chores: Vec<Chore>,
    shutdown_deadline: Duration,
    observer: Option<Observer>,
    /// For each chore, its unfinished runs: those that still block after they were dropped.
    at_work: Mutex<Vec<Weak<()>>>,
}

type Observer = Box<dyn Fn(&Report) + Send + Sync>;

/// The result of one run of a chore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the chore.
    pub chore: String,
    /// The fencing token of the leader that ran it.
    pub leader: u64,
    /// When it began, in the service's time. Whole seconds.
    #[serde(with = "chrono::serde::ts_seconds")]
    pub began: DateTime<Utc>,
    /// Its duration, with millisecond precision.
    #[serde(rename = "took_ms", with = "millis")]
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// The counts that it returned.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
}

/// How a run of a chore ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It finished.
    Done,
    /// It returned an error with this text.
    Failed(String),
    /// The janitor was shut down, and the run did not end before the deadline. The next leader starts it
    /// again at once.
    Interrupted,
    /// The lease was lost and the run dropped. Not stored, because only the leader may write the schedule.
    Lost,
    /// It exceeded its time limit and was dropped.
    Overrun,
    /// It panicked with this text.
    Panicked(String),
}

/// Configuration.
impl Janitor {
    /// Creates a janitor that leads while it holds `lock`. Sends nothing.
    ///
    /// Use the lock's blob for nothing else. A longer term of the lock means fewer requests and a later
    /// takeover: see [`run_until`](Self::run_until).
    pub fn new(lock: LeaseLock) -> Self {
        let shutdown_deadline = Duration::from_secs(25);
        let at_work = Mutex::default();
        Self { lock, chores: Vec::new(), shutdown_deadline, observer: None, at_work }
    }

    /// Adds a chore. Each needs a unique name.
    #[must_use = "use the returned janitor"]
    pub fn chore(mut self, chore: Chore) -> Self {
        self.chores.push(chore);
        self
    }

    /// Calls `observer` after each run. It is called in the janitor's own task and must not block; a panic in
    /// it is logged.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::patterns::lease_lock::LeaseLock;
    /// # use rowkey::worker::janitor::{Chore, Counts, Janitor, Leadership};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let locks = account.container("locks");
    /// # locks.create_if_missing().await?;
    /// # let lock = LeaseLock::new(locks.blob("janitor")).term(Duration::from_secs(60));
    /// let hello = Chore::new("hello", Duration::from_secs(3600), |_: Leadership| async {
    ///     Ok::<_, rowkey::Error>(Counts::new())
    /// });
    /// let (ran, mut has_run) = tokio::sync::mpsc::unbounded_channel();
    /// let janitor = Janitor::new(lock)
    ///     .chore(hello.jitter(Duration::ZERO))
    ///     .observe(move |report| drop(ran.send(report.is_done())))
    ///     .shutdown_deadline(Duration::from_secs(5));
    /// janitor.run_until(async { assert_eq!(has_run.recv().await, Some(true)) }).await?;
    /// # Ok(()) }
    /// ```
    #[must_use = "use the returned janitor"]
    pub fn observe(mut self, observer: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Sets how long [`run_until`](Self::run_until) lets chores continue after `shutdown`. Default: 25
    /// seconds.
    #[must_use = "use the returned janitor"]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }
}

impl Janitor {
    /// Reads the last 100 runs of all leaders, the oldest first. One request; any program may call it.
    pub async fn reports(&self) -> Result<Vec<Report>> {
        let blob = self.lock.blob();
        let primary =
            ClientOptions { read_from_secondary: false, ..blob.account().options().clone() };
        let content = blob.with_options(primary).get().await?;
        let content = content.map(|content| content.bytes).unwrap_or_default();
        let schedule = Schedule::read(&content).map_err(|error| self.named(error))?;
        Ok(schedule.runs.into())
    }

    /// Checks the configuration before anything is sent.
    fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        if let Some(chore) = self.chores.iter().find(|chore| !names.insert(chore.name())) {
            let what = format!("two chores have the name `{}`", chore.name());
            let error = Error::refused(ErrorKind::Invalid, what);
            return Err(
                self.named(error.advise("give each a unique name: the schedule is stored by name"))
            );
        }
        Ok(())
    }

    fn named(&self, error: Error) -> Error {
        error.of("Janitor", self.lock.blob().container())
    }

    fn tell(&self, report: &Report) {
        let Report { chore, outcome, .. } = report;
        if report.is_done() {
            tracing::debug!(chore, "a chore is done");
        } else {
            tracing::warn!(chore, ?outcome, "a chore is not done");
        }
        let outcome = match outcome {
            Outcome::Done => "done",
            Outcome::Failed(_) => "failed",
            Outcome::Interrupted => "interrupted",
            Outcome::Lost => "lost",
            Outcome::Overrun => "overrun",
            Outcome::Panicked(_) => "panicked",
        };
        let telemetry = self.lock.blob().account().telemetry();
        let attributes = [("rowkey.chore", &**chore), ("rowkey.outcome", outcome)];
        telemetry.count(metrics::JANITOR_RUNS.name, &attributes, 1);
        let Some(observer) = &self.observer else { return };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(report))) {
            tracing::error!(panic = text(panic), "the observer of a janitor panicked");
        }
    }
}

impl Report {
    /// Returns whether the run finished.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }
}

shown!(Janitor: lock, chores);

/// Serializes durations as milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
