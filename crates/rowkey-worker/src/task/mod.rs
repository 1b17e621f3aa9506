//! Typed tasks as messages of a queue. Any program puts them; a [`Worker`](crate::worker::Worker) processes
//! them.
//!
//! - [`Tasks`]: puts tasks
//! - [`AnyTask`]: a task whose type the program does not know
//! - `envelope`: the text of a message, as written by this crate or by hand
//! - `claim`: tasks too large for a message, stored in a blob
//! - `sealed`: encrypted tasks
//! - `written`: tasks written by a transaction

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::edm::Guid;
use rowkey_client::internals::shown;
use rowkey_client::queue::{Body, Message};
use rowkey_client::{Container, Error, ErrorKind, Queue, Result, Table};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

mod any;
mod claim;
mod envelope;
mod sealed;
#[cfg(test)]
mod tests;
pub(crate) mod written;

pub use any::AnyTask;
pub(crate) use claim::{Loaded, poisoned};
pub use envelope::Failure;
pub(crate) use envelope::{Content, Envelope, GivenUp, kind_of, shortened, time};
pub use sealed::SealedTask;

/// The maximum length of a message that the service accepts.
const MAX_TEXT: usize = 64 * 1024;

/// The space reserved in a message for the reason and history that may be added later.
const RESERVED: usize = 4 * 1024;

/// A unit of work that survives failures: the content of a message, as JSON.
///
/// ```
/// use rowkey::worker::Task;
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
/// All tasks of a queue have one type; use an enum for several kinds of work. Messages outlive programs, so
/// give new fields a default (`#[serde(default)]`), and waiting messages remain readable.
pub trait Task: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of this kind of task in messages. Messages of another kind are not read as this type. `*` is that of
    /// [`AnyTask`].
    const KIND: &'static str;

    /// The key of the task. A worker processes one task per key at a time. Default: `None`, without this
    /// limit.
    ///
    /// A task that waits for another one with its key counts towards the worker's
    /// [`concurrency`](crate::worker::Worker::concurrency). Keys do not affect other workers.
    fn key(&self) -> Option<String> {
        None
    }
}

/// A queue of tasks, the table of its [dead letters](crate::dead_letters), and the container for tasks that
/// are too large for a message.
///
/// ```
/// # use rowkey::worker::Task;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct ArchiveEmployee { department: String, id: u64 }
/// # impl Task for ArchiveEmployee { const KIND: &'static str = "archive-employee"; }
/// use rowkey::worker::Tasks;
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
/// Programs in other languages may write such a message without its `id`, or only the JSON of the task; each
/// also in base64, as Azure Functions and .NET up to version 11 do.
pub struct Tasks<T> {
    queue: Queue,
    /// The table of dead letters, unless it is the default one.
    pub(crate) table: Option<Table>,
    pub(crate) claims: Option<Container>,
    base64: bool,
    /// The keys that encrypt tasks.
    keys: Option<sealed::Keys>,
    /// Until when transactions do not use the queue, because it failed.
    resting_until: Arc<Mutex<DateTime<Utc>>>,
    /// Wakes idle workers of this process.
    put: Arc<Notify>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Task> Tasks<T> {
    /// Creates a handle for the tasks in `queue`. Tasks that fail permanently become rows of the table
    /// `deadletters` in the same account. Sends nothing.
    pub fn new(queue: Queue) -> Self {
        Self {
            queue,
            table: None,
            claims: None,
            base64: false,
            keys: None,
            resting_until: Arc::default(),
            put: Arc::default(),
            of: PhantomData,
        }
    }

    /// Puts tasks that are too large for a message into blobs of `container`, and claims for them into the
    /// messages. Without a container, such tasks are refused.
    ///
    /// Several queues may share a container: blob names begin with the queue's name.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// let tasks = tasks.claims(account.container("claims"));
    /// tasks.create_if_missing().await?;
    /// tasks.put(&welcome(&"long ".repeat(100_000))).await?;
    /// assert!(tasks.queue().peek(1).await?[0].text().len() < 1000);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn claims(mut self, container: Container) -> Self {
        self.claims = Some(container);
        self
    }

    /// Stores dead letters in this table instead of `deadletters`. Several queues may share a table: the
    /// PartitionKey is the queue's name.
    #[must_use = "the handle itself does not change"]
    pub fn dead_letters_in(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }

    /// Writes messages in base64, for readers that expect it. Both encodings are read in any case.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// let tasks = tasks.base64();
    /// tasks.put(&welcome("ada")).await?;
    /// assert!(!tasks.queue().peek(1).await?[0].text().contains("send-welcome"));
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn base64(mut self) -> Self {
        self.base64 = true;
        self
    }

