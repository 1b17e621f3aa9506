//! Writes a message as a dead letter exactly once, and recognises the message if it is delivered again.

use chrono::{DateTime, Utc};
use rowkey::queue::Message;
use rowkey::{DynamicEntity, ErrorKind, Key, Match, Result};

use super::row::{LetterRow, ReceivedMessage, TaskRow};
use super::{Cause, DeadLetters, is_missing_table};
use crate::task::{Envelope, Task};

/// How often the rows are read again when other workers change them in the meantime.
const ROUNDS: u32 = 8;

/// A message that becomes a dead letter.
pub(crate) struct NewDeadLetter<'a> {
    pub(crate) message: &'a Message,
    /// The content of the message, if it can be read.
    pub(crate) envelope: Option<&'a Envelope>,
    pub(crate) cause: Cause,
    pub(crate) reason: &'a str,
}

impl<T: Task> DeadLetters<T> {
    /// Returns whether the message must be neither processed nor recorded: its task is already a dead
    /// letter, or the dead letter of this very message was redriven or purged. One request.
    pub(crate) async fn covers(&self, envelope: &Envelope, message: &Message) -> Result<bool> {
        let Some((task, _)) = self.task_row(&envelope.id).await? else { return Ok(false) };
        Ok(task.covers(&received(envelope, message)))
    }

    /// Writes the dead letter of a message unless it exists. The message is kept; the caller deletes it
    /// afterwards. If that fails, the message is delivered again and recognised.
    ///
    /// One request, three for a task that was redriven before; one more with a claim.
    pub(crate) async fn put_aside(&self, new: &NewDeadLetter<'_>) -> Result<()> {
        if let Some(envelope) = new.envelope {
            self.tasks.mark(envelope, envelope.redriven > 0).await?;
        }
        let row = self.row(new);
        let mut known = match new.envelope {
            Some(envelope) if envelope.redriven > 0 => self.task_row(&row.id).await?,
            _ => None,
        };
        // Whether the dead letter to replace was found to be missing.
        let mut is_gone = false;
        for _ in 0..ROUNDS {
            let mut task = row.task();
            let transaction = self.table().transaction();
            let transaction = match &known {
                // The second insert fails if another message of the task became a dead letter first.
                None => transaction.upsert(&row.entity()).insert(&task.entity()),
                Some((before, _)) if before.covers(&row.received(new)) => return Ok(()),
                Some((before, etag)) => {
                    task.redriven = task.redriven.max(before.redriven);
                    // The task was redriven, and its row still exists.
                    let transaction = match &before.letter {
                        Some(old) if *old != row.row_key() && !is_gone => {
                            let key = Key::<DynamicEntity>::new(&*row.queue, &**old);
                            transaction.delete(key, Match::Any)
                        }
                        _ => transaction,
                    };
                    let entity = task.entity();
                    transaction.upsert(&row.entity()).replace((&entity, etag.clone()))
                }
            };
            let Err(error) = transaction.submit().await else { return Ok(()) };
            if is_missing_table(&error) {
                self.table().create_if_missing().await?;
                continue;
            }
            let is_taken = [ErrorKind::AlreadyExists, ErrorKind::Conflict, ErrorKind::NotFound];
            if !is_taken.contains(&error.kind()) {
                return Err(error);
            }
            is_gone = error.kind() == ErrorKind::NotFound;
            known = self.task_row(&row.id).await?;
        }
        let what = "other workers keep changing the row of the task";
        Err(rowkey::Error::refused(ErrorKind::Conflict, what).of("PutAside", self.queue()))
    }

    fn row(&self, new: &NewDeadLetter<'_>) -> LetterRow {
        let NewDeadLetter { message, envelope, cause, reason } = new;
        let seen = envelope.and_then(|envelope| envelope.first_seen.as_ref());
        let seen: Option<DateTime<Utc>> = seen.and_then(|time| time.parse().ok());
        LetterRow {
            queue: self.queue().to_owned(),
            id: envelope.map_or_else(|| message.id.clone(), |envelope| envelope.id.clone()),
            kind: match envelope {
                Some(_) => Some(T::KIND.to_owned()),
                None => crate::task::kind_of(message.text()),
            },
            cause: cause.clone(),
            reason: (*reason).to_owned(),
            attempts: envelope.map_or(0, |envelope| envelope.attempts),
            first_seen: Some(seen.unwrap_or(message.inserted)),
            put_aside: self.now(),
            redriven: envelope.map_or(0, |envelope| envelope.redriven),
            redrive: envelope.and_then(|envelope| envelope.redrive.clone()),
            message: message.id.clone(),
            text: match envelope {
                Some(envelope) => envelope.as_put_aside().text(T::KIND),
                None => message.text().to_owned(),
            },
            is_foreign: false,
        }
    }
}

impl LetterRow {
    fn received<'m>(&'m self, new: &NewDeadLetter<'_>) -> ReceivedMessage<'m> {
        let was_given_up = new.envelope.is_some_and(|envelope| envelope.given_up.is_some());
        ReceivedMessage { id: &self.message, redriven: self.redriven, was_given_up }
    }

    /// The row of the task after its dead letter was redriven or purged.
    pub(super) fn without_letter(&self, at: DateTime<Utc>, is_purged: bool) -> TaskRow {
        let redriven = if is_purged { self.redriven } else { self.redriven.saturating_add(1) };
        TaskRow { letter: None, redriven, is_purged, at, ..self.task() }
    }
}

fn received<'m>(envelope: &Envelope, message: &'m Message) -> ReceivedMessage<'m> {
    let was_given_up = envelope.given_up.is_some();
    ReceivedMessage { id: &message.id, redriven: envelope.redriven, was_given_up }
}
