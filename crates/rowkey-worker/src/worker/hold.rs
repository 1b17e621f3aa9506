//! A message that is worked on stays hidden from others: its time is renewed while it is.
//!
//! Each renewal gives the message another receipt and voids the one before. So a renewal that was sent
//! is waited for, also when the work has ended meanwhile: without its answer the message could not be
//! deleted.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::queue::{Body, Message};
use rowkey::{Clock, Outcome, Queue, Result};
use tokio::sync::Notify;

use crate::keeper;

/// A message, and for how long no other worker receives it.
pub(crate) struct Hold {
    visibility: Duration,
    clock: Queue,
    state: Mutex<State>,
    /// Held while a renewal is on its way; `true` when no other may follow.
    renewing: tokio::sync::Mutex<bool>,
    /// The time limit was set.
    limited: Notify,
}

struct State {
    message: Message,
    /// In the time that [`Clock::elapsed`] counts, as is the limit.
    until: Duration,
    /// When the work has to have ended.
    limit: Option<Duration>,
    /// Whether a renewal may have voided the receipt, and its answer with the next one was lost.
    doubtful: bool,
}

/// How a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It could not be renewed before its time was over.
    Expired,
    /// The work took longer than its time limit. The message is still this worker's.
    Overrun,
    /// Another worker has received or deleted it.
    Taken,
}

impl Hold {
    /// Of a message that was asked for at this time of [`Clock::elapsed`].
    pub(crate) fn new(
        queue: &Queue,
        message: Message,
        asked: Duration,
        visibility: Duration,
    ) -> Self {
        let state = State { message, until: asked + visibility, limit: None, doubtful: false };
        let (state, renewing) = (Mutex::new(state), tokio::sync::Mutex::new(false));
        Self { visibility, clock: queue.clone(), state, renewing, limited: Notify::new() }
    }

    /// The message with its latest receipt.
    pub(crate) fn message(&self) -> Message {
        self.state().message.clone()
    }

    /// How long no other worker receives it for certain.
    pub(crate) fn remaining(&self) -> Duration {
        let until = self.state().until;
        until.saturating_sub(self.clock().elapsed())
    }

    /// Lets the work take so long from now on.
    pub(crate) fn limit(&self, limit: Duration) {
        let limit = self.clock().elapsed().saturating_add(limit);
        self.state().limit = Some(limit);
        self.limited.notify_one();
    }

    /// Does `work`, and renews meanwhile on the thread of renewals, with the connections of `queue`. When
    /// the message is lost, `work` is dropped where it waits.
    ///
    /// Fails if there is no such thread.
    pub(crate) async fn during<R>(
        self: &Arc<Self>,
        queue: &Queue,
        work: impl Future<Output = R>,
    ) -> Result<Result<R, Lost>> {
        let (hold, queue) = (Arc::clone(self), queue.clone());
        let mut keeper = keeper::spawn(async move { hold.keep(&queue).await })?;
        let result = match select(pin!(work), &mut keeper.0).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right((lost, _)) => Err(lost.unwrap_or(Lost::Expired)),
        };
        // If that renewal loses the message, settling says so.
        *self.renewing.lock().await = true;
        Ok(result)
    }

    /// Renews now, with another body if there is one: fails with how it was lost, or inside with what may
    /// pass.
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
            Err(error) if error.kind() == rowkey::ErrorKind::NotFound => Err(Lost::Taken),
            Err(error) if error.kind() == rowkey::ErrorKind::Conflict => {
                // Unless another worker has it: an earlier attempt did it, and its answer with the
                // next receipt was lost. The message is still hidden, but it can be renewed and
                // deleted no more, and comes again.
                let by_itself = error.outcome() == Outcome::Unknown || self.state().doubtful;
                if is_ours && by_itself { Ok(Err(error)) } else { Err(Lost::Taken) }
            }
            Err(error) => {
                self.state().doubtful |= error.outcome() == Outcome::Unknown;
                Ok(Err(error))
            }
        }
    }

    /// Renews each third of the time until the message is lost, the limit is over or the work has ended.
    async fn keep(&self, queue: &Queue) -> Lost {
        let mut pause = self.visibility / 3;
        loop {
            self.wait(pause.min(self.remaining())).await;
            let limit = self.state().limit;
            if limit.is_some_and(|limit| limit <= self.clock().elapsed()) {
                // Said here: code that blocks keeps its own thread from saying it.
                tracing::error!(
                    id = self.message().id,
                    "a task takes longer than its time limit and is not renewed any more"
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
                    tracing::warn!(%error, "the message could not be hidden for longer yet");
                    self.visibility / 15
                }
            };
        }
    }

    /// Sleeps for so long, or until the limit if that is earlier.
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
            Self::Expired => "it could not be hidden for longer in time",
            Self::Overrun => "its task took longer than the time limit",
            Self::Taken => "another worker has received or deleted it",
        })
    }
}
