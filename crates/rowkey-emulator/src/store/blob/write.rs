//! Operations that write the content of a blob: put, blocks, append, copy.
//!
//! Everything is checked before anything changes.

use std::collections::HashMap;

use rowkey_wire::blob::BlockSource;
use rowkey_wire::blob::{AppendLimits, BlobType};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_BLOCKS;

use super::condition;
use super::container::{Container, Touch, blob_not_found};
use super::content::Content;
use super::entry::{Blob, Copied, Kind, Version};
use super::lease::Subject;
use super::tier::{self, Rehydration, Tier};
use crate::op::blob::{Copy, Description, Guard};
use crate::op::tier::AccessTier;

/// The most uncommitted blocks of a blob.
const MAX_STAGED: usize = 100_000;
/// The most blocks of an append blob.
const MAX_APPENDED: u32 = 50_000;
/// Ticks from 0001-01-01 to 1601-01-01.
const FILETIME: u64 = DateTime::MIN.ticks().cast_unsigned();

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The offset of the block.
    pub(crate) offset: u64,
    /// The number of blocks after the append.
    pub(crate) blocks: u32,
}

impl Container {
    /// Writes a blob in one request, replacing an existing one.
    pub(crate) fn put(
        &mut self,
        name: &str,
        kind: BlobType,
        content: Content,
        description: Description,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        let kind = match kind {
            BlobType::Append => Kind::Append { blocks: 0, sealed: false },
            BlobType::Block => Kind::Block(Vec::new()),
        };
        self.check_put(name, guard, version.modified)?;
        self.replace(name, kind, content, description, version);
        Ok(())
    }

