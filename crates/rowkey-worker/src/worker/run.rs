//! The loop of a worker: receiving while there is room, the circuit breaker, and the shutdown.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rowkey_client::Result;
use tokio::sync::watch;

use super::ending::{Dependency, Ending};
use super::handler::Phase;
use super::places::{Places, Share, Taken};
use super::{Batch, Counts, Handler, Step, Worker};
use crate::task::Task;

/// The most messages that one request receives.
const MAX_RECEIVED: usize = 32;

/// The circuit breaker: counts consecutive transient failures.
#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    /// Whether receiving is paused.
    is_open: bool,
    /// How often it has opened in a row.
    opened: u32,
}

impl Breaker {
    /// Counts the result of a message. If the breaker opens, returns how often it opened before and the
    /// shortest wait.
    fn count(&mut self, dependency: Dependency, limit: u32) -> Option<(u32, Duration)> {
        match dependency {
            Dependency::Unsaid => None,
            Dependency::Up => {
                *self = Self::default();
                None
            }
            Dependency::Down(wait) => {
                self.failures = self.failures.saturating_add(1);
                // Tasks that were already running when it opened give no new information.
                if self.is_open || (self.failures < limit && wait.is_none()) {
                    return None;
                }
                self.is_open = true;
                let opened = self.opened;
                self.opened = opened.saturating_add(1);
                Some((opened, wait.unwrap_or_default()))
            }
        }
    }

    /// Whether one message is received alone, to test whether the next would fail too.
    fn is_probing(&self) -> bool {
        self.opened > 0
    }
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Receives and processes tasks until `shutdown` completes. Then it receives no more, and finishes the
    /// tasks that were received, for up to the [deadline](Self::shutdown_deadline). Returns the counters of
    /// this worker.
    ///
    /// Transient failures are logged and retried. Fails with a permanent error, such as a missing queue or a
    /// refused credential, after the tasks that were received are finished.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # use rowkey::worker::{Attempt, Done, Worker};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// for to in ["ada", "kim", "grace"] {
    ///     tasks.put(&welcome(to)).await?;
    /// }
    /// let sent = Arc::new(tokio::sync::Semaphore::new(0));
    /// let of_handler = sent.clone();
    /// let worker = Worker::new(tasks, move |_: SendWelcome, _: Attempt| {
    ///     of_handler.add_permits(1);
    ///     async { Ok(Done::Applied) }
    /// })
    /// .concurrency(4)
    /// .visibility(Duration::from_secs(60))
    /// .time_limit(Duration::from_secs(600))
    /// .breaker(10)
    /// .idle_backoff(Duration::from_millis(100), Duration::from_secs(5))
    /// .shutdown_deadline(Duration::from_secs(10));
    ///
    /// // A signal, as a rule; here the third task.
    /// let shutdown = async { drop(sent.acquire_many(3).await) };
    /// assert_eq!(worker.run_until(shutdown).await?.handled, 3);
    /// # Ok(()) }
    /// ```
    pub async fn run_until(&self, shutdown: impl Future<Output = ()> + Send) -> Result<Counts> {
        let most = self.most_at_once(1);
        let mut alone = Places::shares(most, &[(1, most)]);
        let Some(share) = alone.pop() else { return Ok(self.counts()) };
        self.run(shutdown, &share, most, self.shutdown_deadline).await
    }

