//! Operations on messages: put, receive, peek, update, delete and clear.

use std::ops::RangeInclusive;
use std::time::Duration;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::limits::{MAX_MESSAGES, MAX_VISIBILITY_SECONDS};

use super::handle::Queue;
use super::message::{Body, Message, Peeked};
use crate::error::{Error, Outcome, Result};
use crate::pace::load::Load;
use crate::queue::wire::encode::Lifetime;
use crate::queue::wire::{decode, encode};
use crate::service::unreadable;
use crate::transport::{Call, Host, Reply, Safety};

/// The longest finite time to live in seconds: the maximum of a 32-bit integer.
const MAX_TTL_SECONDS: u32 = i32::MAX as u32;

impl Queue {
    /// Puts a message at the end of the queue. Nothing is sent before [`Put::send`].
    ///
    /// [Put Message](https://learn.microsoft.com/rest/api/storageservices/put-message)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// let put = jobs
    ///     .put(Body::text("archive employee 7"))
    ///     .ttl(Duration::from_secs(86_400))
    ///     .hidden_for(Duration::from_secs(60))
    ///     .send()
    ///     .await?;
    /// assert!(jobs.peek(1).await?.is_empty(), "it is hidden");
    /// jobs.delete(&put).await?;
    /// # Ok(()) }
    /// ```
    pub fn put(&self, body: Body) -> Put {
        Put { queue: self.clone(), body, lifetime: None, hidden: None, error: None }
    }

