//! Standing by, leading, and the end of both.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use chrono::DateTime;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey::{Clock, Error, ErrorKind, Result};
use rowkey_large::LeaseLock;
use rowkey_large::lease_lock::{Held, Lost};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::schedule::{Entry, Schedule, ServiceTime};
use super::{Counts, Janitor, Leadership, Outcome, Report};
use crate::keeper::{self, Owned};
use crate::worker::attempt::{spawn, text};

/// How often one that stands by looks for the lease.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// When what could not be saved is saved again.
const SAVE_AGAIN: Duration = Duration::from_secs(5);
/// The longest wait of a leader that has nothing to do.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How much later than the time limit of a chore the leader has to have ended it. If its thread is blocked, it
/// gives up the lease.
const GRACE: Duration = Duration::from_secs(60);
/// How often other tasks are let go on until chores that were dropped have ended.
const MAX_YIELDS: usize = 1000;
/// The longest text of an error in the stored report.
const MAX_TEXT: usize = 300;

/// What a leader waits for.
enum Event {
    Deadline,
    Ended(Ran),
    Lost(Lost),
    Shutdown,
    Waited,
}

/// How leading ended.
enum Led {
    Lost,
    Stopped,
}

/// A run that ended.
struct Ran {
    chore: usize,
    took: Duration,
    outcome: Outcome,
    counts: Counts,
}

/// A run that has not ended.
struct Begun {
    chore: usize,
    /// In the service's time.
    at: i64,
    /// By [`Clock::elapsed`].
    since: Duration,
    before: Entry,
}

impl Janitor {
    /// Stands by and leads until `shutdown` completes; then chores that run may go on for up to the
    /// [deadline](Self::shutdown_deadline), and another janitor may lead at once.
    ///
    /// One that stands by looks for the lease once a minute, so another leads a minute and a term of the lock
    /// after the last one died, at the latest. With a term of 60 seconds, the leader makes 4,320 requests a day
    /// and each that stands by 1,440; each run of a chore costs two more besides its own.
    ///
    /// What fails now and then is logged, and waited for. Fails with [`ErrorKind::Invalid`] if two chores
    /// have one name, with [`ErrorKind::Decode`] if the lock's blob holds no schedule, and with what does
    /// not pass by itself, as a container that is missing. Dropped, it drops its chores, and the lease ends with
    /// its term.
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
                    Ok(Led::Stopped) => return Ok(()),
                    Ok(Led::Lost) => {}
                    Err(error) if passes(&error) => {
                        tracing::warn!(%error, "the janitor cannot lead yet");
                    }
                    Err(error) => return Err(self.named(error)),
                },
                Ok(None) => {}
                Err(error) if passes(&error) => {
                    tracing::warn!(%error, "the janitor's lock cannot be asked for yet");
                }
                Err(error) => return Err(error),
            }
            match select(self.clock().sleep(LOOK_EVERY), &mut shutdown).await {
                Either::Left(_) => {}
                Either::Right(((), _)) => return Ok(()),
            }
        }
    }

    /// Leads until the lease is lost or the janitor is to stop.
    async fn lead(
        &self,
        held: Arc<Held>,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<Led> {
        let asked = self.clock().elapsed();
        let loading = Arc::clone(&held);
        let loaded = on_thread(async move { loading.load().await }).await;
        let read = loaded.and_then(|content| {
            Ok((ServiceTime::new(&content, asked), Schedule::read(&content.bytes)?))
        });
        let (time, schedule) = match read {
            Ok(read) => read,
            Err(error) => {
                release(&held).await;
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
            if is_stopping && leader.begun.is_empty() {
                leader.stop().await;
                return Ok(Led::Stopped);
            }
            leader.watch();
            let mut wait = self.clock().sleep(leader.wait());
            let event = poll_fn(|context| {
                if let Poll::Ready(lost) = is_lost.as_mut().poll(context) {
                    return Poll::Ready(Event::Lost(lost));
                }
                if !is_stopping && shutdown.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Event::Shutdown);
                }
                if let Poll::Ready(Some(ran)) = leader.running.poll_next_unpin(context) {
                    return Poll::Ready(Event::Ended(ran));
                }
                if let Some(deadline) = &mut deadline
                    && deadline.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(Event::Deadline);
                }
                wait.as_mut().poll(context).map(|()| Event::Waited)
            });
            match event.await {
                Event::Deadline => {
                    leader.interrupt();
                }
                Event::Ended(ran) => leader.end(ran),
                Event::Lost(lost) => {
                    tracing::warn!(%lost, "the janitor leads no longer");
                    leader.lose();
                    return Ok(Led::Lost);
                }
                Event::Shutdown => {
                    leader.over.send_replace(true);
                    deadline = Some(self.clock().sleep(self.shutdown_deadline));
                }
                Event::Waited => {}
            }
        }
    }

    /// Runs a chore to its end or its time limit, in a task of its own.
    fn run(&self, index: usize, leadership: Leadership) -> BoxFuture<'_, Ran> {
        let chore = &self.chores[index];
        let alive = Arc::new(());
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.resize_with(self.chores.len(), Weak::new);
        at_work[index] = Arc::downgrade(&alive);
        drop(at_work);
        let (work, begun) = (Arc::clone(&chore.work), self.clock().elapsed());
        let run = async move {
            let ended = work(leadership).await;
            drop(alive);
            ended
        };
        let task = Owned(spawn(run.in_current_span()));
        let end = async move {
            let Owned(handle) = &mut { task };
            let ended = match select(handle, self.clock().sleep(chore.time_limit)).await {
                Either::Left((ended, _)) => Some(ended),
                Either::Right(((), _)) => None,
            };
            let (outcome, counts) = match ended {
                None => (Outcome::Overrun, Counts::new()),
                Some(Ok(Ok(counts))) => (Outcome::Done, counts),
                Some(Ok(Err(error))) => (Outcome::Failed(short(error)), Counts::new()),
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => {
                        (Outcome::Panicked(short(text(&*panic).to_owned())), Counts::new())
                    }
                    // The runtime was shut down.
                    Err(_) => (Outcome::Interrupted, Counts::new()),
                },
            };
            let took = self.clock().elapsed().saturating_sub(begun);
            Ran { chore: index, took, outcome, counts }
        };
        end.boxed()
    }

    /// Whether a run of the chore has not ended, though it may have been dropped.
    fn is_at_work(&self, index: usize) -> bool {
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.get(index).is_some_and(|run| run.strong_count() > 0)
    }

    fn clock(&self) -> &dyn Clock {
        self.lock.blob().account().clock()
    }
}

