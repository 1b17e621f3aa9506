//! Processes a message from its reception to its end.
//!
//! The order of requests ensures that no task is lost: the task is processed before its message is deleted,
//! the message is deleted before the blob that it names, and a dead letter is written before its message
//! leaves the queue. Work that is interrupted in between is repeated.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use rowkey::queue::{Body, Message};
use rowkey::{Error, ErrorKind, Outcome, Result};
use rowkey_patterns::Waits;
use tokio::sync::watch;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::attempt::{Failure, Handling, handling, text};
use super::handler::{Phase, reached};
use super::hold::{Hold, Lost};
use super::isolated::{GRACE, Isolated};
use super::{Attempt, Done, Handler, Step, Worker};
use crate::dead_letters::{Cause, NewDeadLetter};
use crate::task::{Envelope, GivenUp, Task};

/// The first and the longest wait for a task that a newer program put.
const NEWER: Waits = Waits::new(Duration::from_secs(60), Duration::from_secs(3600));

/// The shortest wait of a task that was not begun, so that it is not received again and again.
const SHORTEST: Duration = Duration::from_secs(1);

/// The maximum visibility timeout of a message.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many characters of a task's id are in the span of its attempts.
const MAX_SPAN_ID: usize = 64;

/// What to do with a message.
#[derive(Debug)]
pub(super) enum Disposition {
    Delete(Step),
    /// Delete the message and keep the blob: its task already is a dead letter, or that was redriven or
    /// purged.
    Drop,
    Fail(Failure),
    /// Receive it again after this time, without counting an attempt.
    Later(Duration),
    /// A worker of a newer program may know the task.
    Newer(String),
    /// The worker stops before the handler has ended.
    Over,
    Poison(Cause, String),
    /// It was not begun. Receive it again after this time, with its state as it is.
    Unready(Duration),
}

impl Disposition {
    /// By the result of the handler.
    pub(super) fn of(result: Result<Done>) -> Self {
        match result {
            Ok(Done::Applied) => Self::Delete(Step::Handled),
            Ok(Done::AlreadyApplied) => Self::Delete(Step::Suppressed),
            Ok(Done::Later(wait)) => Self::Later(wait),
            Ok(Done::Poison(reason)) => Self::Poison(Cause::Rejected, reason),
            Ok(Done::TooOld(reason)) => Self::Poison(Cause::TooOld, reason),
            Err(error) => Self::Fail(Failure::from(&error)),
        }
    }
}

/// What a message holds until it is settled: the right to be tried, alone or beside others.
type Turn<'w> = Box<dyn Send + Sync + 'w>;

/// How a message ended, and what that says about the dependencies of tasks.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) step: Step,
    pub(super) dependency: Dependency,
    /// The cause, if it failed.
    failure: Option<String>,
}

/// Whether the dependencies of tasks are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// Unavailable; the service asked the client to wait this long.
    Down(Option<Duration>),
    /// Unknown: the result says nothing about it.
    Unsaid,
    Up,
}

