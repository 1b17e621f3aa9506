//! The counters: a fixed number of partitions, by the Space-Saving algorithm.
//!
//! A new partition replaces the one with the least, and inherits its count. So every partition with more than one
//! entity in `most` is among them, and a count is too large by at most what it inherited (Metwally, Agrawal, El Abbadi:
//! "Efficient computation of frequent and top-k elements in data streams").

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use rowkey_wire::key::compare;

use super::{HotPartition, HotPartitions, Order};

/// The minimum number of steps from one RowKey to the next for judging their order.
const STEPS: u64 = 50;

/// What one request did in a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch<'a> {
    pub(crate) table: &'a str,
    pub(crate) partition_key: &'a str,
    /// The RowKey that was written, the last one of a transaction.
    pub(crate) written: Option<&'a str>,
    pub(crate) entities: u64,
    pub(crate) is_throttled: bool,
    /// The second of the account's clock.
    pub(crate) second: i64,
}

/// All counters.
#[derive(Debug, Default)]
pub(super) struct Counts {
    entities: u64,
    hasher: RandomState,
    /// By the hash of table and PartitionKey. Two partitions of one hash of 64 bits would be counted as one.
    partitions: HashMap<u64, Count>,
}

/// The counters of one partition.
#[derive(Default)]
struct Count {
    table: Box<str>,
    partition_key: Box<str>,
    entities: u64,
    inherited: u64,
    throttled: u64,
    /// The second of the last request, its entities so far, and the most of any second.
    second: i64,
    in_second: u64,
    busiest_second: u64,
    last_row: String,
    up: u64,
    down: u64,
}

impl Counts {
    /// Counts a request; at most `most` partitions are kept.
    pub(super) fn add(&mut self, touch: &Touch<'_>, most: usize) {
        self.entities += touch.entities;
        let hash = self.hash(touch);
        if !self.partitions.contains_key(&hash) {
            let inherited = self.make_room(most);
            let count = Count {
                table: touch.table.into(),
                partition_key: touch.partition_key.into(),
                entities: inherited,
                inherited,
                second: touch.second,
                ..Count::default()
            };
            self.partitions.insert(hash, count);
        }
        if let Some(count) = self.partitions.get_mut(&hash) {
            count.add(touch);
        }
    }

    /// The service ignores the case of the names of tables, and not that of keys.
    fn hash(&self, touch: &Touch<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for byte in touch.table.bytes() {
            hasher.write_u8(byte.to_ascii_lowercase());
        }
        // No name has this byte, so the name and the key cannot be divided in another way.
        hasher.write_u8(0xFF);
        touch.partition_key.hash(&mut hasher);
        hasher.finish()
    }

    /// Makes room for another partition; returns the initial value of its count.
    fn make_room(&mut self, most: usize) -> u64 {
        if self.partitions.len() < most {
            return 0;
        }
        let least = self.partitions.iter().min_by_key(|(_, count)| count.entities);
        let Some((hash, entities)) = least.map(|(hash, count)| (*hash, count.entities)) else {
            return 0;
        };
        self.partitions.remove(&hash);
        entities
    }

    pub(super) fn report(&self) -> HotPartitions {
        let mut partitions: Vec<_> =
            self.partitions.values().map(|count| count.report(self.entities)).collect();
        partitions.sort_by(|a, b| {
            let key = |one: &HotPartition| (Reverse(one.entities), one.inherited);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.table.cmp(&b.table))
                .then_with(|| compare(&a.partition_key, &b.partition_key))
        });
        HotPartitions { entities: self.entities, partitions }
    }
}

impl Count {
    fn add(&mut self, touch: &Touch<'_>) {
        self.entities += touch.entities;
        self.throttled += u64::from(touch.is_throttled);
        self.in_second = if touch.second == self.second { self.in_second } else { 0 };
        self.in_second += touch.entities;
        self.second = touch.second;
        self.busiest_second = self.busiest_second.max(self.in_second);
        let Some(row) = touch.written else { return };
        if !self.last_row.is_empty() {
            match compare(row, &self.last_row) {
                Ordering::Greater => self.up += 1,
                Ordering::Less => self.down += 1,
                Ordering::Equal => {}
            }
        }
        self.last_row.clear();
        self.last_row.push_str(row);
    }

    fn order(&self) -> Order {
        let steps = self.up + self.down;
        let nearly_all = |one_way: u64| one_way * 100 >= steps * 95;
        match steps {
            0..STEPS => Order::Unclear,
            _ if nearly_all(self.up) => Order::Ascending,
            _ if nearly_all(self.down) => Order::Descending,
            _ => Order::Mixed,
        }
    }

