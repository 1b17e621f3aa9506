//! Records the keys of changed data, for the durable store.
//!
//! Unless recording was started, nothing is recorded.

/// The keys of data changed since the last call of `take`.
#[derive(Debug)]
pub(crate) struct Touched<K>(Option<Vec<K>>);

impl<K> Touched<K> {
    /// Records a change, if recording is on.
    pub(crate) fn note(&mut self, key: impl FnOnce() -> K) {
        if let Some(keys) = &mut self.0 {
            keys.push(key());
        }
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
