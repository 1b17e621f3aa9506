//! A worker: takes tasks from a queue, has them done, and deletes their messages last.
//!
//! - [`Worker`]: what it takes, how much of it, and when it stops
//! - [`Handler`], [`Attempt`], [`Done`]: what does the work, and what it is told
//! - `run`: receiving, the circuit breaker and the shutdown
//! - `attempt`: whether there is to be one, and the handler in a task of its own
//! - `hold`: the message stays hidden from others while it is worked on
//! - `settle`: what becomes of the message afterwards

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rowkey::queue::Message;
use rowkey::telemetry::Telemetry;
use rowkey::{Clock, Queue, Result};
use rowkey_store::Waits;
use tokio::sync::{RwLock, watch};

pub(crate) mod attempt;
mod handler;
mod hold;
mod run;
mod settle;

pub use handler::{Attempt, Done, Handler};

use crate::task::{Task, Tasks};
use attempt::Keys;
use handler::Phase;

/// The shortest wait of an idle worker. Without one, a `least` of zero would be doubled to zero for
/// ever, and the queue asked without pause.
const SHORTEST_IDLE: Duration = Duration::from_millis(10);

/// Takes tasks from a queue and has them done by a [`Handler`].
///
/// ```
/// # use rowkey_worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
/// use rowkey_worker::worker::{Attempt, Done, Step, Worker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
/// tasks.create_if_missing().await?;
/// tasks.put(&SendWelcome { to: "ada@contoso.com".into() }).await?;
///
/// let worker = Worker::new(tasks, |task: SendWelcome, _: Attempt| async move {
///     Ok(match task.to.contains('@') {
///         true => Done::Applied,
///         false => Done::Poison("that is no address".into()),
///     })
/// });
/// assert_eq!(worker.step().await?, Step::Handled);
/// assert_eq!(worker.step().await?, Step::Idle);
/// # Ok(())
/// # }
/// ```
///
/// A message is deleted after its task was done. A worker that dies before leaves it to become visible
/// again; so **each task is done at least once**, sometimes twice, and now and then by two workers at
/// the same time. Handlers have to bear that.
///
/// Each handler runs in a task of its own of the tokio runtime that the worker is polled in: its panic is
/// a failure of its message and of no other. Messages are renewed by a thread of their own, one in the
/// process, so code that blocks costs no neighbour its message. A worker that is dropped ends its handlers
/// at the await that they have reached. Several may run in one program, in many programs, on many machines.
///
/// It takes the time from the account's clock; with a clock that moves on when something waits, messages
/// are lost as soon as they are waited for.
pub struct Worker<T, H> {
    tasks: Tasks<T>,
    handler: Arc<H>,
    max_attempts: u32,
    visibility: Duration,
    concurrency: usize,
    idle: Waits,
    retry: Waits,
    time_limit: Duration,
    patience: Duration,
    breaker: u32,
    shutdown_deadline: Duration,
    /// The queue with the connections of the thread that renews.
    renewals: Mutex<Option<Queue>>,
    /// Handlers that have not ended.
    running: Arc<AtomicUsize>,
    /// Written by the task that is tried alone.
    alone: RwLock<()>,
    keys: Keys,
    /// For messages that no running worker has received.
    steps: watch::Sender<Phase>,
    counts: Mutex<Counts>,
}

/// What became of the message that [`Worker::step`] received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether there was anything to do"]
pub enum Step {
    /// The task comes again, and that was no attempt: what it depends on is not available, the handler
    /// asked for it, or a newer program put it.
    Deferred,
    /// The worker stopped before the task was done, and others receive it at once.
    HandedBack,
    /// The task was done.
    Handled,
    /// There was none to receive.
    Idle,
    /// Another worker received the message before its task was done, or before it was deleted.
    Lost,
    /// The task is a [dead letter](crate::dead_letters).
    Poisoned,
    /// The task failed and will be tried again.
    Retried,
    /// The task had been done before.
    Suppressed,
}

/// What a worker has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Handlers that have not ended: those at work, and those that block after their time was over.
    pub at_work: usize,
    /// Receptions that were no attempts: see [`Step::Deferred`].
    pub deferred: u64,
    /// Messages that others received at once when the worker stopped.
    pub handed_back: u64,
    /// Tasks that were done.
    pub handled: u64,
    /// Messages that another worker received before their tasks were done or they were deleted.
    pub lost: u64,
    /// Attempts that took longer than their time limit.
    pub overrun: u64,
    /// Tasks that became dead letters.
    pub poisoned: u64,
    /// Attempts that failed and are followed by another.
    pub retried: u64,
    /// Tasks that had been done before.
    pub suppressed: u64,
    /// Messages of which it is unknown whether they were deleted, hidden or poisoned. They come again
    /// if they were not.
    pub unsettled: u64,
    /// How long ago the oldest of the tasks that were received last was put: how far the workers are
    /// behind. Zero when there were none.
    pub oldest: Duration,
}

