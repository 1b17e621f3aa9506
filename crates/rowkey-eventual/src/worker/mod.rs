//! A worker: takes tasks from a queue, has them done, and deletes their messages last.
//!
//! - [`Worker`]: what it takes, how much of it, and when it stops
//! - [`Handler`], [`Attempt`], [`Done`]: what does the work, and what it is told
//! - `hold`: the message stays hidden from others while it is worked on
//! - `settle`: what becomes of the message afterwards

use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher as _, RandomState};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey::queue::Message;
use rowkey::{Clock, Result};

mod handler;
mod hold;
mod settle;

pub use handler::{Attempt, Done, Handler};

use crate::task::{Task, Tasks};

/// The shortest wait of an idle worker. Without one, a `least` of zero would be doubled to zero for
/// ever, and the queue asked without pause.
const SHORTEST_IDLE: Duration = Duration::from_millis(10);

/// The most messages that one request receives.
const MAX_RECEIVED: usize = 32;

/// Takes tasks from a queue and has them done by a [`Handler`].
///
/// ```
/// # use rowkey_eventual::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
/// use rowkey_eventual::worker::{Attempt, Done, Step, Worker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
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
/// A message is deleted after its task was done. Whoever dies before leaves it to become visible
/// again; so **each task is done at least once**, sometimes twice, and now and then by two workers at
/// the same time. Handlers have to bear that.
///
/// A worker spawns nothing: it works while it is polled, and several may run in one program, in many
/// programs, on many machines. It takes the time from the account's clock; with a clock that moves on
/// when somebody waits, messages are lost as soon as they are waited for.
pub struct Worker<T, H> {
    tasks: Tasks<T>,
    handler: H,
    max_attempts: u32,
    visibility: Duration,
    concurrency: usize,
    idle: (Duration, Duration),
    retry: (Duration, Duration),
    counts: Mutex<Counts>,
    random: RandomState,
    drawn: AtomicU64,
}

