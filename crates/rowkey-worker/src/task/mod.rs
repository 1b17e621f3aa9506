//! Typed tasks as messages of a queue: what a [`Worker`](crate::worker::Worker) takes and everybody else puts.
//!
//! - [`Tasks`]: putting tasks
//! - `envelope`: the text of a message, as it is written and as it may be written by hand
//! - `claim`: tasks too large for a message, in a blob
//! - `sealed`: tasks that are encrypted
//! - `written`: tasks that a transaction wrote

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::edm::Guid;
use rowkey::queue::{Body, Message};
use rowkey::{Container, Error, ErrorCode, ErrorKind, Queue, Result, Table};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::dead_letters::DeadLetters;

mod claim;
mod envelope;
mod sealed;
#[cfg(test)]
mod tests;
pub(crate) mod written;

pub(crate) use claim::Loaded;
pub use envelope::Failure;
pub(crate) use envelope::{Content, GivenUp, Letter, kind_of, time};
pub use sealed::SealedTask;

/// The largest message text that the service takes.
const MAX_TEXT: usize = 64 * 1024;

/// What a message leaves free for the reason and the history that it may have to carry one day.
const RESERVED: usize = 4 * 1024;

/// Something that is to be done once, through every failure: the content of a message, as JSON.
///
/// ```
/// use rowkey_worker::Task;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct ArchiveEmployee {
///     department: String,
///     id: u64,
/// }
///
/// impl Task for ArchiveEmployee {
///     const KIND: &'static str = "archive-employee";
/// }
/// ```
///
/// A queue has tasks of one type; an enum of several is one type, too. Messages outlive programs:
/// give new fields a default (`#[serde(default)]`), so that those that wait can still be read.
pub trait Task: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What such tasks are called in messages. Messages of another kind are not taken for it.
    const KIND: &'static str;

    /// What the task is about, if a worker is to work on one task about it at a time. Default: `None`.
    ///
    /// A task that waits for another one keeps its place among the worker's
    /// [`concurrency`](crate::worker::Worker::concurrency). Other workers know nothing of it.
    fn key(&self) -> Option<String> {
        None
    }
}

/// A queue of tasks, the table of its [dead letters](crate::dead_letters), and the container for tasks that are
/// too large for a message.
///
/// ```
/// # use rowkey_worker::Task;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct ArchiveEmployee { department: String, id: u64 }
/// # impl Task for ArchiveEmployee { const KIND: &'static str = "archive-employee"; }
/// use rowkey_worker::Tasks;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// let tasks = Tasks::<ArchiveEmployee>::new(account.queue("archive"));
/// tasks.create_if_missing().await?;
/// let id = tasks.put(&ArchiveEmployee { department: "sales".into(), id: 7 }).await?;
///
/// let waiting = tasks.queue().peek(1).await?;
/// assert_eq!(
///     waiting[0].text(),
///     format!(r#"{{"kind":"archive-employee","id":"{id}","task":{{"department":"sales","id":7}}}}"#)
/// );
/// # Ok(())
/// # }
/// ```
///
/// # Messages written by hand
///
/// Programs in other languages may write such a message without its `id`, or the JSON of the task
/// alone; and all of it in base64, as Azure Functions and .NET up to version 11 do.
pub struct Tasks<T> {
    queue: Queue,
    dead_letters: Option<Table>,
    claims: Option<Container>,
    base64: bool,
    /// What encrypts tasks.
    keys: Option<sealed::Keys>,
    /// Until when transactions leave the queue alone, because it failed.
    resting_until: Arc<Mutex<DateTime<Utc>>>,
    /// Wakes workers of this process that are idle.
    put: Arc<Notify>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Task> Tasks<T> {
    /// The tasks in `queue`; those that cannot be done become rows of the table `deadletters` of the same
    /// account. Nothing is sent.
    pub fn new(queue: Queue) -> Self {
        Self {
            queue,
            dead_letters: None,
            claims: None,
            base64: false,
            keys: None,
            resting_until: Arc::default(),
            put: Arc::default(),
            of: PhantomData,
        }
    }

    /// Puts tasks that are too large for a message into blobs of `container`, and claims on them
    /// into the messages. Without this such a task is refused.
    ///
    /// Several queues may share a container: names of blobs begin with the name of the queue.
    #[must_use = "the handle itself does not change"]
    pub fn claims(mut self, container: Container) -> Self {
        self.claims = Some(container);
        self
    }

    /// Keeps dead letters in this table instead of `deadletters`. Several queues may share a table: the
    /// PartitionKey is the queue's name.
    #[must_use = "the handle itself does not change"]
    pub fn dead_letters_in(mut self, table: Table) -> Self {
        self.dead_letters = Some(table);
        self
    }

    /// Writes messages in base64, for readers that expect it. Both are read either way.
    #[must_use = "the handle itself does not change"]
    pub fn base64(mut self) -> Self {
        self.base64 = true;
        self
    }

    /// The queue that tasks wait in.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// What could not be done.
    pub fn dead_letters(&self) -> DeadLetters<T> {
        DeadLetters::new(self, self.dead_letters.as_ref())
    }

    /// Creates the queue, the table of dead letters and the container for claims, those that are missing.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.queue.create_if_missing().await?;
        self.dead_letters().table().create_if_missing().await?;
        if let Some(claims) = &self.claims {
            claims.create_if_missing().await?;
        }
        Ok(())
    }

