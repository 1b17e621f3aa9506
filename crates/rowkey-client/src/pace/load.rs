//! What a request counts for at the service's scalability targets.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What a request counts for, besides the account.
#[derive(Clone, Copy, Default)]
pub(crate) enum Load<'a> {
    /// What it is about as a whole: a container of blobs, a table, the account.
    #[default]
    Whole,
    /// Entities of one partition of the table. A query counts 0, and what it returned afterwards.
    /// `written` is the RowKey that it writes, the last one of a transaction.
    Partition { key: &'a str, entities: u32, written: Option<&'a str> },
    /// A query of more than one partition. Queries with another filter read other partitions.
    Scan { filter: &'a str },
    /// Messages of the queue.
    Messages,
}

/// The ceiling that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Partition,
    Queue,
    Other,
}

/// The target of a request. Two targets with the same hash only share a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target(u64);

// Omits keys and filters.
impl fmt::Debug for Load<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Whole => f.write_str("Whole"),
            Load::Partition { entities, .. } => {
                f.debug_struct("Partition").field("entities", entities).finish_non_exhaustive()
            }
            Load::Scan { .. } => f.debug_struct("Scan").finish_non_exhaustive(),
            Load::Messages => f.write_str("Messages"),
        }
    }
}

impl Load<'_> {
    /// The entities that are counted before the request is sent.
    pub(super) fn entities(self) -> u64 {
        match self {
            Load::Partition { entities, .. } => entities.into(),
            Load::Whole | Load::Scan { .. } | Load::Messages => 0,
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Load::Partition { .. } => Kind::Partition,
            Load::Messages => Kind::Queue,
            Load::Whole | Load::Scan { .. } => Kind::Other,
        }
    }

    /// The target in the resource of a service, which `service` numbers.
    pub(super) fn target(self, service: u8, resource: &str) -> Target {
        let mut hasher = DefaultHasher::new();
        service.hash(&mut hasher);
        // Names of tables are the same in upper and lower case; those of others have no upper case.
        resource.bytes().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
        match self {
            Load::Whole => 0_u8.hash(&mut hasher),
            Load::Partition { key, .. } => (1_u8, key).hash(&mut hasher),
            Load::Scan { filter } => (2_u8, filter).hash(&mut hasher),
            Load::Messages => 3_u8.hash(&mut hasher),
        }
        Target(hasher.finish())
    }
}
