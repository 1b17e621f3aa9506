//! The janitor's loop: standing by, leading, and shutting down.

use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use chrono::DateTime;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, OptionFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey_client::{Clock, Error, ErrorKind, Result};
use rowkey_patterns::lease_lock::{Held, LeaseLock, Lost};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::schedule::{Entry, Schedule, ServiceTime};
use super::{Counts, Janitor, Leadership, Outcome, Report};
use crate::panics::{self, spawn};
use crate::renewal_thread::{self, AbortOnDrop};

/// How often a standby janitor tries to acquire the lease.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The delay before a failed save of the schedule is tried again.
const SAVE_AGAIN: Duration = Duration::from_secs(5);
/// The longest wait of an idle leader.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The time after a chore's time limit within which the leader must have ended it. If its thread is blocked,
/// it gives up the lease.
const GRACE: Duration = Duration::from_secs(60);
/// How often to yield to other tasks while dropped chores end.
const MAX_YIELDS: usize = 1000;
/// The maximum length of an error's text in the stored report.
const MAX_TEXT: usize = 300;

/// How leading ended.
enum LeadershipEnd {
    Lost,
    Stopped,
}

/// A finished run.
struct FinishedRun {
    chore: usize,
    took: Duration,
    outcome: Outcome,
    counts: Counts,
}

/// A run in progress.
struct ActiveRun {
    chore: usize,
    /// When it began, in the service's time.
    at: i64,
    /// When it began, by [`Clock::elapsed`].
    since: Duration,
    before: Entry,
}

