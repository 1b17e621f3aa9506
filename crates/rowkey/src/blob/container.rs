//! A container: made, described and deleted.

use std::fmt;
use std::time::Duration;

use rowkey_wire::blob::{PublicAccess, name};
use rowkey_wire::xml;

use super::conditions::Conditions;
use super::handle::Blob;
use super::lease::{Lease, Target};
use super::{ContainerProperties, Written};
use crate::account::StorageAccount;
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, Conditions as Wire};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::options::ClientOptions;
use crate::queue::handle::metadata_error;
use crate::service::AccessPolicy;
use crate::service::policies::{self, policies};
use crate::service::{self, unreadable};
use crate::transport::{Call, Pipeline, Reply, Request, Safety};

/// A container of an account: blobs live in it.
///
/// Made by [`StorageAccount::container`]; making one sends nothing and checks nothing. Clones are
/// cheap and share connections.
///
/// ```
/// use rowkey::StorageAccount;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let photos = account.container("photos");
/// photos.create_if_missing().await?;
///
/// let ada = photos.blob("employees/7.jpg");
/// ada.put("not really a photo").content_type("image/jpeg").send().await?;
/// let content = ada.get().await?.ok_or("just put")?;
/// assert_eq!(content.bytes, "not really a photo");
/// assert_eq!(photos.blob("employees/8.jpg").get().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Container {
    name: Box<str>,
    conditions: Wire,
    account: StorageAccount,
}

impl Container {
    pub(crate) fn new(account: StorageAccount, name: &str) -> Self {
        Self { name: name.into(), conditions: Wire::NONE, account }
    }

    /// The container's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account that the container is in, with the options of this handle.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// The blob with this name in the container. Nothing is sent or checked.
    ///
    /// Names are 1 to 1,024 characters; slashes in them are what listings take for folders.
    pub fn blob(&self, name: &str) -> Blob {
        Blob::new(self.account.clone(), &self.name, name)
    }

