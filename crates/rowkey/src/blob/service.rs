//! What belongs to the Blob service of an account: its containers, properties and statistics.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use rowkey_wire::blob::decode;
use rowkey_wire::blob::encode::{self, ListContainers};
use rowkey_wire::limits::MAX_LISTING;

use super::ContainerProperties;
use super::container::{Container, incomplete};
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::service::{self, Next, ServiceProperties, ServiceStats, unreadable};
use crate::table::Stream;
use crate::transport::{Call, Safety};

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
        let (prefix, page_size, error) = (None, None, None);
        Containers { account: self.account.clone(), prefix, metadata: false, page_size, error }
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

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let request = encode::get_service_stats();
        service::statistics(&self.account, "GetBlobServiceStats", request).await
    }
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
#[derive(Debug)]
#[must_use = "nothing is listed until `stream` or `all`"]
pub struct Containers {
    account: StorageAccount,
    prefix: Option<String>,
    metadata: bool,
    page_size: Option<u32>,
    error: Option<Error>,
}

impl Containers {
    /// Only containers whose names begin with `prefix`.
    pub fn starting_with(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// With the metadata of each container.
    pub fn with_metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// How many containers a page has at most, 1 to 5000.
    pub fn page_size(mut self, containers: u32) -> Self {
        if !(1..=MAX_LISTING).contains(&containers) {
            self.error = Some(Error::invalid(format!("a page has 1 to {MAX_LISTING} containers")));
        }
        self.page_size = Some(containers);
        self
    }

    /// The containers, one by one.
    pub fn stream(mut self) -> Stream<ContainerItem> {
        let listing = match self.error.take() {
            Some(error) => Err(error.of("ListContainers", "")),
            None => Ok(self),
        };
        service::entries(listing, Self::page)
    }

    /// All containers.
    pub async fn all(self) -> Result<Vec<ContainerItem>> {
        self.stream().try_collect().await
    }

    async fn page(
        self: Arc<Self>,
        next: Option<Next>,
    ) -> Result<(Vec<ContainerItem>, Option<Next>)> {
        let call = Call::new("ListContainers", "", Safety::Read).at(Next::host(next.as_ref()));
        let request = encode::list_containers(&ListContainers {
            prefix: self.prefix.as_deref(),
            marker: Next::marker(next.as_ref()),
            max: self.page_size,
            metadata: self.metadata,
        });
        let reply = self.account.pipeline().send(request, call).await?;
        let page =
            decode::containers(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        let items = page.containers.into_iter().map(|mut container| {
            let name = std::mem::take(&mut container.name);
            Some(ContainerItem { name, properties: ContainerProperties::of(container)? })
        });
        let items = items.collect::<Option<_>>().ok_or_else(|| incomplete(&call, &reply))?;
        Ok((items, Next::after(&reply, page.next)))
    }
}
