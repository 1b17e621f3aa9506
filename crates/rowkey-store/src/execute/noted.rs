//! What is noted while a write is settled.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use crate::declaring::settling::Move;
use crate::row::op::Target;

/// Notes made while a write is settled.
#[derive(Default)]
pub(crate) struct Noted {
    /// Whether the writer settles, and not a worker.
    pub(crate) by_writer: bool,
    /// Whether a request may take effect later.
    pub(crate) in_doubt: bool,
    /// Targets that must not be settled again.
    pub(crate) finished: Vec<Target>,
    /// Targets that are settled in part, and where the next turn continues.
    pub(crate) moved: Vec<(Target, Move)>,
    /// The declarations of other programs that targets and claims wait for.
    pub(crate) undeclared: BTreeSet<String>,
    /// Targets at which the writer's insert met a row.
    pub(crate) met: Vec<Target>,
    /// Whether a row elsewhere was missing that another writer may be about to insert.
    pub(crate) missed: bool,
    /// Rows that must be deleted. If one does not exist, another writer may be about to insert it.
    pub(crate) coming: Vec<Target>,
}

impl Noted {
    /// Notes the targets whose rows settling did not find.
    pub(crate) fn found_none(&mut self, row_key: &str, absent: &[String]) {
        let is_absent =
            |target: &Target| target.row_key == row_key && absent.contains(&target.address);
        self.missed |= self.coming.iter().any(is_absent);
    }

    /// Whether a target is settled in part, so that another turn follows.
    pub(crate) fn goes_on(&self) -> bool {
        self.moved.iter().any(|(_, moved)| moved.ended.is_none())
    }

    /// When the first part of a target that is settled in turns was settled.
    pub(crate) fn begun(&self) -> Option<DateTime<Utc>> {
        let ended = self.moved.iter().filter_map(|(_, moved)| moved.ended.as_ref());
        ended.map(|(begun, _)| *begun).min()
    }

    /// The targets that are settled in part, each with its new address. When all have ended, they begin
    /// again: they are settled once more when no request can take effect any more.
    pub(crate) fn moves(&self) -> Vec<(&Target, &str)> {
        let goes_on = self.goes_on();
        let to = self.moved.iter().map(|(target, moved)| match &moved.ended {
            Some((_, all)) if !goes_on => (target, &**all),
            _ => (target, &*moved.to),
        });
        to.collect()
    }
}
