//! Pacing: how fast requests are sent, to each partition and to the account, and which go first.
//!
//! | file | what it is |
//! |---|---|
//! | this file | [`Pace`], what a program gives to calls or jobs |
//! | `governor` | the state of an account that its clones share: who may send now |
//! | `permit` | the place of a request in flight |
//! | `gate` | the lines of requests that wait for one target |
//! | `limiter` | the rate of one target, which follows from what the service answers |
//! | `meter` | a maximum rate |
//! | `patience` | how long a job waits for answers |
//! | `budget` | how many retries an account may send |
//! | `hedge` | second requests of slow reads |
//! | `load` | what a request counts for |
//! | `lane` | whether one partition limits a pace |

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use meter::Meter;

pub(crate) mod budget;
mod gate;
pub(crate) mod governor;
pub(crate) mod hedge;
mod lane;
#[cfg(test)]
mod lane_tests;
pub(crate) mod limiter;
pub(crate) mod load;
mod meter;
mod patience;
pub(crate) mod permit;
#[cfg(test)]
mod tests;

use lane::Lanes;
use patience::Patience;

pub use hedge::Hedge;
pub use lane::Lane;
pub use patience::{check_wait, patient};

/// How fast calls or jobs send requests, and whether they go before others.
///
/// A pace has a priority, optional maximum rates and an optional deadline. Give it to calls
/// ([`ClientOptions::pace`](crate::ClientOptions::pace)), to jobs (`Job::pace`), or to all requests of a future
/// ([`scope`](Self::scope)). Clones share the maximum rates and the counts.
///
/// All paces of an account and its clones share what is known about the account. Each partition, each queue,
/// each scan, each blob container and the account have a limit:
///
/// - Ceilings, by default the documented [`Targets`].
/// - A 503 (`ServerBusy`), a timeout at the service or a second lost response in a row reduces the rate of
///   what it concerns to 0.7 of the rate that worked. It recovers within 5 seconds, and then probes higher
///   rates. If four targets push back within a second, or the service names the account's limit, the account's
///   rate is reduced, too.
/// - After a failure, requests wait as long as `Retry-After` asks (an hour at most), or from 0.25 seconds,
///   doubling, up to 30. A refused background request stops the background; of the foreground, one request at a
///   time continues, until one is refused.
///
/// | | [`foreground`](Self::foreground) | [`background`](Self::background) |
/// |---|---|---|
/// | waits for its turn | at most the `timeout` of its options, and until the [deadline](Self::until) | until the deadline |
/// | goes first | yes, and may use the next half second in advance | gets at least a tenth of a target while it waits |
/// | after a 503 | is retried as its options say | is repeated until the deadline |
///
/// A request without a pace never waits. While paced requests are sent, it counts for them as a foreground
/// request.
///
/// Costs no request, and a lock for each request. Targets are remembered while requests to them wait or are in
/// flight. When there are more than 4,096, those are forgotten that were not used for two seconds, or for a minute
/// after the service has pushed back. Time is measured
/// by [`Clock::elapsed`](crate::Clock::elapsed), so a step of the system time changes nothing.
///
/// ```
/// use rowkey::pace::Pace;
/// use rowkey::{ClientOptions, DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("events").create().await?;
/// let pace = Pace::foreground().requests_per_second(500);
/// let options = ClientOptions { pace: Some(pace.clone()), ..ClientOptions::default() };
/// let events = account.with_options(options).table("events");
/// events.upsert(&DynamicEntity::new("device-7", "1")).await?;
/// assert_eq!(pace.requests().sent, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Pace {
    shared: Arc<Shared>,
    priority: Priority,
    until: Option<DateTime<Utc>>,
    patience: Option<Arc<Patience>>,
    /// Whether a target that the service has pushed back on is not waited for.
    is_impatient: bool,
}

/// Which requests go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Calls that a user waits for.
    Foreground,
    /// Jobs.
    Background,
}

impl Priority {
    /// The name in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
        }
    }
}

/// Runs a future whose work may be left undone, so that a job does not wait for it: its requests keep the maximum
/// rates and the deadline of their pace, are retried as their options say, and fail if their target may not get a
/// request within three seconds.
pub fn impatient<F: Future>(future: F) -> impl Future<Output = F::Output> {
    IMPATIENT.scope((), Box::pin(future))
}

#[derive(Debug, Default)]
struct Shared {
    ceilings: Mutex<Ceilings>,
    lanes: Mutex<Lanes>,
    sent: AtomicU64,
    repeated: AtomicU64,
}

