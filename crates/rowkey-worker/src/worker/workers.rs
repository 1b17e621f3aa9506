//! Several workers that share a number of places: queues with weights.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey_client::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::places::{Places, Share};
use super::{Common, Counts, Handler, Worker};
use crate::panics::text;
use crate::task::Task;

/// How long a queue rests after a permanent failure.
const REST: Duration = Duration::from_secs(60);

/// Runs the workers of several queues, which share one limit of concurrent tasks.
///
/// Each worker has a weight. While several queues have tasks, the tasks that begin are divided by weight: with
/// weights 6, 3 and 1, they are six, three and one of ten. No queue waits forever, and an empty queue leaves
/// its share to the others. So one program processes urgent tasks first without losing the rest.
///
/// ```
/// # use rowkey::worker::{Task, Tasks};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Mail { to: String }
/// # impl Task for Mail { const KIND: &'static str = "mail"; }
/// # #[derive(Serialize, Deserialize)]
/// # struct Report { year: u16 }
/// # impl Task for Report { const KIND: &'static str = "report"; }
/// use rowkey::worker::{Attempt, Done, Worker, Workers};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// let mails = Tasks::<Mail>::new(account.queue("mails"));
/// let reports = Tasks::<Report>::new(account.queue("reports"));
/// mails.create_if_missing().await?;
/// reports.create_if_missing().await?;
/// mails.put(&Mail { to: "ada@contoso.com".into() }).await?;
/// reports.put(&Report { year: 2026 }).await?;
///
/// let done = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
/// let (of_mails, of_reports) = (done.clone(), done.clone());
/// let mailer = Worker::new(mails, move |_: Mail, _: Attempt| {
///     of_mails.add_permits(1);
///     async { Ok(Done::Applied) }
/// });
/// let reporter = Worker::new(reports, move |_: Report, _: Attempt| {
///     of_reports.add_permits(1);
///     async { Ok(Done::Applied) }
/// });
/// // Eight tasks at a time, of which at most two are reports.
/// let workers = Workers::new(8).worker(9, mailer).worker(1, reporter.concurrency(2));
///
/// // A signal, as a rule; here the second task.
/// let counts = workers.run_until(async { drop(done.acquire_many(2).await) }).await?;
/// assert_eq!((counts[0].queue.as_str(), counts[0].counts.handled), ("mails", 1));
/// assert_eq!((counts[1].queue.as_str(), counts[1].counts.handled), ("reports", 1));
/// # Ok(()) }
/// ```
///
/// Each worker keeps its own idle waits, circuit breaker and counters, and ends its own messages. A task
/// that is tried alone is tried while no other task of these workers runs, and tasks of one kind with one
/// [key](Task::key) are processed one at a time, across all of these queues.
///
/// Weights divide the beginnings of tasks. If some tasks take much longer than others, also limit how many
/// places they occupy: [`Worker::concurrency`].
pub struct Workers {
    places: usize,
    members: Vec<Member>,
    common: Arc<Common>,
    shutdown_deadline: Duration,
    stops_on_failure: bool,
}

/// A worker, its weight, and how it failed.
struct Member {
    weight: u32,
    worker: Box<dyn Run>,
    failed: Mutex<Failed>,
}

#[derive(Clone, Default)]
struct Failed {
    times: u64,
    /// Why the queue rests.
    now: Option<String>,
}

/// The counters of one of several [`Workers`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// The name of the queue.
    pub queue: String,
    /// The counters of its worker.
    pub counts: Counts,
    /// How often its worker stopped because of a permanent error or a panic.
    pub failures: u64,
    /// The text of the last of them, until the queue is tried again.
    pub failure: Option<String>,
}

/// A worker of any task and handler.
trait Run: Send + Sync {
    fn queue(&self) -> &str;
    fn counts(&self) -> Counts;
    fn most(&self, places: usize) -> usize;
    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()>;
    fn run<'w>(
        &'w self,
        stop: BoxFuture<'w, ()>,
        share: &'w Share,
        most: usize,
        deadline: Duration,
    ) -> BoxFuture<'w, Result<Counts>>;
}

impl<T: Task, H: Handler<T>> Run for Worker<T, H> {
    fn queue(&self) -> &str {
        self.tasks.queue().name()
    }

    fn counts(&self) -> Counts {
        Self::counts(self)
    }

    fn most(&self, places: usize) -> usize {
        self.most_at_once(places).min(places)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.clock().sleep(time)
    }

    fn run<'w>(
        &'w self,
        stop: BoxFuture<'w, ()>,
        share: &'w Share,
        most: usize,
        deadline: Duration,
    ) -> BoxFuture<'w, Result<Counts>> {
        Self::run(self, stop, share, most, deadline).boxed()
    }
}

/// Configuration.
impl Workers {
    /// Creates a set without workers that processes up to `concurrency` tasks at a time, at least one. Sends nothing.
    pub fn new(concurrency: usize) -> Self {
        Self {
            places: concurrency.max(1),
            members: Vec::new(),
            common: Arc::default(),
            shutdown_deadline: Duration::from_secs(25),
            stops_on_failure: false,
        }
    }

    /// Adds a worker with a weight of at least 1. Only the ratio of the weights matters.
    ///
    /// Its [`concurrency`](Worker::concurrency), if it was set, limits how many of the places it takes at once. Its
    /// own [`shutdown_deadline`](Worker::shutdown_deadline) is not used.
    #[must_use = "use the returned workers"]
    pub fn worker<T: Task, H: Handler<T>>(mut self, weight: u32, worker: Worker<T, H>) -> Self {
        let worker = Worker { common: Arc::clone(&self.common), ..worker };
        let (worker, failed) = (Box::new(worker), Mutex::default());
        self.members.push(Member { weight, worker, failed });
        self
    }