/// How it is set up.
impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// A worker that has `handler` do what is in `tasks`. Nothing is sent.
    pub fn new(tasks: Tasks<T>, handler: H) -> Self {
        Self {
            tasks,
            handler: Arc::new(handler),
            max_attempts: 5,
            visibility: Duration::from_secs(30),
            concurrency: 1,
            idle: Waits::IDLE,
            retry: Waits::new(Duration::from_secs(2), Duration::from_secs(600)),
            time_limit: Duration::from_secs(3600),
            patience: Duration::from_secs(3 * 24 * 3600),
            breaker: 5,
            shutdown_deadline: Duration::from_secs(25),
            renewals: Mutex::default(),
            running: Arc::default(),
            alone: RwLock::default(),
            keys: Keys::default(),
            steps: watch::Sender::new(Phase::Running),
            counts: Mutex::default(),
        }
    }

    /// How often a task is tried before it becomes a dead letter. Default: 5. The table at [`Handler`]
    /// says what counts.
    ///
    /// Receptions of unknown end (the worker died, an answer was lost) are not attempts. After as many of
    /// them in a row the task is tried once while this worker does nothing else, because the worker may
    /// have died of another task; if that has no known end either, it becomes a dead letter.
    #[must_use = "the worker itself is what is set up"]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// How long a message stays hidden when its worker dies, 1 second to 7 days. Default: 30 seconds.
    /// While a handler works this begins anew each third of it.
    #[must_use = "the worker itself is what is set up"]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = visibility;
        self
    }

    /// How long a handler may take. Default: an hour. After it the handler is dropped at the await it has
    /// reached, and the attempt has failed; the message is renewed no longer.
    ///
    /// Code that blocks cannot be stopped. It keeps its thread, but neither its message nor its place:
    /// another task is received. [`Counts::at_work`] counts it until it ends.
    #[must_use = "the worker itself is what is set up"]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// How old a message becomes before its transient failures, and being a task that this program does
    /// not know, count as attempts. Default: 3 days.
    #[must_use = "the worker itself is what is set up"]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// After how many transient failures in a row [`run_until`](Self::run_until) stops receiving. Default:
    /// 5. It waits as long as an [idle](Self::idle_backoff) worker does, at least as long as the service
    /// asked for (`Retry-After`), and then receives one message; when that one ends otherwise, it goes on.
    #[must_use = "the worker itself is what is set up"]
    pub fn breaker(mut self, failures: u32) -> Self {
        self.breaker = failures.max(1);
        self
    }

    /// How long [`run_until`](Self::run_until) lets handlers go on after `shutdown`. Default: 25 seconds,
    /// less than the 30 that Kubernetes leaves. Then they are dropped, and other workers receive their
    /// messages at once; that is no attempt.
    #[must_use = "the worker itself is what is set up"]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// How many tasks [`run_until`](Self::run_until) works on at the same time. Default: 1.
    #[must_use = "the worker itself is what is set up"]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = tasks.max(1);
        self
    }

    /// How long [`run_until`](Self::run_until) waits when there is nothing to receive, unless this program
    /// puts a task with the same [`Tasks`] or a clone of them: `least` at
    /// first, then twice as long each time up to `most`, spread at random by up to a half. Both are at
    /// least 10 milliseconds. Default: 1 to 30 seconds.
    #[must_use = "the worker itself is what is set up"]
    pub fn idle_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.idle = Waits::new(least.max(SHORTEST_IDLE), most.max(SHORTEST_IDLE));
        self
    }

    /// How long a task that failed waits for its next attempt: `least` after the first, then twice as
    /// long each time up to `most`, 7 days at most, spread at random by up to a half, in whole
    /// seconds. Default: 2 seconds to 10 minutes.
    #[must_use = "the worker itself is what is set up"]
    pub fn retry_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.retry = Waits::new(least, most);
        self
    }
}

/// How it works.
impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Receives one message and works on it to the end.
    ///
    /// Fails when nothing could be received, or when the message could not be settled: it comes again
    /// if it was not.
    pub async fn step(&self) -> Result<Step> {
        let Batch { asked, messages } = self.receive(1).await?;
        let Some(message) = messages.into_iter().next() else { return Ok(Step::Idle) };
        Ok(self.work(message, asked, self.steps.subscribe()).await?.step)
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        Counts { at_work: self.at_work(), ..*self.counting() }
    }

    /// The tasks that it takes.
    pub fn tasks(&self) -> &Tasks<T> {
        &self.tasks
    }
}

/// Messages, and when they were asked for: what hides them began later.
struct Batch {
    /// By [`Clock::elapsed`].
    asked: Duration,
    messages: Vec<Message>,
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    async fn receive(&self, room: usize) -> Result<Batch> {
        let count = u32::try_from(room).unwrap_or(u32::MAX);
        let asked = self.clock().elapsed();
        let messages = self.tasks.queue().receive(count, self.visibility).await?;
        let now = self.clock().now();
        let ages = messages.iter().filter_map(|message| (now - message.inserted).to_std().ok());
        let oldest = ages.max().unwrap_or_default();
        self.counting().oldest = oldest;
        let label = [self.label()];
        self.telemetry().gauge("rowkey.worker.oldest", &label, oldest.as_secs_f64());
        Ok(Batch { asked, messages })
    }

    /// The queue for renewals, with connections that no other thread drives.
    fn renewals(&self) -> Result<Queue> {
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*renewals {
            return Ok(queue.clone());
        }
        let queue = self.tasks.queue();
        let account = queue.account().with_own_connections()?;
        let own = account.queue(queue.name()).with_options(queue.account().options().clone());
        Ok(renewals.insert(own).clone())
    }

    /// Tells how many handlers have not ended.
    fn tell_in_flight(&self) {
        let in_flight = u32::try_from(self.at_work()).unwrap_or(u32::MAX);
        self.telemetry().gauge("rowkey.worker.in_flight", &[self.label()], in_flight.into());
    }

    fn telemetry(&self) -> &dyn Telemetry {
        self.tasks.queue().account().telemetry()
    }

    /// What tells the numbers of this queue from those of others.
    fn label(&self) -> (&'static str, &str) {
        ("queue", self.tasks.queue().name())
    }

    fn clock(&self) -> &dyn Clock {
        self.tasks.queue().account().clock()
    }

    fn counting(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, H> fmt::Debug for Worker<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("tasks", &self.tasks)
            .field("max_attempts", &self.max_attempts)
            .field("visibility", &self.visibility)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