    /// Receives up to `count` messages, 1 to 32, and hides them from others for `hidden`, 1 second
    /// to 7 days. Returns fewer, or none, if the queue has no more.
    ///
    /// A message that is not deleted before it becomes visible again is received again. Make its
    /// handling idempotent, and delete it last.
    ///
    /// A lost response hides messages, too; they become visible again after the same time.
    /// [Get Messages](https://learn.microsoft.com/rest/api/storageservices/get-messages)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// jobs.put(Body::text("archive employee 7")).send().await?;
    /// let received = jobs.receive(32, Duration::from_secs(30)).await?;
    /// assert_eq!((received[0].text(), received[0].dequeue_count), ("archive employee 7", 1));
    /// assert!(jobs.receive(32, Duration::from_secs(30)).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn receive(&self, count: u32, hidden: Duration) -> Result<Vec<Message>> {
        // The secondary cannot hide messages.
        let call = Call::new("GetMessages", self.name(), Safety::Read)
            .counting(Load::Messages)
            .at(Host::Primary);
        let named = |error: Error| error.of(call.operation, call.resource);
        check_count(count).map_err(named)?;
        let hidden = seconds(hidden, 1..=MAX_VISIBILITY_SECONDS, HIDDEN).map_err(named)?;
        let reply = self.send(encode::get(self.name(), count, Some(hidden)), call).await?;
        let messages = decoded(&reply, &call)?;
        self.returned(&call, &reply, messages.len());
        let messages = messages.into_iter().map(|message| Message::of(message, None));
        messages.collect::<Option<_>>().ok_or_else(|| incomplete(&call, &reply))
    }

    /// Returns up to `count` messages, 1 to 32, from the front of the queue, without changing them.
    /// Hidden messages are not returned.
    ///
    /// [Peek Messages](https://learn.microsoft.com/rest/api/storageservices/peek-messages)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// jobs.put(Body::base64("naïve")).send().await?;
    /// assert_eq!(jobs.peek(32).await?[0].base64()?, "naïve");
    /// # Ok(()) }
    /// ```
    pub async fn peek(&self, count: u32) -> Result<Vec<Peeked>> {
        let call = Call::new("PeekMessages", self.name(), Safety::Read).counting(Load::Messages);
        check_count(count).map_err(|error| error.of(call.operation, call.resource))?;
        let reply = self.send(encode::peek(self.name(), count), call).await?;
        let messages = decoded(&reply, &call)?;
        self.returned(&call, &reply, messages.len());
        Ok(messages.into_iter().map(Peeked::of).collect())
    }

    /// Changes the body of a received message, or how long it stays hidden. Nothing is sent before
    /// [`Update::send`].
    ///
    /// [Update Message](https://learn.microsoft.com/rest/api/storageservices/update-message)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// jobs.put(Body::text("step 1")).send().await?;
    /// let received = jobs.receive(1, Duration::from_secs(30)).await?;
    /// let longer = Duration::from_secs(300);
    /// let update = jobs.update(&received[0]).body(Body::text("step 2")).hidden_for(longer);
    /// let updated = update.send().await?;
    /// assert!(jobs.delete(&received[0]).await.is_err(), "its pop receipt is no longer valid");
    /// jobs.delete(&updated).await?;
    /// # Ok(()) }
    /// ```
    pub fn update<'a>(&self, message: &'a Message) -> Update<'a> {
        Update { queue: self.clone(), message, body: None, hidden: Duration::ZERO }
    }

    /// Deletes a received message.
    ///
    /// Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if it does not exist, and with
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another client has received it since.
    /// [Delete Message](https://learn.microsoft.com/rest/api/storageservices/delete-message2)
    pub async fn delete(&self, message: &Message) -> Result<()> {
        self.delete_of(&message.id, &message.pop_receipt).await
    }

    /// Deletes a received message if it exists. Returns whether it existed.
    ///
    /// Fails with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another client has
    /// received it since.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// let put = jobs.put(Body::text("archive employee 7")).send().await?;
    /// assert!(jobs.delete_if_exists(&put).await?);
    /// assert!(!jobs.delete_if_exists(&put).await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_if_exists(&self, message: &Message) -> Result<bool> {
        self.delete_of_if_exists(&message.id, &message.pop_receipt).await
    }

    /// Deletes all messages, including hidden ones.
    ///
    /// With very many messages, it may fail with
    /// [`ErrorCode::OPERATION_TIMED_OUT`](crate::ErrorCode::OPERATION_TIMED_OUT) after it has
    /// deleted some; call it again until it succeeds.
    /// [Clear Messages](https://learn.microsoft.com/rest/api/storageservices/clear-messages)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// jobs.put(Body::text("archive employee 7")).ttl(None).send().await?;
    /// jobs.clear().await?;
    /// assert_eq!(jobs.approximate_count().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn clear(&self) -> Result<()> {
        let call = Call::new("ClearMessages", self.name(), Safety::Conditional);
        self.send(encode::clear(self.name()), call).await?;
        Ok(())
    }

    pub(super) async fn delete_of(&self, id: &str, receipt: &str) -> Result<()> {
        let call =
            Call::new("DeleteMessage", self.name(), Safety::Conditional).counting(Load::Messages);
        check_parts(id, receipt).map_err(|error| error.of(call.operation, call.resource))?;
        self.send(encode::delete_message(self.name(), id, receipt), call).await?;
        Ok(())
    }

    pub(super) async fn delete_of_if_exists(&self, id: &str, receipt: &str) -> Result<bool> {
        let call = Call::new("DeleteMessage", self.name(), Safety::Conditional)
            .counting(Load::Messages)
            .expecting(&[404]);
        check_parts(id, receipt).map_err(|error| error.of(call.operation, call.resource))?;
        match self.send(encode::delete_message(self.name(), id, receipt), call).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&ErrorCode::MESSAGE_NOT_FOUND) => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn update_of(
        &self,
        id: &str,
        receipt: &str,
        body: Option<&Body>,
        hidden: Duration,
    ) -> Result<decode::Updated> {
        let call =
            Call::new("UpdateMessage", self.name(), Safety::Conditional).counting(Load::Messages);
        let named = |error: Error| error.of(call.operation, call.resource);
        check_parts(id, receipt).map_err(named)?;
        body.map_or(Ok(()), Body::check).map_err(named)?;
        let hidden = seconds(hidden, 0..=MAX_VISIBILITY_SECONDS, HIDDEN).map_err(named)?;
        let text = body.map(Body::as_str);
        let reply = self.send(encode::update(self.name(), id, receipt, hidden, text), call).await?;
        decode::updated(&reply.headers).ok_or_else(|| incomplete(&call, &reply))
    }
}

/// A message to put, from [`Queue::put`].
#[derive(Debug)]
#[must_use = "nothing is put before `send`"]
pub struct Put {
    queue: Queue,
    body: Body,
    lifetime: Option<Lifetime>,
    hidden: Option<Duration>,
    error: Option<Error>,
}

impl Put {
    /// Sets the time to live, after which the message expires: 1 second or more, and longer than it
    /// is hidden; `None`: never, it is kept until it is deleted. Default: 7 days.
    pub fn ttl(mut self, ttl: impl Into<Option<Duration>>) -> Self {
        let ttl = ttl.into().map(|ttl| seconds(ttl, 1..=MAX_TTL_SECONDS, "a message lives"));
        match ttl.transpose() {
            Ok(ttl) => self.lifetime = Some(ttl.map_or(Lifetime::Forever, Lifetime::Seconds)),
            Err(error) => self.error = Some(error),
        }
        self
    }

