//! The rows of one partition in the order of their keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;

use rowkey_wire::key;
use smol_str::SmolStr;

use super::row::Row;

/// A PartitionKey or a RowKey, ordered as in the service: by UTF-16 code unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key(SmolStr);

impl Key {
    /// The key's text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.as_str(), other.as_str());
        // The orders differ only for non-ASCII characters, which are rare in keys.
        if a.is_ascii() { a.cmp(b) } else { key::compare(a, b) }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The most rows of a partition stored as a list. This keeps a million partitions of one row small.
const SMALL: usize = 8;

/// The rows of a partition.
#[derive(Clone, Debug)]
pub(crate) enum Partition {
    /// Many rows, and the table's version at their last change.
    Large { rows: BTreeMap<Key, Row>, changed: u64 },
    /// A few rows, sorted.
    Small(Vec<(Key, Row)>),
}

impl Default for Partition {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Partition {
    /// The row with this key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Row> {
        match self {
            Self::Large { rows, .. } => rows.get(key),
            Self::Small(rows) => find(rows, key).ok().map(|at| &rows[at].1),
        }
    }

    /// Calls `decide` with the row that has this key, if any, and stores the row it returns; `None`
    /// removes the row. Returns the previous row. `version` is the new version of the table.
    pub(crate) fn change<E>(
        &mut self,
        key: Key,
        version: u64,
        decide: impl FnOnce(Option<&Row>) -> Result<Option<Row>, E>,
    ) -> Result<Option<Row>, E> {
        match self {
            Self::Large { rows, changed } => {
                let before = match rows.entry(key) {
                    btree_map::Entry::Occupied(mut place) => match decide(Some(place.get()))? {
                        Some(row) => Some(place.insert(row)),
                        None => Some(place.remove()),
                    },
                    btree_map::Entry::Vacant(place) => {
                        decide(None)?.map(|row| place.insert(row));
                        None
                    }
                };
                *changed = version;
                Ok(before)
            }
            Self::Small(rows) => match find(rows, &key) {
                Ok(at) => match decide(Some(&rows[at].1))? {
                    Some(row) => Ok(Some(std::mem::replace(&mut rows[at].1, row))),
                    None => Ok(Some(rows.remove(at).1)),
                },
                Err(at) => {
                    if let Some(row) = decide(None)? {
                        self.insert(at, key, row, version);
                    }
                    Ok(None)
                }
            },
        }
    }

    /// Inserts a row into a list, which may become a map.
    fn insert(&mut self, at: usize, key: Key, row: Row, version: u64) {
        let Self::Small(rows) = self else { return };
        if rows.len() < SMALL {
            // Grow by one: most of these lists stay at one row.
            rows.reserve_exact(1);
            rows.insert(at, (key, row));
        } else {
            let mut rows: BTreeMap<_, _> = std::mem::take(rows).into_iter().collect();
            rows.insert(key, row);
            *self = Self::Large { rows, changed: version };
        }
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Large { rows, .. } => rows.is_empty(),
            Self::Small(rows) => rows.is_empty(),
        }
    }

    /// Whether a reader may pause between its rows. Other partitions have only a few.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Large { .. })
    }

    /// Whether the rows may have changed since a reader paused at this version of the table.
    pub(crate) fn has_changed_since(&self, version: u64) -> bool {
        match self {
            Self::Large { changed, .. } => *changed > version,
            // A large partition never becomes small again, so this is a new one.
            Self::Small(_) => true,
        }
    }

    /// The rows from this key on.
    pub(crate) fn from(&self, start: Bound<&Key>) -> Rows<'_> {
        match self {
            Self::Large { rows, .. } => {
                Rows::Large(rows.range::<Key, _>((start, Bound::Unbounded)))
            }
            Self::Small(rows) => {
                let skipped = rows.partition_point(|(key, _)| match start {
                    Bound::Excluded(start) => key <= start,
                    Bound::Included(start) => key < start,
                    Bound::Unbounded => false,
                });
                Rows::Small(rows[skipped..].iter())
            }
        }
    }
}

fn find(rows: &[(Key, Row)], key: &Key) -> Result<usize, usize> {
    rows.binary_search_by(|(known, _)| known.cmp(key))
}

/// The rows of a partition, in order.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// The rows of a large partition.
    Large(btree_map::Range<'a, Key, Row>),
    /// The rows of a small partition.
    Small(slice::Iter<'a, (Key, Row)>),
}

impl<'a> Iterator for Rows<'a> {
    type Item = (&'a Key, &'a Row);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Large(rows) => rows.next(),
            Self::Small(rows) => rows.next().map(|(key, row)| (key, row)),
        }
    }
}