/// A janitor that leads.
struct Leader<'j> {
    janitor: &'j Janitor,
    held: Arc<Held>,
    time: ServiceTime,
    schedule: Schedule,
    is_unsaved: bool,
    /// When the schedule may be saved again, by [`Clock::elapsed`].
    save_at: Duration,
    begun: Vec<Begun>,
    running: FuturesUnordered<BoxFuture<'j, Ran>>,
    over: watch::Sender<bool>,
    /// Until when chores have to have ended, by [`Clock::elapsed`].
    limit: watch::Sender<Option<Duration>>,
    /// How the lease was lost, if it was.
    lost: watch::Receiver<Option<Lost>>,
    keeper: Owned<()>,
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
        let keeper = keeper::spawn(async move {
            let lost =
                match select(pin!(keeping.lost()), pin!(passed(account.clock(), limits))).await {
                    Either::Left((lost, _)) => lost,
                    // Renewed no longer, the lease ends by itself.
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
            begun: Vec::new(),
            running: FuturesUnordered::new(),
            over: watch::Sender::new(false),
            limit,
            lost,
            keeper,
        };
        let now = leader.now();
        for chore in &janitor.chores {
            leader.is_unsaved |= leader.schedule.note(chore.name(), now);
        }
        Ok(leader)
    }

    /// Begins what is due. Their beginning is saved first: a run that takes the process with it is not begun
    /// again at once by the next leader.
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
        let mut begun = Vec::new();
        for (chore, it) in due {
            if let Some(before) = self.schedule.begin(it.name(), now) {
                begun.push(Begun { chore, at: now, since, before });
            }
        }
        if begun.is_empty() {
            return;
        }
        if !self.save().await {
            for Begun { chore, before, .. } in begun {
                self.schedule.take_back(self.janitor.chores[chore].name(), before);
            }
            return;
        }
        for one in begun {
            let leadership =
                Leadership { held: Arc::clone(&self.held), is_over: self.over.subscribe() };
            self.running.push(self.janitor.run(one.chore, leadership));
            self.begun.push(one);
        }
    }

    /// Saves the schedule; says whether it is saved. When the lease is lost meanwhile, that is found next.
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
        let saving = pin!(on_thread(async move { held.save(text).await }));
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

    /// How long there is nothing to do.
    fn wait(&self) -> Duration {
        let now = self.now();
        let free = self.janitor.chores.iter().enumerate();
        let free = free.filter(|(index, _)| !self.begun.iter().any(|one| one.chore == *index));
        let next = free.map(|(_, chore)| self.schedule.due(chore)).min();
        let wait = next.and_then(|next| u64::try_from(next.saturating_sub(now)).ok());
        let wait = wait.map_or(LONGEST_WAIT, Duration::from_secs);
        // One that is due and still blocked is looked at again a second later.
        let wait = wait.max(Duration::from_secs(1)).min(LONGEST_WAIT);
        let elapsed = self.janitor.clock().elapsed();
        let again = self.save_at.saturating_sub(elapsed);
        if self.is_unsaved { wait.min(again) } else { wait.max(again) }
    }

    /// Tells the thread that renews the lease until when the chores at work have to have ended.
    fn watch(&self) {
        let ends = self.begun.iter().map(|one| {
            one.since
                .saturating_add(self.janitor.chores[one.chore].time_limit)
                .saturating_add(GRACE)
        });
        self.limit.send_replace(ends.min());
    }

    fn end(&mut self, ran: Ran) {
        let Some(report) = self.report(ran) else { return };
        if let Outcome::Interrupted = report.outcome {
            self.schedule.keep(&report);
        } else {
            let now = self.now();
            self.schedule.end(&report, now);
        }
        self.is_unsaved = true;
        self.janitor.tell(&report);
    }

    /// Drops the runs that have not ended, and takes them back: the next leader begins them at once.
    fn interrupt(&mut self) {
        self.running.clear();
        for Begun { chore, at, since, before } in std::mem::take(&mut self.begun) {
            self.schedule.take_back(self.janitor.chores[chore].name(), before);
            let report = self.unended(chore, at, since, Outcome::Interrupted);
            self.schedule.keep(&report);
            self.is_unsaved = true;
            self.janitor.tell(&report);
        }
    }

    /// Drops the runs that have not ended. The schedule is not this leader's to write any more.
    fn lose(&mut self) {
        self.over.send_replace(true);
        self.running.clear();
        for Begun { chore, at, since, .. } in std::mem::take(&mut self.begun) {
            let report = self.unended(chore, at, since, Outcome::Lost);
            self.janitor.tell(&report);
        }
    }

    /// Saves what is not saved, and lets another janitor lead.
    async fn stop(&mut self) {
        if self.is_unsaved {
            self.save().await;
        }
        self.keeper.0.abort();
        let is_at_work = || (0..self.janitor.chores.len()).any(|it| self.janitor.is_at_work(it));
        // What was dropped ends at its next await, in a thread of the runtime.
        for _ in 0..MAX_YIELDS {
            if !is_at_work() {
                return release(&self.held).await;
            }
            tokio::task::yield_now().await;
        }
        tracing::warn!("a chore blocks; the janitor's lease ends with its term");
    }

    fn report(&mut self, ran: Ran) -> Option<Report> {
        let at = self.begun.iter().position(|one| one.chore == ran.chore)?;
        let Begun { chore, at, since, .. } = self.begun.swap_remove(at);
        let report = self.unended(chore, at, since, ran.outcome);
        Some(Report { took: ran.took, counts: ran.counts, ..report })
    }

    fn unended(&self, chore: usize, at: i64, since: Duration, outcome: Outcome) -> Report {
        Report {
            chore: self.janitor.chores[chore].name().to_owned(),
            leader: self.held.token(),
            began: DateTime::from_timestamp(at, 0).unwrap_or_default(),
            took: self.janitor.clock().elapsed().saturating_sub(since),
            outcome,
            counts: Counts::new(),
        }
    }

    fn now(&self) -> i64 {
        self.time.now(self.janitor.clock())
    }
}

