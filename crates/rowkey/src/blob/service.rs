//! What belongs to the Blob service of an account: its containers, properties and statistics.

use std::sync::Arc;

use crate::blob::wire::decode;
use crate::blob::wire::delegation;
use crate::blob::wire::encode::{self, ListContainers};
use chrono::{DateTime, SecondsFormat, Utc};
use rowkey_wire::auth::SigningKey;
use rowkey_wire::auth::delegation::{DelegationKey, KeyInfo};
use zeroize::Zeroize as _;

use super::ContainerProperties;
use super::container::{Container, incomplete};
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::service::listing::{Listing, Next, Read};
use crate::service::{self, ServiceProperties, ServiceStats, unreadable};
use crate::transport::{Call, Host, Safety};

const LIST: &str = "ListContainers";

impl StorageAccount {
    /// The container with this name. Nothing is sent or checked.
    pub fn container(&self, name: &str) -> Container {
        Container::new(self.clone(), name)
    }

    /// The account's Blob service: its containers, its properties, its statistics.
    pub fn blob_service(&self) -> BlobService {
        BlobService { account: self.clone() }
    }
}

/// The Blob service of an account, from [`StorageAccount::blob_service`].
#[derive(Clone, Debug)]
pub struct BlobService {
    account: StorageAccount,
}

impl BlobService {
    /// The account's containers, in the order of their names.
    ///
    /// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2)
    pub fn containers(&self) -> Containers {
        Listing::new(&self.account, LIST, |listing, next| Box::pin(page(listing, next)))
    }

    /// Logging, metrics and CORS rules.
    ///
    /// [Get Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties)
    pub async fn properties(&self) -> Result<ServiceProperties> {
        let request = encode::get_service_properties();
        service::properties(&self.account, "GetBlobServiceProperties", request).await
    }

    /// Changes logging, metrics and CORS rules. Sections that are `None` stay as they are.
    ///
    /// [Set Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties)
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let operation = "SetBlobServiceProperties";
        let request = encode::set_service_properties;
        service::set_properties(&self.account, operation, request, properties).await
    }

    /// A key to sign shared access signatures with, for a program that has a token and no account key: see
    /// [`BlobSas::sign_with`](crate::sas::BlobSas::sign_with). It is good until `expiry`, 7 days at
    /// most, and its signatures no longer than that.
    ///
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    pub async fn user_delegation_key(&self, expiry: DateTime<Utc>) -> Result<UserDelegationKey> {
        let call = Call::new("GetUserDelegationKey", "", Safety::Read).at(Host::Primary);
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let start = time(self.account.clock().now());
        let info = KeyInfo { start, expiry: time(expiry) };
        let request = encode::get_user_delegation_key(&info);
        let reply = self.account.pipeline().send(request, call).await?;
        let mut key =
            delegation::decode(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        let signer = SigningKey::from_base64(&key.value).map_err(|_| {
            Error::decode("the user delegation key is not base64").of_answer(&call, &reply)
        })?;
        // The signer is all that is needed of it.
        key.value.zeroize();
        Ok(UserDelegationKey { key, signer })
    }

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let request = encode::get_service_stats();
        service::statistics(&self.account, "GetBlobServiceStats", request).await
    }
}

/// A key that signs in the name of a user, from [`BlobService::user_delegation_key`]. `Debug` does
/// not show it.
#[derive(Clone, Debug)]
pub struct UserDelegationKey {
    pub(crate) key: DelegationKey,
    pub(crate) signer: SigningKey,
}

/// A container in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerItem {
    /// The name.
    pub name: String,
    /// What is known of it; metadata only if it was asked for.
    pub properties: ContainerProperties,
}

/// A listing of containers, from [`BlobService::containers`].
pub type Containers = Listing<ContainerItem>;

async fn page(listing: Arc<Containers>, next: Option<Next>) -> Result<Read<ContainerItem>> {
    let call = Call::new(LIST, "", Safety::Read).at(Next::host(next.as_ref()));
    let request = encode::list_containers(&ListContainers {
        prefix: listing.prefix.as_deref(),
        marker: Next::marker(next.as_ref()),
        max: listing.page_size,
        metadata: listing.metadata,
    });
    let reply = listing.account.pipeline().send(request, call).await?;
    let page = decode::containers(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
    let items = page.containers.into_iter().map(|mut container| {
        let name = std::mem::take(&mut container.name);
        Some(ContainerItem { name, properties: ContainerProperties::of(container)? })
    });
    let items = items.collect::<Option<_>>().ok_or_else(|| incomplete(&call, &reply))?;
    Ok((items, Next::after(&reply, page.next)))
}