    /// The queue of the tasks.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Puts a task, and returns its id. One request, two if the task is too large for a message: from 60 KiB,
    /// as written.
    ///
    /// If it is unknown whether the message was put, the error's [`outcome`](Error::outcome) is
    /// [`Unknown`](rowkey_client::Outcome::Unknown). Putting the task again is safe, because handlers tolerate
    /// repetition; [`put_with_key`](Self::put_with_key) lets them recognize it. Fails with
    /// [`ErrorKind::TooLarge`] before anything is sent if the task is too large for a message and there is no
    /// container for claims.
    pub async fn put(&self, task: &T) -> Result<Guid> {
        self.put_after(task, Duration::ZERO).await
    }

    /// Puts a task under an idempotency key, such as an order number or a request id. The same key gives the
    /// same task id. So if a [`put`](Self::put) is repeated because its outcome is unknown, the repetition is
    /// recognized by an [inbox](crate::inbox), or by the system to which the handler passes
    /// [`Attempt::id`](crate::worker::Attempt::id).
    ///
    /// Two tasks of one kind and one key are treated as the same task; give different tasks different keys.
    ///
    /// ```
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// let first = tasks.put_with_key("order-4711", &welcome("ada")).await?;
    /// let again = tasks.put_with_key("order-4711", &welcome("ada")).await?;
    /// assert_eq!(first, again);
    /// # Ok(()) }
    /// ```
    pub async fn put_with_key(&self, key: &str, task: &T) -> Result<Guid> {
        self.put_as(id_of(T::KIND, key), task, Duration::ZERO).await
    }

    /// Puts a task that is received after `delay` at the earliest; at most 7 days.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use rowkey::worker::{Task, Tasks};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Debug, Serialize, Deserialize)]
    /// # struct SendWelcome { to: String }
    /// # impl Task for SendWelcome { const KIND: &'static str = "send-welcome"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let tasks = Tasks::<SendWelcome>::new(account.queue("welcome"));
    /// # tasks.create_if_missing().await?;
    /// # let welcome = |to: &str| SendWelcome { to: to.into() };
    /// tasks.put_after(&welcome("ada"), Duration::from_secs(3600)).await?;
    /// assert!(tasks.queue().peek(1).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn put_after(&self, task: &T, delay: Duration) -> Result<Guid> {
        self.put_as(new_id()?, task, delay).await
    }

    async fn put_as(&self, id: Guid, task: &T, delay: Duration) -> Result<Guid> {
        let envelope = self.envelope(id, task).await;
        let envelope = envelope.map_err(|error| error.of("PutTask", self.queue.name()))?;
        self.send(&self.queue, envelope, delay).await?;
        Ok(id)
    }

    async fn send(&self, queue: &Queue, mut envelope: Envelope, delay: Duration) -> Result<()> {
        envelope.trace = envelope.trace.or_else(|| queue.account().telemetry().current());
        let claimed = self.fit(&mut envelope).await;
        let claimed = claimed.map_err(|error| error.of("PutTask", self.queue.name()))?;
        let put = queue.put(self.body(&envelope.text(T::KIND))).ttl(None);
        let put = if delay.is_zero() { put } else { put.hidden_for(delay) };
        let Err(error) = put.send().await else {
            if delay.is_zero() {
                self.put.notify_one();
            }
            return Ok(());
        };
        if let Some(claim) = claimed
            && error.outcome() != rowkey_client::Outcome::Unknown
        {
            // No message names the blob. If this delete fails too, `sweep_claims` deletes it.
            drop(claim.delete_if_exists().await);
        }
        Err(error)
    }

    /// Completes when this handle, or any clone that shares its origin, puts a task.
    pub(crate) async fn was_put(&self) {
        self.put.notified().await;
    }

    /// Encodes a message's text in the configured encoding.
    pub(crate) fn body(&self, text: &str) -> Body {
        let text = escaped(text);
        if self.base64 { Body::base64(text) } else { Body::text(text) }
    }

    /// Returns whether a text of this length leaves `reserved` bytes of a message free.
    fn fits(&self, text: &str, reserved: usize) -> bool {
        self.body(text).as_str().len() + reserved <= MAX_TEXT
    }

    /// The message with its failure history added, as far as that fits.
    pub(crate) fn with_history(&self, envelope: &Envelope) -> Option<Body> {
        let mut envelope = envelope.clone();
        loop {
            let text = envelope.text(T::KIND);
            if self.fits(&text, 0) {
                return Some(self.body(&text));
            }
            if envelope.history.is_empty() {
                return None;
            }
            envelope.history.remove(0);
        }
    }

    /// The text of a task alone, as other programs write it, if it is not in a blob.
    pub(crate) fn bare(envelope: &Envelope) -> Option<Body> {
        match &envelope.content {
            Content::Inline(task) => Some(Body::text(escaped(task.get()))),
            Content::Claim { .. } => None,
        }
    }

    /// Puts the message of a dead letter back into the queue, hidden for this time.
    pub(crate) async fn put_back(&self, body: Body, hidden: Duration) -> Result<Message> {
        self.queue.put(body).ttl(None).hidden_for(hidden).send().await
    }

    /// Makes a message visible that was put back. If this fails, the message appears by itself.
    pub(crate) async fn show(&self, message: &Message) {
        match self.queue.update(message).hidden_for(Duration::ZERO).send().await {
            Ok(_) => self.put.notify_one(),
            Err(error) => tracing::debug!(%error, "a redriven task is still hidden for a while"),
        }
    }

    /// Parses a message; the error says why it cannot be read.
    pub(crate) fn open(&self, message: &Message) -> Result<Envelope, String> {
        self.open_text(message.text(), &message.id)
    }

    /// Parses a message's text. `id` is used if the text has none.
    pub(crate) fn open_text(&self, text: &str, id: &str) -> Result<Envelope, String> {
        let envelope = Envelope::read(text, id, T::KIND)?;
        match &envelope.content {
            Content::Claim { name, .. } if !self.is_claim(name) => {
                Err("it names a blob that is not one of its queue's claims".to_owned())
            }
            _ => Ok(envelope),
        }
    }

    /// Parses the JSON of a task.
    pub(crate) fn parse(json: &[u8]) -> Loaded<T> {
        let error = match serde_json::from_slice(json) {
            Ok(task) => return Loaded::Task(task),
            Err(error) => error,
        };
        // Omits the error's own text, which quotes the task.
        let (line, column) = (error.line(), error.column());
        let reason =
            format!("it is not a task `{}`: see line {line}, column {column} of its JSON", T::KIND);
        if is_unknown_variant(&error) { Loaded::Newer(reason) } else { Loaded::Unreadable(reason) }
    }
}