/// What became of the message that [`Worker::step`] received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether there was anything to do"]
pub enum Step {
    /// The task was done.
    Handled,
    /// There was none to receive.
    Idle,
    /// The message became somebody else's before its task was done, or before it was deleted.
    Lost,
    /// The task is in the poison queue.
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
    /// Tasks that were done.
    pub handled: u64,
    /// Messages that became somebody else's before their tasks were done or they were deleted.
    pub lost: u64,
    /// Tasks that went to the poison queue.
    pub poisoned: u64,
    /// Attempts that failed and are followed by another.
    pub retried: u64,
    /// Tasks that had been done before.
    pub suppressed: u64,
    /// Messages of which nobody knows whether they were deleted, hidden or poisoned. They come again
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
            handler,
            max_attempts: 5,
            visibility: Duration::from_secs(30),
            concurrency: 1,
            idle: (Duration::from_secs(1), Duration::from_secs(30)),
            retry: (Duration::from_secs(2), Duration::from_secs(600)),
            counts: Mutex::default(),
            random: RandomState::new(),
            drawn: AtomicU64::new(0),
        }
    }

    /// How often a task is tried before it goes to the poison queue. Default: 5. Attempts that ended
    /// with their worker count, too.
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

    /// How many tasks [`run_until`](Self::run_until) works on at the same time. Default: 1.
    #[must_use = "the worker itself is what is set up"]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = tasks.max(1);
        self
    }

    /// How long [`run_until`](Self::run_until) waits when there is nothing to receive: `least` at
    /// first, then twice as long each time up to `most`, spread at random by up to a half. Both are at
    /// least 10 milliseconds. Default: 1 to 30 seconds.
    #[must_use = "the worker itself is what is set up"]
    pub fn idle_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.idle = (least.max(SHORTEST_IDLE), most.max(SHORTEST_IDLE));
        self
    }

    /// How long a task that failed waits for its next attempt: `least` after the first, then twice as
    /// long each time up to `most`, 7 days at most, spread at random by up to a half, in whole
    /// seconds. Default: 2 seconds to 10 minutes.
    #[must_use = "the worker itself is what is set up"]
    pub fn retry_backoff(mut self, least: Duration, most: Duration) -> Self {
        self.retry = (least, most);
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
        self.work(message, asked).await
    }

    /// Receives and works until `shutdown` completes; then tasks that were received are finished, and
    /// no more are taken. Returns what this worker has done so far.
    ///
    /// What fails now and then is logged, and waited for. Fails with what does not pass by itself, as
    /// a queue that is missing or a credential that is refused, after tasks that were received are
    /// finished.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Counts> {
        let mut shutdown = pin!(shutdown);
        let mut at_work = FuturesUnordered::new();
        // A request that receives is let come to its end: what it received would be hidden from
        // everybody for a while.
        let mut taking = None;
        let mut pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        let mut quiet = 0;
        let mut stopping = false;
        let mut failure = None;
        loop {
            let room = self.room(at_work.len());
            if !stopping && taking.is_none() && pause.is_none() && room > 0 {
                taking = Some(Box::pin(self.receive(room)));
            }
            if stopping && taking.is_none() && at_work.is_empty() {
                break;
            }
            let event = poll_fn(|context| {
                if !stopping && shutdown.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Event::Shutdown);
                }
                if let Poll::Ready(Some(result)) = at_work.poll_next_unpin(context) {
                    return Poll::Ready(Event::Settled(result));
                }
                if let Some(taking) = &mut taking {
                    return taking.as_mut().poll(context).map(Event::Received);
                }
                match &mut pause {
                    Some(pause) if !stopping => {
                        pause.as_mut().poll(context).map(|()| Event::Paused)
                    }
                    _ => Poll::Pending,
                }
            });
            match event.await {
                Event::Paused => pause = None,
                Event::Received(received) => {
                    taking = None;
                    match received {
                        Ok(Batch { messages, .. }) if messages.is_empty() => {}
                        Ok(Batch { asked, messages }) => {
                            quiet = 0;
                            at_work.extend(messages.into_iter().map(|it| self.work(it, asked)));
                            continue;
                        }
                        Err(error) if error.is_retryable() => {
                            tracing::warn!(%error, "nothing could be received");
                        }
                        Err(error) => {
                            failure = Some(error);
                            stopping = true;
                        }
                    }
                    pause = Some(self.clock().sleep(self.wait(self.idle, quiet)));
                    quiet += 1;
                }
                Event::Settled(Err(error)) => {
                    tracing::warn!(%error, "a message is not settled, and may come again");
                }
                Event::Settled(Ok(_)) => {}
                Event::Shutdown => stopping = true,
            }
        }
        failure.map_or_else(|| Ok(self.counts()), Err)
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        *self.counting()
    }

    /// The tasks that it takes.
    pub fn tasks(&self) -> &Tasks<T> {
        &self.tasks
    }
}

/// What a running worker waits for.
enum Event {
    Paused,
    Received(Result<Batch>),
    Settled(Result<Step>),
    Shutdown,
}

/// Messages, and when they were asked for: what hides them began later.
struct Batch {
    asked: DateTime<Utc>,
    messages: Vec<Message>,
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    async fn receive(&self, room: usize) -> Result<Batch> {
        let count = u32::try_from(room).unwrap_or(u32::MAX);
        let asked = self.clock().now();
        let messages = self.tasks.queue().receive(count, self.visibility).await?;
        let now = self.clock().now();
        let ages = messages.iter().filter_map(|message| (now - message.inserted).to_std().ok());
        self.counting().oldest = ages.max().unwrap_or_default();
        Ok(Batch { asked, messages })
    }

    /// How many messages there is room for.
    fn room(&self, at_work: usize) -> usize {
        self.concurrency.saturating_sub(at_work).min(MAX_RECEIVED)
    }

    /// `least`, doubled as often as that, at most `most`, and of this between a half and all.
    fn wait(&self, (least, most): (Duration, Duration), doubled: u32) -> Duration {
        let longest = least.saturating_mul(2_u32.saturating_pow(doubled)).min(most);
        let drawn = self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed));
        // 16 bits are plenty, and exact.
        let fraction = f64::from(u16::try_from(drawn & 0xFFFF).unwrap_or_default()) / 65536.0;
        longest.mul_f64(0.5 + fraction / 2.0)
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
