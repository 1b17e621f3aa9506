//! Containers: create, describe and delete.

use std::time::Duration;

use rowkey_wire::blob::{PublicAccess, name};
use rowkey_wire::shown;
use rowkey_wire::xml;

use super::conditions::Conditions;
use super::handle::Blob;
use super::lease::{Lease, Target};
use super::{ContainerProperties, Written};
use crate::account::StorageAccount;
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, Conditions as Wire};
use crate::cost::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::options::ClientOptions;
use crate::service::AccessPolicy;
use crate::service::policies::{self, policies};
use crate::service::wire::metadata::metadata_error;
use crate::service::{self, unreadable};
use crate::transport::{Call, Pipeline, Reply, Request, Safety};

/// A container of blobs.
///
/// Created by [`StorageAccount::container`], which sends nothing and checks nothing. Clones are
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

    /// Returns the container's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the account, with the options of this handle.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// Returns a handle for the blob with this name. Nothing is sent or checked.
    ///
    /// Names have 1 to 1,024 characters. Listings can treat slashes in them as folders.
    pub fn blob(&self, name: &str) -> Blob {
        Blob::new(self.account.clone(), &self.name, name)
    }

    /// Returns a handle for the same container with other options.
    #[must_use = "the handle itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self { account: self.account.with_options(options), ..self.clone() }
    }

    /// Returns a handle for the same container with one more [meter](crate::cost::Meter), which counts its requests.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = rowkey::cost::Meter::new();
    /// account.container("files").with_meter(&meter).create().await?;
    /// assert_eq!(meter.usage().requests(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_meter(&self, meter: &Meter) -> Self {
        Self { account: self.account.with_meter(meter), ..self.clone() }
    }

    /// Returns a handle for the same container whose operations succeed only if these conditions
    /// hold. Setting metadata accepts only `if_modified_since`; deleting and setting policies
    /// accept only dates; reading accepts none.
    #[must_use = "the handle itself does not change"]
    pub fn with_conditions(&self, conditions: impl Into<Conditions>) -> Self {
        let mut container = self.clone();
        conditions.into().place(&mut container.conditions);
        container
    }

    /// Returns a handle for the same container whose operations carry the id of this lease.
    #[must_use = "the handle itself does not change"]
    pub fn with_lease(&self, lease: &Lease) -> Self {
        let mut container = self.clone();
        container.conditions.lease = Some(lease.guid());
        container
    }

    /// Creates the container, without public access. Fails with [`ErrorKind::AlreadyExists`] if it
    /// exists.
    ///
    /// After a container is deleted, its name is blocked for 30 seconds or more; creating it again
    /// fails meanwhile with
    /// [`ErrorCode::CONTAINER_BEING_DELETED`](crate::ErrorCode::CONTAINER_BEING_DELETED).
    /// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container)
    pub async fn create(&self) -> Result<Written> {
        self.create_with(None, &[]).await
    }

    /// Creates the container with public access as in `access` and with this metadata, 8 KiB at
    /// most. Fails as [`create`](Self::create) does.
    ///
    /// Fails if `access` is set and the account forbids public access.
    ///
    /// ```
    /// use rowkey::blob::PublicAccess;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("files");
    /// container.create_with(Some(PublicAccess::Blob), &[("team", "billing")]).await?;
    /// let properties = container.properties().await?.ok_or("just created")?;
    /// assert_eq!(properties.public_access, Some(PublicAccess::Blob));
    /// assert_eq!(properties.metadata["team"], "billing");
    /// container.set_public_access(None).await?;
    /// # Ok(()) }
    /// ```
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

    /// Creates the container unless it exists. Returns whether it was created.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("files");
    /// assert!(container.create_if_missing().await?);
    /// assert!(!container.create_if_missing().await?);
    /// # Ok(()) }
    /// ```
    pub async fn create_if_missing(&self) -> Result<bool> {
        let call = Call::new("CreateContainer", &self.name, Safety::Conditional).expecting(&[409]);
        service::unless(ErrorKind::AlreadyExists, self.send(self.creation()?, call).await)
    }

    /// Like [`create_if_missing`](Self::create_if_missing), but waits while the name is blocked. The service
    /// blocks it for 30 seconds or more after a container with this name was deleted.
    ///
    /// `longest` limits the sum of the waits, by the account's [clock](crate::Clock). If the name is still
    /// blocked after that, the last error is returned.
    pub async fn create_if_missing_within(&self, longest: Duration) -> Result<bool> {
        service::create_within(&self.account, longest, || self.create_if_missing()).await
    }

    /// Deletes the container and all its blobs. Fails with [`ErrorKind::NotFound`] if it does not
    /// exist.
    ///
    /// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container)
    pub async fn delete(&self) -> Result<()> {
        let call = Call::new("DeleteContainer", &self.name, Safety::Conditional);
        self.send(encode::delete_container(&self.name, &self.conditions), call).await?;
        Ok(())
    }

    /// Deletes the container if it exists. Returns whether it existed.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("files");
    /// # container.create().await?;
    /// assert!(container.delete_if_exists().await?);
    /// assert!(!container.delete_if_exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_if_exists(&self) -> Result<bool> {
        let call = Call::new("DeleteContainer", &self.name, Safety::Conditional).expecting(&[404]);
        let request = encode::delete_container(&self.name, &self.conditions);
        service::unless(ErrorKind::NotFound, self.send(request, call).await)
    }

    /// Returns the container's `ETag`, metadata and lease, or `None` if it does not exist.
    ///
    /// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("files");
    /// assert!(container.properties().await?.is_none());
    /// container.create().await?;
    /// container.set_metadata(&[("owner", "ada")]).await?;
    /// assert_eq!(container.properties().await?.ok_or("just created")?.metadata["owner"], "ada");
    /// # Ok(()) }
    /// ```
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

    /// Replaces all metadata with these names and values, 8 KiB at most.
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

    /// Returns the container's stored access policies. Needs Shared Key.
    ///
    /// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl)
    pub async fn access_policies(&self) -> Result<Vec<AccessPolicy>> {
        Ok(self.access().await?.policies)
    }

    /// Replaces all stored access policies with these, at most 5, and ends public access;
    /// [`set_access_policy`](Self::set_access_policy) and the other methods that change one policy keep it.
    /// Changes may take 30 seconds to take effect.
    ///
    /// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl)
    ///
    /// ```
    /// use rowkey::sas::BlobPermissions;
    /// use rowkey::service::AccessPolicy;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let container = account.container("files");
    /// # container.create().await?;
    /// let reads = AccessPolicy {
    ///     id: "reads".into(),
    ///     permission: Some(BlobPermissions::READ.to_string()),
    ///     ..AccessPolicy::default()
    /// };
    /// container.set_access_policies(&[reads]).await?;
    /// assert_eq!(container.access_policies().await?[0].id, "reads");
    /// assert!(container.revoke_access_policy("reads").await?);
    /// # Ok(()) }
    /// ```
    pub async fn set_access_policies(&self, policies: &[AccessPolicy]) -> Result<Written> {
        self.write_access(None, policies).await
    }

    /// Sets what can be read without authorization; `None`: nothing. The policies do not change. If
    /// two callers change policies or access at the same time, the last one wins.
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

    /// The target of a lease on this container. The lease is required to delete the container, and
    /// in the operations of handles [`with_lease`](Self::with_lease); it does not protect the
    /// blobs.
    pub(super) fn target(&self) -> Target {
        Target::container(self.account.clone(), &self.name, self.conditions.clone())
    }

    fn creation(&self) -> Result<Request> {
        encode::create_container(&self.name, None, []).map_err(metadata_error)
    }

    /// Checks the container's name and sends the request.
    pub(super) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        check_container(&call)?;
        self.pipeline().send(request, call).await
    }

    fn pipeline(&self) -> &Pipeline {
        self.account.pipeline()
    }
}

/// A container's access: the policies of the document and the public access of the header.
struct Access {
    public: Option<PublicAccess>,
    policies: Vec<AccessPolicy>,
}

impl AsMut<Vec<AccessPolicy>> for Access {
    fn as_mut(&mut self) -> &mut Vec<AccessPolicy> {
        &mut self.policies
    }
}

/// Refuses invalid container names.
pub(super) fn check_container(call: &Call<'_>) -> Result<()> {
    name::check_container(call.resource)
        .map_err(|error| Error::invalid(error.to_string()).of(call.operation, call.resource))
}

/// The `ETag` and the time of a successful write.
pub(super) fn written(reply: &Reply, call: &Call<'_>) -> Result<Written> {
    decode::written(&reply.headers).ok_or_else(|| incomplete(call, reply))
}

#[cold]
pub(super) fn incomplete(call: &Call<'_>, reply: &Reply) -> Error {
    Error::decode("it succeeded, but headers are missing in the answer").of_answer(call, reply)
}

shown!(Container: name, account);
