//! A cache of keys, so that each is unwrapped once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// The maximum number of cached keys: 1,024, which is about 500 KiB with RSA of 2,048 bits.
const MAX_KEPT: usize = 1024;

/// Keys by name. The oldest are evicted first.
pub(crate) struct Cache<K>(Mutex<Entries<K>>);

struct Entries<K> {
    cells: HashMap<Vec<u8>, Arc<OnceCell<K>>>,
    order: VecDeque<Vec<u8>>,
}

impl<K> Cache<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Entries { cells: HashMap::new(), order: VecDeque::new() }))
    }

    /// The cell of a name, empty if the name is new. Concurrent callers with one name share a cell, so two
    /// readers of one key send one request to the vault.
    pub(crate) fn cell(&self, name: Vec<u8>) -> Arc<OnceCell<K>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = entries.cells.get(&name) {
            return Arc::clone(cell);
        }
        if entries.order.len() >= MAX_KEPT
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.cells.remove(&oldest);
        }
        let cell = Arc::new(OnceCell::new());
        entries.order.push_back(name.clone());
        entries.cells.insert(name, Arc::clone(&cell));
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_the_1024_newest_keys() {
        let cache = Cache::<u32>::new();
        let name = |number: u32| number.to_be_bytes().to_vec();
        for number in 0..2000 {
            cache.cell(name(number)).set(number).unwrap();
        }
        assert_eq!(cache.cell(name(1999)).get(), Some(&1999));
        assert_eq!(cache.cell(name(976)).get(), Some(&976));
        assert_eq!(cache.cell(name(975)).get(), None);
        let entries = cache.0.lock().unwrap();
        assert_eq!((entries.cells.len(), entries.order.len()), (MAX_KEPT, MAX_KEPT));
    }
}
