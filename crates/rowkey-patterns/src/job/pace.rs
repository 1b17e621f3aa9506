//! Adaptive pacing: how fast a job sends requests, to each partition and to the account.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::{
    ClientOptions, Clock, Error, ErrorCode, ErrorKind, Outcome, Result, RetryOptions, ScanPolicy,
    StorageAccount, Table,
};
use tokio::sync::Notify;

use super::limiter::{Failure, Limiter, Ready, back_off};

#[cfg(test)]
mod tests;

/// Requests in flight to a new partition.
const FIRST_WINDOW: u32 = 2;
/// Requests in flight to a new account.
const FIRST_ACCOUNT_WINDOW: u32 = 4;
/// If this many targets push back within a second, the account is taken to be the limit, as when the
/// service names it.
const SUSPECTS: usize = 4;
/// When more targets than this are remembered, idle ones are forgotten.
const SWEEP_AT: usize = 4096;

/// Sends requests as fast as the service accepts them, and repeats those it does not accept.
///
/// A 503 (`ServerBusy`), a timeout or a lost connection is back-pressure and never fails an item. The
/// request waits as long as `Retry-After` asks (an hour at most), or from 0.25 seconds, doubling, up to 30.
/// The rate of the affected partition is reduced to 0.7 of the rate that worked, recovers within 5 seconds,
/// and then probes higher rates. Other partitions are not affected. If four partitions push back within a
/// second, or the service names the account limit, the account's rate is reduced, too. A request fails only
/// with an error that is not [retryable](Error::is_retryable), or at the [deadline](Self::until).
///
/// Until the service pushes back, only the configured ceilings limit a pace. Clones share their measurements:
/// use one pace for all jobs of a process on an account. Time comes from the account's [`Clock`].
///
/// Costs one lock and no request. Up to 4,096 idle partitions are remembered.
///
/// ```
/// use rowkey::patterns::job::{Pace, Target, paced};
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let pace = Pace::new(&account).entities_per_second(500);
/// let table = paced(&account.table("events"));
/// # table.create().await?;
/// let event = DynamicEntity::new("device-7", "1");
/// pace.run(Target::partition(&table, "device-7"), 1, |_| table.upsert(&event)).await?;
/// assert_eq!(pace.requests().sent, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Pace {
    shared: Arc<Shared>,
    until: Option<DateTime<Utc>>,
}

struct Shared {
    account: StorageAccount,
    state: Mutex<State>,
    /// Notified when a request in flight ends.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    account: Limiter,
    targets: HashMap<Target, Limiter>,
    /// Targets whose rate was reduced within the last second.
    suspects: Vec<(Target, DateTime<Utc>)>,
    requests_ceiling: Ceiling,
    entities_ceiling: Ceiling,
    random: u64,
    requests: Requests,
}

/// The unit that requests are limited by: a partition, or a range that is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target(u64);

/// The number of requests sent by a [`Pace`] and its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Requests that were sent, including repetitions.
    pub sent: u64,
    /// Requests that were refused or not answered. They are sent again if the deadline allows.
    pub repeated: u64,
}

/// The number of an attempt, and the outcome of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// Whether an earlier attempt may have been applied, because its response was lost.
    pub after_unknown: bool,
}

/// Returns `table` with the options that jobs use: it reads only the primary, allows scans, and
/// sends each request once, because a [`Pace`] repeats it.
pub fn paced(table: &Table) -> Table {
    let options = table.account().options().clone();
    let retry = RetryOptions { max_attempts: 1, ..options.retry };
    let scan_policy = ScanPolicy::Allow;
    table.with_options(ClientOptions { retry, read_from_secondary: false, scan_policy, ..options })
}

impl Target {
    /// A partition of a table.
    pub fn partition(table: &Table, partition_key: &str) -> Self {
        Self::of(table, (false, partition_key))
    }

    /// A range of a table that a job reads page by page, by its number.
    pub fn range(table: &Table, number: u64) -> Self {
        Self::of(table, (true, number))
    }

