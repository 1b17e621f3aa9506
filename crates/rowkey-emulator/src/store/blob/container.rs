//! A container: its blobs in the order of their names, its access level, metadata and policies.

use std::collections::BTreeMap;
use std::ops::Bound;

use rowkey_wire::blob::{LeaseAction, PublicAccess};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::SignedIdentifier;
use uuid::Uuid;

use super::condition;
use super::entry::{Blob, Entry, Version};
use super::lease::{Lease, Leased, Subject};
use crate::op::blob::Guard;
use crate::op::condition::Conditions;
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;
use crate::store::touched::Touched;

/// A container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) version: Version,
    pub(crate) access: Option<PublicAccess>,
    pub(crate) metadata: Metadata,
    pub(crate) policies: Vec<SignedIdentifier>,
    pub(crate) lease: Lease,
    pub(super) entries: BTreeMap<Box<str>, Entry>,
    pub(crate) touched: Touched<Touch>,
}

/// A change to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// An append blob was appended to.
    Appended(Box<str>),
    Blob(Box<str>),
    /// The container itself: metadata, access, policies or lease.
    Description,
    Snapshot(Box<str>, DateTime),
    /// An uncommitted block.
    Staged(Box<str>, Box<str>),
}

impl From<&Container> for condition::Current<'_> {
    fn from(container: &Container) -> Self {
        Self { version: container.version, tags: None }
    }
}

impl Container {
    /// Creates a container without blobs.
    pub(crate) fn new(version: Version, access: Option<PublicAccess>, metadata: Metadata) -> Self {
        Self {
            version,
            access,
            metadata,
            policies: Vec::new(),
            lease: Lease::None,
            entries: BTreeMap::new(),
            touched: Touched::default(),
        }
    }

    /// Rejects a read that names a lease which is not the current one.
    pub(crate) fn check_read(&self, guard: &Guard, now: DateTime) -> Result<(), Rejection> {
        self.lease.check_read(guard.lease, Subject::Container, now)
    }

    /// Replaces the container's metadata.
    pub(crate) fn set_metadata(
        &mut self,
        metadata: Metadata,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        self.check_change(guard, version)?;
        self.metadata = metadata;
        self.version = version;
        self.touched.note(|| Touch::Description);
        Ok(())
    }

    /// Replaces the public access level and the stored access policies.
    pub(crate) fn set_acl(
        &mut self,
        access: Option<PublicAccess>,
        policies: Vec<SignedIdentifier>,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        self.check_change(guard, version)?;
        self.access = access;
        self.policies = policies;
        self.version = version;
        self.touched.note(|| Touch::Description);
        Ok(())
    }

    /// Performs a lease operation.
    pub(crate) fn lease(
        &mut self,
        action: LeaseAction,
        conditions: &Conditions,
        fresh: Uuid,
        now: DateTime,
    ) -> Result<Leased, Rejection> {
        condition::for_change(conditions, &*self)?;
        self.touched.note(|| Touch::Description);
        self.lease.apply(action, fresh, Subject::Container, now)
    }

    /// The number of names.
    pub(crate) fn names(&self) -> usize {
        self.entries.len()
    }

    /// The names of the blobs, in order, without those that have only uncommitted blocks.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|(_, entry)| entry.blob.is_some()).map(|(name, _)| &**name)
    }

    /// The blobs with tags, without snapshots.
    pub(super) fn tagged(&self) -> impl Iterator<Item = (&str, &Tags)> {
        self.entries.iter().filter_map(|(name, entry)| {
            let tags = &entry.blob.as_ref()?.tags;
            (!tags.is_empty()).then_some((&**name, tags))
        })
    }

    /// The entry with this name, if any.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The blob with this name, or a snapshot of it.
    pub(crate) fn blob(&self, name: &str, snapshot: Option<DateTime>) -> Result<&Blob, Rejection> {
        let entry = self.entries.get(name).ok_or_else(blob_not_found)?;
        match snapshot {
            None => entry.blob.as_ref(),
            Some(instant) => entry.snapshots.get(&instant),
        }
        .ok_or_else(blob_not_found)
    }

    /// The blob with this name, for reading. The caller states the conditions it must meet.
    pub(crate) fn read(
        &self,
        name: &str,
        snapshot: Option<DateTime>,
        guard: &Guard,
        now: DateTime,
    ) -> Result<&Blob, Rejection> {
        let blob = self.blob(name, snapshot)?;
        if snapshot.is_none() {
            blob.lease.check_read(guard.lease, Subject::Blob, now)?;
        }
        condition::for_read(&guard.conditions, blob)?;
        Ok(blob)
    }

    /// The blob with this name, for changing it.
    pub(super) fn blob_mut(&mut self, name: &str) -> Result<&mut Blob, Rejection> {
        self.entries.get_mut(name).and_then(|entry| entry.blob.as_mut()).ok_or_else(blob_not_found)
    }

    /// The entries from this name on.
    pub(super) fn entries_from(&self, from: Bound<&str>) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.range::<str, _>((from, Bound::Unbounded)).map(|(name, entry)| (&**name, entry))
    }

    fn check_change(&self, guard: &Guard, version: Version) -> Result<(), Rejection> {
        self.lease.check_read(guard.lease, Subject::Container, version.modified)?;
        condition::for_change(&guard.conditions, self)
    }
}

/// For the durable store, which also keeps the container on disk.
#[cfg(feature = "durable")]
impl Container {
    /// The entry with this name, for restoring it.
    pub(crate) fn restoring(&mut self, name: &str) -> &mut Entry {
        self.entries.entry(name.into()).or_default()
    }

    /// Records everything as changed.
    pub(crate) fn touch_all(&mut self) {
        self.touched.note(|| Touch::Description);
        for (name, entry) in &self.entries {
            if entry.blob.is_some() {
                self.touched.note(|| Touch::Blob(name.clone()));
            }
            for instant in entry.snapshots.keys() {
                self.touched.note(|| Touch::Snapshot(name.clone(), *instant));
            }
            for id in entry.staged.keys() {
                self.touched.note(|| Touch::Staged(name.clone(), id.clone()));
            }
        }
    }
}

pub(super) fn blob_not_found() -> Rejection {
    Rejection::new(ErrorCode::BLOB_NOT_FOUND)
}
