//! Keeps a message hidden from other workers while it is processed, by renewing its visibility timeout.
//!
//! Each renewal returns a new pop receipt and invalidates the previous one. So a renewal that was sent is
//! awaited even if the work has ended in the meantime: without its response the message could not be deleted.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey_client::queue::{Body, Message};
use rowkey_client::{Clock, Outcome, Queue, Result};
use tokio::sync::Notify;

use crate::renewal_thread::{self, AbortOnDrop};

/// A message, and how long no other worker can receive it.
pub(crate) struct Hold {
    visibility: Duration,
    clock: Queue,
    state: Mutex<State>,
    /// Locked while a renewal is in flight; `true` when no further renewal may follow.
    renewing: tokio::sync::Mutex<bool>,
    /// Notified when the time limit is set.
    limited: Notify,
}

struct State {
    message: Message,
    /// By [`Clock::elapsed`], as is the limit.
    until: Duration,
    /// When the work must have ended.
    limit: Option<Duration>,
    /// The length of that limit.
    limit_length: Option<Duration>,
    /// Whether a renewal may have invalidated the pop receipt while its response was lost.
    doubtful: bool,
}

/// How a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It could not be renewed in time.
    Expired,
    /// The work exceeded its time limit. This worker still holds the message.
    Overrun,
    /// Another worker has received or deleted it.
    Taken,
}

impl Hold {
    /// Holds a message that was requested at this time of [`Clock::elapsed`].
    pub(crate) fn new(
        queue: &Queue,
        message: Message,
        asked: Duration,
        visibility: Duration,
    ) -> Self {
        let until = asked + visibility;
        let state = State { message, until, limit: None, limit_length: None, doubtful: false };
        let (state, renewing) = (Mutex::new(state), tokio::sync::Mutex::new(false));
        Self { visibility, clock: queue.clone(), state, renewing, limited: Notify::new() }
    }

    /// The message with its latest pop receipt.
    pub(crate) fn message(&self) -> Message {
        self.state().message.clone()
    }

    /// How long no other worker can receive it.
    pub(crate) fn remaining(&self) -> Duration {
        let until = self.state().until;
        until.saturating_sub(self.clock().elapsed())
    }

    /// Limits the work to this duration from now on.
    pub(crate) fn limit(&self, limit: Duration) {
        let end = self.clock().elapsed().saturating_add(limit);
        {
            let mut state = self.state();
            (state.limit, state.limit_length) = (Some(end), Some(limit));
        }
        self.limited.notify_one();
    }

    /// The length of the limit that was set last.
    pub(crate) fn limit_length(&self) -> Option<Duration> {
        self.state().limit_length
    }

    /// Runs `work`, and meanwhile renews the message on the renewal thread, with the connections of `queue`.
    /// If the message is lost, `work` is dropped at its current await.
    ///
    /// Fails if the thread cannot be started.
    pub(crate) async fn during<R>(
        self: &Arc<Self>,
        queue: &Queue,
        work: impl Future<Output = R>,
    ) -> Result<Result<R, Lost>> {
        let mut renewal = self.start_renewals(queue)?;
        let result = match select(pin!(work), &mut renewal.0).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right((lost, _)) => Err(lost.unwrap_or(Lost::Expired)),
        };
        // If that renewal loses the message, ending it reports that.
        *self.renewing.lock().await = true;
        Ok(result)
    }

    /// Renews the message on the renewal thread until it is lost. Names no type of the work, so it is compiled
    /// once.
    fn start_renewals(self: &Arc<Self>, queue: &Queue) -> Result<AbortOnDrop<Lost>> {
        let (hold, queue) = (Arc::clone(self), queue.clone());
        renewal_thread::spawn(async move { hold.keep(&queue).await })
    }

    /// Renews now, with a new body if there is one. The outer error says how the message was lost; the inner
    /// one may be transient.
    pub(crate) async fn renew(
        &self,
        queue: &Queue,
        body: Option<Body>,
    ) -> Result<Result<()>, Lost> {
        let _one_at_a_time = self.renewing.lock().await;
        self.send(queue, body).await
    }

    async fn send(&self, queue: &Queue, body: Option<Body>) -> Result<Result<()>, Lost> {
        let asked = self.clock().elapsed();
        let message = self.message();
        let is_ours = !self.remaining().is_zero();
        let update = queue.update(&message).hidden_for(self.visibility);
        let update = match body {
            Some(body) => update.body(body),
            None => update,
        };
        match update.send().await {
            Ok(message) => {
                let mut state = self.state();
                (state.message, state.doubtful) = (message, false);
                state.until = asked + self.visibility;
                Ok(Ok(()))
            }
            Err(error) if error.kind() == rowkey_client::ErrorKind::NotFound => Err(Lost::Taken),
            Err(error) if error.kind() == rowkey_client::ErrorKind::Conflict => {
                // An update by an earlier attempt may have succeeded, with its response and the new receipt
                // lost. Otherwise another worker has it. The message is still hidden, but it can no longer be
                // renewed or deleted, and is received again.
                let by_itself = error.outcome() == Outcome::Unknown || self.state().doubtful;
                if is_ours && by_itself { Ok(Err(error)) } else { Err(Lost::Taken) }
            }
            Err(error) => {
                self.state().doubtful |= error.outcome() == Outcome::Unknown;
                Ok(Err(error))
            }
        }
    }

    /// Renews after each third of the timeout until the message is lost, the limit is reached or the work has
    /// ended.
    async fn keep(&self, queue: &Queue) -> Lost {
        let mut pause = self.visibility / 3;
        loop {
            self.wait(pause.min(self.remaining())).await;
            let limit = self.state().limit;
            if limit.is_some_and(|limit| limit <= self.clock().elapsed()) {
                // Logged here because code that blocks keeps its own thread from logging.
                tracing::error!(
                    id = self.message().id,
                    "a task exceeds its time limit and is no longer renewed"
                );
                return Lost::Overrun;
            }
            let left = self.remaining();
            if left.is_zero() {
                return Lost::Expired;
            }
            let ended = self.renewing.lock().await;
            if *ended {
                return Lost::Taken;
            }
            let (renewal, end) = (pin!(self.send(queue, None)), self.clock().sleep(left));
            pause = match select(renewal, end).await {
                Either::Right(((), _)) => return Lost::Expired,
                Either::Left((Err(lost), _)) => return lost,
                Either::Left((Ok(Ok(())), _)) => self.visibility / 3,
                Either::Left((Ok(Err(error)), _)) => {
                    tracing::warn!(%error, "the message could not be renewed yet");
                    self.visibility / 15
                }
            };
        }
    }

    /// Sleeps for `pause`, or until the limit if that is earlier.
    async fn wait(&self, pause: Duration) {
        let end = self.clock().elapsed().saturating_add(pause);
        let mut sleep = self.clock().sleep(pause);
        loop {
            let limit = self.state().limit;
            if let Some(limit) = limit.filter(|limit| *limit < end) {
                return self.clock().sleep(limit.saturating_sub(self.clock().elapsed())).await;
            }
            match select(sleep, pin!(self.limited.notified())).await {
                Either::Left(_) => return,
                Either::Right(((), rest)) => sleep = rest,
            }
        }
    }

    fn clock(&self) -> &dyn Clock {
        self.clock.account().clock()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "it could not be renewed in time",
            Self::Overrun => "its task took longer than the time limit",
            Self::Taken => "another worker has received or deleted it",
        })
    }
}
