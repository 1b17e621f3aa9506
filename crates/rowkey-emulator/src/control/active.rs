//! How many features affect every request. If there are none, requests take a shorter way.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of enabled features that affect every request.
#[derive(Debug, Default)]
pub(crate) struct Active(AtomicU32);

impl Active {
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
