//! What has changed: keys that a store notes for another that keeps it elsewhere, too.
//!
//! A store that is not asked notes nothing.

/// Keys of what has changed since it was last asked for.
#[derive(Debug)]
pub(crate) struct Touched<K>(Option<Vec<K>>);

impl<K> Touched<K> {
    /// Notes a change, if anybody asks.
    pub(crate) fn note(&mut self, key: impl FnOnce() -> K) {
        if let Some(keys) = &mut self.0 {
            keys.push(key());
        }
    }
}

#[cfg(feature = "durable")]
impl<K> Touched<K> {
    /// From now on changes are noted.
    pub(crate) fn watch(&mut self) {
        self.0.get_or_insert_default();
    }

    /// What has changed since the last time, in the order in which it did. What changed twice may
    /// be there twice.
    pub(crate) fn take(&mut self) -> Vec<K> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<K> Default for Touched<K> {
    fn default() -> Self {
        Self(None)
    }
}

/// A caller that asks for what changed in the original does not ask for what changes in a copy.
impl<K> Clone for Touched<K> {
    fn clone(&self) -> Self {
        Self::default()
    }
}
