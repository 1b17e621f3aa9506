//! A store that is locked, and recorded when it is let go.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use crate::store::Account as Tables;
use crate::store::blob::Blobs;
use crate::store::queue::Queues;

/// Turns what was noted as changed into rows, and hands them over.
pub(crate) trait Record<T>: Debug + Send + Sync {
    /// Hands over what has changed since the last time, as one unit.
    fn record(&self, store: &mut T);

    /// Hands over all of a store that took the place of another.
    fn replace(&self, store: &mut T);
}

/// Who records each store of an account.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) tables: Arc<dyn Record<Tables>>,
    pub(crate) queues: Arc<dyn Record<Queues>>,
    pub(crate) blobs: Arc<dyn Record<Blobs>>,
}

/// A locked store. What has changed in it is recorded before anybody else can lock it, so that
/// changes are recorded in the order in which they are made.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    store: MutexGuard<'a, T>,
    record: Option<&'a dyn Record<T>>,
}

impl<'a, T> Held<'a, T> {
    pub(crate) fn new(store: MutexGuard<'a, T>, record: Option<&'a dyn Record<T>>) -> Self {
        Self { store, record }
    }

    /// Puts another store in the place of this one.
    pub(crate) fn replace(&mut self, store: T) {
        *self.store = store;
        if let Some(record) = self.record {
            record.replace(&mut self.store);
        }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.record(&mut self.store);
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.store
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.store
    }
}