    /// Hides the message for this long, at most 7 days. Default: it is visible at once.
    pub fn hidden_for(mut self, hidden: Duration) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// Puts the message and returns it as stored. Until another client receives it, its pop receipt
    /// can update or delete it.
    ///
    /// Not retried if it is unknown whether the message was put. The error's
    /// [`outcome`](Error::outcome) is then [`Outcome::Unknown`], and the caller decides whether to
    /// put it again, which may store it twice.
    ///
    /// Fails with [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if the text is longer than 64
    /// KiB, and with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if XML cannot contain it,
    /// before anything is sent.
    pub async fn send(self) -> Result<Message> {
        let Self { queue, body, lifetime, hidden, error } = self;
        let call = Call::new("PutMessage", queue.name(), Safety::Never).counting(Load::Messages);
        let hidden = checked(&body, lifetime, hidden, error)
            .map_err(|error| error.of(call.operation, call.resource))?;
        let request = encode::put(queue.name(), body.as_str(), lifetime, hidden);
        let reply = queue.send(request, call).await?;
        let message = decoded(&reply, &call)?.into_iter().next();
        let message = message.and_then(|message| Message::of(message, Some(&body)));
        message.ok_or_else(|| incomplete(&call, &reply))
    }
}

/// The seconds for which the message is hidden, after checking all parts of the request.
fn checked(
    body: &Body,
    lifetime: Option<Lifetime>,
    hidden: Option<Duration>,
    error: Option<Error>,
) -> Result<Option<u32>> {
    if let Some(error) = error {
        return Err(error);
    }
    body.check()?;
    let Some(hidden) = hidden else { return Ok(None) };
    let hidden = seconds(hidden, 0..=MAX_VISIBILITY_SECONDS, HIDDEN)?;
    let expired = match lifetime {
        Some(Lifetime::Forever) => false,
        Some(Lifetime::Seconds(ttl)) => hidden >= ttl,
        None => hidden >= MAX_VISIBILITY_SECONDS,
    };
    if expired {
        let what = "the message would expire before anybody could receive it";
        return Err(Error::invalid(what).advise("let it live longer than it is hidden"));
    }
    Ok(Some(hidden))
}

/// A change of a message, from [`Queue::update`].
#[derive(Debug)]
#[must_use = "nothing is changed before `send`"]
pub struct Update<'a> {
    queue: Queue,
    message: &'a Message,
    body: Option<Body>,
    hidden: Duration,
}

impl Update<'_> {
    /// Sets another body. Default: the body does not change.
    pub fn body(mut self, body: Body) -> Self {
        self.body = Some(body);
        self
    }

    /// Sets how long the message stays hidden from now on, at most 7 days. Default: it is visible
    /// at once.
    pub fn hidden_for(mut self, hidden: Duration) -> Self {
        self.hidden = hidden;
        self
    }

    /// Updates the message and returns it with its new pop receipt. The previous one is no longer
    /// valid.
    ///
    /// Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the message does not
    /// exist, and with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another client has
    /// received it since.
    pub async fn send(self) -> Result<Message> {
        let Self { queue, message, body, hidden } = self;
        let updated =
            queue.update_of(&message.id, &message.pop_receipt, body.as_ref(), hidden).await?;
        let mut message = message.clone();
        message.pop_receipt = updated.pop_receipt;
        message.next_visible = updated.next_visible;
        if let Some(body) = &body {
            body.as_str().clone_into(&mut message.text);
        }
        Ok(message)
    }
}

const HIDDEN: &str = "a message is hidden";

/// The duration in whole seconds, rounded up, within the service's limits.
fn seconds(duration: Duration, range: RangeInclusive<u32>, what: &str) -> Result<u32> {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match u32::try_from(whole) {
        Ok(seconds) if range.contains(&seconds) => Ok(seconds),
        _ => {
            let (least, most) = range.into_inner();
            Err(Error::invalid(format!("{what} for {least} to {most} seconds")))
        }
    }
}

/// Refuses an empty id, which would address all messages of the queue, and an empty pop receipt.
fn check_parts(id: &str, receipt: &str) -> Result<()> {
    for (text, what) in [(id, "the message's id is empty"), (receipt, "the pop receipt is empty")] {
        if text.is_empty() {
            return Err(Error::invalid(what).advise("give both as the service gave them"));
        }
    }
    Ok(())
}

fn check_count(count: u32) -> Result<()> {
    if (1..=MAX_MESSAGES).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid(format!("one request takes 1 to {MAX_MESSAGES} messages")))
}

fn decoded(reply: &Reply, call: &Call<'_>) -> Result<Vec<decode::Message>> {
    decode::messages(&reply.body).map_err(|error| unreadable(error, call, reply))
}

#[cold]
fn incomplete(call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("it succeeded, but the response does not contain the pop receipt")
        .of_answer(call, reply)
}
