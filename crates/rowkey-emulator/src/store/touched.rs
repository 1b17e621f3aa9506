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

    /// The record of a resource that is created here: it records if this one does, so that what is put into the resource
    /// by the same change is recorded, too.
    pub(crate) fn of_new<T>(&self) -> Touched<T> {
        Touched(self.0.as_ref().map(|_| Vec::new()))
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

/// What the durable store needs of a store of resources by name.
#[cfg(feature = "durable")]
macro_rules! named_on_disk {
    ($store:ident.$named:ident: $resource:ty, $touch:path) => {
        impl $store {
            /// The resource with this name, for collecting its changes.
            pub(crate) fn touched_at(&mut self, name: &str) -> Option<&mut $resource> {
                self.$named.get_mut(name)
            }

            /// Until when the name of a deleted resource is blocked.
            pub(crate) fn blocked_until(&self, name: &str) -> Option<rowkey_wire::edm::DateTime> {
                self.blocked.until(name)
            }

            /// Restores a resource.
            pub(crate) fn restore(&mut self, name: &str, resource: $resource) {
                self.$named.insert(name.into(), resource);
            }

            /// Restores a blocked name.
            pub(crate) fn restore_blocked(
                &mut self,
                name: &str,
                until: rowkey_wire::edm::DateTime,
            ) {
                self.blocked.restore(name.into(), until);
            }

            /// Starts recording changes.
            pub(crate) fn watch(&mut self) {
                self.touched.watch();
                for resource in self.$named.values_mut() {
                    resource.touched.watch();
                }
            }

            /// Records everything as changed.
            pub(crate) fn touch_all(&mut self) {
                self.touched.note(|| Touch::Properties);
                for name in self.blocked.iter() {
                    self.touched.note(|| $touch(name.clone()));
                }
                for (name, resource) in &mut self.$named {
                    self.touched.note(|| $touch(name.clone()));
                    resource.touch_all();
                }
            }
        }
    };
}
#[cfg(feature = "durable")]
pub(crate) use named_on_disk;