/// Whether an error may be gone at the next try.
fn passes(error: &Error) -> bool {
    error.is_retryable() || error.kind() == ErrorKind::Leased
}

/// Takes the lock, on the thread that renews: its connections belong to that one's runtime.
async fn acquire(lock: &LeaseLock) -> Result<Option<Held>> {
    let lock = lock.clone();
    on_thread(async move { lock.try_acquire().await }).await
}

/// Completes when the lease is lost.
async fn lost(mut lost: watch::Receiver<Option<Lost>>) -> Lost {
    // An error: the thread has ended, and renews no more.
    lost.wait_for(Option::is_some).await.ok().and_then(|lost| *lost).unwrap_or(Lost::Expired)
}

async fn release(held: &Arc<Held>) {
    let held = Arc::clone(held);
    if let Err(error) = on_thread(async move { held.release().await }).await {
        tracing::debug!(%error, "the janitor's lease ends with its term");
    }
}

async fn on_thread<R: Send + 'static>(
    request: impl Future<Output = Result<R>> + Send + 'static,
) -> Result<R> {
    let mut task = keeper::spawn(request)?;
    (&mut task.0).await.unwrap_or_else(|_| {
        Err(Error::refused(ErrorKind::Unexpected, "a request for the janitor's lock did not end"))
    })
}

/// Completes when the time has passed that is set.
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
            // The leader has ended, and this with it.
            std::future::pending::<()>().await;
        }
    }
}

/// A text with an end.
fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
    }
    text
}
