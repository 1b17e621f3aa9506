//! The rows of one partition in the order of their keys.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;

use compact_str::CompactString;
use rowkey_wire::key;

use super::row::Row;

/// A PartitionKey or a RowKey, ordered as the service orders them: by UTF-16 unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key(CompactString);

impl Key {
    /// The key's text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(CompactString::new(text))
    }
}

impl From<&Cow<'_, str>> for Key {
    fn from(text: &Cow<'_, str>) -> Self {
        Self(CompactString::new(text))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.as_str(), other.as_str());
        // Nothing but characters beyond ASCII makes a difference, and nearly no key has one.
        if a.is_ascii() { a.cmp(b) } else { key::compare(a, b) }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Rows up to which a partition is a list. A million partitions of one row each stay small so.
const SMALL: usize = 8;

/// The rows of a partition.
#[derive(Clone, Debug)]
pub(crate) enum Partition {
    /// Many rows.
    Large(BTreeMap<Key, Row>),
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
            Self::Large(rows) => rows.get(key),
            Self::Small(rows) => find(rows, key).ok().map(|at| &rows[at].1),
        }
    }

    /// Puts a row in the place of the one with this key, if there is one; says whether there was.
    pub(crate) fn put(&mut self, key: Key, row: Row) -> bool {
        match self {
            Self::Large(rows) => rows.insert(key, row).is_some(),
            Self::Small(rows) => match find(rows, &key) {
                Ok(at) => {
                    rows[at].1 = row;
                    true
                }
                Err(at) if rows.len() < SMALL => {
                    // One at a time: most of these lists never grow beyond it.
                    rows.reserve_exact(1);
                    rows.insert(at, (key, row));
                    false
                }
                Err(_) => {
                    let mut large: BTreeMap<_, _> = std::mem::take(rows).into_iter().collect();
                    large.insert(key, row);
                    *self = Self::Large(large);
                    false
                }
            },
        }
    }

    /// Removes the row with this key; says whether there was one.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        match self {
            Self::Large(rows) => rows.remove(key).is_some(),
            Self::Small(rows) => match find(rows, key) {
                Ok(at) => {
                    rows.remove(at);
                    true
                }
                Err(_) => false,
            },
        }
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Large(rows) => rows.is_empty(),
            Self::Small(rows) => rows.is_empty(),
        }
    }

    /// The rows from this key on.
    pub(crate) fn from(&self, start: Bound<&Key>) -> Rows<'_> {
        match self {
            Self::Large(rows) => Rows::Large(rows.range::<Key, _>((start, Bound::Unbounded))),
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

/// Rows of a partition, in order.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    /// Of many.
    Large(btree_map::Range<'a, Key, Row>),
    /// Of a few.
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
