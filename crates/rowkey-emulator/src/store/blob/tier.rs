//! Access tiers of blobs: set, archived, and rehydrated after some time.
//!
//! As for leases, the effect of time is computed when the tier is read.
//!
//! Reference: [Blob rehydration](https://learn.microsoft.com/azure/storage/blobs/archive-rehydrate-overview).

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

use crate::op::blob::{Description, SetTier};
use crate::op::tier::{AccessTier, RehydratePriority};

/// Ticks in an hour.
const HOUR: i64 = 3600 * 10_000_000;

/// An access tier that was set for a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    pub(crate) level: AccessTier,
    /// When it was set.
    pub(crate) changed: DateTime,
    /// The rehydration of an archived blob, if one is under way.
    pub(crate) rehydration: Option<Rehydration>,
}

/// The rehydration of an archived blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rehydration {
    pub(crate) target: AccessTier,
    pub(crate) priority: RehydratePriority,
    /// When it ends.
    pub(crate) until: DateTime,
}

impl Rehydration {
    /// Starts a rehydration that takes the maximum time that the service documents.
    pub(super) fn begin(target: AccessTier, priority: RehydratePriority, now: DateTime) -> Self {
        let hours = match priority {
            RehydratePriority::High => 1,
            RehydratePriority::Standard => 15,
        };
        let until = DateTime::from_ticks(now.ticks().saturating_add(hours * HOUR));
        Self { target, priority, until: until.unwrap_or(DateTime::MAX) }
    }
}

impl Tier {
    /// A tier that is set now.
    pub(super) fn new(level: AccessTier, now: DateTime) -> Self {
        Self { level, changed: now, rehydration: None }
    }

    /// The tier at an instant: when a rehydration has ended, the tier is its target.
    pub(super) fn at(self, now: DateTime) -> Self {
        match self.rehydration {
            Some(Rehydration { target, until, .. }) if until <= now => Self::new(target, until),
            _ => self,
        }
    }
}

/// The tier of a blob that is written: the requested one, or otherwise that of the overwritten
/// blob.
pub(super) fn of_put(
    description: &Description,
    overwritten: Option<&Tier>,
    now: DateTime,
) -> Option<Box<Tier>> {
    match description.tier {
        Some(tier) => Some(Box::new(Tier::new(tier, now))),
        None => overwritten.map(|tier| Box::new(tier.at(now))),
    }
}

/// The new tier, and whether the blob is rehydrated to reach it.
pub(super) fn change(
    current: Option<Tier>,
    asked: SetTier,
    now: DateTime,
) -> Result<(Tier, bool), Rejection> {
    let archived = current.filter(|current| current.level == AccessTier::Archive);
    let Some(archived) = archived else { return Ok((Tier::new(asked.tier, now), false)) };
    let begun = Rehydration::begin(asked.tier, asked.priority, now);
    let rehydration = match archived.rehydration {
        None if asked.tier == AccessTier::Archive => return Ok((archived, false)),
        None => begun,
        // Only the priority may be raised; the target cannot change.
        Some(going) if going.target != asked.tier => {
            return Err(Rejection::new(ErrorCode::BLOB_BEING_REHYDRATED));
        }
        Some(going) if going.priority == RehydratePriority::Standard => {
            Rehydration { until: begun.until.min(going.until), ..begun }
        }
        Some(going) => going,
    };
    Ok((Tier { rehydration: Some(rehydration), ..archived }, true))
}
