//! What belongs to the Queue service of an account: its queues, properties and statistics.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queue::wire::{decode, encode};

use super::handle::Queue;
use crate::account::StorageAccount;
use crate::error::Result;
use crate::service::listing::{Listing, Next, Read};
use crate::service::{self, ServiceProperties, ServiceStats, unreadable};
use crate::transport::{Call, Safety};

const LIST: &str = "ListQueues";

impl StorageAccount {
    /// The queue with this name. Nothing is sent or checked.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(self.clone(), name)
    }

    /// The account's Queue service: its queues, its properties, its statistics.
    pub fn queue_service(&self) -> QueueService {
        QueueService { account: self.clone() }
    }
}

/// The Queue service of an account, from [`StorageAccount::queue_service`].
#[derive(Clone, Debug)]
pub struct QueueService {
    account: StorageAccount,
}

impl QueueService {
    /// The account's queues, in the order of their names.
    ///
    /// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1)
    pub fn queues(&self) -> Queues {
        Listing::new(&self.account, LIST, |listing, next| Box::pin(page(listing, next)))
    }

    /// Logging, metrics and CORS rules.
    ///
    /// [Get Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-properties)
    pub async fn properties(&self) -> Result<ServiceProperties> {
        let request = encode::get_service_properties();
        service::properties(&self.account, "GetQueueServiceProperties", request).await
    }

    /// Changes logging, metrics and CORS rules. Sections that are `None` stay as they are.
    ///
    /// [Set Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-queue-service-properties)
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let operation = "SetQueueServiceProperties";
        let request = encode::set_service_properties;
        service::set_properties(&self.account, operation, request, properties).await
    }

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Queue Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let request = encode::get_service_stats();
        service::statistics(&self.account, "GetQueueServiceStats", request).await
    }
}

/// A queue in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueItem {
    /// The name.
    pub name: String,
    /// What describes it; empty unless it was asked for.
    pub metadata: BTreeMap<String, String>,
}

/// A listing of queues, from [`QueueService::queues`].
pub type Queues = Listing<QueueItem>;

async fn page(listing: Arc<Queues>, next: Option<Next>) -> Result<Read<QueueItem>> {
    let call = Call::new(LIST, "", Safety::Read).at(Next::host(next.as_ref()));
    let request = encode::list(&encode::Listing {
        prefix: listing.prefix.as_deref(),
        marker: Next::marker(next.as_ref()),
        max: listing.page_size,
        metadata: listing.metadata,
    });
    let reply = listing.account.pipeline().send(request, call).await?;
    let page = decode::list(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
    let queues = page.queues.into_iter().map(|queue| QueueItem {
        name: queue.name,
        metadata: queue.metadata.into_iter().collect(),
    });
    Ok((queues.collect(), Next::after(&reply, page.next)))
}