impl Janitor {
    /// Stands by and leads until `shutdown` completes. Chores that are running then may continue for up to
    /// the [deadline](Self::shutdown_deadline); afterwards another janitor can lead at once.
    ///
    /// A standby janitor tries to acquire the lease once a minute, so another one leads at most a minute plus
    /// the lock's term after a leader dies. With a term of 60 seconds, the leader makes 4,320 requests per day
    /// and each standby janitor 1,440. Each run of a chore costs two more besides its own requests.
    ///
    /// Transient failures are logged and retried. Fails with [`ErrorKind::Invalid`] if two chores have the
    /// same name, with [`ErrorKind::Decode`] if the lock's blob does not contain a schedule, and with any
    /// permanent error, such as a missing container. If this future is dropped, its chores are dropped, and
    /// the lease ends with its term.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()> + Send) -> Result<()> {
        self.check()?;
        let mut shutdown = pin!(shutdown);
        let lock = self.lock.with_own_connections()?;
        loop {
            let taken = match select(pin!(acquire(&lock)), &mut shutdown).await {
                Either::Left((taken, _)) => taken,
                Either::Right(((), _)) => return Ok(()),
            };
            match taken {
                Ok(Some(held)) => match self.lead(Arc::new(held), shutdown.as_mut()).await {
                    Ok(LeadershipEnd::Stopped) => return Ok(()),
                    Ok(LeadershipEnd::Lost) => {}
                    Err(error) if passes(&error) => {
                        tracing::warn!(%error, "the janitor cannot lead yet");
                    }
                    Err(error) => return Err(self.named(error)),
                },
                Ok(None) => {}
                Err(error) if passes(&error) => {
                    tracing::warn!(%error, "the janitor cannot acquire its lock yet");
                }
                Err(error) => return Err(error),
            }
            match select(self.clock().sleep(LOOK_EVERY), &mut shutdown).await {
                Either::Left(_) => {}
                Either::Right(((), _)) => return Ok(()),
            }
        }
    }

    /// Leads until the lease is lost or the janitor shuts down.
    async fn lead(
        &self,
        held: Arc<Held>,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<LeadershipEnd> {
        let asked = self.clock().elapsed();
        let loading = Arc::clone(&held);
        let loaded = renewal_thread::run(async move { loading.load().await }).await;
        let read = loaded.and_then(|content| {
            Ok((ServiceTime::new(&content, asked), Schedule::read(&content.bytes)?))
        });
        let (time, schedule) = match read {
            Ok(read) => read,
            Err(error) => {
                renewal_thread::release(&held).await;
                return Err(error);
            }
        };
        tracing::info!(token = held.token(), "the janitor leads");
        let mut leader = Leader::new(self, held, time, schedule)?;
        let mut is_lost = pin!(lost(leader.lost.clone()));
        let mut deadline: Option<BoxFuture<'_, ()>> = None;
        loop {
            let is_stopping = deadline.is_some();
            if !is_stopping {
                leader.begin_due().await;
            }
            if leader.is_unsaved && leader.may_save() {
                leader.save().await;
            }
            if is_stopping && leader.active.is_empty() {
                leader.stop().await;
                return Ok(LeadershipEnd::Stopped);
            }
            leader.watch();
            let mut wait = self.clock().sleep(leader.wait());
            tokio::select! {
                biased;
                lost = &mut is_lost => {
                    tracing::warn!(%lost, "the janitor no longer leads");
                    leader.over.send_replace(true);
                    leader.drop_runs(&Outcome::Lost);
                    return Ok(LeadershipEnd::Lost);
                }
                () = shutdown.as_mut(), if !is_stopping => {
                    leader.over.send_replace(true);
                    deadline = Some(self.clock().sleep(self.shutdown_deadline));
                }
                Some(finished) = leader.running.next() => leader.end(finished),
                Some(()) = OptionFuture::from(deadline.as_mut()), if is_stopping => {
                    leader.drop_runs(&Outcome::Interrupted);
                }
                () = &mut wait => {}
            }
        }
    }

    /// Runs a chore in its own task, to its end or its time limit.
    fn run(&self, index: usize, leadership: Leadership) -> BoxFuture<'_, FinishedRun> {
        let chore = &self.chores[index];
        let alive = Arc::new(());
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.resize_with(self.chores.len(), Weak::new);
        at_work[index] = Arc::downgrade(&alive);
        drop(at_work);
        let (work, began) = (Arc::clone(&chore.work), self.clock().elapsed());
        let run = async move {
            let ended = work(leadership).await;
            drop(alive);
            ended
        };
        let task = AbortOnDrop(spawn(run.in_current_span()));
        let end = async move {
            let AbortOnDrop(handle) = &mut { task };
            let ended = match select(handle, self.clock().sleep(chore.time_limit)).await {
                Either::Left((ended, _)) => Some(ended),
                Either::Right(((), _)) => None,
            };
            let (outcome, counts) = match ended {
                None => (Outcome::Overrun, Counts::new()),
                Some(Ok(Ok(counts))) => (Outcome::Done, counts),
                Some(Ok(Err(error))) => (Outcome::Failed(short(error)), Counts::new()),
                Some(Err(error)) => {
                    // Without a panic, the runtime was shut down.
                    let panicked = panics::of(error).map(|text| Outcome::Panicked(short(text)));
                    (panicked.unwrap_or(Outcome::Interrupted), Counts::new())
                }
            };
            let took = self.clock().elapsed().saturating_sub(began);
            FinishedRun { chore: index, took, outcome, counts }
        };
        end.boxed()
    }

    /// Returns whether a run of the chore has not ended, even if it was dropped.
    fn is_at_work(&self, index: usize) -> bool {
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.get(index).is_some_and(|run| run.strong_count() > 0)
    }

    fn clock(&self) -> &dyn Clock {
        self.lock.blob().account().clock()
    }
}

/// A janitor while it leads.
struct Leader<'j> {
    janitor: &'j Janitor,
    held: Arc<Held>,
    time: ServiceTime,
    schedule: Schedule,
    is_unsaved: bool,
    /// The earliest time of the next save of the schedule, by [`Clock::elapsed`].
    save_at: Duration,
    active: Vec<ActiveRun>,
    running: FuturesUnordered<BoxFuture<'j, FinishedRun>>,
    over: watch::Sender<bool>,
    /// The time by which running chores must have ended, by [`Clock::elapsed`].
    limit: watch::Sender<Option<Duration>>,
    /// How the lease was lost, or `None` while it is held.
    lost: watch::Receiver<Option<Lost>>,
    renewal: AbortOnDrop<()>,
}

