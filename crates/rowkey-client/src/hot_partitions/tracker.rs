//! The counters of an account, shared by its handles; nothing unless they were switched on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::HotPartitions;
use super::counts::Counts;

pub(crate) use super::counts::Touch;

/// Counts the requests of an account by partition, if it is on.
#[derive(Debug, Default)]
pub(crate) struct Tracker(Option<On>);

#[derive(Debug)]
struct On {
    most: usize,
    counts: Mutex<Counts>,
}

impl Tracker {
    /// Counts at most this many partitions; none switches it off.
    pub(crate) fn of(most: usize) -> Self {
        Self((most > 0).then(|| On { most, counts: Mutex::default() }))
    }

    /// Counts a request.
    pub(crate) fn add<'a>(&self, touch: impl FnOnce() -> Option<Touch<'a>>) {
        if let Some(on) = &self.0
            && let Some(touch) = touch()
        {
            on.counts().add(&touch, on.most);
        }
    }

    /// The counts so far; empty if it is off.
    pub(crate) fn report(&self) -> HotPartitions {
        self.0.as_ref().map(|on| on.counts().report()).unwrap_or_default()
    }

    /// Resets the counts.
    pub(crate) fn clear(&self) {
        if let Some(on) = &self.0 {
            *on.counts() = Counts::default();
        }
    }
}

impl On {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // The counts are consistent at every unlock, so a panic elsewhere does not corrupt them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
