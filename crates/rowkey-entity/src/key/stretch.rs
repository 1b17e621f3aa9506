//! Stretches: contiguous ranges of RowKeys, and sets of them.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use rowkey_wire::key as wire;

use super::between::Between;
use super::successor::successor;

/// The bounds of a contiguous range of RowKeys.
pub type Stretch = (Bound<String>, Bound<String>);

/// The RowKeys of a query: those in any of the stretches that pass all the checks.
#[derive(Clone, PartialEq, Eq)]
pub struct RowKeys {
    /// In key order; they neither overlap nor touch.
    stretches: Vec<Stretch>,
    checks: Vec<Arc<Between>>,
}

impl RowKeys {
    /// Makes a set of these stretches, which are in key order; those that touch are joined.
    pub fn new(found: Vec<Stretch>, check: Option<Between>) -> Self {
        let mut stretches: Vec<Stretch> = Vec::with_capacity(found.len());
        for stretch in found {
            match stretches.last_mut() {
                _ if is_empty(&stretch) => {}
                Some(last) if touch(&last.1, &stretch.0) => last.1 = stretch.1,
                _ => stretches.push(stretch),
            }
        }
        Self { stretches, checks: check.map(Arc::new).into_iter().collect() }
    }

    /// The rows within these bounds.
    #[doc(hidden)]
    pub fn within(from: Bound<String>, to: Bound<String>) -> Self {
        Self::new(vec![(from, to)], None)
    }

    /// All rows that begin with `head`.
    pub fn beginning_with(head: &str) -> Self {
        let (from, to) = prefix(head);
        Self::within(from, to)
    }

    /// One row.
    #[doc(hidden)]
    pub fn one(row_key: &str) -> Self {
        let row_key = row_key.to_owned();
        Self::within(Bound::Included(row_key.clone()), Bound::Included(row_key))
    }

    /// Keeps only the rows that are also in `other`.
    pub fn narrow(&mut self, other: &Self) {
        let pairs =
            self.stretches.iter().flat_map(|one| other.stretches.iter().map(move |two| (one, two)));
        let both = pairs.map(|(one, two)| {
            let from = if is_tighter(&two.0, &one.0, Ordering::Greater) { &two.0 } else { &one.0 };
            let to = if is_tighter(&two.1, &one.1, Ordering::Less) { &two.1 } else { &one.1 };
            (from.clone(), to.clone())
        });
        self.stretches = both.filter(|both| !is_empty(both)).collect();
        self.checks.extend(other.checks.iter().cloned());
    }

    /// The stretches to read, in key order.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The checks that decide for each row that is read whether it matches.
    pub fn checks(&self) -> &[Arc<Between>] {
        &self.checks
    }

    /// The single stretch that contains exactly these rows, if there is one.
    pub fn exactly(&self) -> Option<&Stretch> {
        match &*self.stretches {
            [one] if self.checks.is_empty() => Some(one),
            _ => None,
        }
    }
}

impl fmt::Debug for RowKeys {
    /// Does not show the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stretches, checks) = (self.stretches.len(), self.checks.len());
        f.debug_struct("RowKeys").field("stretches", &stretches).field("checks", &checks).finish()
    }
}

/// The bounds of all rows that begin with `head`.
pub(crate) fn prefix(head: &str) -> Stretch {
    (start_of(head), end_of(head))
}

/// The start of the rows that begin with `head`.
pub(crate) fn start_of(head: &str) -> Bound<String> {
    if head.is_empty() { Bound::Unbounded } else { Bound::Included(head.to_owned()) }
}

/// The end of the rows that begin with `head`.
pub(crate) fn end_of(head: &str) -> Bound<String> {
    successor(head).map_or(Bound::Unbounded, Bound::Excluded)
}

/// Whether the stretch contains no key.
fn is_empty((from, to): &Stretch) -> bool {
    let (Bound::Included(first) | Bound::Excluded(first)) = from else {
        return matches!(to, Bound::Excluded(last) if last.is_empty());
    };
    let (Bound::Included(last) | Bound::Excluded(last)) = to else { return false };
    match wire::compare(first, last) {
        Ordering::Less => false,
        Ordering::Equal => !matches!((from, to), (Bound::Included(_), Bound::Included(_))),
        Ordering::Greater => true,
    }
}

/// Whether there is no key between the end `to` and the start `from`.
fn touch(to: &Bound<String>, from: &Bound<String>) -> bool {
    match (to, from) {
        (Bound::Included(to), Bound::Excluded(from) | Bound::Included(from))
        | (Bound::Excluded(to), Bound::Included(from)) => to == from,
        _ => false,
    }
}

/// Whether `bound` is stricter than `other`, which it is if its key compares as `order` with the
/// other's.
fn is_tighter(bound: &Bound<String>, other: &Bound<String>, order: Ordering) -> bool {
    let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return false };
    let (Bound::Included(than) | Bound::Excluded(than)) = other else { return true };
    match wire::compare(key, than) {
        Ordering::Equal => matches!(bound, Bound::Excluded(_)),
        found => found == order,
    }
}
