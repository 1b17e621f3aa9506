//! Ends a message as decided: sends the requests, traces the result, and counts it.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rowkey_client::queue::Body;
use rowkey_client::telemetry::{OTHER, metrics};
use rowkey_client::{ErrorKind, Outcome, Result};

use super::ending::{Ending, Failure};
use super::hold::{Hold, Lost};
use super::{Handler, Step, Worker};
use crate::dead_letters::{Cause, NewDeadLetter};
use crate::task::{Envelope, Task};

/// The maximum visibility timeout of a message.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Ends a message.
    pub(super) async fn apply(
        &self,
        ending: &Ending,
        hold: &Hold,
        mut envelope: Option<&mut Envelope>,
    ) -> Result<Step> {
        if let Some(envelope) = &mut envelope
            && let Some((failure, counts)) = ending.failed_attempt()
        {
            let cause = Some(failure.cause.to_string());
            envelope.failed(self.clock().now(), &failure.text, cause);
            envelope.attempts = envelope.attempts.saturating_add(counts.into());
        }
        match ending {
            Ending::Complete { step, keeps_blob } => {
                let envelope = envelope.as_deref().filter(|_| !keeps_blob);
                self.complete(hold, envelope, *step).await
            }
            Ending::DeadLetter { failure, .. } => {
                self.dead_letter(hold, envelope.as_deref(), failure).await
            }
            Ending::Lost(lost) => Ok(is_lost(*lost)),
            Ending::Retry { step, wait, failure, is_known } => {
                let body = envelope.filter(|_| *is_known).and_then(|envelope| {
                    (envelope.alone, envelope.receptions) = (false, hold.message().dequeue_count);
                    self.tasks.with_history(envelope)
                });
                if let Some(Failure { text, .. }) = failure {
                    tracing::warn!(error = text, ?wait, "the task failed and will be tried again");
                }
                self.retry_after(hold, body, *wait, *step).await
            }
        }
    }

    /// Deletes the message, and the blob of its task if that is done.
    async fn complete(&self, hold: &Hold, envelope: Option<&Envelope>, step: Step) -> Result<Step> {
        match self.tasks.queue().delete_if_exists(&hold.message()).await {
            Ok(true) => {
                if let Some(envelope) = envelope
                    && let Err(error) = self.tasks.discard(envelope).await
                {
                    tracing::warn!(%error, "the task's blob is left to `sweep_claims`");
                }
                tracing::debug!(?step, "the message is deleted");
                Ok(step)
            }
            // Another worker has deleted the message, and deletes its blob as well.
            Ok(false) => Ok(step),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(is_lost(Lost::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Makes the message visible again after a while, with a new text if there is one.
    async fn retry_after(
        &self,
        hold: &Hold,
        body: Option<Body>,
        wait: Duration,
        step: Step,
    ) -> Result<Step> {
        let message = hold.message();
        let mut update = self.tasks.queue().update(&message).hidden_for(wait.min(LONGEST));
        if let Some(body) = body {
            update = update.body(body);
        }
        match update.send().await {
            Ok(_) => Ok(step),
            // An earlier attempt of this very request changed the pop receipt.
            Err(error)
                if error.kind() == ErrorKind::Conflict && error.outcome() == Outcome::Unknown =>
            {
                Ok(step)
            }
            Err(error) if [ErrorKind::Conflict, ErrorKind::NotFound].contains(&error.kind()) => {
                Ok(is_lost(Lost::Taken))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the dead letter of a message if this worker still holds it; another worker that has received it may
    /// process it successfully.
    ///
    /// The renewal that checks this marks the message as given up. So if writing the row or deleting the
    /// message fails, the message is received again but not tried again.
    async fn dead_letter(
        &self,
        hold: &Hold,
        envelope: Option<&Envelope>,
        failure: &Failure,
    ) -> Result<Step> {
        let Failure { cause, text: reason, .. } = failure;
        let undecided = envelope.filter(|envelope| envelope.given_up.is_none());
        let decided = undecided.map(|envelope| envelope.giving_up(cause.to_string(), reason));
        let body = decided.and_then(|envelope| self.tasks.with_history(&envelope));
        match hold.renew(self.tasks.queue(), body).await {
            Ok(renewed) => renewed?,
            Err(lost) => return Ok(is_lost(lost)),
        }
        let message = hold.message();
        let new = NewDeadLetter { message: &message, envelope, cause: cause.clone(), reason };
        self.tasks.dead_letters().put_aside(&new).await?;
        match self.tasks.queue().delete_if_exists(&message).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return Ok(is_lost(Lost::Taken));
            }
            deleted => drop(deleted?),
        }
        tracing::error!(reason, "the task is a dead letter");
        Ok(Step::Poisoned)
    }

    /// Counts how a message ended, or that this is unknown.
    pub(super) fn count(&self, ended: &Result<(Step, Ending)>) {
        let mut counts = self.counting();
        let (count, outcome) = match ended.as_ref().map(|(step, _)| step) {
            Ok(Step::Deferred) => (&mut counts.deferred, "deferred"),
            Ok(Step::HandedBack) => (&mut counts.handed_back, "handed_back"),
            Ok(Step::Handled) => (&mut counts.handled, "handled"),
            Ok(Step::Lost) => (&mut counts.lost, "lost"),
            Ok(Step::Poisoned) => (&mut counts.poisoned, "poisoned"),
            Ok(Step::Retried) => (&mut counts.retried, "retried"),
            Ok(Step::Suppressed) => (&mut counts.suppressed, "suppressed"),
            Err(_) => (&mut counts.unknown, "unknown"),
            Ok(Step::Idle) => return,
        };
        *count += 1;
        drop(counts);
        let queue = self.label();
        let outcome = ("rowkey.outcome", outcome);
        self.telemetry().count(metrics::WORKER_ENDED.name, &[queue, outcome], 1);
        let failure = match ended {
            Ok((Step::Poisoned, Ending::DeadLetter { failure, .. })) => Some(failure),
            Ok((_, ending)) => ending.failed_attempt().map(|(failure, _)| failure),
            Err(_) => None,
        };
        if let Some(Failure { cause, .. }) = failure {
            let cause = attribute_of(cause);
            self.telemetry().count(
                metrics::WORKER_FAILED.name,
                &[queue, ("error.type", &cause)],
                1,
            );
        }
    }

    /// The number of tasks that are read or handled, including those that block after their time limit.
    pub(super) fn at_work(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

/// The cause as an attribute of metrics. A message can name any cause, and series must stay few.
pub(super) fn attribute_of(cause: &Cause) -> Cow<'static, str> {
    match cause {
        Cause::Other(_) => OTHER.into(),
        cause => cause.to_string().into(),
    }
}

fn is_lost(lost: Lost) -> Step {
    tracing::warn!(%lost, "the message was lost to another worker");
    Step::Lost
}
