//! Sets of keys: which entities conditions on PartitionKey and RowKey select, and the ranges of keys to request for them.
//!
//! - `interval`: keys from one bound to another · `span`: what one query requests

mod interval;
mod span;

use std::collections::BTreeMap;

pub(crate) use interval::{Interval, has_one_order};
pub(crate) use span::Span;

/// The most boxes of a set, and spans of a scan. A condition that would have more is read as one range.
const MOST: usize = 1_000;

/// Partitions, and rows of them: an interval of each key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Box2 {
    partition: Interval,
    row: Interval,
}

impl Box2 {
    fn is_empty(&self) -> bool {
        [&self.partition, &self.row].into_iter().any(|keys| keys.is_empty() || keys.is_impossible())
    }

    fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.partition.contains(partition_key) && self.row.contains(row_key)
    }

    fn and(&self, other: &Self) -> Self {
        Self { partition: self.partition.and(&other.partition), row: self.row.and(&other.row) }
    }

    fn hull(&self, other: &Self) -> Self {
        Self { partition: self.partition.hull(&other.partition), row: self.row.hull(&other.row) }
    }

    fn of(span: &Span) -> Self {
        Self { partition: span.partition.clone(), row: span.row.clone() }
    }

    fn in_both_orders(&self) -> Self {
        Self { partition: self.partition.in_both_orders(), row: self.row.in_both_orders() }
    }
}

/// The keys that a condition selects: a union of boxes, which may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySet {
    boxes: Vec<Box2>,
}

impl KeySet {
    pub(crate) fn all() -> Self {
        Self { boxes: vec![Box2 { partition: Interval::ALL, row: Interval::ALL }] }
    }

    pub(crate) const fn none() -> Self {
        Self { boxes: Vec::new() }
    }

    /// Entities with such a PartitionKey.
    pub(crate) fn of_partitions(partitions: impl IntoIterator<Item = Interval>) -> Self {
        Self::of(partitions.into_iter().map(|partition| Box2 { partition, row: Interval::ALL }))
    }

    /// Entities with such a RowKey.
    pub(crate) fn of_rows(rows: impl IntoIterator<Item = Interval>) -> Self {
        Self::of(rows.into_iter().map(|row| Box2 { partition: Interval::ALL, row }))
    }

    /// The keys of a span.
    pub(crate) fn of_span(span: &Span) -> Self {
        Self::of([Box2::of(span)])
    }

    fn of(boxes: impl IntoIterator<Item = Box2>) -> Self {
        Self { boxes: boxes.into_iter().filter(|one| !one.is_empty()).collect() }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.boxes.iter().any(|one| one.partition.is_all() && one.row.is_all())
    }

    pub(crate) fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.boxes.iter().any(|one| one.contains(partition_key, row_key))
    }

    /// The keys of both; `None` if they are too many boxes.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        if self.is_all() {
            return Some(other.clone());
        }
        if other.is_all() {
            return Some(self.clone());
        }
        if self.boxes.len().saturating_mul(other.boxes.len()) > MOST * 100 {
            return None;
        }
        let pairs = self.boxes.iter().flat_map(|one| other.boxes.iter().map(|two| one.and(two)));
        let both = Self::of(pairs);
        (both.boxes.len() <= MOST).then_some(both)
    }

    /// The keys of either; `None` if they are too many boxes.
    pub(crate) fn or(mut self, other: Self) -> Option<Self> {
        self.boxes.extend(other.boxes);
        (self.boxes.len() <= MOST * 10).then_some(self)
    }

    /// The ranges to request, which do not overlap, in the order of the keys. Whether they are exactly these keys: if not, they
    /// have others besides.
    pub(crate) fn spans(&self) -> (Vec<Span>, bool) {
        let mut boxes = self.boxes.clone();
        let mut exact = true;
        loop {
            let wide: Vec<_> = boxes.iter().map(Box2::in_both_orders).collect();
            exact &= wide == boxes;
            let (spans, is_exact) = disjoint(wide);
            exact &= is_exact;
            boxes = spans.iter().map(Box2::of).collect();
            // What was joined may have bounds of two orders again, and be wider with others.
            if boxes.iter().all(|one| one.in_both_orders() == *one) {
                return (spans, exact);
            }
        }
    }

    /// The boxes as pairs of intervals, to write them down.
    #[cfg(feature = "cluster")]
    pub(crate) fn boxes(&self) -> impl Iterator<Item = (&Interval, &Interval)> {
        self.boxes.iter().map(|one| (&one.partition, &one.row))
    }

    /// The union of pairs of intervals.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_boxes(boxes: impl IntoIterator<Item = (Interval, Interval)>) -> Self {
        Self::of(boxes.into_iter().map(|(partition, row)| Box2 { partition, row }))
    }
}