/// The program's own maximum rates.
#[derive(Debug, Default)]
struct Ceilings {
    requests: Ceiling,
    entities: Ceiling,
}

/// The number of requests sent at a [`Pace`] and its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Requests that were sent, including repetitions.
    pub sent: u64,
    /// Requests that were refused as too many, or not answered.
    pub repeated: u64,
}

/// The highest rates that paced requests reach: by default, the service's documented
/// [targets](https://learn.microsoft.com/azure/storage/tables/scalability-targets).
///
/// A program that shares an account or a partition with others can leave them a part. Without a ceiling
/// ([`UNLIMITED`](Self::UNLIMITED)), only the answers of the service limit the rate, as for Azure Cosmos DB.
///
/// ```
/// use rowkey::StorageAccount;
/// use rowkey::pace::Targets;
///
/// let half = Targets { entities_per_partition: 1000, ..Targets::default() };
/// let account = StorageAccount::builder()
///     .connection_string("UseDevelopmentStorage=true")?
///     .targets(half)
///     .build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Requests per second to the account. Default: 20,000.
    pub requests_per_account: u32,
    /// Entities per second that are read and written in a partition. Default: 2,000.
    pub entities_per_partition: u32,
    /// Requests per second about the messages of a queue. Default: 2,000.
    pub messages_per_queue: u32,
}

impl Targets {
    /// No ceilings.
    pub const UNLIMITED: Self = Self {
        requests_per_account: u32::MAX,
        entities_per_partition: u32::MAX,
        messages_per_queue: u32::MAX,
    };
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            requests_per_account: 20_000,
            entities_per_partition: 2000,
            messages_per_queue: 2000,
        }
    }
}

tokio::task_local! {
    static CURRENT: Pace;

    /// Set in futures that [`impatient`] runs.
    static IMPATIENT: ();
}

impl Pace {
    /// The pace of calls that a user waits for: before the background, and no longer than their `timeout`.
    pub fn foreground() -> Self {
        Self::new(Priority::Foreground)
    }

    /// The pace of jobs: after the foreground, and as long as it takes. A request that the service refuses
    /// because it is busy, or that was not sent because there was no connection, is repeated until it is
    /// answered or the [deadline](Self::until) comes; the `timeout` of the options limits each attempt, and
    /// not the whole.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// use rowkey::ClientOptions;
    /// use rowkey::pace::Pace;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let nightly = Pace::background().requests_per_second(200);
    /// let options = ClientOptions { pace: Some(nightly.clone()), ..ClientOptions::default() };
    /// let slowly = account.with_options(options);
    /// for table in ["events", "logs"] {
    ///     slowly.table(table).create_if_missing().await?;
    /// }
    /// assert_eq!(nightly.requests().sent, 2);
    /// # Ok(()) }
    /// ```
    pub fn background() -> Self {
        Self::new(Priority::Background)
    }

    fn new(priority: Priority) -> Self {
        let (shared, until, patience) = Default::default();
        Self { shared, priority, until, patience, is_impatient: false }
    }

    /// Limits requests to this many per second, at least 1.
    ///
    /// ```
    /// use rowkey::pace::Pace;
    ///
    /// let pace = Pace::background().requests_per_second(200);
    /// assert_eq!(pace.requests().sent, 0);
    /// ```
    #[must_use = "set it before the pace is used"]
    pub fn requests_per_second(self, requests: u32) -> Self {
        self.ceilings().requests.per_second = requests.max(1);
        self
    }

    /// Limits entities that are read and written to this many per second, at least 1. This leaves the
    /// rest of the table's throughput to other programs.
    ///
    /// ```
    /// use rowkey::pace::Pace;
    ///
    /// let pace = Pace::background().entities_per_second(500);
    /// assert_eq!(pace.requests().sent, 0);
    /// ```
    #[must_use = "set it before the pace is used"]
    pub fn entities_per_second(self, entities: u32) -> Self {
        self.ceilings().entities.per_second = entities.max(1);
        self
    }

