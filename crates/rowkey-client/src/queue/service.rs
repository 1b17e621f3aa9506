//! The account's queues: handles by name, and the listing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::handle::Queue;
use crate::account::StorageAccount;
use crate::error::Result;
use crate::paging::listing::{Listing, NextPage, PageEntries};
use crate::queue::wire::{decode, encode};
use crate::service::unreadable;
use crate::transport::{Call, Safety};

const LIST: &str = "ListQueues";

impl StorageAccount {
    /// Returns a handle for the queue with this name. Nothing is sent or checked.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(self.clone(), name)
    }

    /// Lists the account's queues, in the order of their names.
    ///
    /// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let queue = account.queue("jobs");
    /// queue.create_with(&[("team", "billing")]).await?;
    /// let queues = account.queues().starting_with("j").with_metadata().all().await?;
    /// assert_eq!((&*queues[0].name, &*queues[0].metadata["team"]), ("jobs", "billing"));
    /// # Ok(()) }
    /// ```
    pub fn queues(&self) -> Listing<QueueItem> {
        Listing::new(self, LIST, |listing, next| Box::pin(page(listing, next)))
    }
}

/// A queue in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueItem {
    /// The name.
    pub name: String,
    /// The metadata; empty unless the listing includes it.
    pub metadata: BTreeMap<String, String>,
}

async fn page(
    listing: Arc<Listing<QueueItem>>,
    next: Option<NextPage>,
) -> Result<PageEntries<QueueItem>> {
    let call = Call::new(LIST, "", Safety::Read).at(NextPage::host(next.as_ref()));
    let request = encode::list(&encode::Listing {
        prefix: listing.prefix.as_deref(),
        marker: NextPage::marker(next.as_ref()),
        max: listing.page_size,
        metadata: listing.include.metadata,
    });
    let reply = listing.account.pipeline().send(request, call).await?;
    let page = decode::list(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
    let queues = page.queues.into_iter().map(|queue| QueueItem {
        name: queue.name,
        metadata: queue.metadata.into_iter().collect(),
    });
    Ok((queues.collect(), NextPage::after(&reply, page.next)))
}
