//! Workers: receive tasks from a queue, run their handler, and delete their messages last.
//!
//! - [`Worker`]: configuration, running, counters
//! - [`Workers`]: several workers that share a number of places
//! - [`Handler`], [`Attempt`], [`Done`]: the code that processes a task, its context, its result
//! - `run`: receiving, the circuit breaker and the shutdown
//! - `places`: how many tasks several workers process at a time, and whose is next
//! - `process`: one message, from its reception to its end
//! - `isolated`: the code of the program, in a task of the runtime for each message
//! - `hold`: keeps the message hidden from other workers while it is processed
//! - `ending`: decides how a message ends
//! - `apply`: deletes, retries or dead-letters the message as decided, and counts that

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rowkey_client::internals::shown;
use rowkey_client::queue::Message;
use rowkey_client::telemetry::{Telemetry, metrics};
use rowkey_client::{Clock, Queue, Result};
use rowkey_patterns::Waits;
use tokio::sync::{RwLock, watch};

mod apply;
mod ending;
mod handler;
mod hold;
mod isolated;
mod measure;
mod places;
mod process;
mod run;
mod workers;

pub use handler::{Attempt, Done, Handler};
pub use workers::{QueueCounts, Workers};

use crate::task::{Task, Tasks};
use handler::Phase;
use isolated::{Keys, Stuck};

/// The shortest wait of an idle worker. Without it, a `least` of zero would stay zero when doubled, and the
/// worker would poll the queue without pause.
const SHORTEST_IDLE: Duration = Duration::from_millis(10);

/// Receives tasks from a queue and runs a [`Handler`] for each.
///
/// ```
/// # use rowkey::worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
/// use rowkey::worker::{Attempt, Done, Step, Worker};
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
/// A message is deleted after its task was processed. If a worker dies before that, the message becomes
/// visible again. So **each task is processed at least once**, sometimes twice, and occasionally by two workers
/// at the same time. Handlers must tolerate that.
///
/// Each task is read and handled in its own task of the tokio runtime that polls the worker, so a panic
/// fails only its own message. A single thread per process renews all messages, so code that blocks costs no
/// other handler its message. Dropping a worker aborts its handlers at their current await. Several workers can
/// run in one program, in many programs, on many machines.
///
/// Time comes from the account's clock. With a manual clock that advances whenever a future waits, the timeout of
/// a message passes as soon as its handler waits, and the message is lost.
pub struct Worker<T, H> {
    tasks: Tasks<T>,
    handler: Arc<H>,
    max_attempts: u32,
    visibility: Duration,
    concurrency: Option<usize>,
    idle: Waits,
    retry: Waits,
    time_limit: Duration,
    patience: Duration,
    breaker: u32,
    shutdown_deadline: Duration,
    /// The queue with the connections of the renewal thread.
    renewals: Mutex<Option<Queue>>,
    /// The number of tasks that are read or handled.
    running: Arc<AtomicUsize>,
    common: Arc<Common>,
    /// The shutdown phase for messages that [`Worker::step`] received; it never changes.
    steps: watch::Sender<Phase>,
    counts: Mutex<Counts>,
}

/// What the tasks of workers that run together share.
#[derive(Default)]
struct Common {
    stuck: Arc<Stuck>,
    /// Write-locked by the task that is tried alone.
    alone: RwLock<()>,
    keys: Arc<Keys>,
}

/// What happened to the message that [`Worker::step`] received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it tells whether there was anything to do"]
pub enum Step {
    /// The task is received again, and the reception did not count as an attempt: a dependency is not
    /// available, the handler asked for it, or a newer program put the task.
    Deferred,
    /// The worker stopped before the task was done; other workers can receive it at once.
    HandedBack,
    /// The task was done.
    Handled,
    /// The queue had no message to receive.
    Idle,
    /// Another worker received the message before its task was done, or before it was deleted.
    Lost,
    /// The task is now a [dead letter](crate::dead_letters).
    Poisoned,
    /// The task failed and will be tried again.
    Retried,
    /// The task had already been done.
    Suppressed,
}

