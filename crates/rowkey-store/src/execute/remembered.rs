//! What a program remembers of rows elsewhere that it wrote or read: their `ETag`s, so that it need not read the rows
//! to replace or delete them.
//!
//! An `ETag` that is remembered is a guess. The write that uses it is conditional, and if another program changed the row,
//! the write is refused and the row is read after all.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_client::ETag;

use crate::row::Keys;

/// How many rows of each kind a program remembers.
const MAX_REMEMBERED: usize = 1000;

/// The rows of one kind that this program wrote or read last.
pub(crate) struct Remembered<K>(Mutex<Rows<K>>);

struct Rows<K> {
    by_place: HashMap<K, Row>,
    /// In the order in which they were first remembered.
    oldest: VecDeque<K>,
}

/// A row as this program wrote or read it.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) etag: ETag,
    /// The keys of the entity that it belongs to.
    pub(crate) owner: Keys,
    /// What identifies the operation that wrote it.
    pub(crate) op: Option<String>,
}

impl<K> Default for Remembered<K> {
    fn default() -> Self {
        Self(Mutex::new(Rows { by_place: HashMap::new(), oldest: VecDeque::new() }))
    }
}

impl<K: Clone + Eq + Hash> Remembered<K> {
    /// Returns the row at a place if it belongs to this entity.
    pub(crate) fn find(&self, place: &K, owner: &Keys) -> Option<Row> {
        self.rows().by_place.get(place).filter(|row| row.owner == *owner).cloned()
    }

    /// Remembers a row. If there are too many, forgets the oldest.
    pub(crate) fn put(&self, place: K, row: Row) {
        let mut rows = self.rows();
        if rows.by_place.insert(place.clone(), row).is_none() {
            rows.oldest.push_back(place);
        }
        // Deleted rows are in the order, too.
        while rows.oldest.len() > MAX_REMEMBERED {
            let Some(oldest) = rows.oldest.pop_front() else { break };
            rows.by_place.remove(&oldest);
        }
    }

    /// Forgets the row at a place, which was deleted, or whose state is unknown.
    pub(crate) fn forget(&self, place: &K) {
        self.rows().by_place.remove(place);
    }

    fn rows(&self) -> MutexGuard<'_, Rows<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> Row {
        let owner = ("p".to_owned(), "r".to_owned());
        Row { etag: ETag::new(format!("W/\"{number}\"")), owner, op: None }
    }

    #[test]
    fn the_last_rows_of_an_entity_are_remembered() {
        let rows = Remembered::default();
        let (owner, other) = (("p".to_owned(), "r".to_owned()), ("p".to_owned(), "s".to_owned()));
        for number in 0..MAX_REMEMBERED + 5 {
            rows.put(number, row(number));
        }
        assert!(rows.find(&4, &owner).is_none() && rows.find(&5, &owner).is_some());
        assert!(rows.find(&5, &other).is_none(), "the row belongs to another entity");
        // Rows that are written and forgotten take no more memory.
        for number in 0..MAX_REMEMBERED * 3 {
            rows.put(number % 7, row(number));
            rows.forget(&(number % 7));
        }
        let kept = rows.rows();
        assert!(kept.oldest.len() <= MAX_REMEMBERED && kept.by_place.len() <= MAX_REMEMBERED);
    }
}