    fn of(table: &Table, part: impl Hash) -> Self {
        // Two targets with the same hash only share a pace.
        let mut hasher = DefaultHasher::new();
        (table.name().to_ascii_lowercase(), part).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Pace {
    /// Paces requests to `account`.
    pub fn new(account: &StorageAccount) -> Self {
        let now = account.clock().now();
        let state = State {
            account: Limiter::new(FIRST_ACCOUNT_WINDOW, now),
            targets: HashMap::new(),
            suspects: Vec::new(),
            requests_ceiling: Ceiling::default(),
            entities_ceiling: Ceiling::default(),
            random: RandomState::new().hash_one(0),
            requests: Requests::default(),
        };
        let state = Mutex::new(state);
        let shared = Shared { account: account.clone(), state, ended: Notify::new() };
        Self { shared: Arc::new(shared), until: None }
    }

    /// Limits requests to this many per second, at least 1.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// use rowkey::patterns::job::{Job, Pace, Walk};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.table("events").create().await?;
    /// # account.table("logs").create().await?;
    /// let pace = Pace::new(&account).requests_per_second(200);
    /// for table in ["events", "logs"] {
    ///     Job::count(Walk::keys(&account.table(table))).pace(pace.clone()).run().await?;
    /// }
    /// assert_eq!(pace.requests().sent, 2);
    /// # Ok(()) }
    /// ```
    #[must_use = "set it before the pace is used"]
    pub fn requests_per_second(self, requests: u32) -> Self {
        self.state().requests_ceiling.per_second = requests.max(1);
        self
    }

    /// Limits entities that are read and written to this many per second, at least 1. This leaves the
    /// rest of the table's throughput to other programs.
    #[must_use = "set it before the pace is used"]
    pub fn entities_per_second(self, entities: u32) -> Self {
        self.state().entities_ceiling.per_second = entities.max(1);
        self
    }

    /// Seeds the random spread of waits, which makes them the same in each run.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::patterns::job::Pace;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
    /// let pace = Pace::new(&account).seeded(7);
    /// assert_eq!(pace.requests().sent, 0);
    /// ```
    #[must_use = "set it before the pace is used"]
    pub fn seeded(self, seed: u64) -> Self {
        self.state().random = seed;
        self
    }

    /// Sends nothing at or after `deadline`. A request that would have to wait longer fails at once,
    /// with the last error of the service or with [`ErrorKind::Unavailable`].
    ///
    /// The deadline applies only to the returned handle and its clones.
    ///
    /// ```
    /// # use rowkey::{ErrorKind, StorageAccount};
    /// use rowkey::patterns::job::{Job, Pace, Walk};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.table("events").create().await?;
    /// let over = Pace::new(&account).until(account.clock().now());
    /// let count = Job::count(Walk::keys(&account.table("events"))).pace(over);
    /// let stopped = count.run().await.unwrap_err();
    /// assert_eq!(stopped.error.kind(), ErrorKind::Unavailable);
    /// assert!(!stopped.checkpoint.is_finished());
    /// # Ok(()) }
    /// ```
    #[must_use = "only the returned handle has the deadline"]
    pub fn until(self, deadline: DateTime<Utc>) -> Self {
        Self { until: Some(deadline), ..self }
    }

    /// The account whose requests are paced.
    pub fn account(&self) -> &StorageAccount {
        &self.shared.account
    }

    /// How many requests per second to the account are allowed now; `None` for no limit.
    pub(super) fn requests_allowed(&self) -> Option<f64> {
        let now = self.clock().now();
        let state = self.state();
        let ceiling = state.requests_ceiling.per_second;
        let ceiling = (ceiling > 0).then(|| f64::from(ceiling));
        match (state.account.rate(now), ceiling) {
            (Some(rate), Some(ceiling)) => Some(rate.min(ceiling)),
            (rate, ceiling) => rate.or(ceiling),
        }
    }

    /// The number of requests sent so far, by all clones.
    pub fn requests(&self) -> Requests {
        self.state().requests
    }

    /// Runs `operation`, which sends a request about `entities` entities of one target, until it is
    /// answered.
    ///
    /// `operation` is called again after an error that is [retryable](Error::is_retryable). It should
    /// send one request without its own retries ([`paced`]). The [`Attempt`] says whether an earlier
    /// attempt may have been applied. Any other error is returned; its [`outcome`](Error::outcome) is
    /// unknown if the outcome of an earlier attempt was.
    ///
    /// Dropping the future frees its slot, but does not undo requests that were sent.
    pub async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        target: Target,
        entities: u64,
        operation: impl FnMut(Attempt) -> F,
    ) -> Result<T> {
        self.run_sized(target, entities, operation, |_| entities).await
    }

    /// Like [`run`](Self::run), for a read whose number of entities (`size`) is known only afterwards.
    pub(super) async fn run_sized<T, F: Future<Output = Result<T>>>(
        &self,
        target: Target,
        entities: u64,
        mut operation: impl FnMut(Attempt) -> F,
        size: impl Fn(&T) -> u64,
    ) -> Result<T> {
        let mut attempt = Attempt { number: 1, after_unknown: false };
        let mut last = None;
        loop {
            let permit = match self.admit(target, entities).await {
                Ok(permit) => permit,
                Err(late) => return Err(last.map_or(late, past_deadline)),
            };
            match operation(attempt).await {
                Ok(answer) => {
                    permit.answered(size(&answer).saturating_sub(entities));
                    return Ok(answer);
                }
                Err(error) => {
                    let was_unknown = attempt.after_unknown;
                    attempt.after_unknown |= error.outcome() == Outcome::Unknown;
                    if !error.is_retryable() {
                        permit.answered(0);
                        return Err(if was_unknown {
                            error.with_outcome(Outcome::Unknown)
                        } else {
                            error
                        });
                    }
                    tracing::debug!(
                        attempt = attempt.number,
                        kind = ?error.kind(),
                        "back-pressure: the request is sent again"
                    );
                    permit.failed(&error);
                    attempt.number = attempt.number.saturating_add(1);
                    last = Some(if was_unknown {
                        error.with_outcome(Outcome::Unknown)
                    } else {
                        error
                    });
                }
            }
        }
    }

    /// Waits before a repetition after `failures` retryable errors in a row; returns the error if
    /// the deadline comes first.
    pub(super) async fn pause(&self, failures: u32, error: Error) -> Result<()> {
        let asked = error.details().retry_after.unwrap_or_default();
        self.sleep(back_off(failures).max(asked)).await.map_err(|_| past_deadline(error))
    }

    /// Waits until a request may be sent.
    async fn admit(&self, target: Target, entities: u64) -> Result<Permit<'_>> {
        loop {
            let mut ended = pin!(self.shared.ended.notified());
            // Enabled before the state is checked, so that no notification is missed.
            ended.as_mut().enable();
            let now = self.clock().now();
            if self.until.is_some_and(|until| now >= until) {
                return Err(self.late());
            }
            let ready = self.state().admit(target, entities, now);
            match ready {
                Ok(epochs) => {
                    return Ok(Permit { pace: self, target, entities, epochs, open: true });
                }
                Err(Ready::At(time)) => {
                    self.sleep((time - now).to_std().unwrap_or_default()).await?;
                }
                Err(Ready::Later | Ready::Now) => ended.await,
            }
        }
    }

