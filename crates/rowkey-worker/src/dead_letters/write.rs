//! Writes a message as a dead letter exactly once, and recognizes the message if it is delivered again.

use chrono::{DateTime, Utc};
use rowkey_client::queue::Message;
use rowkey_client::{DynamicEntity, Error, ErrorKind, Key, Match, Result};

use super::row::{LetterRow, ReceivedMessage, TaskRow};
use super::{Cause, DeadLetters};
use crate::errors::{is_missing_table, is_taken};
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
    /// letter, or the dead letter of this very message was redriven or purged, or another redrive put the message
    /// that counts. One request.
    ///
    /// If a redrive ended after it put this message, the redrive is completed first: the dead letter is deleted,
    /// unless it was purged, and the row of the task names the redrive. So of the messages that several redrives
    /// put, one is processed.
    pub(crate) async fn covers(&self, envelope: &Envelope, message: &Message) -> Result<bool> {
        let received = ReceivedMessage::new(message, Some(envelope));
        // Whether the dead letter was found to be missing.
        let mut is_gone = false;
        for _ in 0..ROUNDS {
            let Some((task, etag)) = self.task_row(&envelope.id).await? else { return Ok(false) };
            if task.covers(&received) {
                return Ok(true);
            }
            if !task.is_half_redriven(&received) {
                return Ok(false);
            }
            let letter = task.letter.clone().filter(|_| !is_gone);
            let (redriven, redrive) = (envelope.redriven, envelope.redrive.clone());
            let done = TaskRow {
                letter: None,
                redriven,
                redrive,
                is_purged: false,
                at: self.now(),
                ..task
            };
            let transaction = self.table().transaction();
            let transaction = match letter {
                None => transaction,
                Some(letter) => {
                    let key = Key::<DynamicEntity>::new(self.queue(), letter);
                    transaction.delete(key, Match::Any)
                }
            };
            match transaction.replace((&done.entity(), etag)).submit().await {
                Ok(_) => return Ok(false),
                Err(error) if is_taken(&error) => is_gone = error.kind() == ErrorKind::NotFound,
                Err(error) => return Err(error),
            }
        }
        Err(self.contended("RedriveTask"))
    }

    fn contended(&self, operation: &'static str) -> Error {
        let what = "other workers keep changing the row of the task";
        Error::refused(ErrorKind::Conflict, what).of(operation, self.queue())
    }

    /// Writes the dead letter of a message unless it exists. The message is kept; the caller deletes it
    /// afterwards. If that fails, the message is delivered again and recognized.
    ///
    /// One request, three for a task that was redriven before; one more with a claim.
    pub(crate) async fn put_aside(&self, new: &NewDeadLetter<'_>) -> Result<()> {
        if let Some(envelope) = new.envelope
            && let Err(error) = self.tasks.mark(envelope, envelope.redriven > 0).await
        {
            // A blob that can never be marked (it has no valid name, or a lease, or there is no container) must
            // not keep the message from its end.
            let may_pass = [ErrorKind::Auth, ErrorKind::Throttled, ErrorKind::Unavailable];
            if may_pass.contains(&error.kind()) {
                return Err(error);
            }
            tracing::warn!(%error, "the blob of a dead letter is not marked, and is swept by its age");
        }
        let row = self.row(new);
        let received = ReceivedMessage::new(new.message, new.envelope);
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
                Some((before, _)) if before.covers(&received) => return Ok(()),
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
            if !is_taken(&error) {
                return Err(error);
            }
            is_gone = error.kind() == ErrorKind::NotFound;
            known = self.task_row(&row.id).await?;
        }
        Err(self.contended("PutAside"))
    }

    fn row(&self, new: &NewDeadLetter<'_>) -> LetterRow {
        let NewDeadLetter { message, envelope, cause, reason } = new;
        let seen = envelope.and_then(|envelope| envelope.first_seen.as_ref());
        let seen: Option<DateTime<Utc>> = seen.and_then(|time| time.parse().ok());
        LetterRow {
            queue: self.queue().to_owned(),
            id: envelope.map_or_else(|| message.id.clone(), |envelope| envelope.id.clone()),
            kind: match envelope {
                Some(envelope) => Some(envelope.kind(T::KIND).to_owned()),
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
    /// The row of the task after its dead letter was redriven by a call, or purged.
    pub(super) fn without_letter(&self, at: DateTime<Utc>, redrive: Option<&str>) -> TaskRow {
        let is_purged = redrive.is_none();
        let redriven = self.redriven.saturating_add(u32::from(!is_purged));
        let redrive = redrive.map(str::to_owned);
        TaskRow { letter: None, redriven, redrive, is_purged, at, ..self.task() }
    }
}
