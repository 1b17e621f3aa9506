//! The references to blobs that a write gives to entities.

use std::sync::atomic::{AtomicBool, Ordering};

use rowkey_client::BlobRef;

/// The references that a plan gives to entities for the first time. Released when the plan is dropped, unless its
/// requests were sent.
#[derive(Default)]
pub(crate) struct Naming {
    held: Vec<BlobRef>,
    sent: AtomicBool,
}

impl Naming {
    /// Whether the plan gives an entity this blob.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.held.iter().any(|held| held.path() == path)
    }

    /// Adds a reference that is held.
    pub(crate) fn add(&mut self, reference: &BlobRef) {
        self.held.push(reference.clone());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The plan is run: from now on its write may be committed.
    pub(crate) fn send(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// The plan was not committed and never will be.
    pub(crate) fn release(&self) {
        self.sent.store(false, Ordering::Relaxed);
    }
}

impl Drop for Naming {
    fn drop(&mut self) {
        let is_sent = *self.sent.get_mut();
        for reference in self.held.drain(..) {
            if is_sent { reference.spend() } else { reference.release() }
        }
    }
}
