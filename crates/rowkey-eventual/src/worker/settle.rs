//! A message from its reception to its end.
//!
//! The order of requests is what keeps tasks: the task is done before its message is deleted, the
//! message is deleted before the blob that it names, and what is put aside is in the poison queue
//! before it leaves this one. Whatever is cut off in between is done again, and nothing is lost.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use rowkey::queue::Message;
use rowkey::{Outcome, Result};
use tracing::Instrument as _;

use super::hold::{Hold, Lost};
use super::{Attempt, Done, Handler, Step, Worker};
use crate::task::{Letter, Loaded, Poison, Task, Tasks};

/// What is to become of a message.
enum End {
    Delete(Step),
    Fail(String),
    Poison(String),
}

impl<T: Task, H: Handler<T>> Worker<T, H> {
    /// Works on a message that was asked for at this time, and counts what became of it.
    pub(super) async fn work(&self, message: Message, asked: DateTime<Utc>) -> Result<Step> {
        let kind = T::KIND;
        let span = tracing::info_span!(
            "task",
            kind,
            id = tracing::field::Empty,
            attempt = message.dequeue_count
        );
        let step = Box::pin(self.settled(message, asked)).instrument(span).await;
        let mut counts = self.counting();
        match step {
            Ok(Step::Handled) => counts.handled += 1,
            Ok(Step::Idle) => {}
            Ok(Step::Lost) => counts.lost += 1,
            Ok(Step::Poisoned) => counts.poisoned += 1,
            Ok(Step::Retried) => counts.retried += 1,
            Ok(Step::Suppressed) => counts.suppressed += 1,
            Err(_) => counts.unsettled += 1,
        }
        step
    }

    async fn settled(&self, message: Message, asked: DateTime<Utc>) -> Result<Step> {
        let letter = Tasks::<T>::open(&message);
        let id = letter.as_ref().map_or(&message.id, |letter| &letter.id);
        tracing::Span::current().record("id", id.as_str());
        let queue = self.tasks.queue().clone();
        let hold = Arc::new(Hold::new(queue, message, asked, self.visibility));
        let mut letter = match letter {
            Ok(letter) => letter,
            Err(reason) => return self.poison(&hold, None, &reason).await,
        };
        let end = match hold.during(self.end(&letter, &hold)).await {
            Ok(end) => end,
            Err(lost) => return Ok(given_up(lost)),
        };
        match end {
            End::Delete(step) => self.delete(&hold, &letter, step).await,
            End::Fail(error) => {
                letter.failed(self.clock().now(), &error);
                if hold.message().dequeue_count < self.max_attempts {
                    self.retry(&hold, &letter, &error).await
                } else {
                    self.poison(&hold, Some(&letter), &error).await
                }
            }
            End::Poison(reason) => self.poison(&hold, Some(&letter), &reason).await,
        }
    }

    /// Has the task done.
    async fn end(&self, letter: &Letter, hold: &Arc<Hold>) -> End {
        let message = hold.message();
        let number = message.dequeue_count;
        if number > self.max_attempts {
            return End::Poison(format!(
                "it was received {number} times and is tried {} times; {}",
                self.max_attempts,
                match letter.history.last() {
                    Some(failure) => format!("the last failure: {}", failure.error),
                    None => "no worker came to an end with it".to_owned(),
                }
            ));
        }
        let task = match self.tasks.load(letter).await {
            Ok(Loaded::Task(task)) => task,
            // It was poisoned and put back, and is in the queue twice; the other one was done.
            Ok(Loaded::Gone) if letter.first_seen.is_some() => {
                return End::Delete(Step::Suppressed);
            }
            Ok(Loaded::Gone) => return End::Poison("the blob with its task is gone".to_owned()),
            Ok(Loaded::Unreadable(reason)) => return End::Poison(reason),
            Err(error) => return End::Fail(error.to_string()),
        };
        let first_seen = letter.first_seen.as_ref().and_then(|time| time.parse().ok());
        let attempt = Attempt {
            id: letter.id.as_str().into(),
            number,
            first_seen: first_seen.unwrap_or(message.inserted),
            hold: Arc::clone(hold),
        };
        match self.handler.handle(task, attempt).await {
            Ok(Done::Applied) => End::Delete(Step::Handled),
            Ok(Done::AlreadyApplied) => End::Delete(Step::Suppressed),
            Ok(Done::Poison(reason)) => End::Poison(reason),
            Err(error) => End::Fail(error.to_string()),
        }
    }

    async fn delete(&self, hold: &Hold, letter: &Letter, step: Step) -> Result<Step> {
        match self.tasks.queue().delete_if_exists(&hold.message()).await {
            Ok(true) => {
                if let Err(error) = self.tasks.discard(letter).await {
                    tracing::warn!(%error, "the task's blob is left to `sweep_claims`");
                }
                tracing::debug!(?step, "the task is done");
                Ok(step)
            }
            // Somebody else has deleted the message, and takes its blob along.
            Ok(false) => Ok(step),
            Err(error) if error.is_conflict() => Ok(given_up(Lost::Taken)),
            Err(error) => Err(error),
        }
    }

    /// Lets the message be received again after a while, with the failure in its history.
    async fn retry(&self, hold: &Hold, letter: &Letter, error: &str) -> Result<Step> {
        let message = hold.message();
        let wait = self.wait(self.retry, message.dequeue_count.saturating_sub(1));
        let mut update = self.tasks.queue().update(&message).hidden_for(wait);
        if let Some(body) = self.tasks.with_history(letter) {
            update = update.body(body);
        }
        match update.send().await {
            Ok(_) => {}
            // An earlier attempt of this very request changed the receipt.
            Err(error) if error.is_conflict() && error.outcome() == Outcome::Unknown => {}
            Err(error) if error.is_conflict() || error.is_not_found() => {
                return Ok(given_up(Lost::Taken));
            }
            Err(error) => return Err(error),
        }
        tracing::warn!(error, ?wait, "the task failed and will be tried again");
        Ok(Step::Retried)
    }

    /// Puts the message aside, if it is still this worker's: one that is somebody else's by now may
    /// be done there.
    async fn poison(&self, hold: &Hold, letter: Option<&Letter>, reason: &str) -> Result<Step> {
        match hold.renew().await {
            Ok(renewed) => renewed?,
            Err(lost) => return Ok(given_up(lost)),
        }
        let message = hold.message();
        self.tasks.poison(&Poison { message: &message, letter, reason }).await?;
        match self.tasks.queue().delete_if_exists(&message).await {
            Err(error) if error.is_conflict() => return Ok(given_up(Lost::Taken)),
            deleted => drop(deleted?),
        }
        tracing::error!(reason, "the task is in the poison queue");
        Ok(Step::Poisoned)
    }
}

fn given_up(lost: Lost) -> Step {
    tracing::warn!(%lost, "the message was lost, and its task is somebody else's");
    Step::Lost
}
