//! What belongs to the Blob service of an account: its containers, properties and statistics.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_wire::blob::decode;
use rowkey_wire::blob::encode::{self, ListContainers};
use rowkey_wire::limits::MAX_LISTING;
use rowkey_wire::xml;

use super::ContainerProperties;
use super::container::{Container, incomplete};
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::table::Stream;
use crate::table::service::{ServiceProperties, ServiceStats, unreadable};
use crate::transport::{Call, Host, Safety};

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
        let call = Call::new("GetBlobServiceProperties", "", Safety::Read);
        let reply = self.account.pipeline().send(encode::get_service_properties(), call).await?;
        xml::decode_properties(&reply.body).map_err(|error| unreadable(error, &call))
    }

    /// Changes logging, metrics and CORS rules. Sections that are `None` stay as they are.
    ///
    /// [Set Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties)
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let call = Call::new("SetBlobServiceProperties", "", Safety::Conditional);
        let request = encode::set_service_properties(xml::encode_properties(properties));
        self.account.pipeline().send(request, call).await?;
        Ok(())
    }

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let call = Call::new("GetBlobServiceStats", "", Safety::Read).at(Host::Secondary);
        let reply = self.account.pipeline().send(encode::get_service_stats(), call).await?;
        xml::decode_stats(&reply.body).map_err(|error| unreadable(error, &call))
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
        if let Some(error) = self.error.take() {
            return stream::once(async { Err(error.of("ListContainers", "")) }).boxed();
        }
        stream::try_unfold((self, Some(None)), |(containers, next)| async move {
            let Some(next) = next else { return Ok(None) };
            let (page, next) = containers.page(next).await?;
            Ok(Some((page, (containers, next.map(Some)))))
        })
        .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
    }

    /// All containers.
    pub async fn all(self) -> Result<Vec<ContainerItem>> {
        self.stream().try_collect().await
    }

    async fn page(
        &self,
        next: Option<(String, Host)>,
    ) -> Result<(Vec<ContainerItem>, Option<(String, Host)>)> {
        let host = next.as_ref().map_or(Host::Any, |(_, host)| *host);
        let call = Call::new("ListContainers", "", Safety::Read).at(host);
        let request = encode::list_containers(&ListContainers {
            prefix: self.prefix.as_deref(),
            marker: next.as_ref().map(|(marker, _)| marker.as_str()),
            max: self.page_size,
            metadata: self.metadata,
        });
        let reply = self.account.pipeline().send(request, call).await?;
        let page = decode::containers(&reply.body).map_err(|error| unreadable(error, &call))?;
        let items = page.containers.into_iter().map(|mut container| {
            let name = std::mem::take(&mut container.name);
            Some(ContainerItem { name, properties: ContainerProperties::of(container)? })
        });
        let items = items.collect::<Option<_>>().ok_or_else(|| incomplete(&call))?;
        Ok((items, page.next.map(|marker| (marker, reply.host()))))
    }
}