impl Settled {
    fn new(step: Step) -> Self {
        Self { step, dependency: Dependency::Unsaid, failure: None }
    }
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Processes a message that was requested at this time, and counts the result.
    pub(super) async fn work(
        &self,
        message: Message,
        asked: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Result<Settled> {
        let settling = async {
            let envelope = self.tasks.open(&message);
            let span = self.span(&message, envelope.as_ref().ok());
            let settled =
                Box::pin(self.settled(message, envelope, asked, phase)).instrument(span).await;
            self.count(&settled);
            settled
        };
        // Code of the program that all messages share, such as its telemetry, must not end the worker either.
        AssertUnwindSafe(settling).catch_unwind().await.unwrap_or_else(|panic| {
            let what = format!("settling a message panicked: {}", text(panic));
            self.counting().unsettled += 1;
            Err(Error::refused(ErrorKind::Unexpected, what))
        })
    }

    fn count(&self, settled: &Result<Settled>) {
        let mut counts = self.counting();
        let step = settled.as_ref().map(|settled| settled.step);
        let (count, outcome) = match step {
            Ok(Step::Deferred) => (&mut counts.deferred, "deferred"),
            Ok(Step::HandedBack) => (&mut counts.handed_back, "handed_back"),
            Ok(Step::Handled) => (&mut counts.handled, "handled"),
            Ok(Step::Lost) => (&mut counts.lost, "lost"),
            Ok(Step::Poisoned) => (&mut counts.poisoned, "poisoned"),
            Ok(Step::Retried) => (&mut counts.retried, "retried"),
            Ok(Step::Suppressed) => (&mut counts.suppressed, "suppressed"),
            Err(_) => (&mut counts.unsettled, "unsettled"),
            Ok(Step::Idle) => return,
        };
        *count += 1;
        drop(counts);
        self.tell_in_flight();
        let queue = self.label();
        self.telemetry().count("rowkey.worker.ended", &[queue, ("outcome", outcome)], 1);
        let failure = settled.as_ref().map_or(None, |settled| settled.failure.as_deref());
        if let Some(cause) = failure {
            // A message can name any cause. Series must stay few.
            let cause = if let Cause::Other(_) = Cause::from(cause) { "Other" } else { cause };
            self.telemetry().count("rowkey.worker.failed", &[queue, ("cause", cause)], 1);
        }
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

    async fn settled(
        &self,
        message: Message,
        envelope: std::result::Result<Envelope, String>,
        asked: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Result<Settled> {
        let hold = Hold::new(self.tasks.queue(), message, asked, self.visibility);
        let hold = Arc::new(hold);
        let mut envelope = match envelope {
            Ok(envelope) => envelope,
            Err(reason) => return self.poison(&hold, None, Cause::Unreadable, &reason).await,
        };
        let renewals = self.renewals()?;
        let (working, mut worked) = watch::channel(());
        // Kept until the message is settled: a task that begins before that, and ends the process, would be taken
        // for this one.
        let mut turn = None;
        let work = self.end(&mut envelope, &hold, phase, working, &mut turn);
        let end = hold.during(&renewals, work).await?;
        if matches!(end, Err(_) | Ok(Disposition::Over)) {
            // It has lost the message, and should end before another attempt.
            drop(tokio::time::timeout(GRACE, worked.changed()).await);
        }
        let end = match end {
            Ok(end) => end,
            Err(Lost::Overrun) => {
                let limit = hold.limit_length().unwrap_or(self.time_limit);
                self.counting().overrun += 1;
                let text = format!("it exceeded its time limit of {limit:?}");
                Disposition::Fail(Failure::counted(Cause::TimeLimit, text))
            }
            Err(lost) => return Ok(given_up(lost)),
        };
        match end {
            Disposition::Delete(step) => self.delete(&hold, Some(&envelope), step).await,
            Disposition::Drop => {
                tracing::warn!("the task is or was a dead letter; its message is deleted");
                self.delete(&hold, None, Step::Suppressed).await
            }
            Disposition::Fail(failure) => self.fail(&hold, &mut envelope, failure).await,
            Disposition::Later(wait) => {
                self.put_off(&hold, &mut envelope, wait, Step::Deferred).await
            }
            Disposition::Newer(reason) if self.has_patience(&hold.message()) => {
                let wait = NEWER.after(hold.message().dequeue_count.saturating_sub(1));
                tracing::warn!(reason, ?wait, "the task waits for a worker of a newer program");
                self.put_off(&hold, &mut envelope, wait, Step::Deferred).await
            }
            Disposition::Newer(reason) => {
                self.poison(&hold, Some(&envelope), Cause::Unreadable, &reason).await
            }
            Disposition::Poison(cause, reason) => {
                self.poison(&hold, Some(&envelope), cause, &reason).await
            }
            Disposition::Over => {
                self.put_off(&hold, &mut envelope, Duration::ZERO, Step::HandedBack).await
            }
            Disposition::Unready(wait) => self.hide(&hold, None, wait, Step::Deferred).await,
        }
    }

    /// Tries the task, alone if necessary.
    async fn end<'w>(
        &'w self,
        envelope: &mut Envelope,
        hold: &Arc<Hold>,
        mut phase: watch::Receiver<Phase>,
        working: watch::Sender<()>,
        turn: &mut Option<Turn<'w>>,
    ) -> Disposition {
        let mut over = phase.clone();
        let handling = match handling(envelope, &hold.message(), self.max_attempts) {
            // Its dead letter may exist already.
            Handling::Poison(..) if envelope.given_up.is_some() => Handling::Together,
            Handling::Poison(cause, reason) => return Disposition::Poison(cause, reason),
            handling => handling,
        };
        let ready = async {
            if let Some(end) = self.final_end(envelope, hold).await {
                return end;
            }
            if handling == Handling::Alone {
                *turn = Some(Box::new(self.common.alone.write().await));
                if self.common.stuck.is_any() {
                    tracing::warn!("a handler blocks, so the task cannot be tried alone yet");
                    return Disposition::Unready(self.put_off_for(hold));
                }
                // Before anything is read that could end the process.
                if let Err(end) = self.mark_alone(envelope, hold).await {
                    return end;
                }
            } else {
                *turn = Some(Box::new(self.common.alone.read().await));
            }
            self.tried(envelope, hold, &mut phase, working).await
        };
        // A task that waits for its key, or a service that does not answer, must not delay the shutdown.
        match select(pin!(ready), pin!(reached(&mut over, Phase::Over))).await {
            Either::Left((end, _)) => end,
            Either::Right(_) => Disposition::Over,
        }
    }

    /// How long a task waits that was not begun.
    fn put_off_for(&self, hold: &Hold) -> Duration {
        self.retry.after(hold.message().dequeue_count.saturating_sub(1)).max(SHORTEST)
    }

    /// Returns how to end a message that must not be tried, from the dead letters of its task. Sends requests
    /// only for messages that are marked as given up or redriven.
    async fn final_end(&self, envelope: &Envelope, hold: &Hold) -> Option<Disposition> {
        if envelope.given_up.is_none() && envelope.redriven == 0 {
            return None;
        }
        match self.tasks.dead_letters().covers(envelope, &hold.message()).await {
            Ok(true) => Some(Disposition::Drop),
            Ok(false) => envelope.given_up.as_ref().map(|GivenUp { cause, reason }| {
                Disposition::Poison(Cause::from(&**cause), reason.clone())
            }),
            Err(error) => Some(Disposition::Fail(Failure::from(&error))),
        }
    }

    /// Records in the message that it is tried alone, so that its next reception shows how that ended.
    async fn mark_alone(&self, envelope: &Envelope, hold: &Hold) -> Result<(), Disposition> {
        let message = hold.message();
        let mut envelope = envelope.clone();
        (envelope.alone, envelope.receptions) = (true, message.dequeue_count.saturating_sub(1));
        let Some(body) = self.tasks.with_history(&envelope) else {
            let reason =
                format!("it was received {} times and never completed", message.dequeue_count);
            return Err(Disposition::Poison(Cause::UnknownEnd, reason));
        };
        match hold.renew(self.tasks.queue(), Some(body)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Disposition::Fail(Failure::from(&error))),
            // Settling detects and reports this.
            Err(_) => Err(Disposition::Later(Duration::ZERO)),
        }
    }

    /// Reads and handles the task in a tokio task.
    async fn tried(
        &self,
        envelope: &Envelope,
        hold: &Arc<Hold>,
        phase: &mut watch::Receiver<Phase>,
        working: watch::Sender<()>,
    ) -> Disposition {
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
            put_off: self.put_off_for(hold),
        };
        let running = isolated.begin(working, &self.running);
        self.tell_in_flight();
        match select(pin!(running.end()), pin!(reached(phase, Phase::Over))).await {
            Either::Left((end, _)) => end,
            Either::Right(_) => Disposition::Over,
        }
    }

