//! The containers of a storage account: created, deleted and listed.

use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::blob::PublicAccess;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::ServiceProperties;
use uuid::Uuid;

use super::condition;
use super::container::Container;
use super::entry::Version;
use super::lease::Subject;
use crate::op::blob::{Guard, ListContainers};
use crate::op::condition::Tag;
use crate::op::metadata::Metadata;
use crate::op::random::split_mix;
use crate::store::names::{BlockedNames, Names};
use crate::store::properties;
use crate::store::touched::Touched;
#[cfg(feature = "durable")]
use crate::store::touched::named_on_disk;

/// How long the name of a deleted container is blocked, in seconds.
const NAME_BLOCKED: i64 = 30;

/// The containers of one account.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    containers: BTreeMap<Box<str>, Container>,
    /// Names of deleted containers, and until when they are blocked.
    blocked: BlockedNames<Box<str>>,
    properties: ServiceProperties,
    last: u64,
    pub(crate) touched: Touched<Touch>,
}

/// A change to an account's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A container was created or deleted, may have changed, or its name was unblocked.
    Container(Box<str>),
    /// The service's properties.
    Properties,
}

impl Blobs {
    /// Creates an account without containers.
    pub(crate) fn new(names: Names) -> Self {
        Self {
            containers: BTreeMap::new(),
            blocked: BlockedNames::new(names, NAME_BLOCKED),
            properties: properties::initial(),
            last: 0,
            touched: Touched::default(),
        }
    }

    /// Creates a container. The caller has checked its name.
    pub(crate) fn create(
        &mut self,
        name: &str,
        access: Option<PublicAccess>,
        metadata: Metadata,
        now: DateTime,
    ) -> Result<Version, Rejection> {
        if self.containers.contains_key(name) {
            return Err(Rejection::new(ErrorCode::CONTAINER_ALREADY_EXISTS));
        }
        self.blocked.take(name, now, ErrorCode::CONTAINER_BEING_DELETED)?;
        self.touched.note(|| Touch::Container(name.into()));
        let version = self.next_version(now);
        let touched = self.touched.of_new();
        let container = Container { touched, ..Container::new(version, access, metadata) };
        self.containers.insert(name.into(), container);
        Ok(version)
    }

    /// Removes a container. The caller drops it, which can take long for a large one.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        guard: &Guard,
        now: DateTime,
    ) -> Result<Container, Rejection> {
        let container = self.container(name)?;
        container.lease.check_write(guard.lease, Subject::Container, now)?;
        condition::for_change(&guard.conditions, container)?;
        let container = self.containers.remove(name).ok_or_else(not_found)?;
        self.touched.note(|| Touch::Container(name.into()));
        let touched = &mut self.touched;
        self.blocked
            .block(name.into(), now, |name| touched.note(|| Touch::Container(name.clone())));
        Ok(container)
    }

    /// The container with this name.
    pub(crate) fn container(&self, name: &str) -> Result<&Container, Rejection> {
        self.containers.get(name).ok_or_else(not_found)
    }

    /// The same for changing it, and the new version of the container or of a blob in it.
    pub(crate) fn container_mut(
        &mut self,
        name: &str,
        now: DateTime,
    ) -> Result<(&mut Container, Version), Rejection> {
        let version = self.next_version(now);
        self.touched.note(|| Touch::Container(name.into()));
        let container = self.containers.get_mut(name).ok_or_else(not_found)?;
        Ok((container, version))
    }

    /// A page of at most `room` containers, and the first name on the next page.
    pub(crate) fn list(
        &self,
        options: &ListContainers,
        room: usize,
    ) -> (Vec<(&str, &Container)>, Option<&str>) {
        // A marker is `/account/name`; some clients send only the name.
        let marker = options.marker.rsplit('/').next().unwrap_or_default();
        let from = marker.max(options.prefix.as_str());
        let mut matching = self
            .containers
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .map(|(name, container)| (name.as_ref(), container))
            .take_while(|(name, _)| name.starts_with(&options.prefix));
        let page = matching.by_ref().take(room).collect();
        (page, matching.next().map(|(name, _)| name))
    }

    /// The containers from this name on.
    pub(super) fn containers_from<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Container)> {
        let range = self.containers.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        range.map(|(name, container)| (&**name, container))
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

    /// A unique id for a lease or a copy.
    pub(crate) fn fresh_id(&mut self, now: DateTime) -> Uuid {
        let mut seed = self.next_version(now).tag.0;
        let mut half = || u128::from(split_mix(&mut seed));
        uuid::Builder::from_random_bytes((half() << 64 | half()).to_be_bytes()).into_uuid()
    }

    /// A version that is later than all before.
    fn next_version(&mut self, now: DateTime) -> Version {
        self.last = now.ticks().cast_unsigned().max(self.last + 1);
        Version { tag: Tag(self.last), modified: now }
    }
}

/// For the durable store, which also keeps containers on disk.
#[cfg(feature = "durable")]
impl Blobs {
    /// The latest ETag issued.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Makes all later entity tags greater than this one.
    pub(crate) fn resume_after(&mut self, last: u64) {
        self.last = self.last.max(last);
    }
}

#[cfg(feature = "durable")]
named_on_disk!(Blobs.containers: Container, Touch::Container);

fn not_found() -> Rejection {
    Rejection::new(ErrorCode::CONTAINER_NOT_FOUND)
}
