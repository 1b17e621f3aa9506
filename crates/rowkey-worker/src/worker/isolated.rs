//! The tokio task of a message: all code of the program that handles the message runs in it.
//!
//! That is reading the task (`Deserialize`, the key ring), `Task::key`, the handler, and dropping their values.
//! A panic there fails only this message. The key of a task stays locked until its own task has ended, even if it
//! was aborted and blocks its thread.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use rowkey_client::Queue;
use rowkey_client::telemetry::{TraceParent, metrics};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, watch};
use tracing::Instrument as _;

use super::ending::{Failure, Processed};
use super::measure::Timer;
use super::{Attempt, Done, Handler};
use crate::dead_letters::Cause;
use crate::panics::{spawn, text};
use crate::renewal_thread::AbortOnDrop;
use crate::task::{Envelope, Loaded, Task, Tasks};

/// How long to wait for a task that was aborted. At an await it ends at once.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The shortest time limit for fetching and decrypting a task: a service that does not answer is no failure of the
/// task.
const FETCHING: Duration = Duration::from_secs(600);

/// What a message's own task of the runtime needs.
pub(super) struct Isolated<T, H> {
    pub(super) tasks: Tasks<T>,
    pub(super) handler: Arc<H>,
    pub(super) envelope: Envelope,
    pub(super) attempt: Attempt,
    pub(super) keys: Arc<Keys>,
    pub(super) stuck: Arc<Stuck>,
    pub(super) time_limit: Duration,
}

impl<T: Task, H: Handler<T>> Isolated<T, H> {
    async fn run(self) -> Processed {
        let Self { tasks, handler, envelope, attempt, keys, stuck, time_limit } = self;
        let hold = Arc::clone(&attempt.hold);
        hold.limit(time_limit.max(FETCHING));
        let reading = async {
            let task = read(&tasks, &envelope, || hold.limit(time_limit)).await?;
            let key = task.key();
            Ok((task, key))
        };
        let (task, key) = match AssertUnwindSafe(reading).catch_unwind().await {
            Ok(Ok(read)) => read,
            Ok(Err(end)) => return end,
            Err(panic) => {
                return Processed::Failed(Failure::panicked("reading the task", &text(panic)));
            }
        };
        // Declared before everything that the handler leaves, so it is dropped after that.
        let _locked = match key {
            None => None,
            Some(key) => {
                // Others with this key may take their time.
                hold.limit(Duration::MAX);
                let Some(locked) = stuck.unless(keys.lock((T::KIND, key))).await else {
                    tracing::warn!("a handler blocks that may have the key of the task");
                    return Processed::Blocked { has_begun: true };
                };
                Some(locked)
            }
        };
        hold.limit(time_limit);
        let queue = tasks.queue();
        let label = ("messaging.destination.name", queue.name());
        queue.account().telemetry().count(metrics::WORKER_ATTEMPTS.name, &[label], 1);
        let timer = Timer::begin(queue);
        let handled = async {
            match handler.handle(task, attempt).await {
                Ok(done) => Processed::Done(done),
                Err(error) => Processed::Failed(Failure::from(&error)),
            }
        };
        let handled = AssertUnwindSafe(in_trace(envelope.trace, handled)).catch_unwind();
        let processed = match handled.await {
            Ok(processed) => processed,
            Err(panic) => Processed::Failed(Failure::panicked("the handler", &text(panic))),
        };
        timer.end(&processed);
        processed
    }

    /// Starts the task. What is in `working` is dropped when it has ended, even if nothing awaits it.
    pub(super) fn begin(self, working: watch::Sender<()>, running: &Arc<AtomicUsize>) -> Running {
        let stuck = Arc::clone(&self.stuck);
        let counted = CountGuard::new(running, self.tasks.queue());
        Running::spawn(self.run().boxed(), (counted, working), stuck)
    }
}

/// Reads the task of a message, or says what becomes of the message.
async fn read<T: Task>(
    tasks: &Tasks<T>,
    envelope: &Envelope,
    fetched: impl FnOnce() + Send,
) -> Result<T, Processed> {
    let unreadable =
        |reason: String| Processed::Unprocessable(Failure::new(Cause::Unreadable, reason));
    match tasks.load(envelope, fetched).await {
        Ok(Loaded::Task(task)) => Ok(task),
        Ok(Loaded::Done) => Err(Processed::Done(Done::AlreadyApplied)),
        Ok(Loaded::Gone) => Err(unreadable("the blob with its task is gone".to_owned())),
        Ok(Loaded::Newer(reason)) => {
            tracing::warn!(reason, "a newer program put the task");
            Err(Processed::Newer(reason))
        }
        Ok(Loaded::Unreadable(reason)) => Err(unreadable(reason)),
        Err(error) => Err(Processed::Failed(Failure::from(&error))),
    }
}

