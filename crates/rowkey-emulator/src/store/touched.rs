//! Records changes, for the durable store.
//!
//! Unless recording was started, nothing is recorded.

/// The changes since the last call of `take`: what changed, and encoded entities.
#[derive(Debug)]
pub(crate) struct Touched<K>(Option<Vec<K>>);

impl<K> Touched<K> {
    /// Records a change, if recording is on.
    pub(crate) fn note(&mut self, key: impl FnOnce() -> K) {
        if let Some(keys) = &mut self.0 {
            keys.push(key());
        }
    }

    /// The number of recorded changes.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Forgets the changes after the first `count`, which were undone.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.0.iter_mut().for_each(|keys| keys.truncate(count));
    }
}

#[cfg(feature = "durable")]
impl<K> Touched<K> {
    /// Starts recording changes.
    pub(crate) fn watch(&mut self) {
        self.0.get_or_insert_default();
    }

    /// The changes since the last call, in order. Data that changed twice may occur twice.
    pub(crate) fn take(&mut self) -> Vec<K> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<K> Default for Touched<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// A copy does not record: the changes of the original are collected, not those of the copy.
impl<K> Clone for Touched<K> {
    fn clone(&self) -> Self {
        Self::default()
    }
}