    /// Sets how long [`run_until`](Self::run_until) lets handlers of all queues continue after `shutdown`. Default:
    /// 25 seconds. See [`Worker::shutdown_deadline`].
    #[must_use = "use the returned workers"]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Makes [`run_until`](Self::run_until) stop all queues and fail as soon as one has failed permanently. By
    /// default the others continue.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Mail { to: String }
    /// # impl Task for Mail { const KIND: &'static str = "mail"; }
    /// # use std::future::pending;
    /// # use std::time::Duration;
    /// use rowkey::ErrorKind;
    /// use rowkey::worker::{Attempt, Done, Worker, Workers};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// let worker = |queue| {
    ///     let tasks = Tasks::<Mail>::new(account.queue(queue));
    ///     Worker::new(tasks, |_: Mail, _: Attempt| async { Ok(Done::Applied) })
    /// };
    /// account.queue("urgent").create().await?;
    /// let workers = Workers::new(4)
    ///     .worker(3, worker("urgent"))
    ///     .worker(1, worker("missing"))
    ///     .shutdown_deadline(Duration::from_secs(10))
    ///     .stop_on_failure();
    /// let error = workers.run_until(pending()).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// assert_eq!(workers.counts()[1].failures, 1);
    /// # Ok(()) }
    /// ```
    #[must_use = "use the returned workers"]
    pub fn stop_on_failure(mut self) -> Self {
        self.stops_on_failure = true;
        self
    }
}

impl Workers {
    /// Receives and processes tasks of all queues until `shutdown` completes. Then it receives no more, and
    /// finishes the tasks that were received, for up to the [deadline](Self::shutdown_deadline). Returns the
    /// counters of each queue, in the order in which they were added.
    ///
    /// A queue whose worker fails with a permanent error, such as a missing queue, or panics, rests for a minute
    /// and is tried again; the error is logged and counted, and the others continue. Fails with that error if
    /// all queues rest at the same time, or with [`stop_on_failure`](Self::stop_on_failure), after the tasks that
    /// were received are finished.
    ///
    /// An idle queue costs a request after each wait of its own worker
    /// ([`Worker::idle_backoff`]), so three queues cost three times as many as one.
    pub async fn run_until(
        &self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Vec<QueueCounts>> {
        let stop = watch::Sender::new(false);
        let asks =
            self.members.iter().map(|member| (member.weight, member.worker.most(self.places)));
        let shares = Places::shares(self.places, &asks.collect::<Vec<_>>());
        let members = self.members.iter().zip(shares);
        let runs = members.map(|(member, share)| self.keep(member, share, stop.subscribe()));
        let mut runs: FuturesUnordered<_> = runs.collect();
        let all = async {
            let mut failure = None;
            while let Some(ended) = runs.next().await {
                if let Err(error) = ended {
                    stop.send_replace(true);
                    failure.get_or_insert(error);
                }
            }
            failure
        };
        let failure = match select(pin!(all), pin!(shutdown)).await {
            Either::Left((failure, shutdown)) => {
                if failure.is_none() {
                    // There are no workers.
                    shutdown.await;
                }
                failure
            }
            Either::Right(((), rest)) => {
                stop.send_replace(true);
                rest.await
            }
        };
        failure.map_or_else(|| Ok(self.counts()), Err)
    }

    /// The counters of each queue so far, in the order in which they were added.
    pub fn counts(&self) -> Vec<QueueCounts> {
        let counts = self.members.iter().map(|member| {
            let Failed { times, now } = member.failed().clone();
            let (queue, counts) = (member.worker.queue().to_owned(), member.worker.counts());
            QueueCounts { queue, counts, failures: times, failure: now }
        });
        counts.collect()
    }

    /// Runs one worker until `stop`, or until its failure ends all.
    async fn keep(&self, member: &Member, share: Share, stop: watch::Receiver<bool>) -> Result<()> {
        let most = member.worker.most(self.places);
        loop {
            member.failed().now = None;
            let stopping = stopped(stop.clone()).boxed();
            let run = member.worker.run(stopping, &share, most, self.shutdown_deadline);
            let error = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error,
                Err(panic) => {
                    let what = format!("the worker of a queue panicked: {}", text(panic));
                    Error::refused(ErrorKind::Unexpected, what).of("Workers", member.worker.queue())
                }
            };
            share.withdraw();
            {
                let mut failed = member.failed();
                failed.times += 1;
                failed.now = Some(error.to_string());
            }
            let queue = member.worker.queue();
            tracing::error!(queue, %error, rest = ?REST, "a queue is not processed for a while");
            let all_rest = self.members.iter().all(|member| member.failed().now.is_some());
            if all_rest || self.stops_on_failure {
                return Err(error);
            }
            match select(member.worker.sleep(REST), pin!(stopped(stop.clone()))).await {
                Either::Left(_) => {}
                Either::Right(_) => return Ok(()),
            }
        }
    }
}

impl Member {
    fn failed(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that everything was dropped.
    drop(stop.wait_for(|stop| *stop).await);
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.members.iter().map(|member| (member.worker.queue(), member.weight));
        f.debug_struct("Workers")
            .field("concurrency", &self.places)
            .field("queues", &queues.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