    /// Sends nothing at or after `deadline`. A request that would have to wait longer fails at once,
    /// with the last error of the service or with [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable).
    ///
    /// The deadline applies only to the returned handle and its clones. It is a time of the account's clock.
    ///
    /// ```
    /// # use rowkey::{ErrorKind, StorageAccount};
    /// use rowkey::pace::Pace;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let over = Pace::background().until(account.clock().now());
    /// let Err(late) = over.scope(account.table("events").create()).await else {
    ///     return Err("it was sent".into());
    /// };
    /// assert_eq!(late.kind(), ErrorKind::Unavailable);
    /// assert_eq!(over.requests().sent, 0);
    /// # Ok(()) }
    /// ```
    #[must_use = "only the returned handle has the deadline"]
    pub fn until(self, deadline: DateTime<Utc>) -> Self {
        Self { until: Some(deadline), ..self }
    }

    /// Returns the number of requests sent so far, by all clones.
    pub fn requests(&self) -> Requests {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Requests { sent: read(&self.shared.sent), repeated: read(&self.shared.repeated) }
    }

    /// Returns the one partition that limits what all clones send, if there is one. More partitions at once would be faster;
    /// more requests would not. Sends nothing.
    pub fn lane(&self) -> Option<Lane> {
        self.shared.lane()
    }

    /// Runs a future at this pace: all requests in it, of all handles. It replaces the pace of their
    /// options. Tasks that the future spawns do not inherit it.
    ///
    /// ```
    /// use rowkey::pace::Pace;
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let events = account.table("events");
    /// # events.create().await?;
    /// let nightly = Pace::background().entities_per_second(1000);
    /// nightly
    ///     .scope(async {
    ///         for number in 0..3 {
    ///             events.upsert(&DynamicEntity::new("device-7", number.to_string())).await?;
    ///         }
    ///         Ok::<_, rowkey::Error>(())
    ///     })
    ///     .await?;
    /// assert_eq!(nightly.requests().sent, 3);
    /// # Ok(()) }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        // Boxed, so that futures that contain this one do not grow with each layer.
        CURRENT.scope(self.clone(), Box::pin(future))
    }

    /// The pace of a request: that of the future that is being polled, if it runs in a [`scope`](Self::scope), or
    /// that of its options.
    pub(crate) fn of(options: Option<&Self>) -> Option<Self> {
        let pace = CURRENT.try_with(Clone::clone).ok().or_else(|| options.cloned())?;
        let is_impatient = IMPATIENT.try_with(|()| ()).is_ok();
        Some(if is_impatient {
            Self { priority: Priority::Foreground, is_impatient, ..pace }
        } else {
            pace
        })
    }

    pub(crate) fn is_background(&self) -> bool {
        self.priority == Priority::Background
    }

    fn repeats(&self) {
        self.shared.repeated.fetch_add(1, Ordering::Relaxed);
    }

    fn ceilings(&self) -> MutexGuard<'_, Ceilings> {
        // The state is consistent at every unlock, so a panic elsewhere does not damage it.
        self.shared.ceilings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request against the program's own rates, and returns when it may be sent.
    fn reserve(&self, entities: u64, now: Duration) -> Duration {
        let mut ceilings = self.ceilings();
        ceilings.requests.take(1, now).max(ceilings.entities.take(entities, now))
    }

    /// Takes back a request that was not sent.
    fn give_back(&self, entities: u64) {
        let mut ceilings = self.ceilings();
        ceilings.requests.give_back(1);
        ceilings.entities.give_back(entities);
    }

    /// Counts entities that are known only after the response.
    fn count(&self, entities: u64, now: Duration) {
        self.ceilings().entities.take(entities, now);
    }
}

/// A maximum that the program sets.
#[derive(Debug, Default)]
struct Ceiling {
    /// 0 means none.
    per_second: u32,
    meter: Option<Meter>,
}

impl Ceiling {
    /// Counts units, and returns when the first of them may be sent.
    fn take(&mut self, units: u64, now: Duration) -> Duration {
        if self.per_second == 0 {
            return now;
        }
        let meter = self.meter.get_or_insert(Meter::new(now));
        let at = meter.next(Duration::ZERO);
        meter.take(limiter::as_f64(units), f64::from(self.per_second), now);
        at.max(now)
    }

    fn give_back(&mut self, units: u64) {
        if let Some(meter) = self.meter.as_mut().filter(|_| self.per_second > 0) {
            meter.give_back(limiter::as_f64(units), f64::from(self.per_second));
        }
    }
}

/// Whether they are clones of one pace, with the same deadline.
impl PartialEq for Pace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
            && (self.priority, self.until) == (other.priority, other.until)
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace")
            .field("priority", &self.priority)
            .field("until", &self.until)
            .field("requests", &self.requests())
            .finish_non_exhaustive()
    }
}
