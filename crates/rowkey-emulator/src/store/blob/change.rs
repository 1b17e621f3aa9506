//! Operations that change a blob but not its content: headers, metadata, leases, snapshots,
//! deletion.

use rowkey_wire::blob::{BlobType, ContentHeaders, LeaseAction};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use uuid::Uuid;

use super::condition;
use super::container::{Container, Touch, blob_not_found};
use super::entry::{Blob, Version};
use super::lease::{Lease, Leased, Subject};
use super::tier;
use crate::op::blob::{Delete, Guard, SetTier};
use crate::op::condition::Conditions;
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;

impl Container {
    /// Replaces a blob's HTTP headers. Headers that are not given are removed.
    pub(crate) fn set_headers(
        &mut self,
        name: &str,
        headers: ContentHeaders,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        self.changeable(name, guard, version)?.headers = headers;
        Ok(())
    }

    /// Replaces a blob's metadata.
    pub(crate) fn set_blob_metadata(
        &mut self,
        name: &str,
        metadata: Metadata,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        self.changeable(name, guard, version)?.metadata = metadata;
        Ok(())
    }

    /// Replaces a blob's tags. Its ETag does not change.
    pub(crate) fn set_tags(
        &mut self,
        name: &str,
        tags: Tags,
        guard: &Guard,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let blob = self.blob_mut(name)?;
        blob.lease.check_write(guard.lease, Subject::Blob, now)?;
        condition::for_change(&guard.conditions, &*blob)?;
        blob.tags = tags;
        self.touched.note(|| Touch::Blob(name.into()));
        Ok(())
    }

    /// Performs a lease operation; returns the blob's version, which does not change.
    pub(crate) fn lease_blob(
        &mut self,
        name: &str,
        action: LeaseAction,
        conditions: &Conditions,
        fresh: Uuid,
        now: DateTime,
    ) -> Result<(Leased, Version), Rejection> {
        let blob = self.blob_mut(name)?;
        condition::for_change(conditions, &*blob)?;
        let leased = blob.lease.apply(action, fresh, Subject::Blob, now)?;
        let version = blob.version;
        self.touched.note(|| Touch::Blob(name.into()));
        Ok((leased, version))
    }

    /// Creates a snapshot of a blob; returns the snapshot's time, which identifies it, and its
    /// version.
    pub(crate) fn snapshot(
        &mut self,
        name: &str,
        metadata: Metadata,
        guard: &Guard,
        version: Version,
    ) -> Result<(DateTime, Version), Rejection> {
        let entry = self.entries.get_mut(name).ok_or_else(blob_not_found)?;
        let blob = entry.blob.as_ref().ok_or_else(blob_not_found)?;
        blob.lease.check_read(guard.lease, Subject::Blob, version.modified)?;
        condition::for_change(&guard.conditions, blob)?;
        blob.check_online(version.modified)?;
        let mut copy = Blob { lease: Lease::None, ..blob.clone() };
        if !metadata.is_empty() {
            copy.metadata = metadata;
            copy.version = version;
        }
        let snapshot_version = copy.version;
        // An ETag is an instant close to now that is later than all before.
        let instant = DateTime::from_ticks(version.tag.0.cast_signed()).unwrap_or(version.modified);
        entry.snapshots.insert(instant, copy);
        self.touched.note(|| Touch::Snapshot(name.into(), instant));
        Ok((instant, snapshot_version))
    }

    /// Deletes a blob, or snapshots of it.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        what: Delete,
        guard: &Guard,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let entry = self.entries.get_mut(name).ok_or_else(blob_not_found)?;
        match what {
            Delete::Snapshot(instant) => {
                let snapshot = entry.snapshots.get(&instant).ok_or_else(blob_not_found)?;
                condition::for_change(&guard.conditions, snapshot)?;
                entry.snapshots.remove(&instant);
                self.touched.note(|| Touch::Snapshot(name.into(), instant));
            }
            Delete::Snapshots => {
                let blob = entry.blob.as_ref().ok_or_else(blob_not_found)?;
                blob.lease.check_write(guard.lease, Subject::Blob, now)?;
                condition::for_change(&guard.conditions, blob)?;
                for instant in std::mem::take(&mut entry.snapshots).into_keys() {
                    self.touched.note(|| Touch::Snapshot(name.into(), instant));
                }
            }
            Delete::Blob | Delete::BlobAndSnapshots => {
                let blob = entry.blob.as_ref().ok_or_else(blob_not_found)?;
                blob.lease.check_write(guard.lease, Subject::Blob, now)?;
                condition::for_change(&guard.conditions, blob)?;
                if what == Delete::Blob && !entry.snapshots.is_empty() {
                    return Err(Rejection::new(ErrorCode::SNAPSHOTS_PRESENT));
                }
                self.touched.note(|| Touch::Blob(name.into()));
                for instant in entry.snapshots.keys() {
                    self.touched.note(|| Touch::Snapshot(name.into(), *instant));
                }
                for id in entry.staged.keys() {
                    self.touched.note(|| Touch::Staged(name.into(), id.clone()));
                }
                self.entries.remove(name);
                return Ok(());
            }
        }
        if entry.is_empty() {
            self.entries.remove(name);
        }
        Ok(())
    }

    /// The blob with this name, for changing it to this version.
    fn changeable(
        &mut self,
        name: &str,
        guard: &Guard,
        version: Version,
    ) -> Result<&mut Blob, Rejection> {
        self.touched.note(|| Touch::Blob(name.into()));
        let blob = self.blob_mut(name)?;
        blob.lease.check_write(guard.lease, Subject::Blob, version.modified)?;
        condition::for_change(&guard.conditions, &*blob)?;
        blob.check_online(version.modified)?;
        blob.lease.after_write(version.modified);
        blob.version = version;
        Ok(blob)
    }

    /// Sets the tier of a blob or a snapshot; returns whether it has to be rehydrated first. The
    /// ETag does not change.
    pub(crate) fn set_tier(
        &mut self,
        name: &str,
        asked: SetTier,
        guard: &Guard,
        now: DateTime,
    ) -> Result<bool, Rejection> {
        let entry = self.entries.get_mut(name).ok_or_else(blob_not_found)?;
        let blob = match asked.snapshot {
            None => entry.blob.as_mut(),
            Some(instant) => entry.snapshots.get_mut(&instant),
        };
        let blob = blob.ok_or_else(blob_not_found)?;
        if asked.snapshot.is_none() {
            blob.lease.check_write(guard.lease, Subject::Blob, now)?;
        }
        condition::for_change(&guard.conditions, &*blob)?;
        if blob.kind.blob_type() != BlobType::Block {
            return Err(Rejection::new(ErrorCode::ACCESS_TIER_NOT_SUPPORTED_FOR_BLOB_TYPE));
        }
        let current = blob.tier.as_deref().map(|tier| tier.at(now));
        let (tier, is_rehydrated) = tier::change(current, asked, now)?;
        blob.tier = Some(Box::new(tier));
        self.touched.note(|| match asked.snapshot {
            None => Touch::Blob(name.into()),
            Some(instant) => Touch::Snapshot(name.into(), instant),
        });
        Ok(is_rehydrated)
    }
}