    async fn sleep(&self, duration: Duration) -> Result<()> {
        let left =
            self.until.map(|until| (until - self.clock().now()).to_std().unwrap_or_default());
        if left.is_some_and(|left| duration >= left) {
            return Err(self.late());
        }
        self.clock().sleep(duration).await;
        Ok(())
    }

    fn late(&self) -> Error {
        past_deadline(Error::refused(ErrorKind::Unavailable, "the request was not sent in time"))
            .of("Pace", self.shared.account.name())
    }

    fn clock(&self) -> &dyn Clock {
        self.shared.account.clock()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent at every unlock, so a panic elsewhere does not damage it.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn past_deadline(error: Error) -> Error {
    error.advise("the deadline has passed; resume the job from its checkpoint")
}

impl State {
    /// Reserves a slot for a request, or returns how long to wait for one.
    fn admit(
        &mut self,
        target: Target,
        entities: u64,
        now: DateTime<Utc>,
    ) -> Result<Epochs, Ready> {
        if self.targets.len() >= SWEEP_AT {
            self.targets.retain(|_, limiter| !limiter.is_idle(now));
        }
        let new = || Limiter::new(FIRST_WINDOW, now);
        let limiter = self.targets.entry(target).or_insert_with(new);
        let ceiling = self.requests_ceiling.next.max(self.entities_ceiling.next);
        let ready = [limiter.ready(now), self.account.ready(now)];
        let latest = ready.iter().filter_map(|ready| match ready {
            Ready::At(time) => Some(*time),
            Ready::Later | Ready::Now => None,
        });
        let latest = latest.chain(ceiling.filter(|ceiling| *ceiling > now)).max();
        if let Some(latest) = latest {
            return Err(Ready::At(latest));
        }
        if ready.contains(&Ready::Later) {
            return Err(Ready::Later);
        }
        self.requests.sent += 1;
        self.requests_ceiling.take(1, now);
        self.entities_ceiling.take(entities, now);
        let (target, account) = (limiter.send(units(entities), now), self.account.send(1, now));
        Ok(Epochs { target, account })
    }

    fn failed(&mut self, permit: &Permit<'_>, error: &Error, now: DateTime<Utc>) {
        self.requests.repeated += 1;
        let is_timeout = error.code() == Some(&ErrorCode::OPERATION_TIMED_OUT);
        let throttled = error.kind() == ErrorKind::Throttled || is_timeout;
        let failure = if throttled { Failure::Throttled } else { Failure::Unanswered };
        let (asked, fraction) = (error.details().retry_after, self.fraction());
        let sent = (permit.units(), permit.epochs.target);
        let limiter = self.targets.get_mut(&permit.target);
        let reduced =
            limiter.is_some_and(|limiter| limiter.failed(failure, sent, asked, fraction, now));
        self.suspects.retain(|(target, at)| {
            *target != permit.target && now - *at < chrono::TimeDelta::seconds(1)
        });
        if reduced {
            self.suspects.push((permit.target, now));
        }
        // Azure: "Operations per second is over the account limit."
        let is_said = error
            .details()
            .service_message
            .as_deref()
            .is_some_and(|text| text.contains("account limit"));
        if throttled && (is_said || self.suspects.len() >= SUSPECTS) {
            self.suspects.clear();
            self.account.failed(failure, (1, permit.epochs.account), asked, fraction, now);
        } else {
            self.account.abandoned();
        }
    }

    /// Returns a number from 0 to 1: the upper half of `SplitMix64`.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(u32::MAX))
            / f64::from(u32::MAX)
    }
}

/// The epochs of the limiters when the request was sent.
#[derive(Clone, Copy, Debug)]
struct Epochs {
    target: u64,
    account: u64,
}

/// The slot of a request in flight, until it is answered, fails or is dropped.
struct Permit<'a> {
    pace: &'a Pace,
    target: Target,
    entities: u64,
    epochs: Epochs,
    open: bool,
}

