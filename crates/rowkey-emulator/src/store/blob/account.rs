//! A storage account's containers: created, deleted, listed.

use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::blob::PublicAccess;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::metadata::Metadata;
use rowkey_wire::xml::ServiceProperties;
use uuid::Uuid;

use super::condition;
use super::container::Container;
use super::lease::Subject;
use crate::blob::wire::op::{Guard, ListContainers};
use crate::blob::wire::tag::Tag;
use crate::store::names::{Names, being_deleted};
use crate::store::properties;
use crate::store::touched::Touched;

/// How long the name of a deleted container is blocked: 30 s in ticks, "at least".
const NAME_BLOCKED: i64 = 30 * 10_000_000;

/// Which state of a container or a blob: what its tag and its `Last-Modified` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) tag: Tag,
    pub(crate) modified: DateTime,
}

/// The containers of one account.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    containers: BTreeMap<Box<str>, Container>,
    /// Names of deleted containers, and until when they are blocked.
    blocked: BTreeMap<Box<str>, DateTime>,
    properties: ServiceProperties,
    names: Names,
    last: u64,
    pub(crate) touched: Touched<Touch>,
}

/// What of an account's containers has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A container: it came, went or may have changed; or its name is not blocked any more.
    Container(Box<str>),
    /// The service's properties.
    Properties,
}

impl Blobs {
    /// An account without containers.
    pub(crate) fn new(names: Names) -> Self {
        Self {
            containers: BTreeMap::new(),
            blocked: BTreeMap::new(),
            properties: properties::initial(),
            names,
            last: 0,
            touched: Touched::default(),
        }
    }

    /// Creates a container. Its name has been checked.
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
        if self.names == Names::Blocked && self.blocked.get(name).is_some_and(|until| now < *until)
        {
            return Err(being_deleted(ErrorCode::CONTAINER_BEING_DELETED));
        }
        self.blocked.remove(name);
        self.touched.note(|| Touch::Container(name.into()));
        let version = self.next_version(now);
        self.containers.insert(name.into(), Container::new(version, access, metadata));
        Ok(version)
    }

    /// Takes a container away. The caller drops it, which takes a while if it is large.
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
        self.blocked.retain(|name, until| {
            let is_blocked = now < *until;
            if !is_blocked {
                touched.note(|| Touch::Container(name.clone()));
            }
            is_blocked
        });
        if self.names == Names::Blocked
            && let Ok(until) = DateTime::from_ticks(now.ticks() + NAME_BLOCKED)
        {
            self.blocked.insert(name.into(), until);
        }
        Ok(container)
    }

    /// The container with this name.
    pub(crate) fn container(&self, name: &str) -> Result<&Container, Rejection> {
        self.containers.get(name).ok_or_else(not_found)
    }

    /// The same to change it, and the version that it or a blob in it is to have then.
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

    /// A page of at most `room` containers, and the name with which the next page begins.
    pub(crate) fn list(
        &self,
        options: &ListContainers,
        room: usize,
    ) -> (Vec<(&str, &Container)>, Option<&str>) {
        // Markers are the name after the account's, `/account/name`; some send the name alone.
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

    /// The same, to change them.
    pub(crate) fn properties_mut(&mut self) -> &mut ServiceProperties {
        self.touched.note(|| Touch::Properties);
        &mut self.properties
    }

    /// An id that nothing else has: of a lease, of a copy.
    pub(crate) fn fresh_id(&mut self, now: DateTime) -> Uuid {
        let seed = self.next_version(now).tag.0;
        let mix = |seed: u64| {
            let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        uuid::Builder::from_random_bytes(
            (u128::from(mix(seed)) << 64 | u128::from(mix(!seed))).to_be_bytes(),
        )
        .into_uuid()
    }

    /// A version that is later than all before.
    fn next_version(&mut self, now: DateTime) -> Version {
        self.last = now.ticks().cast_unsigned().max(self.last + 1);
        Version { tag: Tag(self.last), modified: now }
    }
}

/// For a store that keeps containers elsewhere, too.
#[cfg(feature = "durable")]
impl Blobs {
    /// The container with this name, to ask it what has changed.
    pub(crate) fn touched_container(&mut self, name: &str) -> Option<&mut Container> {
        self.containers.get_mut(name)
    }

    /// Until when the name of a deleted container is blocked.
    pub(crate) fn blocked_until(&self, name: &str) -> Option<DateTime> {
        self.blocked.get(name).copied()
    }

    /// The latest tag that was given.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// No tag will be given that is not later than this one.
    pub(crate) fn resume_after(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    /// Puts a container back that was there before.
    pub(crate) fn restore_container(&mut self, name: &str, container: Container) {
        self.containers.insert(name.into(), container);
    }

    /// Blocks a name as it was before.
    pub(crate) fn restore_blocked(&mut self, name: &str, until: DateTime) {
        self.blocked.insert(name.into(), until);
    }

    /// Asks from now on for what changes.
    pub(crate) fn watch(&mut self) {
        self.touched.watch();
        for container in self.containers.values_mut() {
            container.touched.watch();
        }
    }

    /// Notes everything as changed.
    pub(crate) fn touch_all(&mut self) {
        self.touched.note(|| Touch::Properties);
        for name in self.blocked.keys() {
            self.touched.note(|| Touch::Container(name.clone()));
        }
        for (name, container) in &mut self.containers {
            self.touched.note(|| Touch::Container(name.clone()));
            container.touch_all();
        }
    }
}

fn not_found() -> Rejection {
    Rejection::new(ErrorCode::CONTAINER_NOT_FOUND)
}
