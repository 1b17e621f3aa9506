//! Page chaos: pages that end early, as the service may end any page anywhere.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::op::random::split_mix;
use crate::store::query::Cut;

/// The most rows that a cut page looks at.
const MOST_ROWS: u64 = 12;

/// How pages of results are cut, for [`Server::chaos`](crate::Server::chaos): pages of entity
/// queries, and of listings of queues, containers and blobs.
///
/// The service does all of this when a query takes long, crosses partitions, or for no apparent
/// reason. The same seed cuts the same sequence of requests at the same places.
///
/// As JSON, only `seed` is required; the rest is then `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pages {
    /// The seed of the random choices.
    pub seed: u64,
    /// Pages end after a few rows, whether or not the rows match.
    #[serde(default = "yes")]
    pub cut: bool,
    /// First pages have no entities, but a continuation token. Later pages are never emptied,
    /// because they would repeat the token that they began with; they can still be empty if no row
    /// matches.
    #[serde(default = "yes")]
    pub empty: bool,
    /// Pages end at the end of their partition, with a token that has a `NextPartitionKey` and no
    /// `NextRowKey`.
    #[serde(default = "yes")]
    pub partition_only: bool,
}

const fn yes() -> bool {
    true
}

impl Pages {
    /// Enables all of it.
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, cut: true, empty: true, partition_only: true }
    }
}

/// Page chaos that lasts until this is dropped.
#[must_use = "pages are whole again when this is dropped: keep it in a variable with a name"]
pub struct Chaos {
    chaos: Arc<ChaosState>,
    number: u64,
}

impl Chaos {
    /// The number of pages that were selected to end early, including those that had no more rows
    /// anyway.
    pub fn cuts(&self) -> u64 {
        self.chaos.active().as_ref().map_or(0, |active| active.cuts)
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        let mut active = self.chaos.active();
        // Another `Chaos` may have replaced this one.
        if active.as_ref().is_some_and(|active| active.number == self.number) {
            *active = None;
            self.chaos.is_on.store(false, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos").field("cuts", &self.cuts()).finish_non_exhaustive()
    }
}

/// The active chaos.
#[derive(Debug, Default)]
pub(crate) struct ChaosState {
    is_on: AtomicBool,
    active: Mutex<Option<ActiveChaos>>,
}

#[derive(Debug)]
struct ActiveChaos {
    pages: Pages,
    number: u64,
    state: u64,
    cuts: u64,
}

impl ChaosState {
    /// Starts chaos, replacing any other.
    pub(crate) fn begin(self: &Arc<Self>, pages: Pages) -> Chaos {
        let mut active = self.active();
        let number = active.as_ref().map_or(0, |active| active.number + 1);
        *active = Some(ActiveChaos { pages, number, state: pages.seed, cuts: 0 });
        self.is_on.store(true, Ordering::Relaxed);
        Chaos { chaos: Arc::clone(self), number }
    }

    /// Stops chaos.
    pub(crate) fn clear(&self) {
        *self.active() = None;
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// The number of entries on the next page of a listing, at most `room`. Listings have no
    /// partitions to end with. `resumes` is whether the request has a token.
    pub(crate) fn room(&self, room: u32, resumes: bool) -> usize {
        let cut = match self.next(resumes) {
            Some(Cut::Rows(rows)) => rows,
            Some(Cut::Partition) | None => room,
        };
        cut.min(room) as usize
    }

    /// Where the next page ends; `None` leaves it unchanged. `resumes` is whether the request has a
    /// token.
    pub(crate) fn next(&self, resumes: bool) -> Option<Cut> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.active().as_mut()?.next(resumes)
    }

    fn active(&self) -> MutexGuard<'_, Option<ActiveChaos>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveChaos {
    fn next(&mut self, resumes: bool) -> Option<Cut> {
        let random = split_mix(&mut self.state);
        let Pages { cut, empty, partition_only, .. } = self.pages;
        let choice = match random % 4 {
            0 if empty && !resumes => Some(Cut::Rows(0)),
            1 if partition_only => Some(Cut::Partition),
            0..=2 if cut => {
                Some(Cut::Rows(u32::try_from((random >> 32) % MOST_ROWS).unwrap_or(0) + 1))
            }
            _ => None,
        };
        self.cuts += u64::from(choice.is_some());
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(pages: Pages) -> Vec<Option<Cut>> {
        let chaos = Arc::<ChaosState>::default();
        let _chaos = chaos.begin(pages);
        (0..200).map(|n| chaos.next(n % 2 == 1)).collect()
    }

    #[test]
    fn equal_seeds_make_equal_choices_and_others_differ() {
        let one = drawn(Pages::seeded(1));
        assert_eq!(one, drawn(Pages::seeded(1)));
        assert_ne!(one, drawn(Pages::seeded(2)));
        for choice in [None, Some(Cut::Rows(0)), Some(Cut::Rows(12)), Some(Cut::Partition)] {
            assert!(one.contains(&choice), "{choice:?}");
        }
        let resumed: Vec<_> = one.iter().skip(1).step_by(2).collect();
        assert!(!resumed.contains(&&Some(Cut::Rows(0))), "a token would be repeated");
        assert!(!drawn(Pages { empty: false, ..Pages::seeded(1) }).contains(&Some(Cut::Rows(0))));
    }

    #[test]
    fn chaos_ends_with_its_last_guard() {
        let chaos = Arc::<ChaosState>::default();
        let first = chaos.begin(Pages::seeded(1));
        let second = chaos.begin(Pages::seeded(1));
        drop(first);
        assert!((0..20).any(|_| chaos.next(false).is_some()));
        assert!(second.cuts() > 0);
        drop(second);
        assert!((0..20).all(|_| chaos.next(false).is_none()));
    }
}