/// The units that a request counts for its target: its entities, or 1 if their number is unknown.
fn units(entities: u64) -> u64 {
    entities.max(1)
}

impl Permit<'_> {
    fn units(&self) -> u64 {
        units(self.entities)
    }

    fn answered(mut self, more: u64) {
        let now = self.pace.clock().now();
        self.close(|permit, state| {
            state.account.answered(1, now);
            state.entities_ceiling.take(more, now);
            if let Some(limiter) = state.targets.get_mut(&permit.target) {
                limiter.answered(permit.units(), now);
            }
        });
    }

    fn failed(mut self, error: &Error) {
        let now = self.pace.clock().now();
        self.close(|permit, state| state.failed(permit, error, now));
    }

    fn close(&mut self, change: impl FnOnce(&Self, &mut State)) {
        self.open = false;
        change(self, &mut self.pace.state());
        self.pace.shared.ended.notify_waiters();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.open {
            self.close(|permit, state| {
                state.account.abandoned();
                if let Some(limiter) = state.targets.get_mut(&permit.target) {
                    limiter.abandoned();
                }
            });
        }
    }
}

/// The configured maximum per second. Unused capacity is not saved up.
#[derive(Debug, Default)]
struct Ceiling {
    /// 0 means no ceiling.
    per_second: u32,
    next: Option<DateTime<Utc>>,
}

impl Ceiling {
    fn take(&mut self, count: u64, now: DateTime<Utc>) {
        if self.per_second > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let begin = self.next.map_or(now, |next| next.max(now));
            self.next = Some(begin + Duration::from_secs(1) * count / self.per_second);
        }
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace")
            .field("account", &self.shared.account.name())
            .field("until", &self.until)
            .field("requests", &self.requests())
            .finish_non_exhaustive()
    }
}