/// JSON without the two characters that JSON allows in strings and XML does not. They cannot occur outside strings.
fn escaped(json: &str) -> String {
    json.replace('\u{FFFE}', "\\ufffe").replace('\u{FFFF}', "\\uffff")
}

/// Returns whether the JSON is an enum with a variant that this program does not know.
///
/// serde reports this only as text: that of `serde::de::Error::unknown_variant`, and of derived code for
/// untagged enums.
fn is_unknown_variant(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data()
        && (text.starts_with("unknown variant `")
            || text.starts_with("data did not match any variant of untagged enum"))
}

/// The JSON of a task.
fn json_of<T: Task>(task: &T) -> Result<Box<RawValue>> {
    // A message must name the kind, and this type does not know it.
    if T::KIND == any::ANY {
        let what = "a task of any kind cannot be put";
        return Err(Error::refused(ErrorKind::Invalid, what).advise("put it as its own type"));
    }
    serde_json::value::to_raw_value(task)
        .map_err(|_| Error::refused(ErrorKind::Invalid, "the task cannot be written as JSON"))
}

/// A new random id.
pub(crate) fn new_id() -> Result<Guid> {
    Ok(uuid::Builder::from_random_bytes(random()?).into_uuid())
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let what = "the operating system gives no random bytes, so there is no id and no key";
        Error::refused(ErrorKind::Unavailable, what).with_source(error)
    })?;
    Ok(bytes)
}

/// The digest of a text in hexadecimal digits, after a prefix.
fn hex_digest(prefix: &str, bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The id for an idempotency key: a UUID of version 8, from a digest of kind and key.
fn id_of(kind: &str, key: &str) -> Guid {
    let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(key).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Encodes an id for use in a RowKey. Ids from programs in other languages may contain characters that are
/// invalid in keys.
pub(crate) fn key_part(id: &str) -> String {
    let is_plain = (1..=200).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain {
        return id.to_owned();
    }
    hex_digest("sha256_", id.as_bytes())
}

impl<T> Clone for Tasks<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            table: self.table.clone(),
            claims: self.claims.clone(),
            base64: self.base64,
            keys: self.keys.clone(),
            resting_until: Arc::clone(&self.resting_until),
            put: Arc::clone(&self.put),
            of: PhantomData,
        }
    }
}

shown!([T] Tasks<T>: queue, claims, base64);