impl<'j> Leader<'j> {
    fn new(
        janitor: &'j Janitor,
        held: Arc<Held>,
        time: ServiceTime,
        schedule: Schedule,
    ) -> Result<Self> {
        let limit = watch::Sender::new(None);
        let (keeping, limits) = (Arc::clone(&held), limit.subscribe());
        let account = janitor.lock.blob().account().clone();
        let (says, lost) = watch::channel(None);
        let renewal = renewal_thread::spawn(async move {
            let lost =
                match select(pin!(keeping.lost()), pin!(passed(account.clock(), limits))).await {
                    Either::Left((lost, _)) => lost,
                    // The lease is no longer renewed, so it expires.
                    Either::Right(((), _)) => Lost::Expired,
                };
            says.send_replace(Some(lost));
        })?;
        let mut leader = Self {
            janitor,
            held,
            time,
            schedule,
            is_unsaved: false,
            save_at: Duration::ZERO,
            active: Vec::new(),
            running: FuturesUnordered::new(),
            over: watch::Sender::new(false),
            limit,
            lost,
            renewal,
        };
        let now = leader.now();
        for chore in &janitor.chores {
            leader.is_unsaved |= leader.schedule.note(chore.name(), now);
        }
        Ok(leader)
    }

    /// Starts the chores that are due. Their start is saved first, so if a run crashes the process, the next
    /// leader does not start it again at once.
    async fn begin_due(&mut self) {
        if !self.may_save() {
            return;
        }
        let (now, since) = (self.now(), self.janitor.clock().elapsed());
        let chores = self.janitor.chores.iter().enumerate();
        let due = chores.filter(|(index, chore)| {
            self.schedule.due(chore) <= now && !self.janitor.is_at_work(*index)
        });
        let due: Vec<_> = due.collect();
        let mut active = Vec::new();
        for (chore, it) in due {
            if let Some(before) = self.schedule.begin(it.name(), now) {
                active.push(ActiveRun { chore, at: now, since, before });
            }
        }
        if active.is_empty() {
            return;
        }
        if !self.save().await {
            for ActiveRun { chore, before, .. } in active {
                self.schedule.take_back(self.janitor.chores[chore].name(), before);
            }
            return;
        }
        for one in active {
            let leadership =
                Leadership { held: Arc::clone(&self.held), is_over: self.over.subscribe() };
            self.running.push(self.janitor.run(one.chore, leadership));
            self.active.push(one);
        }
    }

