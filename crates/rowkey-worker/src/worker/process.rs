//! Processes a message from its reception to its end.
//!
//! The order of requests ensures that no task is lost: the task is processed before its message is deleted,
//! the message is deleted before the blob that it names, and a dead letter is written before its message
//! leaves the queue. Work that is interrupted in between is repeated.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use rowkey_client::queue::Message;
use rowkey_client::{Error, ErrorKind, Result};
use rowkey_patterns::Waits;
use tokio::sync::watch;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::ending::{Ending, Failure, Known, Limits, Processed, decide, is_tried_alone};
use super::handler::{Phase, reached};
use super::hold::{Hold, Lost};
use super::isolated::{GRACE, Isolated};
use super::{Attempt, Handler, Step, Worker};
use crate::dead_letters::Cause;
use crate::panics::text;
use crate::task::{Envelope, GivenUp, Task};

/// The first and the longest wait for a task that a newer program put.
const NEWER: Waits = Waits::new(Duration::from_secs(60), Duration::from_secs(3600));

/// How many characters of a task's id are in the span of its attempts.
const MAX_SPAN_ID: usize = 64;

/// What a message holds until it has ended: the right to be tried, alone or beside others.
type Turn<'w> = Box<dyn Send + Sync + 'w>;

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Processes a message that was requested at this time, and counts how it ended.
    pub(super) async fn work(
        &self,
        message: Message,
        asked: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Result<(Step, Ending)> {
        let work = async {
            let envelope = self.tasks.open(&message);
            let span = self.span(&message, envelope.as_ref().ok());
            let ended =
                Box::pin(self.process(message, envelope, asked, phase)).instrument(span).await;
            self.count(&ended);
            ended
        };
        // Code of the program that all messages share, such as its telemetry, must not end the worker either.
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
            let what = format!("processing a message panicked: {}", text(panic));
            self.counting().unknown += 1;
            Err(Error::refused(ErrorKind::Unexpected, what))
        })
    }

    /// The span of an attempt, in the trace in which its task was put.
    fn span(&self, message: &Message, envelope: Option<&Envelope>) -> tracing::Span {
        let id = envelope.map_or(&*message.id, |envelope| &envelope.id);
        // Ids of workers are shorter. One of a foreign message may be as long as the message.
        let end = id.char_indices().nth(MAX_SPAN_ID).map_or(id.len(), |(end, _)| end);
        let span = tracing::info_span!(
            "task",
            otel.kind = "consumer",
            messaging.system = "azure_queues",
            messaging.destination.name = self.tasks.queue().name(),
            kind = T::KIND,
            id = &id[..end],
            attempt = message.dequeue_count,
            trace_id = Empty,
            parent_id = Empty,
        );
        if let Some(trace) = envelope.and_then(|envelope| envelope.trace) {
            self.tasks.queue().account().telemetry().follow(&span, trace);
        }
        span
    }

    async fn process(
        &self,
        message: Message,
        envelope: std::result::Result<Envelope, String>,
        asked: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Result<(Step, Ending)> {
        let hold = Hold::new(self.tasks.queue(), message, asked, self.visibility);
        let hold = Arc::new(hold);
        // Kept until the message has ended: a task that begins before that, and ends the process, would be taken
        // for this one.
        let mut turn = None;
        let (processed, mut envelope) = match envelope {
            Ok(envelope) => {
                (self.attempt(&envelope, &hold, phase, &mut turn).await?, Some(envelope))
            }
            Err(reason) => {
                (Processed::Unprocessable(Failure::new(Cause::Unreadable, reason)), None)
            }
        };
        let attempts = envelope.as_ref().map_or(0, |envelope| envelope.attempts);
        let ending = self.ending(processed, attempts, &hold.message());
        let step = self.apply(&ending, &hold, envelope.as_mut()).await?;
        Ok((step, ending))
    }

    /// Decides by the limits of this worker.
    fn ending(&self, processed: Processed, attempts: u32, message: &Message) -> Ending {
        let known = Known {
            attempts,
            received: message.dequeue_count.saturating_sub(1),
            age: (self.clock().now() - message.inserted).to_std().unwrap_or_default(),
        };
        let limits = Limits {
            max_attempts: self.max_attempts,
            patience: self.patience,
            retry: &|waits| self.retry.after(waits),
            newer: &|waits| NEWER.after(waits),
        };
        decide(processed, &known, &limits)
    }

    /// Tries the task while the message is held.
    async fn attempt<'w>(
        &'w self,
        envelope: &Envelope,
        hold: &Arc<Hold>,
        phase: watch::Receiver<Phase>,
        turn: &mut Option<Turn<'w>>,
    ) -> Result<Processed> {
        let renewals = self.renewals()?;
        let (working, mut worked) = watch::channel(());
        let work = self.try_in_turn(envelope, hold, phase, working, turn);
        let processed = hold.during(&renewals, work).await?;
        if matches!(processed, Err(_) | Ok(Processed::Stopped)) {
            // It has lost the message, and should end before another attempt.
            drop(tokio::time::timeout(GRACE, worked.changed()).await);
        }
        Ok(match processed {
            Ok(processed) => processed,
            Err(Lost::Overrun) => {
                let limit = hold.limit_length().unwrap_or(self.time_limit);
                self.counting().overrun += 1;
                let text = format!("it exceeded its time limit of {limit:?}");
                Processed::Failed(Failure::new(Cause::TimeLimit, text))
            }
            Err(lost) => Processed::Lost(lost),
        })
    }

    /// Waits for its turn, then tries the task, alone if necessary.
    async fn try_in_turn<'w>(
        &'w self,
        envelope: &Envelope,
        hold: &Arc<Hold>,
        mut phase: watch::Receiver<Phase>,
        working: watch::Sender<()>,
        turn: &mut Option<Turn<'w>>,
    ) -> Processed {
        let mut over = phase.clone();
        let count = hold.message().dequeue_count;
        let is_alone = match is_tried_alone(envelope, count, self.max_attempts) {
            Ok(is_alone) => is_alone,
            // Its dead letter may exist already.
            Err(_) if envelope.given_up.is_some() => false,
            Err(failure) => return Processed::Unprocessable(failure),
        };
        let ready = async {
            if let Some(processed) = self.given_up(envelope, hold).await {
                return processed;
            }
            if is_alone {
                *turn = Some(Box::new(self.common.alone.write().await));
                if self.common.stuck.is_any() {
                    tracing::warn!("a handler blocks, so the task cannot be tried alone yet");
                    return Processed::Blocked { has_begun: false };
                }
                // Before anything is read that could end the process.
                if let Err(processed) = self.mark_alone(envelope, hold).await {
                    return processed;
                }
            } else {
                *turn = Some(Box::new(self.common.alone.read().await));
            }
            self.tried(envelope, hold, &mut phase, working).await
        };
        // A task that waits for its key, or a service that does not answer, must not delay the shutdown.
        match select(pin!(ready), pin!(reached(&mut over, Phase::Over))).await {
            Either::Left((processed, _)) => processed,
            Either::Right(_) => Processed::Stopped,
        }
    }

    /// Returns why a message must not be tried, from the dead letters of its task. Sends requests only for messages
    /// that are marked as given up or redriven.
    async fn given_up(&self, envelope: &Envelope, hold: &Hold) -> Option<Processed> {
        if envelope.given_up.is_none() && envelope.redriven == 0 {
            return None;
        }
        match self.tasks.dead_letters().covers(envelope, &hold.message()).await {
            Ok(true) => {
                tracing::warn!("the task is or was a dead letter; its message is deleted");
                Some(Processed::IsDeadLetter)
            }
            Ok(false) => envelope.given_up.as_ref().map(|GivenUp { cause, reason }| {
                Processed::Unprocessable(Failure::new(Cause::from(&**cause), reason))
            }),
            Err(error) => Some(Processed::Failed(Failure::from(&error))),
        }
    }

    /// Records in the message that it is tried alone, so that its next reception shows how that ended.
    async fn mark_alone(
        &self,
        envelope: &Envelope,
        hold: &Hold,
    ) -> std::result::Result<(), Processed> {
        let message = hold.message();
        let mut envelope = envelope.clone();
        (envelope.alone, envelope.receptions) = (true, message.dequeue_count.saturating_sub(1));
        let Some(body) = self.tasks.with_history(&envelope) else {
            let text =
                format!("it was received {} times and never completed", message.dequeue_count);
            return Err(Processed::Unprocessable(Failure::new(Cause::UnknownEnd, text)));
        };
        match hold.renew(self.tasks.queue(), Some(body)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Processed::Failed(Failure::from(&error))),
            Err(lost) => Err(Processed::Lost(lost)),
        }
    }

    /// Reads and handles the task in a task of the runtime.
    async fn tried(
        &self,
        envelope: &Envelope,
        hold: &Arc<Hold>,
        phase: &mut watch::Receiver<Phase>,
        working: watch::Sender<()>,
    ) -> Processed {
        let message = hold.message();
        let first_seen = envelope.first_seen.as_ref().and_then(|time| time.parse().ok());
        // It was put before its message was.
        let first_seen = first_seen.filter(|time| *time < message.inserted);
        let attempt = Attempt {
            id: envelope.id.as_str().into(),
            number: message.dequeue_count,
            first_seen: first_seen.unwrap_or(message.inserted),
            time_limit: self.time_limit,
            hold: Arc::clone(hold),
            phase: phase.clone(),
        };
        let isolated = Isolated {
            tasks: self.tasks.clone(),
            handler: Arc::clone(&self.handler),
            envelope: envelope.clone(),
            attempt,
            keys: Arc::clone(&self.common.keys),
            stuck: Arc::clone(&self.common.stuck),
            time_limit: self.time_limit,
        };
        let running = isolated.begin(working, &self.running);
        match select(pin!(running.end()), pin!(reached(phase, Phase::Over))).await {
            Either::Left((processed, _)) => processed,
            Either::Right(_) => Processed::Stopped,
        }
    }
}