    /// Deletes the message, and the blob of its task if that is done.
    async fn delete(
        &self,
        hold: &Hold,
        envelope: Option<&Envelope>,
        step: Step,
    ) -> Result<Settled> {
        let done = |step| Settled { dependency: Dependency::Up, ..Settled::new(step) };
        match self.tasks.queue().delete_if_exists(&hold.message()).await {
            Ok(true) => {
                if let Some(envelope) = envelope
                    && let Err(error) = self.tasks.discard(envelope).await
                {
                    tracing::warn!(%error, "the task's blob is left to `sweep_claims`");
                }
                tracing::debug!(?step, "the message is deleted");
                Ok(done(step))
            }
            // Another worker has deleted the message, and deletes its blob as well.
            Ok(false) => Ok(done(step)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(given_up(Lost::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Makes a failed task visible again later, or puts it aside after its last attempt.
    async fn fail(
        &self,
        hold: &Hold,
        envelope: &mut Envelope,
        failure: Failure,
    ) -> Result<Settled> {
        let Failure { text, cause, is_transient, wait } = failure;
        let failed = cause.to_string();
        let message = hold.message();
        envelope.failed(self.clock().now(), &text, Some(failed.clone()));
        let is_transient = is_transient && self.has_patience(&message);
        let (step, doubled) = if is_transient {
            (Step::Deferred, message.dequeue_count.saturating_sub(1))
        } else {
            envelope.attempts = envelope.attempts.saturating_add(1);
            (Step::Retried, envelope.attempts - 1)
        };
        let mut settled = if envelope.attempts < self.max_attempts || is_transient {
            let wait = self.retry.after(doubled).max(wait.unwrap_or_default());
            tracing::warn!(error = text, ?wait, "the task failed and will be tried again");
            self.put_off(hold, envelope, wait, step).await?
        } else {
            self.poison(hold, Some(envelope), cause, &text).await?
        };
        settled.failure = Some(failed);
        if is_transient {
            settled.dependency = Dependency::Down(wait);
        }
        Ok(settled)
    }

    /// Makes the message visible again after a while, with its updated state.
    async fn put_off(
        &self,
        hold: &Hold,
        envelope: &mut Envelope,
        wait: Duration,
        step: Step,
    ) -> Result<Settled> {
        // This attempt has a known result.
        (envelope.alone, envelope.receptions) = (false, hold.message().dequeue_count);
        self.hide(hold, self.tasks.with_history(envelope), wait, step).await
    }

    /// Makes the message visible again after a while, with a new text if there is one.
    async fn hide(
        &self,
        hold: &Hold,
        body: Option<Body>,
        wait: Duration,
        step: Step,
    ) -> Result<Settled> {
        let message = hold.message();
        let mut update = self.tasks.queue().update(&message).hidden_for(wait.min(LONGEST));
        if let Some(body) = body {
            update = update.body(body);
        }
        match update.send().await {
            Ok(_) => {}
            // An earlier attempt of this very request changed the pop receipt.
            Err(error)
                if error.kind() == ErrorKind::Conflict && error.outcome() == Outcome::Unknown => {}
            Err(error)
                if error.kind() == ErrorKind::Conflict || error.kind() == ErrorKind::NotFound =>
            {
                return Ok(given_up(Lost::Taken));
            }
            Err(error) => return Err(error),
        }
        Ok(Settled::new(step))
    }

    /// Puts the message aside if this worker still holds it; another worker that has received it may process
    /// it successfully.
    ///
    /// The renewal that checks this marks the message as given up. So if writing the row or deleting the
    /// message fails, the message is received again but not tried again.
    async fn poison(
        &self,
        hold: &Hold,
        envelope: Option<&Envelope>,
        cause: Cause,
        reason: &str,
    ) -> Result<Settled> {
        let undecided = envelope.filter(|envelope| envelope.given_up.is_none());
        let failed = cause.to_string();
        let decided = undecided.map(|envelope| envelope.giving_up(failed.clone(), reason));
        let body = decided.and_then(|envelope| self.tasks.with_history(&envelope));
        match hold.renew(self.tasks.queue(), body).await {
            Ok(renewed) => renewed?,
            Err(lost) => return Ok(given_up(lost)),
        }
        let message = hold.message();
        let new = NewDeadLetter { message: &message, envelope, cause, reason };
        self.tasks.dead_letters().put_aside(&new).await?;
        match self.tasks.queue().delete_if_exists(&message).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return Ok(given_up(Lost::Taken));
            }
            deleted => drop(deleted?),
        }
        tracing::error!(reason, "the task is a dead letter");
        Ok(Settled { failure: Some(failed), ..Settled::new(Step::Poisoned) })
    }

    /// Whether the task may still fail without this being counted.
    fn has_patience(&self, message: &Message) -> bool {
        let age = self.clock().now() - message.inserted;
        age.to_std().unwrap_or_default() < self.patience
    }

    /// The number of tasks that are read or handled, including those that block after their time limit.
    pub(super) fn at_work(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

fn given_up(lost: Lost) -> Settled {
    tracing::warn!(%lost, "the message was lost to another worker");
    Settled::new(Step::Lost)
}