    /// Saves the schedule; returns whether it is saved. A lease lost in the meantime is detected by the next
    /// event.
    async fn save(&mut self) -> bool {
        self.is_unsaved = true;
        let text = match self.schedule.text() {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "the schedule cannot be written");
                return false;
            }
        };
        let held = Arc::clone(&self.held);
        let saving = pin!(renewal_thread::run(async move { held.save(text).await }));
        let saved = match select(saving, pin!(lost(self.lost.clone()))).await {
            Either::Left((saved, _)) => saved,
            Either::Right(_) => return false,
        };
        match saved {
            Ok(_) => {
                self.is_unsaved = false;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the schedule is not saved yet");
                self.save_at = self.janitor.clock().elapsed() + SAVE_AGAIN;
                false
            }
        }
    }

    fn may_save(&self) -> bool {
        self.janitor.clock().elapsed() >= self.save_at
    }

    /// How long the leader has nothing to do.
    fn wait(&self) -> Duration {
        let now = self.now();
        let free = self.janitor.chores.iter().enumerate();
        let free = free.filter(|(index, _)| !self.active.iter().any(|one| one.chore == *index));
        let next = free.map(|(_, chore)| self.schedule.due(chore)).min();
        let wait = next.and_then(|next| u64::try_from(next.saturating_sub(now)).ok());
        let wait = wait.map_or(LONGEST_WAIT, Duration::from_secs);
        // A chore that is due but still blocked is checked again a second later.
        let wait = wait.max(Duration::from_secs(1)).min(LONGEST_WAIT);
        let elapsed = self.janitor.clock().elapsed();
        let again = self.save_at.saturating_sub(elapsed);
        if self.is_unsaved { wait.min(again) } else { wait.max(again) }
    }

    /// Tells the renewal thread by when the running chores must have ended.
    fn watch(&self) {
        let ends = self.active.iter().map(|one| {
            one.since
                .saturating_add(self.janitor.chores[one.chore].time_limit)
                .saturating_add(GRACE)
        });
        self.limit.send_replace(ends.min());
    }

    fn end(&mut self, finished: FinishedRun) {
        let FinishedRun { chore, took, outcome, counts } = finished;
        let Some(at) = self.active.iter().position(|one| one.chore == chore) else { return };
        let active = self.active.swap_remove(at);
        let report = Report { took, counts, ..self.report(&active, outcome) };
        if let Outcome::Interrupted = report.outcome {
            self.schedule.keep(&report);
        } else {
            let now = self.now();
            self.schedule.end(&report, now);
        }
        self.is_unsaved = true;
        self.janitor.tell(&report);
    }

    /// Drops the unfinished runs. Interrupted ones are taken back, so that the next leader starts them at once; a
    /// leader that has lost its lease may no longer write the schedule.
    fn drop_runs(&mut self, outcome: &Outcome) {
        self.running.clear();
        for one in std::mem::take(&mut self.active) {
            let report = self.report(&one, outcome.clone());
            if *outcome == Outcome::Interrupted {
                self.schedule.take_back(&report.chore, one.before);
                self.schedule.keep(&report);
                self.is_unsaved = true;
            }
            self.janitor.tell(&report);
        }
    }

    /// Saves unsaved changes, and releases the lease.
    async fn stop(&mut self) {
        if self.is_unsaved {
            self.save().await;
        }
        self.renewal.0.abort();
        let is_at_work = || (0..self.janitor.chores.len()).any(|it| self.janitor.is_at_work(it));
        // A dropped chore ends at its next await, on a thread of the runtime.
        for _ in 0..MAX_YIELDS {
            if !is_at_work() {
                return renewal_thread::release(&self.held).await;
            }
            tokio::task::yield_now().await;
        }
        tracing::warn!("a chore blocks; the janitor's lease ends with its term");
    }

    /// The report of a run that ends now.
    fn report(&self, run: &ActiveRun, outcome: Outcome) -> Report {
        Report {
            chore: self.janitor.chores[run.chore].name().to_owned(),
            leader: self.held.token(),
            began: DateTime::from_timestamp(run.at, 0).unwrap_or_default(),
            took: self.janitor.clock().elapsed().saturating_sub(run.since),
            outcome,
            counts: Counts::new(),
        }
    }

    fn now(&self) -> i64 {
        self.time.now(self.janitor.clock())
    }
}

/// Returns whether the next attempt may succeed.
fn passes(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::Leased
}

/// Acquires the lock on the renewal thread, because its connections belong to the runtime of that thread.
async fn acquire(lock: &LeaseLock) -> Result<Option<Held>> {
    let lock = lock.clone();
    renewal_thread::run(async move { lock.try_acquire().await }).await
}

/// Completes when the lease is lost.
async fn lost(mut lost: watch::Receiver<Option<Lost>>) -> Lost {
    // An error means that the thread has ended and no longer renews the lease.
    lost.wait_for(Option::is_some).await.ok().and_then(|lost| *lost).unwrap_or(Lost::Expired)
}

/// Completes when the time in `limit` has passed.
async fn passed(clock: &dyn Clock, mut limit: watch::Receiver<Option<Duration>>) {
    loop {
        let at = *limit.borrow_and_update();
        let left = at.map(|at| at.saturating_sub(clock.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let wait: BoxFuture<'_, ()> = match left {
            Some(left) => clock.sleep(left),
            None => std::future::pending().boxed(),
        };
        if let Either::Right((Err(_), _)) = select(wait, pin!(limit.changed())).await {
            // The leader has ended, and drops this future.
            std::future::pending::<()>().await;
        }
    }
}

/// The text, shortened to the maximum length.
fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
    }
    text
}
