//! The handler interface: handlers, attempts, and results.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::Result;
use rowkey_client::internals::shown;
use tokio::sync::watch;

use super::hold::Hold;

/// Processes tasks. Closures that take a task and an [`Attempt`] are handlers, too.
///
/// A task can be delivered twice, and to two workers at once, so a handler must be idempotent: it upserts,
/// tolerates that something is already deleted, and writes under the ETag that it read. It can be dropped at
/// any await if its message was lost. Its effects until then stay, and the next attempt repeats them.
///
/// The result decides what happens to the task:
///
/// | result | the task | counted as an attempt |
/// |---|---|---|
/// | [`Done::Applied`], [`Done::AlreadyApplied`] | is finished | |
/// | [`Done::Later`] | is received again after that time | no |
/// | [`Done::Poison`], [`Done::TooOld`] | becomes a dead letter at once | |
/// | an error of [`Throttled`](rowkey_client::ErrorKind::Throttled) or [`Unavailable`](rowkey_client::ErrorKind::Unavailable) | is received again | no, for as long as the worker's [patience](super::Worker::patience) |
/// | another error, a panic, the [time limit](super::Worker::time_limit) | is received again, and finally becomes a dead letter | yes |
///
/// ```
/// # use rowkey::worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Debug, Serialize, Deserialize)]
/// # struct SendWelcome { to: String }
/// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
/// # use rowkey::Result;
/// # use rowkey::worker::{Step, Worker};
/// use rowkey::worker::{Attempt, Done, Handler};
///
/// struct Mailer { from: String }
///
/// impl Handler<SendWelcome> for Mailer {
///     async fn handle(&self, task: SendWelcome, attempt: Attempt) -> Result<Done> {
///         println!("{}: {} writes to {}", attempt.number(), self.from, task.to);
///         Ok(Done::Applied)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
/// # tasks.create_if_missing().await?;
/// # let welcome = |to: &str| SendWelcome { to: to.into() };
/// tasks.put(&welcome("ada")).await?;
/// let worker = Worker::new(tasks, Mailer { from: "kim".into() });
/// assert_eq!(worker.step().await?, Step::Handled);
/// # Ok(()) }
/// ```
pub trait Handler<T>: Send + Sync + 'static {
    /// Processes the task, or finds that it is already done.
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

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// An earlier attempt did it, and the result of that attempt was lost.
    AlreadyApplied,
    /// The task is done.
    Applied,
    /// The task cannot be done yet, and is received again after this time, at most 7 days. Not counted as an
    /// attempt.
    Later(Duration),
    /// The task can never be done, for this reason. It becomes a dead letter at once.
    Poison(String),
    /// The task is older than allowed, for this reason. It becomes a dead letter at once, with
    /// [`Cause::TooOld`](crate::dead_letters::Cause::TooOld).
    TooOld(String),
}

/// The phases of a worker's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// No more messages are received; tasks that were received are finished.
    Stopping,
    /// Unfinished tasks are returned to the queue.
    Over,
}

/// Completes when the worker has reached this phase; never if the worker ends without it.
pub(super) async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// An attempt at a task. Clones refer to the same attempt.
#[derive(Clone)]
pub struct Attempt {
    pub(super) id: Arc<str>,
    pub(super) number: u32,
    pub(super) first_seen: DateTime<Utc>,
    pub(super) time_limit: Duration,
    pub(super) hold: Arc<Hold>,
    pub(super) phase: watch::Receiver<Phase>,
}

impl Attempt {
    /// The task's id: the same in each attempt, and after a redrive. Pass it as an idempotency key to systems
    /// that support one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How often the message was received, starting at 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How long the handler may take.
    pub(crate) fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// When the task was first put.
    pub fn first_seen(&self) -> DateTime<Utc> {
        self.first_seen
    }

    /// How long no other worker can receive the message; zero when one may have received it.
    ///
    /// The worker renews this while the handler runs, even while it computes or blocks.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Completes when the worker shuts down, so that a long handler can end itself with [`Done::Later`]. A
    /// handler still running at the worker's [deadline](super::Worker::shutdown_deadline) is dropped.
    pub async fn shutdown(&self) {
        reached(&mut self.phase.clone(), Phase::Stopping).await;
    }

    /// Returns whether the worker is shutting down.
    pub fn is_shutting_down(&self) -> bool {
        *self.phase.borrow() >= Phase::Stopping
    }
}

shown!(Attempt: id, number, first_seen);