    /// The same container, behaving differently.
    #[must_use = "the handle itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self { account: self.account.with_options(options), ..self.clone() }
    }

    /// The same container; what is done through the new handle is done only if these conditions
    /// hold. Setting metadata takes `if_modified_since` alone; deleting and setting policies take
    /// dates alone; reading takes none.
    #[must_use = "the handle itself does not change"]
    pub fn with_conditions(&self, conditions: impl Into<Conditions>) -> Self {
        let mut container = self.clone();
        conditions.into().place(&mut container.conditions);
        container
    }

    /// The same container; what is done through the new handle is done as the holder of a lease.
    #[must_use = "the handle itself does not change"]
    pub fn with_lease(&self, lease: &Lease) -> Self {
        let mut container = self.clone();
        container.conditions.lease = Some(lease.guid());
        container
    }

    /// Creates the container, which is not read without authorization. Fails with
    /// [`ErrorKind::AlreadyExists`] if there is one.
    ///
    /// A name whose container was deleted is blocked for 30 seconds or more; creating it again then
    /// fails with
    /// [`ErrorCode::CONTAINER_BEING_DELETED`](crate::ErrorCode::CONTAINER_BEING_DELETED).
    /// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container)
    pub async fn create(&self) -> Result<Written> {
        self.create_with(None, &[]).await
    }

    /// Creates the container with these names and values, 8 KiB at most, to describe it, and for
    /// everybody to read what `access` says. Fails as [`create`](Self::create) does.
    ///
    /// Accounts may forbid access without authorization; then `access` is refused.
    pub async fn create_with(
        &self,
        access: Option<PublicAccess>,
        metadata: &[(&str, &str)],
    ) -> Result<Written> {
        let call = Call::new("CreateContainer", &self.name, Safety::Insert);
        let pairs = metadata.iter().copied();
        let request = encode::create_container(&self.name, access, pairs)
            .map_err(|error| metadata_error(error).of(call.operation, call.resource))?;
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// Creates the container unless it exists; says whether it did not.
    pub async fn create_if_missing(&self) -> Result<bool> {
        let call = Call::new("CreateContainer", &self.name, Safety::Conditional).expecting(&[409]);
        match self.send(self.creation()?, call).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// Like [`create_if_missing`](Self::create_if_missing), but waits for the name to be free again
    /// if a container with it was deleted shortly before: the service blocks it for 30 seconds or more.
    ///
    /// `longest` is how long the waits may be in all, by the account's [clock](crate::Clock); if the name
    /// is blocked even then, the last refusal is returned.
    pub async fn create_if_missing_within(&self, longest: Duration) -> Result<bool> {
        service::create_within(&self.account, longest, || self.create_if_missing()).await
    }

    /// Deletes the container and all its blobs. Fails with [`ErrorKind::NotFound`] if there is
    /// none.
    ///
    /// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container)
    pub async fn delete(&self) -> Result<()> {
        let call = Call::new("DeleteContainer", &self.name, Safety::Conditional);
        self.send(encode::delete_container(&self.name, &self.conditions), call).await?;
        Ok(())
    }

    /// Deletes the container if it exists; says whether it did.
    pub async fn delete_if_exists(&self) -> Result<bool> {
        let call = Call::new("DeleteContainer", &self.name, Safety::Conditional).expecting(&[404]);
        match self.send(encode::delete_container(&self.name, &self.conditions), call).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    /// The container's tag, metadata and lease, or `None` when there is no container.
    ///
    /// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties)
    pub async fn properties(&self) -> Result<Option<ContainerProperties>> {
        let call = Call::new("GetContainerProperties", &self.name, Safety::Read).expecting(&[404]);
        let request = encode::get_container_properties(&self.name, &self.conditions);
        match self.send(request, call).await {
            Ok(reply) => match ContainerProperties::of(decode::container(&reply.headers)) {
                Some(properties) => Ok(Some(properties)),
                None => Err(incomplete(&call, &reply)),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts these names and values, 8 KiB at most, in the place of all others.
    ///
    /// [Set Container Metadata](https://learn.microsoft.com/rest/api/storageservices/set-container-metadata)
    pub async fn set_metadata(&self, pairs: &[(&str, &str)]) -> Result<Written> {
        let call = Call::new("SetContainerMetadata", &self.name, Safety::Conditional);
        let pairs = pairs.iter().copied();
        let request = encode::set_container_metadata(&self.name, pairs, &self.conditions)
            .map_err(|error| metadata_error(error).of(call.operation, call.resource))?;
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// The container's stored access policies. Needs Shared Key.
    ///
    /// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl)
    pub async fn access_policies(&self) -> Result<Vec<AccessPolicy>> {
        Ok(self.access().await?.policies)
    }

    /// Puts these policies, at most 5, in the place of all others, and ends access without
    /// authorization if there was any; [`set_access_policy`](Self::set_access_policy) and the others
    /// that change one policy do not. It may take 30 seconds until the service heeds them.
    ///
    /// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl)
    pub async fn set_access_policies(&self, policies: &[AccessPolicy]) -> Result<Written> {
        self.write_access(None, policies).await
    }

    /// Lets everybody read what `access` says without authorization, or lets all reads need it. The
    /// policies stay; of two callers who change them at the same time, the last one wins.
    pub async fn set_public_access(&self, access: Option<PublicAccess>) -> Result<()> {
        let stored = self.access().await?;
        self.set_access(&Access { public: access, ..stored }).await
    }

    policies!("SetContainerAcl", access, set_access);

    async fn access(&self) -> Result<Access> {
        let call = Call::new("GetContainerAcl", &self.name, Safety::Read);
        let request = encode::get_container_acl(&self.name, &self.conditions);
        let reply = self.send(request, call).await?;
        let policies =
            xml::decode_acl(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        Ok(Access { public: decode::container(&reply.headers).access, policies })
    }

    async fn set_access(&self, access: &Access) -> Result<()> {
        self.write_access(access.public, &access.policies).await?;
        Ok(())
    }

    async fn write_access(
        &self,
        public: Option<PublicAccess>,
        policies: &[AccessPolicy],
    ) -> Result<Written> {
        let call = Call::new("SetContainerAcl", &self.name, Safety::Conditional);
        policies::check(policies).map_err(|error| error.of(call.operation, call.resource))?;
        let request = encode::set_container_acl(&self.name, public, policies, &self.conditions);
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// What a lease on the container would be on. It guards the deletion of the container, and what
    /// is done through handles [`with_lease`](Self::with_lease); not the blobs.
    pub(super) fn target(&self) -> Target {
        Target::container(self.account.clone(), &self.name, self.conditions.clone())
    }

    fn creation(&self) -> Result<Request> {
        encode::create_container(&self.name, None, []).map_err(metadata_error)
    }

    /// Checks the container's name and sends.
    pub(super) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        check_container(&call)?;
        self.pipeline().send(request, call).await
    }

    fn pipeline(&self) -> &Pipeline {
        self.account.pipeline()
    }
}

/// Who may do what in a container, as one document and one header say it.
struct Access {
    public: Option<PublicAccess>,
    policies: Vec<AccessPolicy>,
}

impl AsMut<Vec<AccessPolicy>> for Access {
    fn as_mut(&mut self) -> &mut Vec<AccessPolicy> {
        &mut self.policies
    }
}

/// Refuses a name that no container has.
pub(super) fn check_container(call: &Call<'_>) -> Result<()> {
    name::check_container(call.resource)
        .map_err(|error| Error::invalid(error.to_string()).of(call.operation, call.resource))
}

/// The tag and the time of a write that succeeded.
pub(super) fn written(reply: &Reply, call: &Call<'_>) -> Result<Written> {
    decode::written(&reply.headers).ok_or_else(|| incomplete(call, reply))
}

#[cold]
pub(super) fn incomplete(call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("it succeeded, but headers are missing in the answer").of_answer(call, reply)
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