async fn in_trace<R>(trace: Option<TraceParent>, work: impl Future<Output = R>) -> R {
    match trace {
        Some(trace) => trace.scope(work).await,
        None => work.await,
    }
}

/// The running task of a message, which is aborted when this is dropped.
pub(super) struct Running {
    task: AbortOnDrop<Processed>,
    ended: watch::Receiver<()>,
    stuck: Arc<Stuck>,
}

impl Running {
    /// Compiled once, and not for each handler.
    fn spawn(
        work: BoxFuture<'static, Processed>,
        kept: (CountGuard, watch::Sender<()>),
        stuck: Arc<Stuck>,
    ) -> Self {
        let ended = kept.1.subscribe();
        let work = async move {
            let _kept = kept;
            work.await
        };
        Self { task: AbortOnDrop(spawn(work.in_current_span())), ended, stuck }
    }

    pub(super) async fn end(mut self) -> Processed {
        (&mut self.task.0).await.unwrap_or_else(|error| Processed::Failed(Failure::of(error)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.0.abort();
        if self.task.0.is_finished() {
            return;
        }
        // Without a runtime, nothing runs any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(Arc::clone(&self.stuck).count(self.ended.clone()));
        }
    }
}

/// The number of tasks that were aborted and have not ended, because they block their threads.
pub(super) struct Stuck(watch::Sender<usize>);

impl Default for Stuck {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Stuck {
    pub(super) fn is_any(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Awaits a lock, unless a task that cannot be stopped may never release it.
    async fn unless<R>(&self, lock: impl Future<Output = R>) -> Option<R> {
        let mut stuck = self.0.subscribe();
        let is_any = async { drop(stuck.wait_for(|stuck| *stuck > 0).await) };
        match select(pin!(lock), pin!(is_any)).await {
            Either::Left((locked, _)) => Some(locked),
            Either::Right(((), _)) => None,
        }
    }

    /// Counts an aborted task from the end of the [`GRACE`] until it ends.
    async fn count(self: Arc<Self>, mut ended: watch::Receiver<()>) {
        // Nothing is ever sent: a change is the end of the sender.
        if tokio::time::timeout(GRACE, ended.changed()).await.is_ok() {
            return;
        }
        tracing::error!("a handler blocks its thread and continues after it was aborted");
        self.0.send_modify(|stuck| *stuck += 1);
        drop(ended.changed().await);
        self.0.send_modify(|stuck| *stuck -= 1);
    }
}

/// Counts a task of a queue that has not ended, for [`Counts`](super::Counts) and as a metric.
struct CountGuard {
    running: Arc<AtomicUsize>,
    queue: Queue,
}

impl CountGuard {
    fn new(running: &Arc<AtomicUsize>, queue: &Queue) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        let guard = Self { running: Arc::clone(running), queue: queue.clone() };
        guard.tell(1);
        guard
    }

    /// Changes the metric, which all workers of the queue share.
    fn tell(&self, change: i64) {
        let label = ("messaging.destination.name", self.queue.name());
        let telemetry = self.queue.account().telemetry();
        telemetry.adjust(metrics::WORKER_IN_FLIGHT.name, &[label], change);
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.tell(-1);
    }
}

/// The kind and the key of a task.
type KeyOfKind = (&'static str, String);

/// Locks by kind and key. A lock exists while a task holds or awaits it.
#[derive(Default)]
pub(super) struct Keys(Mutex<HashMap<KeyOfKind, Arc<tokio::sync::Mutex<()>>>>);

/// The lock of a key, or a place among those that await it.
struct Locked {
    keys: Arc<Keys>,
    key: KeyOfKind,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keys {
    async fn lock(self: &Arc<Self>, key: KeyOfKind) -> Locked {
        let lock = Arc::clone(self.map().entry(key.clone()).or_default());
        let mut locked = Locked { keys: Arc::clone(self), key, guard: None };
        locked.guard = Some(lock.lock_owned().await);
        locked
    }

    fn map(&self) -> MutexGuard<'_, HashMap<KeyOfKind, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut map = self.keys.map();
        self.guard = None;
        // The map's reference alone: no other task holds or awaits the lock.
        if map.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            map.remove(&self.key);
        }
    }
}
