//! How the locked contents of an account are read and changed, and how changes are recorded.

use std::fmt::Debug;
use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::store::Account as Tables;
use crate::store::blob::Blobs;
use crate::store::queue::Queues;

/// Turns recorded changes into rows, and hands them over to be written.
pub(crate) trait Recorder<T>: Debug + Send + Sync {
    /// Makes a store note its changes, so that they can be recorded.
    #[cfg(feature = "durable")]
    fn watch(&self, store: &mut T);

    /// Hands over all changes since the last call, as one unit.
    fn record(&self, store: &mut T) -> Receipt;

    /// Hands over the whole contents of a store that replaced another.
    fn replace(&self, store: &mut T);
}

/// The recorders of an account's stores.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) tables: Arc<dyn Recorder<Tables>>,
    pub(crate) queues: Arc<dyn Recorder<Queues>>,
    pub(crate) blobs: Arc<dyn Recorder<Blobs>>,
}

/// The number of the unit that was handed over with a change, if any was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt(pub(crate) Option<u64>);

/// The receipts of a request.
#[derive(Debug, Default)]
pub(crate) struct Receipts(AtomicU64);

impl Receipts {
    pub(crate) fn keep(&self, receipt: Receipt) {
        if let Some(number) = receipt.0 {
            self.0.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// The last unit that was handed over, or 0.
    pub(crate) fn last(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A locked store that is only read.
#[derive(Debug)]
pub(crate) struct Reading<'a, T>(pub(super) MutexGuard<'a, T>);

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Changes a locked store. The changes are recorded before the lock is released, so that they are
/// recorded in the order in which they are made.
pub(super) fn change<T, R>(
    mut store: MutexGuard<'_, T>,
    recorder: Option<&dyn Recorder<T>>,
    change: impl FnOnce(&mut T) -> R,
) -> (R, Receipt) {
    let Some(recorder) = recorder else { return (change(&mut store), Receipt::default()) };
    // What a change did before it panicked is in memory, and so it is recorded.
    let result = panic::catch_unwind(AssertUnwindSafe(|| change(&mut store)));
    let receipt = recorder.record(&mut store);
    match result {
        Ok(result) => (result, receipt),
        Err(panic) => panic::resume_unwind(panic),
    }
}
