//! Records the changes of a store as rows: what the stores of tables, queues and blobs share.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::journal::Unit;
use super::names::AccountJournal;
use crate::account::guard::{Receipt, Recorder};

/// The resources of a store that have rows, and how its changes become rows.
pub(super) trait Rows: Debug + Send {
    /// The store in memory.
    type Store;
    /// A change that the store noted.
    type Touch;

    /// Makes the store note its changes.
    fn watch(store: &mut Self::Store);

    /// The changes since the last call.
    fn take(store: &mut Self::Store) -> Vec<Self::Touch>;

    /// Makes the store note everything that it contains as changed.
    fn touch_all(store: &mut Self::Store);

    /// Records a change.
    fn note(
        &mut self,
        journal: &AccountJournal,
        touch: Self::Touch,
        store: &mut Self::Store,
        unit: &mut Unit,
    );

    /// Records the deletion of everything that has rows.
    fn clear(&mut self, journal: &AccountJournal, unit: &mut Unit);

    /// Records what belongs to a unit as a whole, after all its changes.
    fn finish(&mut self, journal: &AccountJournal, store: &Self::Store, unit: &mut Unit) {
        let _ = (journal, store, unit);
    }
}

/// Records the changes of a store of one account.
#[derive(Debug)]
pub(super) struct Recording<R> {
    journal: AccountJournal,
    rows: Mutex<R>,
}

impl<R> Recording<R> {
    pub(super) fn new(journal: AccountJournal, rows: R) -> Self {
        Self { journal, rows: Mutex::new(rows) }
    }

    /// Replaces the known rows after memory was restored from disk.
    pub(super) fn put_back(&self, rows: R) {
        *self.lock() = rows;
    }

    fn lock(&self) -> MutexGuard<'_, R> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Rows> Recording<R> {
    fn hand_over(
        &self,
        rows: &mut R,
        touched: Vec<R::Touch>,
        store: &mut R::Store,
        mut unit: Unit,
    ) -> Receipt {
        for touch in touched {
            rows.note(&self.journal, touch, store, &mut unit);
        }
        rows.finish(&self.journal, store, &mut unit);
        self.journal.hand_over(unit)
    }
}

impl<R: Rows> Recorder<R::Store> for Recording<R> {
    fn watch(&self, store: &mut R::Store) {
        R::watch(store);
    }

    fn record(&self, store: &mut R::Store) -> Receipt {
        let touched = R::take(store);
        if touched.is_empty() {
            return Receipt::default();
        }
        self.hand_over(&mut self.lock(), touched, store, Unit::default())
    }

    fn replace(&self, store: &mut R::Store) {
        R::watch(store);
        let (mut rows, mut unit) = (self.lock(), Unit::default());
        rows.clear(&self.journal, &mut unit);
        R::touch_all(store);
        let touched = R::take(store);
        self.hand_over(&mut rows, touched, store, unit);
    }
}
