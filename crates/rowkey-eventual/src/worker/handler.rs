//! What does the work of a task, and what it is told.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::Result;

use super::hold::Hold;

/// Does tasks. Closures that take a task and an [`Attempt`] are handlers, too.
///
/// A task may come twice, and to two workers at once; a handler does it so that this makes no
/// difference: it upserts, deletes what is there, writes under the ETag that it read. It may be
/// dropped at any await, when its message was lost: what it has done by then stays, and the next
/// attempt does it again.
///
/// An error is for what may pass: the task is tried again later. What cannot succeed is
/// [`Done::Poison`].
pub trait Handler<T>: Send + Sync {
    /// Does the task, or finds that it has been done.
    fn handle(&self, task: T, attempt: Attempt) -> impl Future<Output = Result<Done>> + Send;
}

impl<T, F, Fut> Handler<T> for F
where
    F: Fn(T, Attempt) -> Fut + Send + Sync,
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
    /// It can never be done, and this is why: it goes to the poison queue at once.
    Poison(String),
}

/// An attempt at a task. Clones are of the same attempt.
#[derive(Clone)]
pub struct Attempt {
    pub(super) id: Arc<str>,
    pub(super) number: u32,
    pub(super) first_seen: DateTime<Utc>,
    pub(super) hold: Arc<Hold>,
}

impl Attempt {
    /// The task's id: the same in each attempt, and after the poison queue. Systems that can tell
    /// repetitions apart can be given this to tell them by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which attempt it is, counted from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When the task was put.
    pub fn first_seen(&self) -> DateTime<Utc> {
        self.first_seen
    }

    /// How long nobody else gets the message for certain; zero when somebody may have it.
    ///
    /// The worker renews this while the handler waits. Work that computes for long without an await
    /// can look here before it writes.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
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
