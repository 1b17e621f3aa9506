//! References to messages by id and pop receipt.

use rowkey_wire::shown;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::handle::Queue;
use super::message::Body;
use crate::error::Result;

/// A reference to a message by its id and pop receipt, from [`Queue::message_ref`].
///
/// For a message that another process has received or put and whose id and pop receipt it passed
/// on. The pop receipt becomes invalid as that of a [`Message`](super::Message) does.
#[derive(Clone)]
pub struct MessageRef {
    /// The message id, a GUID.
    pub id: String,
    /// The pop receipt for the next update or delete. [`update`](Self::update) replaces it.
    pub pop_receipt: String,
    queue: Queue,
}

impl Queue {
    /// Returns a reference to the message with this id and this pop receipt. Nothing is sent.
    ///
    /// ```
    /// # use rowkey::{StorageAccount, queue::Body};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let jobs = account.queue("jobs");
    /// # jobs.create().await?;
    /// # let put = jobs.put(Body::text("archive employee 7")).send().await?;
    /// # let (id, receipt) = (put.id, put.pop_receipt);
    /// jobs.message_ref(id, receipt).delete().await?;
    /// assert!(jobs.peek(1).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn message_ref(&self, id: impl Into<String>, receipt: impl Into<String>) -> MessageRef {
        MessageRef { queue: self.clone(), id: id.into(), pop_receipt: receipt.into() }
    }
}

impl MessageRef {
    /// Deletes the message. One request.
    ///
    /// Fails as [`Queue::delete`] does.
    pub async fn delete(&self) -> Result<()> {
        self.queue.delete_of(&self.id, &self.pop_receipt).await
    }

    /// Deletes the message if it exists. Returns whether it existed. One request.
    ///
    /// Fails as [`Queue::delete_if_exists`] does.
    pub async fn delete_if_exists(&self) -> Result<bool> {
        self.queue.delete_of_if_exists(&self.id, &self.pop_receipt).await
    }

    /// Hides the message for `hidden` from now on, at most 7 days, replaces its body if `body` is set, and
    /// stores the new pop receipt here. Returns when the message becomes visible to others. One request.
    ///
    /// Fails as [`Update::send`](super::Update::send) does.
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
    /// let put = jobs.put(Body::text("step 1")).send().await?;
    /// let mut reference = jobs.message_ref(put.id, put.pop_receipt);
    /// reference.update(Some(Body::text("step 2")), Duration::ZERO).await?;
    /// assert_eq!(jobs.peek(1).await?[0].text(), "step 2");
    /// reference.delete().await?;
    /// # Ok(()) }
    /// ```
    pub async fn update(&mut self, body: Option<Body>, hidden: Duration) -> Result<DateTime<Utc>> {
        let updated =
            self.queue.update_of(&self.id, &self.pop_receipt, body.as_ref(), hidden).await?;
        self.pop_receipt = updated.pop_receipt;
        Ok(updated.next_visible)
    }
}

shown! {
    /// Does not show the pop receipt.
    MessageRef: id
}