    /// Puts a task, and returns its id. One request, two when it is too large for a message: from 60
    /// KiB on, as written.
    ///
    /// When it is unknown whether the message was put, the error's [`outcome`](Error::outcome) is
    /// [`Unknown`](rowkey::Outcome::Unknown): putting the task once more is safe, because handlers
    /// bear to do it twice. [`put_with_key`](Self::put_with_key) lets them recognise it. Fails with [`ErrorKind::TooLarge`] before anything is sent when the task
    /// is too large for a message and there is no container for claims.
    pub async fn put(&self, task: &T) -> Result<Guid> {
        self.put_after(task, Duration::ZERO).await
    }

    /// Puts a task under an idempotency key of the caller: the number of an order, the id of a request. It
    /// has the same id each time, so a [`put`](Self::put) that is repeated because its end is unknown is
    /// recognised, by an [inbox](crate::inbox) or by what the handler gives
    /// [`Attempt::id`](crate::worker::Attempt::id) to.
    ///
    /// Two tasks of one kind under one key are taken for the same; give each its own.
    pub async fn put_with_key(&self, key: &str, task: &T) -> Result<Guid> {
        let id = id_of(T::KIND, key);
        let letter = self.letter(id, task).await;
        let letter = letter.map_err(|error| error.of("PutTask", self.queue.name()))?;
        self.send(&self.queue, letter, Duration::ZERO).await?;
        Ok(id)
    }

    /// Puts a task that is not received before `delay` has passed, 7 days at most.
    pub async fn put_after(&self, task: &T, delay: Duration) -> Result<Guid> {
        let id = new_id()?;
        let named = |error: Error| error.of("PutTask", self.queue.name());
        let letter = self.letter(id, task).await.map_err(named)?;
        self.send(&self.queue, letter, delay).await?;
        Ok(id)
    }

    async fn send(&self, queue: &Queue, mut letter: Letter, delay: Duration) -> Result<()> {
        letter.trace = letter.trace.or_else(|| queue.account().telemetry().current());
        let claimed = self.fit(&mut letter).await;
        let claimed = claimed.map_err(|error| error.of("PutTask", self.queue.name()))?;
        let put = queue.put(self.body(&letter.text(T::KIND))).never_expires();
        let put = if delay.is_zero() { put } else { put.hidden_for(delay) };
        let Err(error) = put.send().await else {
            if delay.is_zero() {
                self.put.notify_one();
            }
            return Ok(());
        };
        if let Some(claim) = claimed
            && error.outcome() != rowkey::Outcome::Unknown
        {
            // No message names it. If this fails as well, `sweep_claims` finds it.
            drop(claim.delete_if_exists().await);
        }
        Err(error)
    }

    /// Completes when a task was put by this handle or one that was cloned from it, or from which it was.
    pub(crate) async fn was_put(&self) {
        self.put.notified().await;
    }