/// The counters of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Tasks that are being read or handled, with those whose code blocks after its time limit.
    pub at_work: usize,
    /// Receptions that did not count as attempts: see [`Step::Deferred`].
    pub deferred: u64,
    /// Messages that were returned to the queue when the worker stopped.
    pub handed_back: u64,
    /// Tasks that were done.
    pub handled: u64,
    /// Messages that another worker received before their tasks were done or before they were deleted.
    pub lost: u64,
    /// Attempts that exceeded their time limit.
    pub overrun: u64,
    /// Tasks that became dead letters.
    pub poisoned: u64,
    /// Attempts that failed and will be followed by another.
    pub retried: u64,
    /// Tasks that had already been done.
    pub suppressed: u64,
    /// Messages for which it is unknown whether they were deleted, hidden or recorded as dead letters. If not, they are
    /// received again.
    pub unknown: u64,
    /// The age of the oldest task in the last batch received: how far the workers are behind. Zero when the
    /// batch was empty.
    pub oldest: Duration,
}

/// Configuration.
impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Creates a worker that runs `handler` for the tasks in `tasks`. Sends nothing.
    pub fn new(tasks: Tasks<T>, handler: H) -> Self {
        Self {
            tasks,
            handler: Arc::new(handler),
            max_attempts: 5,
            visibility: Duration::from_secs(30),
            concurrency: None,
            idle: Waits::IDLE,
            retry: Waits::new(Duration::from_secs(2), Duration::from_secs(600)),
            time_limit: Duration::from_secs(3600),
            patience: Duration::from_secs(3 * 24 * 3600),
            breaker: 5,
            shutdown_deadline: Duration::from_secs(25),
            renewals: Mutex::default(),
            running: Arc::default(),
            common: Arc::default(),
            steps: watch::Sender::new(Phase::Running),
            counts: Mutex::default(),
        }
    }

    /// Sets how often a task is tried before it becomes a dead letter. Default: 5. The table at [`Handler`]
    /// says what counts as an attempt.
    ///
    /// Receptions without a known result (the worker died, a response was lost) are not attempts. After the
    /// same number of them in a row, the task is tried once while this worker runs nothing else, because
    /// another task may have killed the worker. If that has no known result either, the task becomes a dead
    /// letter.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # use rowkey::worker::{Attempt, Done, Step, Worker};
    /// # use rowkey::{Error, ErrorKind};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// tasks.put(&welcome("ada")).await?;
    /// let fails = |_: SendWelcome, _: Attempt| async {
    ///     Err::<Done, _>(Error::refused(ErrorKind::Unexpected, "the mail server said no"))
    /// };
    /// let worker = Worker::new(tasks, fails)
    ///     .max_attempts(2)
    ///     .retry_backoff(Duration::ZERO, Duration::ZERO);
    /// assert_eq!(worker.step().await?, Step::Retried);
    /// assert_eq!(worker.step().await?, Step::Poisoned);
    /// # Ok(()) }
    /// ```
    #[must_use = "use the returned worker"]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// Sets how long a message stays hidden when its worker dies, 1 second to 7 days. Default: 30 seconds.
    /// While a handler runs, the timeout is renewed after each third of it.
    #[must_use = "use the returned worker"]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = visibility;
        self
    }

    /// Sets the time limit of a handler. Default: an hour. A handler that exceeds it is dropped at its
    /// current await, and the attempt has failed; the message is no longer renewed.
    ///
    /// Code that blocks cannot be stopped. It keeps its thread and the lock of its [key](Task::key), but neither
    /// its message nor its concurrency slot: another task is received. [`Counts::at_work`] counts it until it
    /// ends; until then a task that waits for a key, or has to be tried alone, is deferred.
    #[must_use = "use the returned worker"]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the message age after which transient failures, and tasks that this program does not know, count
    /// as attempts. Default: 3 days.
    #[must_use = "use the returned worker"]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many consecutive transient failures make [`run_until`](Self::run_until) stop receiving.
    /// Default: 5. It then waits as long as an [idle](Self::idle_backoff) worker, and at least as long as the
    /// service asked for (`Retry-After`), and receives one message. If that one does not fail in this way,
    /// normal operation resumes.
    #[must_use = "use the returned worker"]
    pub fn breaker(mut self, failures: u32) -> Self {
        self.breaker = failures.max(1);
        self
    }

    /// Sets how long [`run_until`](Self::run_until) lets handlers continue after `shutdown`. Default: 25
    /// seconds, less than the 30 that Kubernetes allows. After that they are dropped, and other workers can
    /// receive their messages at once; this does not count as an attempt.
    #[must_use = "use the returned worker"]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Sets how many tasks [`run_until`](Self::run_until) processes concurrently. Default: 1. Among [`Workers`]:
    /// how many of their places this worker takes at once; by default all.
    #[must_use = "use the returned worker"]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = Some(tasks.max(1));
        self
    }

    /// Sets how long [`run_until`](Self::run_until) waits when the queue is empty: `least` at first, then
    /// doubled each time up to `most`, with random jitter of up to a half. Both are at least 10 milliseconds.
    /// A put through the same [`Tasks`] or a clone of it ends the wait. Default: 1 to 30 seconds.
    #[must_use = "use the returned worker"]
    pub fn idle_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.idle = Waits::new(least.max(SHORTEST_IDLE), most.max(SHORTEST_IDLE));
        self
    }

    /// Sets how long a failed task waits for its next attempt: `least` after the first, then doubled each
    /// time up to `most` (at most 7 days), with random jitter of up to a half, in whole seconds. Default: 2
    /// seconds to 10 minutes.
    #[must_use = "use the returned worker"]
    pub fn retry_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.retry = Waits::new(least, most);
        self
    }
}

