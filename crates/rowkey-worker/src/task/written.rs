//! Tasks written by a transaction: the text stored in its op row, and putting the message.

use std::sync::PoisonError;
use std::time::Duration;

use chrono::TimeDelta;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::edm::Guid;
use rowkey_client::internals::message_len;
use rowkey_client::{ClientOptions, Error, ErrorKind, Outcome, Result, RetryOptions};
use rowkey_store::Settled;

use super::{Content, Envelope, Task, Tasks, hex_digest, json_of, new_id};

/// How long a writer waits for the queue of the tasks.
const BUDGET: Duration = Duration::from_secs(1);

/// How long the queue is not used after it failed.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

impl<T: Task> Tasks<T> {
    /// Refuses a task that its queue could never accept.
    pub(crate) fn check_written(&self, text: &str) -> Result<()> {
        let envelope = read::<T>(text)?;
        self.check_sealed(&envelope)?;
        self.place_of(&envelope).map(drop)
    }

    /// The requests that putting the message of a written task takes: one, and one for the blob of a task that does not
    /// fit in a message.
    pub(crate) fn usage_of_written(&self, text: &str) -> Usage {
        let Ok(mut envelope) = read::<T>(text) else { return Usage::default() };
        let mut usage = Usage::of(Class::QueueClass1, 1);
        if let (Ok(Some(_)), Content::Inline(json)) = (self.place_of(&envelope), &envelope.content)
        {
            let length = json.get().len() as u64;
            usage += Usage::of(Class::BlobWrite, 1).with_bytes(length, 0);
            // Any id and any digest are as long.
            let name = format!("{}/{}", self.queue().name(), Guid::nil());
            envelope.content = Content::Claim { name, sha256: hex_digest("", &[]) };
        }
        usage.with_bytes(message_len(&self.body(&envelope.text(T::KIND))), 0)
    }

    /// Puts the message of a task that a transaction wrote.
    pub(crate) async fn put_written(&self, text: &str) -> Result<Settled> {
        let envelope = read::<T>(text)?;
        let clock = self.queue.account().clock();
        let now = clock.now();
        if now < *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Settled::Pending);
        }
        // A committed write must not wait long for a queue that is unavailable.
        let retry =
            RetryOptions { max_attempts: 1, ..self.queue.account().options().retry.clone() };
        let options = ClientOptions {
            timeout: BUDGET,
            attempt_timeout: BUDGET,
            retry,
            ..self.queue.account().options().clone()
        };
        match self.send(&self.queue.with_options(options), envelope, Duration::ZERO).await {
            Ok(()) => Ok(Settled::Done),
            // An answer that cannot be decoded is no reason to wait: the receiver reports it, and each
            // repetition may put the task once more.
            Err(error)
                if error.kind() != ErrorKind::Decode
                    && (error.is_retryable() || error.outcome() == Outcome::Unknown) =>
            {
                tracing::warn!(%error, "a task waits in its op row until the queue accepts it");
                let until = clock.now().checked_add_signed(PAUSE).unwrap_or(now);
                *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                Ok(Settled::Pending)
            }
            Err(error) => Err(error),
        }
    }
}

/// The text of a new task in an op row: the text of its message.
pub(crate) fn text<T: Task>(task: &T) -> Result<String> {
    let envelope = Envelope::new(new_id()?.to_string(), Content::Inline(json_of(task)?));
    Ok(envelope.text(T::KIND))
}

fn read<T: Task>(text: &str) -> Result<Envelope> {
    let refused =
        |what| Error::refused(ErrorKind::Decode, format!("invalid task in an op row: {what}"));
    Envelope::read(text, "", T::KIND).map_err(refused)
}