/// Spans of all keys of these boxes that do not overlap, and whether they have no others.
fn disjoint(mut boxes: Vec<Box2>) -> (Vec<Span>, bool) {
    let mut exact = true;
    boxes.sort_by(|one, two| Interval::from_order(&one.partition.from, &two.partition.from));
    // Groups of boxes whose partitions overlap.
    let mut groups: Vec<(Interval, Vec<Box2>)> = Vec::new();
    for one in boxes {
        match groups.last_mut() {
            Some((partitions, group)) if !partitions.and(&one.partition).is_empty() => {
                *partitions = partitions.hull(&one.partition);
                group.push(one);
            }
            _ => groups.push((one.partition.clone(), vec![one])),
        }
    }
    let mut spans = Vec::new();
    for (partitions, group) in groups {
        let alike = group.iter().all(|one| one.partition == partitions);
        let hull = |group: &[Box2]| {
            let whole = group.iter().skip(1).fold(group[0].clone(), |all, one| all.hull(one));
            Span { partition: whole.partition, row: whole.row }
        };
        if group.len() == 1 {
            spans.push(hull(&group));
        } else if alike {
            let rows = joined(group.iter().map(|one| one.row.clone()).collect());
            if partitions.point().is_some() && rows.len() <= MOST {
                spans.extend(
                    rows.into_iter().map(|row| Span { partition: partitions.clone(), row }),
                );
            } else {
                // Each range of rows would be another scan of the same partitions.
                exact &= rows.len() == 1;
                spans.push(hull(&group));
            }
        } else {
            exact = false;
            spans.push(hull(&group));
        }
    }
    if spans.len() > MOST {
        let all = spans
            .iter()
            .map(|span| Box2 { partition: span.partition.clone(), row: span.row.clone() });
        let whole = all.reduce(|all, one| all.hull(&one));
        let whole = whole.map(|one| Span { partition: one.partition, row: one.row });
        return (whole.into_iter().collect(), false);
    }
    (spans, exact)
}

/// Intervals in order, those that overlap as one.
fn joined(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_by(|one, two| Interval::from_order(&one.from, &two.from));
    let mut joined: Vec<Interval> = Vec::new();
    for one in intervals {
        match joined.last_mut() {
            Some(last) if !last.and(&one).is_empty() => *last = last.hull(&one),
            _ => joined.push(one),
        }
    }
    joined
}

/// Conditions on keys that all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    sets: Vec<KeySet>,
}

impl Keys {
    pub(crate) fn of(sets: impl IntoIterator<Item = KeySet>) -> Self {
        Self { sets: sets.into_iter().filter(|set| !set.is_all()).collect() }
    }

    pub(crate) fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        self.sets.iter().all(|set| set.contains(partition_key, row_key))
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn sets(&self) -> &[KeySet] {
        &self.sets
    }

    /// The ranges to request, and what rows must be checked for, because the ranges have others besides.
    pub(crate) fn spans(&self, further: impl IntoIterator<Item = KeySet>) -> (Vec<Span>, Self) {
        let (mut whole, mut is_exact) = (KeySet::all(), true);
        // Those with the fewest boxes first, which narrow the others.
        let mut sets: BTreeMap<usize, Vec<&KeySet>> = BTreeMap::new();
        for set in &self.sets {
            sets.entry(set.boxes.len()).or_default().push(set);
        }
        for set in sets.into_values().flatten() {
            match whole.and(set) {
                Some(both) => whole = both,
                None => is_exact = false,
            }
        }
        for set in further {
            if let Some(both) = whole.and(&set) {
                whole = both;
            }
        }
        let (spans, exact) = whole.spans();
        let check = if exact && is_exact { Self::default() } else { self.clone() };
        (spans, check)
    }
}
