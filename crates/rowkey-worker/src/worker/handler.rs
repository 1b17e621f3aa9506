//! What does the work of a task, and what it is told.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::Result;
use tokio::sync::watch;

use super::hold::Hold;

/// Does tasks. Closures that take a task and an [`Attempt`] are handlers, too.
///
/// A task may come twice, and to two workers at once; a handler does it so that this makes no
/// difference: it upserts, deletes what is there, writes under the ETag that it read. It may be
/// dropped at any await, when its message was lost: what it has done by then stays, and the next
/// attempt does it again.
///
/// How it ends decides what becomes of the task:
///
/// | end | the task | counted as an attempt |
/// |---|---|---|
/// | [`Done::Applied`], [`Done::AlreadyApplied`] | is done | |
/// | [`Done::Later`] | comes again after that time | no |
/// | [`Done::Poison`], [`Done::TooOld`] | is a dead letter at once | |
/// | an error of [`Throttled`](rowkey::ErrorKind::Throttled) or [`Unavailable`](rowkey::ErrorKind::Unavailable) | comes again | no, for as long as the worker's [patience](super::Worker::patience) |
/// | another error, a panic, the [time limit](super::Worker::time_limit) | comes again, at last as a dead letter | yes |
pub trait Handler<T>: Send + Sync + 'static {
    /// Does the task, or finds that it has been done.
    fn handle(&self, task: T, attempt: Attempt) -> impl Future<Output = Result<Done>> + Send;
}

impl<T, F, Fut> Handler<T> for F
where
    F: Fn(T, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Done>> + Send,
{
    fn handle(&self, task: T, attempt: Attempt) -> impl Future<Output = Result<Done>> + Send {
        self(task, attempt)
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was done before, by an attempt whose end was lost.
    AlreadyApplied,
    /// It is done.
    Applied,
    /// It cannot be done yet, and comes again after this time, 7 days at most. Not an attempt.
    Later(Duration),
    /// It can never be done, and this is why: it is a dead letter at once.
    Poison(String),
    /// It is older than it may be done, and this is why: it is a dead letter at once, with
    /// [`Cause::TooOld`](crate::dead_letters::Cause::TooOld).
    TooOld(String),
}

/// How far a worker is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// No more messages are received, and what was received is finished.
    Stopping,
    /// What has not been finished is handed back.
    Over,
}

/// Completes when the worker has come to this phase; never if it goes without.
pub(super) async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// An attempt at a task. Clones are of the same attempt.
#[derive(Clone)]
pub struct Attempt {
    pub(super) id: Arc<str>,
    pub(super) number: u32,
    pub(super) first_seen: DateTime<Utc>,
    pub(super) hold: Arc<Hold>,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Attempt {
    /// The task's id: the same in each attempt, and after it was redriven. Systems that can tell
    /// repetitions apart can be given this to tell them by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How often the message was received, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When the task was put.
    pub fn first_seen(&self) -> DateTime<Utc> {
        self.first_seen
    }

    /// How long no other worker receives the message for certain; zero when one may have it.
    ///
    /// The worker renews this while the handler works, also while it computes or blocks.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Completes when the worker is to stop: what takes long can end itself then, with
    /// [`Done::Later`]. What has not ended at the worker's
    /// [deadline](super::Worker::shutdown_deadline) is dropped.
    pub async fn shutdown(&self) {
        reached(&mut self.phase.clone(), Phase::Stopping).await;
    }

    /// Whether the worker is to stop.
    pub fn is_shutting_down(&self) -> bool {
        *self.phase.borrow() >= Phase::Stopping
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("id", &self.id)
            .field("number", &self.number)
            .field("first_seen", &self.first_seen)
            .finish_non_exhaustive()
    }
}