    /// Runs with the places of `share`, of which it has no more than `most` at once.
    pub(super) async fn run(
        &self,
        shutdown: impl Future<Output = ()> + Send,
        share: &Share,
        most: usize,
        shutdown_deadline: Duration,
    ) -> Result<Counts> {
        let mut shutdown = pin!(shutdown);
        let phase = watch::Sender::new(Phase::Running);
        // Boxed, so that what runs them is compiled once for all workers.
        let mut at_work = FuturesUnordered::<BoxFuture<'_, Result<(Step, Ending)>>>::new();
        // A receive request in flight is completed: the messages that it received would otherwise be hidden
        // from all workers for a while.
        let mut taking: Option<BoxFuture<'_, (Result<Batch>, Taken)>> = None;
        let (mut pause, mut deadline) = (None::<BoxFuture<'_, ()>>, None::<BoxFuture<'_, ()>>);
        let mut breaker = Breaker::default();
        let mut quiet = 0;
        let mut stopping = false;
        let mut failure = None;
        loop {
            // A request to a queue that was empty takes one place: if it is not answered, the others continue.
            let looks = quiet > 0 && share.is_shared();
            let room = if breaker.is_probing() || looks { 1 } else { most };
            let room = room.saturating_sub(at_work.len()).min(MAX_RECEIVED);
            let asks = !stopping && taking.is_none() && pause.is_none() && room > 0;
            if !asks && taking.is_none() {
                share.withdraw();
            }
            if stopping && taking.is_none() && at_work.is_empty() {
                break;
            }
            if stopping && deadline.is_none() {
                phase.send_replace(Phase::Stopping);
                deadline = Some(self.clock().sleep(shutdown_deadline));
            }
            tokio::select! {
                biased;
                () = &mut shutdown, if !stopping => stopping = true,
                Some(ended) = at_work.next(), if !at_work.is_empty() => {
                    if let Some(wait) = self.pause_after(&ended, &mut breaker) {
                        pause = Some(self.clock().sleep(wait));
                    }
                }
                places = poll_fn(|context| share.poll_take(context, room)), if asks => {
                    let receive = async move { (self.receive(places.count()).await, places) };
                    taking = Some(receive.boxed());
                }
                Some((received, mut places)) = OptionFuture::from(taking.as_mut()),
                    if taking.is_some() =>
                {
                    taking = None;
                    match received {
                        Ok(Batch { messages, .. }) if messages.is_empty() => {}
                        Ok(Batch { asked, messages }) => {
                            quiet = 0;
                            for message in messages {
                                let (place, phase) = (places.split_one(), phase.subscribe());
                                let work = self.work(message, asked, phase).map(|ended| {
                                    drop(place);
                                    ended
                                });
                                at_work.push(work.boxed());
                            }
                            places.give_back();
                            continue;
                        }
                        Err(error) if error.is_retryable() => {
                            tracing::warn!(%error, "messages could not be received");
                        }
                        Err(error) => {
                            failure = Some(error);
                            stopping = true;
                        }
                    }
                    places.give_back();
                    let sleep = self.clock().sleep(self.idle.after(quiet));
                    // A task that this program puts is received at once.
                    pause = Some(select(sleep, Box::pin(self.tasks.was_put())).map(drop).boxed());
                    quiet += 1;
                }
                Some(()) = OptionFuture::from(deadline.as_mut()),
                    if deadline.is_some() && *phase.borrow() < Phase::Over =>
                {
                    tracing::warn!(
                        tasks = at_work.len(),
                        "unfinished tasks are returned to the queue at the deadline"
                    );
                    phase.send_replace(Phase::Over);
                }
                Some(()) = OptionFuture::from(pause.as_mut()), if !stopping && pause.is_some() => {
                    pause = None;
                    breaker.is_open = false;
                }
            }
        }
        failure.map_or_else(|| Ok(self.counts()), Err)
    }

    /// Returns how long receiving pauses, if the end of a message opens the circuit breaker.
    fn pause_after(
        &self,
        ended: &Result<(Step, Ending)>,
        breaker: &mut Breaker,
    ) -> Option<Duration> {
        let (step, ending) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(%error, "how a message ended is unknown; it may be received again");
                return None;
            }
        };
        let (opened, least) = breaker.count(ending.dependency(*step), self.breaker)?;
        let wait = self.idle.after(opened).max(least);
        tracing::warn!(?wait, "receiving is paused for this duration");
        Some(wait)
    }
}
