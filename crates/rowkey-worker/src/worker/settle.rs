//! Processes a message from its reception to its end.
//!
//! The order of requests ensures that no task is lost: the task is processed before its message is deleted,
//! the message is deleted before the blob that it names, and a dead letter is written before its message
//! leaves the queue. Work that is interrupted in between is repeated.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::queue::Message;
use rowkey::{Outcome, Result};
use rowkey_store::Waits;
use tokio::sync::{oneshot, watch};
use tracing::Instrument as _;
use tracing::field::Empty;

use super::attempt::{Failure, Running, Turn, Working, turn};
use super::handler::{Phase, reached};
use super::hold::{Hold, Lost};
use super::{Attempt, Done, Handler, Step, Worker};
use crate::dead_letters::{Aside, Cause};
use crate::task::{GivenUp, Letter, Loaded, Task};

/// How long to wait for a cancelled handler. A handler at an await ends at once.
const GRACE: Duration = Duration::from_secs(1);

/// The first and the longest wait for a task that a newer program put.
const NEWER: Waits = Waits::new(Duration::from_secs(60), Duration::from_secs(3600));

/// The maximum visibility timeout of a message.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to do with a message.
enum End {
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
}

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
        let letter = self.tasks.open(&message);
        let span = self.span(&message, letter.as_ref().ok());
        let settled = Box::pin(self.settled(message, letter, asked, phase)).instrument(span).await;
        self.count(&settled);
        settled
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
            self.telemetry().count("rowkey.worker.failed", &[queue, ("cause", cause)], 1);
        }
    }

    /// The span of an attempt, in the trace in which its task was put.
    fn span(&self, message: &Message, letter: Option<&Letter>) -> tracing::Span {
        let span = tracing::info_span!(
            "task",
            otel.kind = "consumer",
            messaging.system = "azure_queues",
            messaging.destination.name = self.tasks.queue().name(),
            kind = T::KIND,
            id = letter.map_or(&*message.id, |letter| &letter.id),
            attempt = message.dequeue_count,
            trace_id = Empty,
            parent_id = Empty,
        );
        if let Some(trace) = letter.and_then(|letter| letter.trace) {
            self.tasks.queue().account().telemetry().follow(&span, trace);
        }
        span
    }

    async fn settled(
        &self,
        message: Message,
        letter: std::result::Result<Letter, String>,
        asked: Duration,
        phase: watch::Receiver<Phase>,
    ) -> Result<Settled> {
        let hold = Hold::new(self.tasks.queue(), message, asked, self.visibility);
        let hold = Arc::new(hold);
        let mut letter = match letter {
            Ok(letter) => letter,
            Err(reason) => return self.poison(&hold, None, Cause::Unreadable, &reason).await,
        };
        let renewals = self.renewals()?;
        let (working, worked) = oneshot::channel();
        let work = self.end(&mut letter, &hold, phase, working);
        let end = hold.during(&renewals, work).await?;
        if matches!(end, Err(_) | Ok(End::Over))
            && tokio::time::timeout(GRACE, worked).await.is_err()
        {
            tracing::error!("a handler blocks its thread and continues after its time limit");
        }
        let end = match end {
            Ok(end) => end,
            Err(Lost::Overrun) => {
                let limit = self.time_limit;
                self.counting().overrun += 1;
                let text = format!("it exceeded its time limit of {limit:?}");
                End::Fail(Failure::counted(Cause::TimeLimit, text))
            }
            Err(lost) => return Ok(given_up(lost)),
        };
        match end {
            End::Delete(step) => self.delete(&hold, Some(&letter), step).await,
            End::Drop => {
                tracing::warn!("the task is or was a dead letter; its message is deleted");
                self.delete(&hold, None, Step::Suppressed).await
            }
            End::Fail(failure) => self.fail(&hold, &mut letter, failure).await,
            End::Later(wait) => self.put_off(&hold, &mut letter, wait, Step::Deferred).await,
            End::Newer(reason) if self.has_patience(&hold.message()) => {
                let wait = NEWER.after(hold.message().dequeue_count.saturating_sub(1));
                tracing::warn!(reason, ?wait, "the task waits for a worker of a newer program");
                self.put_off(&hold, &mut letter, wait, Step::Deferred).await
            }
            End::Newer(reason) => {
                self.poison(&hold, Some(&letter), Cause::Unreadable, &reason).await
            }
            End::Poison(cause, reason) => self.poison(&hold, Some(&letter), cause, &reason).await,
            End::Over => self.put_off(&hold, &mut letter, Duration::ZERO, Step::HandedBack).await,
        }
    }

    /// Runs the handler for the task, alone if necessary.
    async fn end(
        &self,
        letter: &mut Letter,
        hold: &Arc<Hold>,
        mut phase: watch::Receiver<Phase>,
        working: Working,
    ) -> End {
        let mut over = phase.clone();
        let turn = match turn(letter, &hold.message(), self.max_attempts) {
            // Its dead letter may exist already.
            Turn::Poison(..) if letter.given_up.is_some() => Turn::Together,
            Turn::Poison(cause, reason) => return End::Poison(cause, reason),
            turn => turn,
        };
        let ready = async {
            if let Some(end) = self.final_end(letter, hold).await {
                return end;
            }
            let task = match self.tasks.load(letter).await {
                Ok(Loaded::Task(task)) => task,
                Ok(Loaded::Done) => return End::Delete(Step::Suppressed),
                Ok(Loaded::Gone) => {
                    let reason = "the blob with its task is gone".to_owned();
                    return End::Poison(Cause::Unreadable, reason);
                }
                Ok(Loaded::Newer(reason)) => return End::Newer(reason),
                Ok(Loaded::Unreadable(reason)) => return End::Poison(Cause::Unreadable, reason),
                Err(error) => return End::Fail(Failure::from(&error)),
            };
            let key = task.key();
            let work = async {
                if turn == Turn::Alone {
                    let _alone = self.alone.write().await;
                    match self.mark_alone(letter, hold).await {
                        Ok(()) => self.handled(task, letter, hold, &mut phase, working).await,
                        Err(end) => end,
                    }
                } else {
                    let _together = self.alone.read().await;
                    self.handled(task, letter, hold, &mut phase, working).await
                }
            };
            self.keys.alone(key, work).await
        };
        // A task that waits for its key, or a service that does not answer, must not delay the shutdown.
        match select(pin!(ready), pin!(reached(&mut over, Phase::Over))).await {
            Either::Left((end, _)) => end,
            Either::Right(_) => End::Over,
        }
    }

    /// Returns how to end a message that must not be tried, from the dead letters of its task. Sends requests
    /// only for messages that are marked as given up or redriven.
    async fn final_end(&self, letter: &Letter, hold: &Hold) -> Option<End> {
        if letter.given_up.is_none() && letter.redriven == 0 {
            return None;
        }
        match self.tasks.dead_letters().covers(letter, &hold.message()).await {
            Ok(true) => Some(End::Drop),
            Ok(false) => letter.given_up.as_ref().map(|GivenUp { cause, reason }| {
                End::Poison(Cause::from(&**cause), reason.clone())
            }),
            Err(error) => Some(End::Fail(Failure::from(&error))),
        }
    }

    /// Records in the message that it is tried alone, so that its next reception shows how that ended.
    async fn mark_alone(&self, letter: &Letter, hold: &Hold) -> Result<(), End> {
        let message = hold.message();
        let mut letter = letter.clone();
        (letter.alone, letter.receptions) = (true, message.dequeue_count.saturating_sub(1));
        let Some(body) = self.tasks.with_history(&letter) else {
            let reason =
                format!("it was received {} times and never completed", message.dequeue_count);
            return Err(End::Poison(Cause::UnknownEnd, reason));
        };
        match hold.renew(self.tasks.queue(), Some(body)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(End::Fail(Failure::from(&error))),
            // Settling detects and reports this.
            Err(_) => Err(End::Later(Duration::ZERO)),
        }
    }

    /// Runs the handler for the task, within its time limit.
    async fn handled(
        &self,
        task: T,
        letter: &Letter,
        hold: &Arc<Hold>,
        phase: &mut watch::Receiver<Phase>,
        working: Working,
    ) -> End {
        let message = hold.message();
        let first_seen = letter.first_seen.as_ref().and_then(|time| time.parse().ok());
        let attempt = Attempt {
            id: letter.id.as_str().into(),
            number: message.dequeue_count,
            first_seen: first_seen.unwrap_or(message.inserted),
            hold: Arc::clone(hold),
            phase: phase.clone(),
        };
        hold.limit(self.time_limit);
        self.telemetry().count("rowkey.worker.attempts", &[self.label()], 1);
        let working = (working, &self.running);
        let running = Running::begin(&self.handler, task, attempt, letter.trace, working);
        self.tell_in_flight();
        let (ended, over) = (pin!(running.end()), pin!(reached(phase, Phase::Over)));
        match select(ended, over).await {
            Either::Left((Ok(Done::Applied), _)) => End::Delete(Step::Handled),
            Either::Left((Ok(Done::AlreadyApplied), _)) => End::Delete(Step::Suppressed),
            Either::Left((Ok(Done::Later(wait)), _)) => End::Later(wait),
            Either::Left((Ok(Done::Poison(reason)), _)) => End::Poison(Cause::Rejected, reason),
            Either::Left((Ok(Done::TooOld(reason)), _)) => End::Poison(Cause::TooOld, reason),
            Either::Left((Err(failure), _)) => End::Fail(failure),
            Either::Right(_) => End::Over,
        }
    }

    /// Deletes the message, and the blob of its task if that is done.
    async fn delete(&self, hold: &Hold, letter: Option<&Letter>, step: Step) -> Result<Settled> {
        let done = |step| Settled { dependency: Dependency::Up, ..Settled::new(step) };
        match self.tasks.queue().delete_if_exists(&hold.message()).await {
            Ok(true) => {
                if let Some(letter) = letter
                    && let Err(error) = self.tasks.discard(letter).await
                {
                    tracing::warn!(%error, "the task's blob is left to `sweep_claims`");
                }
                tracing::debug!(?step, "the message is deleted");
                Ok(done(step))
            }
            // Another worker has deleted the message, and deletes its blob as well.
            Ok(false) => Ok(done(step)),
            Err(error) if error.kind() == rowkey::ErrorKind::Conflict => Ok(given_up(Lost::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Makes a failed task visible again later, or puts it aside after its last attempt.
    async fn fail(&self, hold: &Hold, letter: &mut Letter, failure: Failure) -> Result<Settled> {
        let Failure { text, cause, is_transient, wait } = failure;
        let failed = cause.to_string();
        let message = hold.message();
        letter.failed(self.clock().now(), &text, Some(failed.clone()));
        let is_transient = is_transient && self.has_patience(&message);
        let (step, doubled) = if is_transient {
            (Step::Deferred, message.dequeue_count.saturating_sub(1))
        } else {
            letter.attempts += 1;
            (Step::Retried, letter.attempts - 1)
        };
        let mut settled = if letter.attempts < self.max_attempts || is_transient {
            let wait = self.retry.after(doubled).max(wait.unwrap_or_default());
            tracing::warn!(error = text, ?wait, "the task failed and will be tried again");
            self.put_off(hold, letter, wait, step).await?
        } else {
            self.poison(hold, Some(letter), cause, &text).await?
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
        letter: &mut Letter,
        wait: Duration,
        step: Step,
    ) -> Result<Settled> {
        let message = hold.message();
        // This attempt has a known result.
        (letter.alone, letter.receptions) = (false, message.dequeue_count);
        let wait = wait.min(LONGEST);
        let mut update = self.tasks.queue().update(&message).hidden_for(wait);
        if let Some(body) = self.tasks.with_history(letter) {
            update = update.body(body);
        }
        match update.send().await {
            Ok(_) => {}
            // An earlier attempt of this very request changed the pop receipt.
            Err(error)
                if error.kind() == rowkey::ErrorKind::Conflict
                    && error.outcome() == Outcome::Unknown => {}
            Err(error)
                if error.kind() == rowkey::ErrorKind::Conflict
                    || error.kind() == rowkey::ErrorKind::NotFound =>
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
        letter: Option<&Letter>,
        cause: Cause,
        reason: &str,
    ) -> Result<Settled> {
        let undecided = letter.filter(|letter| letter.given_up.is_none());
        let failed = cause.to_string();
        let decided = undecided.map(|letter| letter.giving_up(failed.clone(), reason));
        let body = decided.and_then(|letter| self.tasks.with_history(&letter));
        match hold.renew(self.tasks.queue(), body).await {
            Ok(renewed) => renewed?,
            Err(lost) => return Ok(given_up(lost)),
        }
        let message = hold.message();
        let aside = Aside { message: &message, letter, cause, reason };
        self.tasks.dead_letters().put_aside(&aside).await?;
        match self.tasks.queue().delete_if_exists(&message).await {
            Err(error) if error.kind() == rowkey::ErrorKind::Conflict => {
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

    /// The number of handlers that have not ended, including those that block after their time limit.
    pub(super) fn at_work(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

fn given_up(lost: Lost) -> Settled {
    tracing::warn!(%lost, "the message was lost to another worker");
    Settled::new(Step::Lost)
}
