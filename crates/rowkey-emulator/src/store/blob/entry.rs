//! An entry of a container: the blob with one name, its snapshots, and its uncommitted blocks.

use std::collections::BTreeMap;

use rowkey_wire::blob::{BlobType, ContentHeaders};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use super::content::Content;
use super::lease::Lease;
use super::tier::Tier;
use crate::op::condition::Tag;
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;
use crate::op::tier::{AccessTier, TierView};

/// The version of a container or a blob: its ETag and its `Last-Modified`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) tag: Tag,
    pub(crate) modified: DateTime,
}

/// How long uncommitted blocks are kept: a week, in ticks.
const STAGED: i64 = 7 * 86_400 * 10_000_000;

/// The blob, snapshots and blocks with one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) blob: Option<Blob>,
    /// Keyed by the instant that identifies each snapshot.
    pub(crate) snapshots: BTreeMap<DateTime, Blob>,
    /// Uncommitted blocks by id.
    pub(crate) staged: BTreeMap<Box<str>, Content>,
    /// When the last of those blocks was put.
    pub(crate) staged_at: Option<DateTime>,
}

/// A blob.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) kind: Kind,
    pub(crate) content: Content,
    pub(crate) created: DateTime,
    pub(crate) version: Version,
    pub(crate) headers: ContentHeaders,
    pub(crate) metadata: Metadata,
    pub(crate) lease: Lease,
    pub(crate) tags: Tags,
    /// The access tier, if it was set; `None` for the account's default and for append blobs.
    pub(crate) tier: Option<Box<Tier>>,
    /// The source, if it is a copy.
    pub(crate) copy: Option<Box<Copied>>,
}

/// The type of a blob, and the data that only this type has.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Append {
        blocks: u32,
        sealed: bool,
    },
    /// The ids and sizes of the blocks; empty for a blob that was written by Put Blob.
    Block(Vec<(Box<str>, u64)>),
}

/// The source of a copy.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) completed: DateTime,
    pub(crate) length: u64,
}

impl Entry {
    /// Whether it has neither a blob, nor snapshots, nor blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.blob.is_none() && self.snapshots.is_empty() && self.staged.is_empty()
    }

    /// The uncommitted blocks, unless they have expired.
    pub(crate) fn staged(&self, now: DateTime) -> impl ExactSizeIterator<Item = (&str, &Content)> {
        static NONE: BTreeMap<Box<str>, Content> = BTreeMap::new();
        let staged = if self.is_stale(now) { &NONE } else { &self.staged };
        staged.iter().map(|(id, content)| (&**id, content))
    }

    /// Removes expired uncommitted blocks; calls `dropped` with the id of each.
    pub(super) fn drop_stale(&mut self, now: DateTime, dropped: impl FnMut(Box<str>)) {
        if self.is_stale(now) {
            std::mem::take(&mut self.staged).into_keys().for_each(dropped);
        }
    }

    fn is_stale(&self, now: DateTime) -> bool {
        self.staged_at.is_some_and(|at| now.ticks() - at.ticks() > STAGED)
    }
}

impl Kind {
    /// The type of the blob.
    pub(crate) fn blob_type(&self) -> BlobType {
        match self {
            Self::Append { .. } => BlobType::Append,
            Self::Block(_) => BlobType::Block,
        }
    }

    /// Whether it is sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self, Self::Append { sealed: true, .. })
    }
}

impl Blob {
    /// The tier as responses show it. Append blobs have none.
    pub(crate) fn tier(&self, now: DateTime) -> Option<TierView<DateTime>> {
        if self.kind.blob_type() != BlobType::Block {
            return None;
        }
        let Some(tier) = self.tier.as_deref().map(|tier| tier.at(now)) else {
            return Some(TierView { tier: AccessTier::Hot, changed: None, rehydrating: None });
        };
        let rehydrating = tier.rehydration.map(|going| (going.target, going.priority));
        Some(TierView { tier: tier.level, changed: Some(tier.changed), rehydrating })
    }

    /// Rejects an operation that is not possible on an archived blob.
    pub(crate) fn check_online(&self, now: DateTime) -> Result<(), Rejection> {
        let tier = self.tier.as_deref().map(|tier| tier.at(now).level);
        if tier == Some(AccessTier::Archive) {
            return Err(Rejection::new(ErrorCode::BLOB_ARCHIVED));
        }
        Ok(())
    }
}