    fn report(&self, all: u64) -> HotPartition {
        HotPartition {
            table: self.table.to_string(),
            partition_key: self.partition_key.to_string(),
            entities: self.entities,
            inherited: self.inherited,
            share: share(self.entities, all),
            throttled: self.throttled,
            busiest_second: self.busiest_second,
            order: self.order(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is for reading")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

// Omits the keys.
impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Count").field("entities", &self.entities).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch<'a>(partition_key: &'a str, written: &'a str, second: i64) -> Touch<'a> {
        let table = "events";
        let written = Some(written);
        Touch { table, partition_key, written, entities: 1, is_throttled: false, second }
    }

    #[test]
    fn an_append_only_partition_is_detected() {
        let mut counts = Counts::default();
        for n in 0..3000_u32 {
            let second = i64::from(n > 1200);
            counts.add(&touch("20260101", &format!("{n:06}"), second), 128);
            // Other partitions get a row now and then, in no order.
            if n % 10 == 0 {
                let (user, row) = (format!("user{}", n % 70), format!("{}", n * 7919 % 1000));
                counts.add(&touch(&user, &row, second), 128);
            }
        }
        let report = counts.report();
        let first = &report.partitions[0];
        assert_eq!((&*first.partition_key, first.entities, first.inherited), ("20260101", 3000, 0));
        assert_eq!((first.busiest_second, first.order), (1799, Order::Ascending));
        assert!(first.is_hot() && first.is_append_only() && first.share > 0.9);
        assert_eq!(report.concerns().count(), 1);
        assert_eq!(
            report.to_string(),
            "3300 entities; partitions counted: 8\n\
             table events, partition \"20260101\": 3000 entities (91 %), hot: 1799 in a second, and a \
             partition takes about 2000, append-only: RowKeys only go up"
        );
    }

    #[test]
    fn order_requires_nearly_all_steps_in_one_direction() {
        let order = |rows: &mut dyn Iterator<Item = u32>| {
            let mut counts = Counts::default();
            rows.for_each(|row| counts.add(&touch("p", &format!("{row:06}"), 0), 8));
            counts.report().partitions[0].order
        };
        assert_eq!(order(&mut (0..50)), Order::Unclear, "49 steps");
        assert_eq!(order(&mut (0..51)), Order::Ascending);
        assert_eq!(order(&mut (0..51).rev()), Order::Descending);
        assert_eq!(order(&mut (0..200).map(|n| n * 7919 % 1009)), Order::Mixed);
        // Concurrent writers overtake one another now and then.
        assert_eq!(
            order(&mut (0..400).map(|n| if n % 50 == 1 { n - 1 } else { n + 1 })),
            Order::Ascending
        );
        // The same row repeated is not a step.
        assert_eq!(order(&mut (0..400).map(|_| 7)), Order::Unclear);
    }

    #[test]
    fn memory_is_bounded_and_frequent_partitions_are_kept() {
        let mut counts = Counts::default();
        for n in 0..20_000_u32 {
            // A fifth goes to one partition; all others are touched once.
            let partition = if n % 5 == 0 { "hot".to_owned() } else { format!("once{n}") };
            counts.add(&touch(&partition, &format!("{}", n * 7919 % 1000), 0), 10);
        }
        let report = counts.report();
        assert_eq!((report.entities, report.partitions.len()), (20_000, 10));
        let hot = report.partitions.iter().find(|one| one.partition_key == "hot").unwrap();
        // The true count of 4,000 is between the lower and the upper bound.
        assert!(hot.entities >= 4000 && hot.entities - hot.inherited <= 4000, "{hot:?}");
        assert!(report.partitions.iter().all(|one| one.inherited <= 2000));
    }

    #[test]
    fn tables_that_differ_in_case_are_one_and_keys_are_not() {
        let mut counts = Counts::default();
        counts.add(&touch("a", "1", 0), 8);
        counts.add(&Touch { table: "EVENTS", ..touch("a", "2", 0) }, 8);
        counts.add(&touch("A", "1", 0), 8);
        counts.add(&Touch { table: "event", ..touch("sa", "1", 0) }, 8);
        let report = counts.report();
        let all: Vec<_> = (report.partitions.iter())
            .map(|one| (&*one.table, &*one.partition_key, one.entities))
            .collect();
        assert_eq!(all, [("events", "a", 2), ("event", "sa", 1), ("events", "A", 1)]);
    }

    #[test]
    fn refused_requests_make_a_partition_hot_and_debug_output_has_no_keys() {
        let mut counts = Counts::default();
        counts.add(&touch("secret", "row", 0), 8);
        assert!(counts.report().to_string().ends_with("; none of them is hot or only appended to"));
        counts.add(&Touch { is_throttled: true, entities: 100, ..touch("secret", "row", 0) }, 8);
        let report = counts.report();
        assert_eq!((report.partitions[0].throttled, report.partitions[0].entities), (1, 101));
        assert!(report.concerns().next().is_some());
        assert!(!format!("{counts:?}").contains("secret"));
    }
}