/// Running.
impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Receives one message and processes it to the end.
    ///
    /// Fails if receiving failed, or if the message could not be deleted, hidden or recorded as a dead letter; then it
    /// is received again, unless that succeeded after all.
    pub async fn step(&self) -> Result<Step> {
        let Batch { asked, messages } = self.receive(1).await?;
        let Some(message) = messages.into_iter().next() else { return Ok(Step::Idle) };
        Ok(self.work(message, asked, self.steps.subscribe()).await?.0)
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        Counts { at_work: self.at_work(), ..*self.counting() }
    }

    /// The tasks that the worker processes.
    pub fn tasks(&self) -> &Tasks<T> {
        &self.tasks
    }
}

/// Messages, and the time of the request for them; their visibility timeout began later.
struct Batch {
    /// By [`Clock::elapsed`].
    asked: Duration,
    messages: Vec<Message>,
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// How many tasks it processes concurrently.
    fn most_at_once(&self, default: usize) -> usize {
        self.concurrency.unwrap_or(default)
    }

    async fn receive(&self, room: usize) -> Result<Batch> {
        let count = u32::try_from(room).unwrap_or(u32::MAX);
        let asked = self.clock().elapsed();
        let messages = self.tasks.queue().receive(count, self.visibility).await?;
        let now = self.clock().now();
        let ages = messages.iter().filter_map(|message| (now - message.inserted).to_std().ok());
        let oldest = ages.max().unwrap_or_default();
        self.counting().oldest = oldest;
        let label = [self.label()];
        self.telemetry().gauge(metrics::WORKER_OLDEST.name, &label, oldest.as_secs_f64());
        Ok(Batch { asked, messages })
    }

    /// The queue for renewals, with connections that only the renewal thread drives.
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

    fn telemetry(&self) -> &dyn Telemetry {
        self.tasks.queue().account().telemetry()
    }

    /// The metric label with the queue's name.
    fn label(&self) -> (&'static str, &str) {
        ("messaging.destination.name", self.tasks.queue().name())
    }

    fn clock(&self) -> &dyn Clock {
        self.tasks.queue().account().clock()
    }

    fn counting(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

shown!([T, H] Worker<T, H>: tasks, max_attempts, visibility, concurrency);
