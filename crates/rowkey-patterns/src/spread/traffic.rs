//! Counts the writes of this client, and finds the partitions that receive most of them.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_client::{Entity, Key, StorageAccount};

/// The default number of partitions that are counted.
const TRACKED: usize = 128;

/// The number of entities of 1 KiB that a partition accepts per second, the service's documented
/// [target](https://learn.microsoft.com/azure/storage/tables/scalability-targets).
const PARTITION_TARGET: u64 = 2000;

/// The minimum number of steps from one RowKey to the next for judging their order.
const STEPS: u64 = 50;

/// Counts the writes of this client by partition, and reports which partitions are hot and which are only
/// appended to.
///
/// Call [`wrote`](Self::wrote) for every entity that is written; the value can be shared between tasks. It
/// sends nothing, and does not see other clients: if several write, a partition is hotter than any of them
/// reports.
///
/// Memory is bounded: it counts a fixed number of partitions (128, or the number set by
/// [`tracking`](Self::tracking)). A new partition replaces the one with the fewest writes (the Space-Saving
/// algorithm). So every partition that gets more than one write in 128 is in the report, and a count is too
/// large by at most [`Load::inherited`].
///
/// ```
/// use rowkey::StorageAccount;
/// use rowkey::patterns::spread::{Order, Traffic};
///
/// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let traffic = Traffic::new(&account).tracking(16);
/// for number in 0..100 {
///     traffic.wrote_at("today", &format!("{number:06}"));
/// }
/// let report = traffic.report();
/// let concern = report.concerns().next().ok_or("one partition gets all writes")?;
/// assert_eq!((&*concern.partition_key, concern.order), ("today", Order::Ascending));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traffic {
    account: StorageAccount,
    tracked: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    writes: u64,
    partitions: HashMap<Box<str>, Count>,
}

#[derive(Default)]
struct Count {
    writes: u64,
    inherited: u64,
    /// The second of the last write, its number of writes so far, and the maximum of any second.
    second: i64,
    in_second: u64,
    busiest_second: u64,
    last_row: Vec<u16>,
    up: u64,
    down: u64,
}

/// The writes of a client so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// All writes.
    pub writes: u64,
    /// The partitions with the most writes, in descending order. Partitions with few writes may be missing.
    pub loads: Vec<Load>,
}

/// The writes of a client to one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The PartitionKey.
    pub partition_key: String,
    /// The upper bound of the number of writes.
    pub writes: u64,
    /// How many of the writes may belong to partitions that are no longer counted.
    pub inherited: u64,
    /// The fraction of all writes, 0 to 1.
    pub share: f64,
    /// The maximum number of writes in one second of the clock.
    pub busiest_second: u64,
    /// The order of successive RowKeys.
    pub order: Order,
}

/// The order of successive RowKeys in a partition, ignoring equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nearly always (95 of 100) ascending: everything is written to the end of the partition.
    Ascending,
    /// Nearly always descending: everything is written to the beginning.
    Descending,
    /// Neither nearly always ascending nor descending.
    Mixed,
    /// Fewer than 50 steps were counted.
    Unclear,
}

impl Traffic {
    /// Starts with no counts. The time is that of the account's clock.
    pub fn new(account: &StorageAccount) -> Self {
        Self { account: account.clone(), tracked: TRACKED, counts: Mutex::default() }
    }

    /// Sets how many partitions are counted, at least 1: all that get more than one in this many writes.
    #[must_use = "use the returned value"]
    pub fn tracking(mut self, partitions: usize) -> Self {
        self.tracked = partitions.max(1);
        self
    }

    /// Counts the write of an entity.
    pub fn wrote<E: Entity>(&self, entity: &E) {
        // An entity without a valid key cannot have been written.
        if let Ok((partition_key, row_key)) = Key::of(entity).parts() {
            self.wrote_at(partition_key, row_key);
        }
    }

    /// Counts a write or a delete of the entity with these keys.
    pub fn wrote_at(&self, partition_key: &str, row_key: &str) {
        let second = self.account.clock().now().timestamp();
        let mut counts = self.counts();
        counts.writes += 1;
        if !counts.partitions.contains_key(partition_key) {
            let inherited = counts.make_room(self.tracked);
            let count = Count { writes: inherited, inherited, ..Count::default() };
            counts.partitions.insert(partition_key.into(), count);
        }
        if let Some(count) = counts.partitions.get_mut(partition_key) {
            count.add(second, row_key);
        }
    }

    /// The counts so far.
    pub fn report(&self) -> Report {
        let counts = self.counts();
        let load = |partition_key: &str, count: &Count| Load {
            partition_key: partition_key.to_owned(),
            writes: count.writes,
            inherited: count.inherited,
            share: share(count.writes, counts.writes),
            busiest_second: count.busiest_second,
            order: count.order(),
        };
        let mut loads: Vec<_> =
            counts.partitions.iter().map(|(key, count)| load(key, count)).collect();
        loads.sort_by(|a, b| {
            let key = |load: &Load| (Reverse(load.writes), load.inherited);
            key(a).cmp(&key(b)).then_with(|| a.partition_key.cmp(&b.partition_key))
        });
        Report { writes: counts.writes, loads }
    }

