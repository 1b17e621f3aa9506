//! Attempts: decides whether a message is processed, and runs the handler in its own task.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rowkey::queue::Message;
use rowkey::telemetry::TraceParent;
use rowkey::{Error, ErrorKind};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

use super::{Attempt, Done, Handler};
use crate::dead_letters::Cause;
use crate::renewal_thread::AbortOnDrop;
use crate::task::Envelope;

/// How to process a task that was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// While no other task runs, because earlier attempts ended without a known result.
    Alone,
    /// Put it aside, with cause and reason.
    Poison(Cause, String),
    Together,
}

/// How often a message was received without a known result: its worker died, or a response was lost.
fn unknown(envelope: &Envelope, message: &Message) -> u32 {
    message.dequeue_count.saturating_sub(1).saturating_sub(envelope.receptions)
}

/// Decides by the number of counted attempts and of receptions without a known result.
///
/// If a process dies, all tasks that it was processing end without a known result, and one of them may have
/// caused that. So a task becomes a dead letter for this cause only after it was tried alone.
pub(super) fn handling(envelope: &Envelope, message: &Message, max_attempts: u32) -> Handling {
    let unknown = unknown(envelope, message);
    if envelope.attempts >= max_attempts {
        let last = envelope.history.last();
        let cause = last.and_then(|failure| failure.cause.as_deref());
        let cause = cause.map_or(Cause::UnknownEnd, Cause::from);
        let last = last.map_or("unknown", |failure| &failure.error);
        let reason = format!("it was tried {} times; the last failure: {last}", envelope.attempts);
        return Handling::Poison(cause, reason);
    }
    if envelope.alone && unknown > 0 {
        let reason = format!(
            "it was received {} times and never completed, even when tried alone",
            message.dequeue_count
        );
        return Handling::Poison(Cause::UnknownEnd, reason);
    }
    if unknown >= max_attempts { Handling::Alone } else { Handling::Together }
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) text: String,
    pub(super) cause: Cause,
    pub(super) is_transient: bool,
    /// How long the service asked the client to wait.
    pub(super) wait: Option<Duration>,
}

impl Failure {
    /// A failure that counts as an attempt.
    pub(super) fn counted(cause: Cause, text: impl Into<String>) -> Self {
        Self { text: text.into(), cause, is_transient: false, wait: None }
    }

    fn of(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(panic) => {
                Self::counted(Cause::Panic, format!("the handler panicked: {}", text(&*panic)))
            }
            Err(_) => Self {
                is_transient: true,
                ..Self::counted(
                    Cause::UnknownEnd,
                    "the runtime was shut down while the handler ran",
                )
            },
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let kind = error.kind();
        Self {
            text: error.to_string(),
            cause: Cause::Error(kind),
            is_transient: matches!(kind, ErrorKind::Throttled | ErrorKind::Unavailable),
            wait: error.details().retry_after,
        }
    }
}

/// The message of a panic.
pub(crate) fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

/// Held by a handler while it exists; the receiver learns when the handler ends.
pub(super) type Working = oneshot::Sender<()>;

/// A running handler in its own task, which is aborted when this is dropped.
pub(super) struct Running(AbortOnDrop<rowkey::Result<Done>>);

impl Running {
    /// Starts the handler. The last argument is dropped, and so counted down, when the handler has ended,
    /// even if nothing awaits it.
    pub(super) fn begin<T: Send + 'static, H: Handler<T>>(
        handler: &Arc<H>,
        task: T,
        attempt: Attempt,
        trace: Option<TraceParent>,
        (working, running): (Working, &Arc<AtomicUsize>),
    ) -> Self {
        let handler = Arc::clone(handler);
        let work = Box::pin(async move { handler.handle(task, attempt).await });
        Self::spawn(work, trace, (working, CountGuard::new(running)))
    }

    /// Compiled once, and not for each handler.
    fn spawn(
        work: BoxFuture<'static, rowkey::Result<Done>>,
        trace: Option<TraceParent>,
        kept: (Working, CountGuard),
    ) -> Self {
        let work = async move {
            let _kept = kept;
            match trace {
                Some(trace) => trace.scope(work).await,
                None => work.await,
            }
        };
        Self(AbortOnDrop(spawn(work.in_current_span())))
    }

    pub(super) async fn end(mut self) -> Result<Done, Failure> {
        match (&mut self.0.0).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Failure::from(&error)),
            Err(error) => Err(Failure::of(error)),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a panic or a blocked poll affects only its own task"
)]
pub(crate) fn spawn<R: Send + 'static>(
    work: impl Future<Output = R> + Send + 'static,
) -> JoinHandle<R> {
    tokio::spawn(work)
}

struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    fn new(running: &Arc<AtomicUsize>) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(running))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Locks by key. A lock exists while a task holds or awaits it.
#[derive(Default)]
pub(super) struct Keys(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Keys {
    /// Runs `work` while no other task of this key runs.
    pub(super) async fn alone<R>(&self, key: Option<String>, work: impl Future<Output = R>) -> R {
        let Some(key) = key else { return work.await };
        let lock = Arc::clone(self.map().entry(key.clone()).or_default());
        let _kept = KeyGuard(self, key);
        let _locked = lock.lock().await;
        work.await
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the lock of a key that no other task awaits.
struct KeyGuard<'k>(&'k Keys, String);

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        let mut map = self.0.map();
        // Two references: the map's, and this task's, which is dropped next.
        if map.get(&self.1).is_some_and(|lock| Arc::strong_count(lock) <= 2) {
            map.remove(&self.1);
        }
    }
}
