//! What belongs to the Queue service of an account: its queues, properties and statistics.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use rowkey_wire::limits::MAX_LISTING;
use rowkey_wire::queue::{decode, encode};

use super::handle::Queue;
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::service::{self, Next, ServiceProperties, ServiceStats, unreadable};
use crate::table::Stream;
use crate::transport::{Call, Safety};

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
        Queues {
            account: self.account.clone(),
            prefix: None,
            metadata: false,
            page_size: None,
            error: None,
        }
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
#[derive(Debug)]
#[must_use = "nothing is listed until `stream` or `all`"]
pub struct Queues {
    account: StorageAccount,
    prefix: Option<String>,
    metadata: bool,
    page_size: Option<u32>,
    error: Option<Error>,
}

impl Queues {
    /// Only queues whose names begin with `prefix`.
    pub fn starting_with(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// With the metadata of each queue.
    pub fn with_metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// How many queues a page has at most, 1 to 5000.
    pub fn page_size(mut self, queues: u32) -> Self {
        if !(1..=MAX_LISTING).contains(&queues) {
            self.error = Some(Error::invalid(format!("a page has 1 to {MAX_LISTING} queues")));
        }
        self.page_size = Some(queues);
        self
    }

    /// The queues, one by one.
    pub fn stream(mut self) -> Stream<QueueItem> {
        let listing = match self.error.take() {
            Some(error) => Err(error.of("ListQueues", "")),
            None => Ok(self),
        };
        service::entries(listing, Self::page)
    }

    /// All queues.
    pub async fn all(self) -> Result<Vec<QueueItem>> {
        self.stream().try_collect().await
    }

    async fn page(self: Arc<Self>, next: Option<Next>) -> Result<(Vec<QueueItem>, Option<Next>)> {
        let call = Call::new("ListQueues", "", Safety::Read).at(Next::host(next.as_ref()));
        let request = encode::list(&encode::Listing {
            prefix: self.prefix.as_deref(),
            marker: Next::marker(next.as_ref()),
            max: self.page_size,
            metadata: self.metadata,
        });
        let reply = self.account.pipeline().send(request, call).await?;
        let page = decode::list(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        let queues = page.queues.into_iter().map(|queue| QueueItem {
            name: queue.name,
            metadata: queue.metadata.into_iter().collect(),
        });
        Ok((queues.collect(), Next::after(&reply, page.next)))
    }
}
