//! The contents of a server at one instant, for assertions on stored data.

use std::sync::Arc;

use rowkey_wire::edm::{DateTime, Value};

use crate::account::AccountData;
use crate::store::blob::Container;
use crate::store::queue::{Message, Queue};
use crate::store::table::Table;
use crate::store::{Key, Row};

/// The contents of a server when [`Server::snapshot`](crate::Server::snapshot) was called.
///
/// Reading it sends no requests, so faults, throttling and the journal do not affect it. It shows
/// the first account of the server, unless [`account`](Self::account) selects another.
#[derive(Clone, Debug)]
pub struct Snapshot {
    accounts: Arc<Vec<(String, AccountData)>>,
    shown: usize,
}

/// A table in a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct StoredTable<'a>(&'a Table);

/// An entity in a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct StoredEntity<'a> {
    partition_key: &'a Key,
    row_key: &'a Key,
    row: &'a Row,
}

/// A queue in a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct StoredQueue<'a>(&'a Queue);

/// A message in a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct StoredMessage<'a>(&'a Message);

impl Snapshot {
    pub(crate) fn new(accounts: Vec<(String, AccountData)>) -> Self {
        Self { accounts: Arc::new(accounts), shown: 0 }
    }

    pub(crate) fn data(&self, account: &str) -> Option<&AccountData> {
        self.accounts.iter().find(|(name, _)| name == account).map(|(_, data)| data)
    }

    /// The same snapshot, showing the account with this name.
    pub fn account(&self, name: &str) -> Option<Self> {
        let shown = self.accounts.iter().position(|(known, _)| known == name)?;
        Some(Self { accounts: Arc::clone(&self.accounts), shown })
    }

    /// The tables, in the order of their names without case.
    pub fn tables(&self) -> impl Iterator<Item = StoredTable<'_>> {
        self.shown().tables.all_tables().map(StoredTable)
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Option<StoredTable<'_>> {
        self.shown().tables.table(name).ok().map(StoredTable)
    }

    /// The queue with this name.
    pub fn queue(&self, name: &str) -> Option<StoredQueue<'_>> {
        self.shown().queues.queue(name).ok().map(StoredQueue)
    }

    /// The content of the blob with this name; `None` if it does not exist or has only uncommitted
    /// blocks.
    pub fn blob(&self, container: &str, name: &str) -> Option<Vec<u8>> {
        let container = self.shown().blobs.container(container).ok()?;
        let blob = container.blob(name, None).ok()?;
        Some(blob.content.pieces().flatten().collect())
    }

    /// The names of the blobs in a container, in order. Empty if the container does not exist.
    pub fn blobs(&self, container: &str) -> impl Iterator<Item = &str> {
        let container = self.shown().blobs.container(container).ok();
        container.into_iter().flat_map(Container::blobs)
    }

    fn shown(&self) -> &AccountData {
        &self.accounts[self.shown].1
    }
}

impl<'a> StoredTable<'a> {
    /// The name as it was written when the table was created.
    pub fn name(self) -> &'a str {
        self.0.name()
    }

    /// The number of entities.
    pub fn len(self) -> usize {
        self.0.rows()
    }

    /// Whether the table has no entities.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The entities in the order of their keys.
    pub fn entities(self) -> impl Iterator<Item = StoredEntity<'a>> {
        self.0.entities().map(|(partition_key, row_key, row)| StoredEntity {
            partition_key,
            row_key,
            row,
        })
    }

    /// The entities of one partition by RowKey.
    pub fn partition(self, partition_key: &str) -> impl Iterator<Item = StoredEntity<'a>> {
        self.entities().filter(move |entity| entity.partition_key() == partition_key)
    }

    /// The entity with these keys.
    pub fn entity(self, partition_key: &str, row_key: &str) -> Option<StoredEntity<'a>> {
        self.partition(partition_key).find(|entity| entity.row_key() == row_key)
    }
}

impl<'a> StoredEntity<'a> {
    /// The PartitionKey.
    pub fn partition_key(self) -> &'a str {
        self.partition_key.as_str()
    }

    /// The RowKey.
    pub fn row_key(self) -> &'a str {
        self.row_key.as_str()
    }

    /// When it was written last.
    pub fn timestamp(self) -> DateTime {
        self.row.timestamp()
    }

    /// The properties besides keys and Timestamp, in the order in which they are stored.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, Value)> {
        self.row.properties().map(|(name, value)| (name, value.into_owned()))
    }

    /// The property with this name.
    pub fn get(self, name: &str) -> Option<Value> {
        self.properties().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl<'a> StoredQueue<'a> {
    /// The messages, visible or not, in the order in which they become visible. Those that have
    /// expired may still be among them.
    pub fn messages(self) -> impl Iterator<Item = StoredMessage<'a>> {
        self.0.stored().map(StoredMessage)
    }
}

impl<'a> StoredMessage<'a> {
    /// The id.
    pub fn id(self) -> uuid::Uuid {
        self.0.id
    }

    /// When it was put.
    pub fn inserted_at(self) -> DateTime {
        self.0.inserted
    }

    /// When it expires; the greatest date if it never does.
    pub fn expires_at(self) -> DateTime {
        self.0.expires
    }

    /// The text as it was sent.
    pub fn text(self) -> &'a str {
        &self.0.text
    }

    /// How often it was gotten.
    pub fn dequeue_count(self) -> u32 {
        self.0.dequeued
    }

    /// When it was or will be visible.
    pub fn visible_at(self) -> DateTime {
        self.0.visible
    }
}
