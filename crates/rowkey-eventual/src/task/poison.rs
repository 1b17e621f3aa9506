//! The poison queue: what could not be done, why, and what happened before; and the way back.

use std::time::Duration;

use rowkey::Result;
use rowkey::queue::{Body, Message};

use super::envelope::{self, Fields, Letter, plain, shortened, time};
use super::{Task, Tasks, is_missing_queue};

/// How long a poisoned task is hidden while it is put back.
const MOVING: Duration = Duration::from_secs(60);

/// The most that one request receives.
const MAX_RECEIVED: u32 = 32;

/// Why a message is put aside.
pub(crate) struct Poison<'a> {
    pub(crate) message: &'a Message,
    /// What it holds, if it could be read.
    pub(crate) letter: Option<&'a Letter>,
    pub(crate) reason: &'a str,
}

impl<T: Task> Tasks<T> {
    /// Puts a message into the poison queue, which is made when it is missing. The message itself
    /// stays: whoever deletes it does so afterwards, and if that fails it is poisoned once more,
    /// which does no harm.
    pub(crate) async fn poison(&self, poison: &Poison<'_>) -> Result<()> {
        if let Some(letter) = poison.letter {
            self.mark(letter, true).await?;
        }
        let body = self.poisoned(poison);
        match self.poison_queue().put(body.clone()).never_expires().send().await {
            Err(error) if is_missing_queue(&error) => {
                self.poison_queue().create_if_missing().await?;
                self.poison_queue().put(body).never_expires().send().await?;
            }
            result => drop(result?),
        }
        Ok(())
    }

    /// The text of a poisoned task, with as much of the history as fits.
    fn poisoned(&self, poison: &Poison<'_>) -> Body {
        let Poison { message, letter, reason } = poison;
        let reason = shortened(reason);
        let mut fields = match letter {
            Some(letter) => letter.fields(T::KIND),
            None => Fields {
                id: Some(message.id.as_str().into()),
                text: Some(message.text().into()),
                ..Fields::of_kind(T::KIND)
            },
        };
        fields.reason = Some(reason.into());
        fields.attempts = Some(message.dequeue_count);
        (fields.receptions, fields.alone) = (None, None);
        fields.first_seen.get_or_insert_with(|| time(message.inserted).into());
        loop {
            let text = envelope::json(&fields);
            if self.fits(&text, 0) {
                return self.body(&text);
            }
            if fields.history.is_empty() {
                // Not even the reason has room beside a task that somebody else wrote. What counts
                // is the task, and what was one message is one again.
                tracing::warn!(reason = %fields.reason.as_deref().unwrap_or_default(),
                    "the poisoned message is too long to say its reason");
                return Body::text(message.text());
            }
            fields.history.to_mut().remove(0);
        }
    }

    /// Puts up to `count` poisoned tasks back into the queue, and returns how many. Each may be tried
    /// as often as a new one; its history and the time when it was first put stay with it.
    ///
    /// A message that could not be read goes back as it was written. Two requests for each task,
    /// three when it has a claim, and one for each 32. A task is put into the queue before it is
    /// taken from the poison queue: when that fails it may be in both, and be done twice.
    pub async fn redrive(&self, count: u32) -> Result<u32> {
        let mut moved = 0;
        while moved < count {
            let wanted = (count - moved).min(MAX_RECEIVED);
            let messages = match self.poison_queue().receive(wanted, MOVING).await {
                // Nothing was ever poisoned.
                Err(error) if is_missing_queue(&error) => return Ok(moved),
                messages => messages?,
            };
            if messages.is_empty() {
                break;
            }
            for message in &messages {
                self.put_back(message).await?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    async fn put_back(&self, message: &Message) -> Result<()> {
        let (body, letter) = self.restored(message.text());
        self.queue().put(body).never_expires().send().await?;
        if let Some(letter) = letter {
            self.mark(&letter, false).await?;
        }
        match self.poison_queue().delete_if_exists(message).await {
            // It took longer than a minute, and somebody else puts it back as well.
            Err(error) if error.is_conflict() => Ok(()),
            result => result.map(drop),
        }
    }

    /// What a poisoned task was before.
    fn restored(&self, text: &str) -> (Body, Option<Letter>) {
        let as_it_is = || (Body::text(text), None);
        let Ok(json) = plain(text) else { return as_it_is() };
        let Ok(fields) = serde_json::from_str::<Fields<'_>>(&json) else { return as_it_is() };
        if let (Some(written), true) = (&fields.text, fields.reason.is_some()) {
            return (Body::text(written.clone()), None);
        }
        let id = fields.id.as_deref().unwrap_or_default();
        match Letter::read(&json, id, T::KIND) {
            Ok(mut letter) if fields.reason.is_some() => {
                // Tried as often as a new one.
                letter.attempts = 0;
                (self.body(&letter.text(T::KIND)), Some(letter))
            }
            // Something else put it there, such as Azure Functions.
            _ => as_it_is(),
        }
    }
}