    /// Resets the counts, for example to report the last hour instead of all time.
    pub fn clear(&self) {
        *self.counts() = Counts::default();
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // The counts are consistent at every unlock, so a panic elsewhere does not corrupt them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Makes room for another partition; returns the initial value of its count.
    fn make_room(&mut self, tracked: usize) -> u64 {
        if self.partitions.len() < tracked {
            return 0;
        }
        let least = self.partitions.iter().min_by_key(|(_, count)| count.writes);
        let Some((key, writes)) = least.map(|(key, count)| (key.clone(), count.writes)) else {
            return 0;
        };
        self.partitions.remove(&key);
        writes
    }
}

impl Count {
    fn add(&mut self, second: i64, row_key: &str) {
        let is_first = self.writes == self.inherited;
        self.writes += 1;
        self.in_second = if !is_first && second == self.second { self.in_second + 1 } else { 1 };
        self.second = second;
        self.busiest_second = self.busiest_second.max(self.in_second);
        // Keys are ordered by UTF-16 code unit.
        let row: Vec<u16> = row_key.encode_utf16().collect();
        if !is_first {
            match row.cmp(&self.last_row) {
                Ordering::Greater => self.up += 1,
                Ordering::Less => self.down += 1,
                Ordering::Equal => {}
            }
        }
        self.last_row = row;
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
}

#[expect(clippy::cast_precision_loss, reason = "a share is for reading")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

impl Load {
    /// Returns whether the busiest second reached at least half of a partition's limit of 2,000 entities.
    pub fn is_hot(&self) -> bool {
        self.busiest_second >= PARTITION_TARGET / 2
    }

    /// Returns whether all writes go to one end of the partition.
    pub fn is_append_only(&self) -> bool {
        matches!(self.order, Order::Ascending | Order::Descending)
    }
}

impl Report {
    /// The partitions that need attention: hot ones, and append-only ones with at least a tenth of all
    /// writes.
    pub fn concerns(&self) -> impl Iterator<Item = &Load> {
        self.loads.iter().filter(|load| load.is_hot() || load.is_append_only() && load.share >= 0.1)
    }
}

impl fmt::Display for Report {
    /// A line for each of the [`concerns`](Self::concerns), with its PartitionKey: protect the text like the
    /// data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} writes; partitions counted: {}", self.writes, self.loads.len())?;
        let mut is_fine = true;
        for load in self.concerns() {
            is_fine = false;
            write!(f, "\n{load}")?;
        }
        if is_fine {
            f.write_str("; none of them is hot or only appended to")?;
        }
        Ok(())
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition_key, writes, busiest_second, .. } = self;
        let percent = self.share * 100.0;
        write!(f, "partition {partition_key:?}: {writes} writes ({percent:.0} %)")?;
        if self.is_hot() {
            write!(
                f,
                ", hot: {busiest_second} in a second, and a partition takes about {PARTITION_TARGET}"
            )?;
        }
        match self.order {
            Order::Ascending => f.write_str(", append-only: RowKeys only go up"),
            Order::Descending => f.write_str(", append-only: RowKeys only go down"),
            Order::Mixed | Order::Unclear => Ok(()),
        }
    }
}

// Omits the keys.
impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("writes", &self.writes)
            .field("partitions", &self.partitions.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rowkey_client::ManualClock;

    use super::*;

    fn traffic() -> (ManualClock, Traffic) {
        let clock = ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let account = StorageAccount::builder()
            .connection_string("UseDevelopmentStorage=true")
            .unwrap()
            .clock(clock.clone())
            .build()
            .unwrap();
        (clock, Traffic::new(&account))
    }

    #[test]
    fn an_append_only_partition_is_detected() {
        let (clock, traffic) = traffic();
        for n in 0..3000_u32 {
            traffic.wrote_at("20260101", &format!("{n:06}"));
            // Other partitions get a row now and then, in no order.
            if n % 10 == 0 {
                traffic.wrote_at(&format!("user{}", n % 70), &format!("{}", n * 7919 % 1000));
            }
            if n == 1200 {
                clock.advance(Duration::from_secs(1));
            }
        }
        let report = traffic.report();
        let first = &report.loads[0];
        assert_eq!((&*first.partition_key, first.writes, first.inherited), ("20260101", 3000, 0));
        assert_eq!((first.busiest_second, first.order), (1799, Order::Ascending));
        assert!(first.is_hot() && first.is_append_only() && first.share > 0.9);
        assert_eq!(report.concerns().count(), 1);
        assert_eq!(
            report.to_string(),
            "3300 writes; partitions counted: 8\n\
             partition \"20260101\": 3000 writes (91 %), hot: 1799 in a second, and a partition takes \
             about 2000, append-only: RowKeys only go up"
        );
        traffic.clear();
        assert_eq!(traffic.report(), Report { writes: 0, loads: vec![] });
    }

    #[test]
    fn order_requires_nearly_all_steps_in_one_direction() {
        let order = |rows: &mut dyn Iterator<Item = u32>| {
            let (_, traffic) = traffic();
            rows.for_each(|row| traffic.wrote_at("p", &format!("{row:06}")));
            traffic.report().loads[0].order
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
        let (_, traffic) = traffic();
        let traffic = traffic.tracking(10);
        for n in 0..20_000_u32 {
            // A fifth of the writes goes to one partition; all others are written once.
            let partition = if n % 5 == 0 { "hot".to_owned() } else { format!("once{n}") };
            traffic.wrote_at(&partition, &format!("{}", n * 7919 % 1000));
        }
        let report = traffic.report();
        assert_eq!((report.writes, report.loads.len()), (20_000, 10));
        let hot = report.loads.iter().find(|load| load.partition_key == "hot").unwrap();
        // The true count of 4,000 is between the lower and the upper bound.
        assert!(hot.writes >= 4000 && hot.writes - hot.inherited <= 4000, "{hot:?}");
        assert!(report.loads.iter().all(|load| load.inherited <= 2000));
    }

    #[test]
    fn debug_output_contains_no_keys() {
        let (_, traffic) = traffic();
        traffic.wrote_at("secret", "row");
        assert!(!format!("{traffic:?}").contains("secret"));
        assert!(
            traffic.report().to_string().ends_with("; none of them is hot or only appended to")
        );
    }
}
