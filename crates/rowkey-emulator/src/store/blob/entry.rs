//! What has one name in a container: a blob, its snapshots, and blocks that are in no list yet.

use std::collections::BTreeMap;

use rowkey_wire::blob::{BlobType, ContentHeaders};
use rowkey_wire::edm::DateTime;
use rowkey_wire::metadata::Metadata;

use super::account::Version;
use super::content::Content;
use super::lease::Lease;
use super::tier::Tier;
use crate::blob::wire::tags::Tags;

/// How long blocks are kept that no list takes up: a week in ticks.
const STAGED: i64 = 7 * 86_400 * 10_000_000;

/// What has one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) blob: Option<Blob>,
    /// By the instant that names each.
    pub(crate) snapshots: BTreeMap<DateTime, Blob>,
    /// Blocks that were put and are in no list, by id.
    pub(crate) staged: BTreeMap<Box<str>, Content>,
    /// When the last of those was put.
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
    /// The access tier that was set; none: the account's default, or it is no block blob.
    pub(crate) tier: Option<Box<Tier>>,
    /// Where it came from, if it is a copy.
    pub(crate) copy: Option<Box<Copied>>,
}

/// What sort of blob, and what only that sort has.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Append {
        blocks: u32,
        sealed: bool,
    },
    /// The ids and sizes of the blocks; none for a blob that was put at once.
    Block(Vec<(Box<str>, u64)>),
}

/// Where a copy came from.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) completed: DateTime,
    pub(crate) length: u64,
}

impl Entry {
    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.blob.is_none() && self.snapshots.is_empty() && self.staged.is_empty()
    }

    /// The blocks that are in no list, unless they were left for too long.
    pub(crate) fn staged(&self, now: DateTime) -> impl ExactSizeIterator<Item = (&str, &Content)> {
        static NONE: BTreeMap<Box<str>, Content> = BTreeMap::new();
        let staged = if self.is_stale(now) { &NONE } else { &self.staged };
        staged.iter().map(|(id, content)| (&**id, content))
    }

    /// Forgets blocks that were left for too long; `dropped` is told of each.
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
    /// The sort alone.
    pub(crate) fn blob_type(&self) -> BlobType {
        match self {
            Self::Append { .. } => BlobType::Append,
            Self::Block(_) => BlobType::Block,
        }
    }

    /// Whether it is closed to appends.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self, Self::Append { sealed: true, .. })
    }
}
