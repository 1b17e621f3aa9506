//! The account's containers: handles by name, and the listing.

use std::sync::Arc;

use super::ContainerProperties;
use super::container::{Container, incomplete};
use crate::account::StorageAccount;
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, ListContainers};
use crate::error::Result;
use crate::paging::listing::{Listing, NextPage, PageEntries};
use crate::service::unreadable;
use crate::transport::{Call, Safety};

const LIST: &str = "ListContainers";

impl StorageAccount {
    /// Returns a handle for the container with this name. Nothing is sent or checked.
    pub fn container(&self, name: &str) -> Container {
        Container::new(self.clone(), name)
    }

    /// Lists the account's containers, in the order of their names.
    ///
    /// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// let containers = account.containers().starting_with("f").all().await?;
    /// assert_eq!(containers[0].name, "files");
    /// # Ok(()) }
    /// ```
    pub fn containers(&self) -> Listing<ContainerItem> {
        Listing::new(self, LIST, |listing, next| Box::pin(page(listing, next)))
    }
}

/// A container in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerItem {
    /// The name.
    pub name: String,
    /// Its properties; metadata only if the listing includes it.
    pub properties: ContainerProperties,
}

async fn page(
    listing: Arc<Listing<ContainerItem>>,
    next: Option<NextPage>,
) -> Result<PageEntries<ContainerItem>> {
    let call = Call::new(LIST, "", Safety::Read).at(NextPage::host(next.as_ref()));
    let request = encode::list_containers(&ListContainers {
        prefix: listing.prefix.as_deref(),
        marker: NextPage::marker(next.as_ref()),
        max: listing.page_size,
        metadata: listing.include.metadata,
    });
    let reply = listing.account.pipeline().send(request, call).await?;
    let page = decode::containers(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
    let items = page.containers.into_iter().map(|mut container| {
        let name = std::mem::take(&mut container.name);
        Some(ContainerItem { name, properties: ContainerProperties::of(container)? })
    });
    let items = items.collect::<Option<_>>().ok_or_else(|| incomplete(&call, &reply))?;
    Ok((items, NextPage::after(&reply, page.next)))
}