    /// Stores an uncommitted block.
    pub(crate) fn put_block(
        &mut self,
        name: &str,
        id: &str,
        content: Content,
        guard: &Guard,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let entry = self.entries.get_mut(name);
        if let Some(blob) = entry.as_ref().and_then(|entry| entry.blob.as_ref()) {
            if !matches!(blob.kind, Kind::Block(_)) {
                return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE));
            }
            blob.lease.check_write(guard.lease, Subject::Blob, now)?;
            blob.check_online(now)?;
        } else if guard.lease.is_some() {
            return Err(Rejection::new(ErrorCode::LEASE_NOT_PRESENT_WITH_BLOB_OPERATION));
        }
        if let Some(entry) = entry {
            entry.drop_stale(now, |id| self.touched.note(|| Touch::Staged(name.into(), id)));
            let other_length =
                entry.staged.keys().next().is_some_and(|known| known.len() != id.len());
            let committed = match entry.blob.as_ref().map(|blob| &blob.kind) {
                Some(Kind::Block(blocks)) => blocks.first(),
                _ => None,
            };
            if other_length || committed.is_some_and(|(known, _)| known.len() != id.len()) {
                return Err(Rejection::new(ErrorCode::INVALID_BLOB_OR_BLOCK));
            }
            if entry.staged.len() >= MAX_STAGED && !entry.staged.contains_key(id) {
                return Err(Rejection::new(ErrorCode::BLOCK_COUNT_EXCEEDS_LIMIT));
            }
        }
        self.touched.note(|| Touch::Staged(name.into(), id.into()));
        let entry = self.entries.entry(name.into()).or_default();
        entry.staged.insert(id.into(), content);
        entry.staged_at = Some(now);
        Ok(())
    }

    /// Commits a list of blocks.
    pub(crate) fn put_block_list(
        &mut self,
        name: &str,
        list: &[(BlockSource, String)],
        description: Description,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        if list.len() > MAX_BLOCKS {
            return Err(Rejection::new(ErrorCode::BLOCK_LIST_TOO_LONG));
        }
        let current = self.entries.get(name).and_then(|entry| entry.blob.as_ref());
        if current.is_some_and(|blob| !matches!(blob.kind, Kind::Block(_))) {
            return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE));
        }
        self.check_put(name, guard, version.modified)?;
        if let Some(entry) = self.entries.get_mut(name) {
            let touched = &mut self.touched;
            let note = |id| touched.note(|| Touch::Staged(name.into(), id));
            entry.drop_stale(version.modified, note);
        }
        let (blocks, content) =
            self.gather(name, list).ok_or_else(|| Rejection::new(ErrorCode::INVALID_BLOCK_LIST))?;
        self.replace(name, Kind::Block(blocks), content, description, version);
        Ok(())
    }

    /// Appends a block to an append blob.
    pub(crate) fn append(
        &mut self,
        name: &str,
        block: &Content,
        limits: &AppendLimits,
        guard: &Guard,
        version: Version,
    ) -> Result<Appended, Rejection> {
        let blob = self.append_blob(name, guard, version.modified)?;
        let Kind::Append { blocks, sealed } = &mut blob.kind else {
            return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE));
        };
        if *sealed {
            return Err(Rejection::new(ErrorCode::BLOB_IS_SEALED));
        }
        let offset = blob.content.len();
        check_position(limits, offset)?;
        if limits.max_size.is_some_and(|max| offset + block.len() > max) {
            return Err(Rejection::new(ErrorCode::MAX_BLOB_SIZE_CONDITION_NOT_MET));
        }
        if *blocks >= MAX_APPENDED {
            return Err(Rejection::new(ErrorCode::BLOCK_COUNT_EXCEEDS_LIMIT));
        }
        *blocks += 1;
        let blocks = *blocks;
        blob.content.extend(block.pieces());
        blob.version = version;
        blob.lease.after_write(version.modified);
        self.touched.note(|| Touch::Appended(name.into()));
        Ok(Appended { offset, blocks })
    }

    /// Seals an append blob.
    pub(crate) fn seal(
        &mut self,
        name: &str,
        limits: &AppendLimits,
        guard: &Guard,
        version: Version,
    ) -> Result<Version, Rejection> {
        let blob = self.append_blob(name, guard, version.modified)?;
        check_position(limits, blob.content.len())?;
        let Kind::Append { sealed, .. } = &mut blob.kind else {
            return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE));
        };
        if !*sealed {
            *sealed = true;
            blob.version = version;
        }
        let version = blob.version;
        self.touched.note(|| Touch::Blob(name.into()));
        Ok(version)
    }

    /// Writes a copy of another blob, replacing an existing one. A copy of an archived blob
    /// requires a tier to be rehydrated to.
    pub(crate) fn put_copy(
        &mut self,
        name: &str,
        source: &Blob,
        copied: Copied,
        copy: Copy<'_>,
        guard: &Guard,
        version: Version,
    ) -> Result<(), Rejection> {
        self.check_put(name, guard, version.modified).map_err(|rejection| {
            condition::on_target(rejection, &guard.conditions, self.blob(name, None).ok())
        })?;
        let now = version.modified;
        let is_archived = source.check_online(now).is_err();
        let online = copy.tier.filter(|tier| *tier != AccessTier::Archive);
        if is_archived && online.is_none() {
            source.check_online(now)?;
        }
        let Copy { metadata, tags, tier, priority, seal, .. } = copy;
        let metadata = if metadata.is_empty() { source.metadata.clone() } else { metadata };
        let tags = tags.unwrap_or_else(|| source.tags.clone());
        let description = Description { headers: source.headers.clone(), metadata, tags, tier };
        // The copy of a sealed blob is not sealed unless requested, so it can be appended to.
        let kind = match &source.kind {
            Kind::Append { .. } if tier.is_some() => {
                return Err(Rejection::new(ErrorCode::ACCESS_TIER_NOT_SUPPORTED_FOR_BLOB_TYPE));
            }
            Kind::Append { blocks, .. } => Kind::Append { blocks: *blocks, sealed: seal },
            Kind::Block(blocks) => Kind::Block(blocks.clone()),
        };
        let content = source.content.clone();
        let blob = self.replace(name, kind, content, description, version);
        blob.copy = Some(Box::new(copied));
        if let Some(target) = online.filter(|_| is_archived) {
            let rehydration = Some(Rehydration::begin(target, priority, now));
            let tier = Tier { rehydration, ..Tier::new(AccessTier::Archive, now) };
            blob.tier = Some(Box::new(tier));
        }
        Ok(())
    }

    /// Rejects a write that is not permitted. The blob may not exist yet.
    fn check_put(&self, name: &str, guard: &Guard, now: DateTime) -> Result<(), Rejection> {
        let current = self.entries.get(name).and_then(|entry| entry.blob.as_ref());
        match current {
            Some(blob) => blob.lease.check_write(guard.lease, Subject::Blob, now)?,
            None if guard.lease.is_some() => {
                return Err(Rejection::new(ErrorCode::LEASE_NOT_PRESENT_WITH_BLOB_OPERATION));
            }
            None => {}
        }
        condition::for_put(&guard.conditions, current, guard.lease.is_some())?;
        current.map_or(Ok(()), |blob| blob.check_online(now))
    }

    /// Replaces a blob. Snapshots and a held lease are kept.
    fn replace(
        &mut self,
        name: &str,
        kind: Kind,
        content: Content,
        description: Description,
        version: Version,
    ) -> &mut Blob {
        self.touched.note(|| Touch::Blob(name.into()));
        let entry = self.entries.entry(name.into()).or_default();
        for id in std::mem::take(&mut entry.staged).into_keys() {
            self.touched.note(|| Touch::Staged(name.into(), id));
        }
        let (created, mut lease) = match &entry.blob {
            Some(blob) => (blob.created, blob.lease),
            None => (version.modified, super::lease::Lease::None),
        };
        lease.after_write(version.modified);
        let tier = match kind {
            Kind::Block(_) => {
                let overwritten = entry.blob.as_ref().and_then(|blob| blob.tier.as_deref());
                tier::of_put(&description, overwritten, version.modified)
            }
            Kind::Append { .. } => None,
        };
        let Description { headers, metadata, tags, .. } = description;
        entry.blob.insert(Blob {
            kind,
            content,
            created,
            version,
            headers,
            metadata,
            lease,
            tags,
            tier,
            copy: None,
        })
    }

    /// The append blob with this name, for changing it.
    fn append_blob(
        &mut self,
        name: &str,
        guard: &Guard,
        now: DateTime,
    ) -> Result<&mut Blob, Rejection> {
        let blob = self.blob_mut(name)?;
        if !matches!(blob.kind, Kind::Append { .. }) {
            return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE));
        }
        blob.lease.check_write(guard.lease, Subject::Blob, now)?;
        // Recorded: only here, an ETag from before the service existed is out of range.
        if let Some(crate::op::condition::Match::Tag(tag)) = guard.conditions.matches
            && tag.0 < FILETIME
        {
            return Err(Rejection::new(ErrorCode::OUT_OF_RANGE_INPUT));
        }
        condition::for_change(&guard.conditions, &*blob)?;
        Ok(blob)
    }

    /// The blocks in a list, and their bytes. `None` if a block is missing.
    #[expect(clippy::type_complexity, reason = "short-lived")]
    fn gather(
        &self,
        name: &str,
        list: &[(BlockSource, String)],
    ) -> Option<(Vec<(Box<str>, u64)>, Content)> {
        let entry = self.entries.get(name);
        let mut committed: HashMap<&str, (u64, u64)> = HashMap::new();
        let current = entry.and_then(|entry| entry.blob.as_ref());
        if let Some(Kind::Block(blocks)) = current.map(|blob| &blob.kind) {
            let mut at = 0;
            for (id, size) in blocks {
                committed.insert(id, (at, at + size));
                at += size;
            }
        }
        let mut content = Content::default();
        let mut blocks = Vec::with_capacity(list.len());
        for (source, id) in list {
            let staged = entry.and_then(|entry| entry.staged.get(id.as_str()));
            let staged = staged.filter(|_| *source != BlockSource::Committed);
            let before = content.len();
            match (staged, committed.get(id.as_str()), current) {
                (Some(staged), _, _) => content.extend(staged.pieces()),
                (None, Some((first, end)), Some(blob)) if *source != BlockSource::Uncommitted => {
                    content.extend(blob.content.range(*first, *end));
                }
                _ => return None,
            }
            blocks.push((id.as_str().into(), content.len() - before));
        }
        Some((blocks, content))
    }
}

/// The source blob of a copy.
pub(crate) fn copy_source<'a>(
    container: &'a Container,
    name: &str,
    snapshot: Option<DateTime>,
    guard: &Guard,
    now: DateTime,
) -> Result<&'a Blob, Rejection> {
    let blob = container.blob(name, snapshot).map_err(|_| blob_not_found())?;
    if snapshot.is_none() {
        blob.lease.check_read(guard.lease, Subject::Blob, now)?;
    }
    condition::for_source(&guard.conditions, blob)?;
    Ok(blob)
}

fn check_position(limits: &AppendLimits, length: u64) -> Result<(), Rejection> {
    match limits.position {
        Some(position) if position != length => {
            Err(Rejection::new(ErrorCode::APPEND_POSITION_CONDITION_NOT_MET))
        }
        _ => Ok(()),
    }
}
