//! Queues: create, describe and delete.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rowkey_wire::auth::Service;
use rowkey_wire::queue::check_name;
use rowkey_wire::xml;

use crate::account::StorageAccount;
use crate::cost::Meter;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::options::ClientOptions;
use crate::queue::wire::{decode, encode};
use crate::service::AccessPolicy;
use crate::service::policies::{self, policies};
use crate::service::wire::metadata::{self, metadata_error};
use crate::service::{self, unreadable};
use crate::transport::{Call, Reply, Request, Safety};

/// A queue of messages.
///
/// Created by [`StorageAccount::queue`], which sends nothing and checks nothing. Clones are cheap
/// and share connections.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::StorageAccount;
/// use rowkey::queue::Body;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let jobs = account.queue("jobs");
/// jobs.create_if_missing().await?;
/// jobs.put(Body::text("archive employee 7")).send().await?;
///
/// for message in jobs.receive(32, Duration::from_secs(30)).await? {
///     assert_eq!(message.text(), "archive employee 7");
///     // Do the work, in a way that may be repeated; then:
///     jobs.delete(&message).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    name: Box<str>,
    account: StorageAccount,
}

impl Queue {
    pub(crate) fn new(account: StorageAccount, name: &str) -> Self {
        Self { name: name.into(), account }
    }