    /// A message's text, as these tasks are written.
    pub(crate) fn body(&self, text: &str) -> Body {
        // JSON may hold these two characters and XML may not. Outside its strings there are none.
        let text = text.replace('\u{FFFE}', "\\ufffe").replace('\u{FFFF}', "\\uffff");
        if self.base64 { Body::base64(text) } else { Body::text(text) }
    }

    /// Whether a text of this length leaves `reserved` bytes of a message free.
    fn fits(&self, text: &str, reserved: usize) -> bool {
        self.body(text).as_str().len() + reserved <= MAX_TEXT
    }

    /// The message with another text that has the history of its failures in it, as much as fits.
    pub(crate) fn with_history(&self, letter: &Letter) -> Option<Body> {
        let mut letter = letter.clone();
        loop {
            let text = letter.text(T::KIND);
            if self.fits(&text, 0) {
                return Some(self.body(&text));
            }
            if letter.history.is_empty() {
                return None;
            }
            letter.history.remove(0);
        }
    }

    /// Puts the message of a dead letter.
    pub(crate) async fn put_back(&self, body: Body) -> Result<()> {
        self.queue.put(body).never_expires().send().await?;
        self.put.notify_one();
        Ok(())
    }

    /// What a message holds, or why it cannot be read.
    pub(crate) fn open(&self, message: &Message) -> Result<Letter, String> {
        self.open_text(message.text(), &message.id)
    }

    /// The same of its text and the id that it has if the text names none.
    pub(crate) fn open_text(&self, text: &str, id: &str) -> Result<Letter, String> {
        let letter = Letter::read(text, id, T::KIND)?;
        match &letter.content {
            Content::Claim { name, .. } if !self.is_claim(name) => {
                Err("it names a blob that is not one of its queue's claims".to_owned())
            }
            _ => Ok(letter),
        }
    }

    /// The task of a letter.
    pub(crate) fn parse(json: &[u8]) -> Loaded<T> {
        let error = match serde_json::from_slice(json) {
            Ok(task) => return Loaded::Task(task),
            Err(error) => error,
        };
        // Without the error's own words, which quote the task.
        let (line, column) = (error.line(), error.column());
        let reason =
            format!("it is no task `{}`: see line {line}, column {column} of its JSON", T::KIND);
        if is_unknown_variant(&error) { Loaded::Newer(reason) } else { Loaded::Unreadable(reason) }
    }
}

/// Whether the JSON is that of an enum with a variant that this program does not know.
///
/// serde says it in words alone: those of `serde::de::Error::unknown_variant`, and of derived code for
/// enums without a tag.
fn is_unknown_variant(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data()
        && (text.starts_with("unknown variant `")
            || text.starts_with("data did not match any variant of untagged enum"))
}

/// The JSON of a task.
fn json_of<T: Task>(task: &T) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(task)
        .map_err(|_| Error::refused(ErrorKind::Invalid, "the task cannot be written as JSON"))
}

/// An id of its own.
pub(crate) fn new_id() -> Result<Guid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let what = "the operating system gives no random bytes, so there is no id";
        Error::refused(ErrorKind::Unavailable, what).with_source(error)
    })?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// The id of a caller's key: a UUID of version 8, from a digest of kind and key.
fn id_of(kind: &str, key: &str) -> Guid {
    let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(key).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// An id as a part of a RowKey. Ids that programs in other languages give may hold what keys cannot.
pub(crate) fn key_part(id: &str) -> String {
    let is_plain = (1..=200).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain {
        return id.to_owned();
    }
    let digest = Sha256::digest(id.as_bytes());
    digest.iter().fold("sha256_".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether the queue is not there.
pub(crate) fn is_missing_queue(error: &Error) -> bool {
    error.code() == Some(&ErrorCode::QUEUE_NOT_FOUND)
}

impl<T> Clone for Tasks<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            dead_letters: self.dead_letters.clone(),
            claims: self.claims.clone(),
            base64: self.base64,
            keys: self.keys.clone(),
            resting_until: Arc::clone(&self.resting_until),
            put: Arc::clone(&self.put),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Tasks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("queue", &self.queue)
            .field("claims", &self.claims)
            .field("base64", &self.base64)
            .finish_non_exhaustive()
    }
}
