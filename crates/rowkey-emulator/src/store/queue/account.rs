//! The queues of a storage account: created, deleted and listed.

use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::ServiceProperties;
use uuid::{Builder, Uuid};

use super::messages::Queue;
use crate::op::metadata::Metadata;
use crate::op::queue::Listing;
use crate::op::queue::marker_name;
use crate::op::random::split_mix;
use crate::store::names::{BlockedNames, Names};
use crate::store::properties;
use crate::store::touched::Touched;
#[cfg(feature = "durable")]
use crate::store::touched::named_on_disk;

/// How long the name of a deleted queue is blocked, in seconds.
const NAME_BLOCKED: i64 = 30;

/// The queues of one account.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    by_name: BTreeMap<String, Queue>,
    /// Names of deleted queues, and until when they are blocked.
    blocked: BlockedNames<String>,
    properties: ServiceProperties,
    /// The seed of message ids.
    seed: u64,
    pub(crate) touched: Touched<Touch>,
}

/// A change to an account's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The service's properties.
    Properties,
    /// A queue was created or deleted, may have changed, or its name was unblocked.
    Queue(String),
}

/// The result of creating a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// A queue with the same metadata exists.
    Existing,
    New,
}

impl Queues {
    /// Creates an account without queues. Message ids are derived from `seed`.
    pub(crate) fn new(names: Names, seed: u64) -> Self {
        Self {
            by_name: BTreeMap::new(),
            blocked: BlockedNames::new(names, NAME_BLOCKED),
            properties: properties::initial(),
            seed,
            touched: Touched::default(),
        }
    }

    /// Creates a queue, unless one with the same metadata exists.
    pub(crate) fn create(
        &mut self,
        name: &str,
        metadata: Metadata,
        now: DateTime,
    ) -> Result<Created, Rejection> {
        if let Some(queue) = self.by_name.get(name) {
            return if *queue.metadata() == metadata {
                Ok(Created::Existing)
            } else {
                Err(Rejection::new(ErrorCode::QUEUE_ALREADY_EXISTS))
            };
        }
        self.blocked.take(name, now, ErrorCode::QUEUE_BEING_DELETED)?;
        self.touched.note(|| Touch::Queue(name.to_owned()));
        let mut queue = Queue::new(metadata);
        queue.touched = self.touched.of_new();
        self.by_name.insert(name.to_owned(), queue);
        Ok(Created::New)
    }

    /// Removes a queue. The caller drops it, which can take long for a large one.
    pub(crate) fn delete(&mut self, name: &str, now: DateTime) -> Result<Queue, Rejection> {
        let queue = self.by_name.remove(name).ok_or_else(not_found)?;
        self.touched.note(|| Touch::Queue(name.to_owned()));
        let touched = &mut self.touched;
        self.blocked
            .block(name.to_owned(), now, |name| touched.note(|| Touch::Queue(name.clone())));
        Ok(queue)
    }

    /// The queue with this name.
    pub(crate) fn queue(&self, name: &str) -> Result<&Queue, Rejection> {
        self.by_name.get(name).ok_or_else(not_found)
    }

    /// The same, for changing it.
    pub(crate) fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, Rejection> {
        self.touched.note(|| Touch::Queue(name.to_owned()));
        self.by_name.get_mut(name).ok_or_else(not_found)
    }

    /// A page of at most `room` queues in the order of their names, and the first queue on the next
    /// page.
    pub(crate) fn list(
        &self,
        listing: &Listing,
        room: usize,
    ) -> (Vec<(&str, &Queue)>, Option<&str>) {
        let prefix = listing.prefix.as_deref().unwrap_or_default();
        let marker = listing.marker.as_deref().map(marker_name).unwrap_or_default();
        let from = Bound::Included(prefix.max(marker));
        let mut matching = self
            .by_name
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(name, queue)| (name.as_str(), queue))
            .take_while(|(name, _)| name.starts_with(prefix));
        let page = matching.by_ref().take(room).collect();
        (page, matching.next().map(|(name, _)| name))
    }

    /// An id for a new message.
    pub(crate) fn message_id(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            half.copy_from_slice(&split_mix(&mut self.seed).to_be_bytes());
        }
        Builder::from_random_bytes(bytes).into_uuid()
    }

    /// The service's properties.
    pub(crate) fn properties(&self) -> &ServiceProperties {
        &self.properties
    }

    /// The same, for changing them.
    pub(crate) fn properties_mut(&mut self) -> &mut ServiceProperties {
        self.touched.note(|| Touch::Properties);
        &mut self.properties
    }
}

#[cfg(feature = "durable")]
named_on_disk!(Queues.by_name: Queue, Touch::Queue);

fn not_found() -> Rejection {
    Rejection::new(ErrorCode::QUEUE_NOT_FOUND)
}
