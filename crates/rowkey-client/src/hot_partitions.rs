//! Hot partitions: which partitions get most of an account's requests, how fast, and in which order.
//!
//! Off unless [`StorageAccountBuilder::hot_partitions`](crate::StorageAccountBuilder::hot_partitions) switches it on. Then
//! each request to a table is counted by its table and PartitionKey, in bounded memory, and
//! [`StorageAccount::hot_partitions`](crate::StorageAccount::hot_partitions) returns a report. The report has PartitionKeys,
//! which are content: the library passes them to the caller alone, and writes them to no log, trace or metric.

use std::fmt;

mod counts;
pub(crate) mod tracker;

/// The number of entities of 1 KiB that a partition accepts per second, the service's documented
/// [target](https://learn.microsoft.com/azure/storage/tables/scalability-targets).
pub const TARGET: u64 = 2_000;

/// The partitions that an account's requests go to, hottest first.
///
/// ```
/// use rowkey::hot_partitions::Order;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// let account = StorageAccount::builder()
///     .connection_string(server.connection_string())?
///     .hot_partitions(128)
///     .build()?;
/// let events = account.table("events");
/// events.create().await?;
/// for number in 0..60 {
///     events.insert(&DynamicEntity::new("today", format!("{number:06}"))).await?;
/// }
///
/// let report = account.hot_partitions();
/// let first = report.concerns().next().ok_or("one partition gets all requests")?;
/// assert_eq!((&*first.table, &*first.partition_key), ("events", "today"));
/// assert_eq!((first.entities, first.throttled, first.order), (60, 0, Order::Ascending));
/// println!("{report}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HotPartitions {
    /// All entities that were requested or written in one partition.
    pub entities: u64,
    /// The partitions with the most of them, in descending order. Those with few may be missing.
    pub partitions: Vec<HotPartition>,
}

/// What an account's requests did in one partition.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HotPartition {
    /// The table, as the first request spelled it: the service ignores the case.
    pub table: String,
    /// The PartitionKey.
    pub partition_key: String,
    /// The entities that were requested or written, at most: each operation of a transaction is one, and so is each row
    /// that a query of the partition returned, and a page without rows. Each attempt counts.
    pub entities: u64,
    /// How many of them may belong to partitions that are no longer counted.
    pub inherited: u64,
    /// Its fraction of all entities, 0 to 1.
    pub share: f64,
    /// Requests that the service refused because it was busy (503).
    pub throttled: u64,
    /// The most entities in one second of the clock.
    pub busiest_second: u64,
    /// The order of the RowKeys of successive writes.
    pub order: Order,
}

/// The order of the RowKeys of successive writes in a partition, ignoring equal ones.
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

impl HotPartition {
    /// Whether the service refused requests, or the busiest second reached at least half of [`TARGET`].
    pub fn is_hot(&self) -> bool {
        self.throttled > 0 || self.busiest_second >= TARGET / 2
    }

    /// Whether all writes go to one end of the partition.
    pub fn is_append_only(&self) -> bool {
        matches!(self.order, Order::Ascending | Order::Descending)
    }
}

impl HotPartitions {
    /// The partitions that need attention: hot ones, and append-only ones with at least a tenth of all entities.
    pub fn concerns(&self) -> impl Iterator<Item = &HotPartition> {
        let is_concern =
            |one: &&HotPartition| one.is_hot() || one.is_append_only() && one.share >= 0.1;
        self.partitions.iter().filter(is_concern)
    }
}

impl fmt::Display for HotPartitions {
    /// A line for each of the [`concerns`](Self::concerns), with its PartitionKey: protect the text like the data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entities; partitions counted: {}", self.entities, self.partitions.len())?;
        let mut is_fine = true;
        for one in self.concerns() {
            is_fine = false;
            write!(f, "\n{one}")?;
        }
        if is_fine {
            f.write_str("; none of them is hot or only appended to")?;
        }
        Ok(())
    }
}

impl fmt::Display for HotPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, partition_key, entities, busiest_second, throttled, .. } = self;
        let percent = self.share * 100.0;
        write!(
            f,
            "table {table}, partition {partition_key:?}: {entities} entities ({percent:.0} %)"
        )?;
        if self.is_hot() {
            write!(f, ", hot: {busiest_second} in a second, and a partition takes about {TARGET}")?;
        }
        if *throttled > 0 {
            write!(f, ", throttled {throttled} times")?;
        }
        match self.order {
            Order::Ascending => f.write_str(", append-only: RowKeys only go up"),
            Order::Descending => f.write_str(", append-only: RowKeys only go down"),
            Order::Mixed | Order::Unclear => Ok(()),
        }
    }
}