    /// Returns the queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the account, with the options of this handle.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// Returns a handle for the same queue with other options.
    #[must_use = "the handle itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self { name: self.name.clone(), account: self.account.with_options(options) }
    }

    /// Returns a handle for the same queue with one more [meter](crate::cost::Meter), which counts its requests.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = rowkey::cost::Meter::new();
    /// account.queue("jobs").with_meter(&meter).create().await?;
    /// assert_eq!(meter.usage().requests(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_meter(&self, meter: &Meter) -> Self {
        Self { account: self.account.with_meter(meter), ..self.clone() }
    }

    /// Creates the queue. Fails with [`ErrorKind::AlreadyExists`] if it exists.
    ///
    /// After a queue is deleted, its name is blocked for 30 seconds or more; creating it again
    /// fails meanwhile with
    /// [`ErrorCode::QUEUE_BEING_DELETED`](crate::ErrorCode::QUEUE_BEING_DELETED).
    /// [Create Queue](https://learn.microsoft.com/rest/api/storageservices/create-queue4)
    pub async fn create(&self) -> Result<()> {
        self.create_with(&[]).await
    }

    /// Creates the queue with this metadata, 8 KiB at most. Fails as [`create`](Self::create) does,
    /// even if the existing queue has other metadata.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("jobs");
    /// queue.create_with(&[("team", "billing")]).await?;
    /// queue.set_metadata(&[("team", "billing"), ("owner", "ada")]).await?;
    /// assert_eq!(queue.metadata().await?["owner"], "ada");
    /// # Ok(()) }
    /// ```
    pub async fn create_with(&self, metadata: &[(&str, &str)]) -> Result<()> {
        let call = Call::new("CreateQueue", &self.name, Safety::Insert);
        let request =
            self.creation(metadata).map_err(|error| error.of(call.operation, call.resource))?;
        let reply = self.send(request, call).await?;
        if reply.status != http::StatusCode::NO_CONTENT {
            return Ok(());
        }
        // The queue existed with the same metadata. An earlier attempt may have created it.
        let outcome = if reply.ambiguous { Outcome::Unknown } else { Outcome::Rejected };
        let what = "it exists already";
        let kind = ErrorKind::AlreadyExists;
        Err(Error::transport(&call, kind, what, outcome, reply.attempts)
            .advise("use it, or create it with `create_if_missing`"))
    }

    /// Creates the queue unless it exists. Returns whether it was created.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("jobs");
    /// assert!(queue.create_if_missing().await?);
    /// assert!(!queue.create_if_missing().await?);
    /// # Ok(()) }
    /// ```
    pub async fn create_if_missing(&self) -> Result<bool> {
        let call = Call::new("CreateQueue", &self.name, Safety::Conditional).expecting(&[409]);
        match self.send(self.creation(&[])?, call).await {
            Ok(reply) => Ok(reply.status != http::StatusCode::NO_CONTENT || reply.ambiguous),
            // The queue exists with other metadata.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Like [`create_if_missing`](Self::create_if_missing), but waits while the name is blocked.
    /// The service blocks it for 30 seconds or more after a queue with this name was deleted.
    ///
    /// `longest` limits the sum of the waits, by the account's [clock](crate::Clock). If the name is still
    /// blocked after that, the last error is returned.
    pub async fn create_if_missing_within(&self, longest: Duration) -> Result<bool> {
        service::create_within(&self.account, longest, || self.create_if_missing()).await
    }

    /// Deletes the queue and all its messages. Fails with [`ErrorKind::NotFound`] if it does not
    /// exist.
    ///
    /// [Delete Queue](https://learn.microsoft.com/rest/api/storageservices/delete-queue3)
    pub async fn delete_queue(&self) -> Result<()> {
        let call = Call::new("DeleteQueue", &self.name, Safety::Conditional);
        self.send(encode::delete(&self.name), call).await?;
        Ok(())
    }

    /// Deletes the queue if it exists. Returns whether it existed.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("jobs");
    /// # queue.create().await?;
    /// queue.delete_queue().await?;
    /// assert!(!queue.delete_queue_if_exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_queue_if_exists(&self) -> Result<bool> {
        let call = Call::new("DeleteQueue", &self.name, Safety::Conditional).expecting(&[404]);
        service::unless(ErrorKind::NotFound, self.send(encode::delete(&self.name), call).await)
    }

    /// Returns the approximate number of messages, including hidden ones. It is never less than the
    /// actual number.
    ///
    /// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata)
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
    /// assert_eq!(jobs.approximate_count().await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn approximate_count(&self) -> Result<u64> {
        let call = Call::new("GetQueueMetadata", &self.name, Safety::Read);
        let reply = self.send(encode::get_metadata(&self.name), call).await?;
        decode::approximate_count(&reply.headers).ok_or_else(|| {
            Error::decode("the response does not contain the number of messages")
                .of_answer(&call, &reply)
        })
    }

    /// Returns the queue's metadata. Names are in lower case.
    ///
    /// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata)
    pub async fn metadata(&self) -> Result<BTreeMap<String, String>> {
        let call = Call::new("GetQueueMetadata", &self.name, Safety::Read);
        let reply = self.send(encode::get_metadata(&self.name), call).await?;
        Ok(metadata::decode(&reply.headers).into_iter().collect())
    }

    /// Replaces all metadata with these names and values, 8 KiB at most. The last writer wins.
    ///
    /// [Set Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata)
    pub async fn set_metadata(&self, pairs: &[(&str, &str)]) -> Result<()> {
        let call = Call::new("SetQueueMetadata", &self.name, Safety::Conditional);
        let request = encode::set_metadata(&self.name, pairs.iter().copied())
            .map_err(|error| metadata_error(error).of(call.operation, call.resource))?;
        self.send(request, call).await?;
        Ok(())
    }

    /// Returns the queue's stored access policies. Needs Shared Key.
    ///
    /// [Get Queue ACL](https://learn.microsoft.com/rest/api/storageservices/get-queue-acl)
    pub async fn access_policies(&self) -> Result<Vec<AccessPolicy>> {
        let call = Call::new("GetQueueAcl", &self.name, Safety::Read);
        let reply = self.send(encode::get_acl(&self.name), call).await?;
        xml::decode_acl(&reply.body).map_err(|error| unreadable(error, &call, &reply))
    }

    /// Replaces all stored access policies with these, at most 5. Changes may take 30 seconds to
    /// take effect. The last writer wins.
    ///
    /// [Set Queue ACL](https://learn.microsoft.com/rest/api/storageservices/set-queue-acl)
    ///
    /// ```
    /// use rowkey::service::AccessPolicy;
    /// use rowkey::sas::QueuePermissions;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("jobs");
    /// # queue.create().await?;
    /// let puts = AccessPolicy {
    ///     id: "puts".into(),
    ///     permission: Some(QueuePermissions::ADD.to_string()),
    ///     ..AccessPolicy::default()
    /// };
    /// queue.set_access_policies(&[puts]).await?;
    /// assert_eq!(queue.access_policies().await?[0].permission.as_deref(), Some("a"));
    /// # Ok(()) }
    /// ```
    pub async fn set_access_policies(&self, policies: &[AccessPolicy]) -> Result<()> {
        let call = Call::new("SetQueueAcl", &self.name, Safety::Conditional);
        policies::check(policies).map_err(|error| error.of(call.operation, call.resource))?;
        self.send(encode::set_acl(&self.name, policies), call).await?;
        Ok(())
    }

    policies!("SetQueueAcl", access_policies, set_access_policies);

    fn creation(&self, metadata: &[(&str, &str)]) -> Result<Request> {
        encode::create(&self.name, metadata.iter().copied()).map_err(metadata_error)
    }

    /// Checks the queue's name and sends the request.
    pub(super) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        self.check_name(call.operation)?;
        self.account.pipeline().send(request, call).await
    }

    /// Reports how many messages a response has.
    pub(super) fn returned(&self, call: &Call<'_>, reply: &Reply, messages: usize) {
        self.account.pipeline().returned(Service::Queue, call, reply, messages);
    }

    /// The attributes `server.address` and `server.port` of the queue's metrics; `None` if the account has no
    /// queue endpoint.
    #[doc(hidden)]
    pub fn server(&self) -> Option<(&str, &str)> {
        let endpoint = &self.account.pipeline().endpoints().of(Service::Queue)?.primary;
        Some((endpoint.host(), endpoint.port_text()))
    }

    pub(crate) fn check_name(&self, operation: &'static str) -> Result<()> {
        check_name(&self.name)
            .map_err(|error| Error::invalid(error.to_string()).of(operation, &self.name))
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).field("account", &self.account).finish()
    }
}
