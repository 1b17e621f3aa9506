//! Attempts: decides whether a message is processed, and why an attempt failed.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rowkey::queue::Message;
use rowkey::{Error, ErrorKind};
use tokio::task::{JoinError, JoinHandle};

use crate::dead_letters::Cause;
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
    let received = message.dequeue_count.saturating_sub(1);
    // A text that was copied into another message counts the receptions of that one.
    let known = if envelope.receptions > received { 0 } else { envelope.receptions };
    received.saturating_sub(known)
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

    pub(super) fn panicked(what: &str, panic: Box<dyn Any + Send>) -> Self {
        Self::counted(Cause::Panic, format!("{what} panicked: {}", text(panic)))
    }

    pub(super) fn of(error: JoinError) -> Self {
        match error.try_into_panic() {
            Ok(panic) => Self::panicked("the handler", panic),
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

/// The text of a panic. Dropping what it carries may panic as well, which is ignored.
pub(crate) fn text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("without a text").to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Leaked, because it may panic once more.
        let _ = ManuallyDrop::new(again);
    }
    text
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
