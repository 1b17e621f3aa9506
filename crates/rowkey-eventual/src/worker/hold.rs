//! A message that is worked on stays hidden from others: its time is renewed while it is.
//!
//! Each renewal gives the message another receipt and voids the one before. So a renewal that was sent
//! is waited for, also when the work has ended meanwhile: without its answer nobody could delete the
//! message.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{Either, select};
use rowkey::queue::Message;
use rowkey::{Clock, Outcome, Queue, Result};

/// A message, and for how long nobody else gets it.
pub(crate) struct Hold {
    queue: Queue,
    visibility: Duration,
    state: Mutex<State>,
    renewing: AtomicBool,
    /// Whether the work has ended, and a renewal is the last.
    ended: AtomicBool,
}

struct State {
    message: Message,
    until: DateTime<Utc>,
    /// Whether a renewal may have voided the receipt without anybody learning the next one.
    doubtful: bool,
}

/// How a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It could not be renewed before its time was over.
    Expired,
    /// Somebody else has it, or has deleted it.
    Taken,
}

impl Hold {
    /// Of a message that was asked for at this time.
    pub(crate) fn new(
        queue: Queue,
        message: Message,
        asked: DateTime<Utc>,
        visibility: Duration,
    ) -> Self {
        let until = end(asked, visibility);
        let state = Mutex::new(State { message, until, doubtful: false });
        let (renewing, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { queue, visibility, state, renewing, ended }
    }

    /// The message with its latest receipt.
    pub(crate) fn message(&self) -> Message {
        self.state().message.clone()
    }

    /// How long nobody else gets it for certain.
    pub(crate) fn remaining(&self) -> Duration {
        let left = self.state().until - self.clock().now();
        left.to_std().unwrap_or(Duration::ZERO)
    }

    /// Does `work` and renews meanwhile. When the message is lost, `work` is dropped where it waits.
    pub(crate) async fn during<R>(&self, work: impl Future<Output = R>) -> Result<R, Lost> {
        let (work, mut keeper) = (pin!(work), pin!(self.keep()));
        let result = match select(work, &mut keeper).await {
            Either::Left((result, _)) => result,
            Either::Right((lost, _)) => return Err(lost),
        };
        if self.renewing.load(Ordering::Relaxed) {
            self.ended.store(true, Ordering::Relaxed);
            // If that loses the message, whoever settles it is told.
            keeper.await;
        }
        Ok(result)
    }

    /// Renews now: fails with how it was lost, or inside with what may pass.
    pub(crate) async fn renew(&self) -> Result<Result<()>, Lost> {
        let asked = self.clock().now();
        let message = self.message();
        let is_ours = !self.remaining().is_zero();
        match self.queue.update(&message).hidden_for(self.visibility).send().await {
            Ok(message) => {
                let until = end(asked, self.visibility);
                *self.state() = State { message, until, doubtful: false };
                Ok(Ok(()))
            }
            Err(error) if error.is_not_found() => Err(Lost::Taken),
            Err(error) if error.is_conflict() => {
                // Unless somebody else has it: an earlier attempt did it, and its answer with the
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

    /// Renews each third of the time until the message is lost, or the work has ended.
    async fn keep(&self) -> Lost {
        let mut pause = self.visibility / 3;
        loop {
            self.clock().sleep(pause.min(self.remaining())).await;
            let left = self.remaining();
            if left.is_zero() {
                return Lost::Expired;
            }
            self.renewing.store(true, Ordering::Relaxed);
            let (renewal, end) = (pin!(self.renew()), self.clock().sleep(left));
            let renewed = match select(renewal, end).await {
                Either::Left((renewed, _)) => renewed,
                Either::Right(((), _)) => return Lost::Expired,
            };
            self.renewing.store(false, Ordering::Relaxed);
            pause = match renewed {
                Ok(Ok(())) => self.visibility / 3,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the message could not be hidden for longer yet");
                    self.visibility / 15
                }
                Err(lost) => return lost,
            };
            if self.ended.load(Ordering::Relaxed) {
                return Lost::Taken;
            }
        }
    }

    fn clock(&self) -> &dyn Clock {
        self.queue.account().clock()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(asked: DateTime<Utc>, visibility: Duration) -> DateTime<Utc> {
    asked + TimeDelta::from_std(visibility).unwrap_or_default()
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "it could not be hidden for longer in time",
            Self::Taken => "somebody else has received or deleted it",
        })
    }
}
