//! A lock guard that records the changes to a store when the lock is released.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
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
    fn record(&self, store: &mut T);

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

/// A locked store. Its changes are recorded before the lock is released, so that changes are
/// recorded in the order in which they are made.
#[derive(Debug)]
pub(crate) struct StoreGuard<'a, T> {
    store: MutexGuard<'a, T>,
    record: Option<&'a dyn Recorder<T>>,
}

impl<'a, T> StoreGuard<'a, T> {
    pub(crate) fn new(store: MutexGuard<'a, T>, record: Option<&'a dyn Recorder<T>>) -> Self {
        Self { store, record }
    }

    /// Replaces this store with another one.
    pub(crate) fn replace(&mut self, store: T) {
        *self.store = store;
        if let Some(record) = self.record {
            record.replace(&mut self.store);
        }
    }
}

impl<T> Drop for StoreGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.record(&mut self.store);
        }
    }
}

impl<T> Deref for StoreGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.store
    }
}

impl<T> DerefMut for StoreGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.store
    }
}
