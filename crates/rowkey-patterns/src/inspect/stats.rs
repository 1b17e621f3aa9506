//! Statistics of a table: rows and bytes, the largest partitions, and the types by property.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rowkey_client::internals::{compare_keys, has_order, shown};
use rowkey_client::{DynamicEntity, Page, Result, Table};

use super::sample;
use crate::job::{Job, PageStep, Report, Verdict, Walk, Walking};

/// What a table, or a sample of it, holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The rows that were read.
    pub rows: u64,
    /// Whether these are all rows of the table.
    pub complete: bool,
    /// Their bytes as the service counts them ([`DynamicEntity::size`]).
    pub bytes: u64,
    /// The partitions that have these rows.
    pub partitions: u64,
    /// The partitions with the most rows, the largest first.
    pub most_rows: Vec<PartitionStats>,
    /// The partitions with the most bytes, the largest first.
    pub most_bytes: Vec<PartitionStats>,
    /// The properties by name.
    pub properties: BTreeMap<String, PropertyStats>,
}

/// A partition of a table. Its `Debug` output does not show the key.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The PartitionKey.
    pub partition_key: String,
    /// The rows of it that were read.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A property in the rows that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropertyStats {
    /// The number of rows for each stored type, by the type's name (`Edm.Int32`).
    pub types: BTreeMap<&'static str, u64>,
    /// The bytes of its values, without its name.
    pub bytes: u64,
}

/// Counts the rows, bytes, partitions and types in a [`sample`](fn@sample) of up to `rows` rows, with the `top` largest partitions.
///
/// The rows of a large table are a sample spread over its keys: its bytes for each row and its types are like those of the table.
/// How many rows of a partition are in the sample says little of its size. [`Tally`] counts all rows.
///
/// Costs what [`sample`](fn@sample) costs, and the memory for the PartitionKeys of the sample.
///
/// ```
/// use rowkey::patterns::inspect::stats;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let orders = account.table("orders");
/// orders.create().await?;
/// for (customer, id) in [("contoso", "1"), ("contoso", "2"), ("fabrikam", "1")] {
///     orders.insert(&DynamicEntity::new(customer, id)).await?;
/// }
/// let stats = stats(&orders, 10_000, 1).await?;
/// assert!(stats.complete && stats.rows == 3 && stats.partitions == 2);
/// assert_eq!(stats.most_rows[0].partition_key, "contoso");
/// # Ok(()) }
/// ```
pub async fn stats(table: &Table, rows: u64, top: usize) -> Result<Stats> {
    let mut counts = Counts::new(top, false);
    let mut sample = sample(table, rows);
    while let Some(row) = sample.next().await? {
        counts.add(0, &row.entity);
    }
    Ok(Stats { complete: sample.is_complete(), ..counts.finish() })
}

/// Counts all rows of a table: the step of a job that walks it.
///
/// The counts are exact if nothing is written meanwhile. They need memory for the `top` largest partitions and for one partition of
/// each range that is read, however many partitions there are: the rows of a range come in the order of their keys, and a partition is
/// never in two ranges. In Azure Cosmos DB, whose queries have no order, they need memory for each PartitionKey.
///
/// ```
/// use rowkey::patterns::inspect::Tally;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let orders = account.table("orders");
/// orders.create().await?;
/// let mut order = DynamicEntity::new("contoso", "1");
/// order.set("Cents", 995_i64);
/// orders.insert(&order).await?;
///
/// let tally = Tally::new(&orders, 10);
/// let report = tally.job().run().await?;
/// let stats = tally.stats(&report);
/// assert!(stats.complete);
/// assert_eq!((stats.rows, stats.bytes), (1, order.size() as u64));
/// assert_eq!(stats.properties["Cents"].types["Edm.Int64"], 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tally {
    table: Table,
    counts: Arc<Mutex<Counts>>,
}

impl Tally {
    /// Creates counts of no rows. They will have the `top` partitions with the most rows, and those with the most bytes.
    pub fn new(table: &Table, top: usize) -> Self {
        let counts = Counts::new(top, has_order(table));
        Self { table: table.clone(), counts: Arc::new(Mutex::new(counts)) }
    }

    /// The job that counts all rows, in ranges that are [split](Walk::split_automatically) while they are read.
    ///
    /// Costs a request for each 1,000 rows, and what the splits cost. Rows that cannot be read are not counted, and are in the
    /// report as unreadable. If the job is interrupted, another job of the same `Tally` can resume from its checkpoint; a job that
    /// does not would count rows twice.
    pub fn job<'j>(&self) -> Job<'j, Walking<DynamicEntity, Self>> {
        let walk = Walk::new(&self.table, Table::scan::<DynamicEntity>);
        Job::stepping("stats", walk.split_automatically(), self.clone())
    }

    /// Returns the counts, with the report of the job that has ended. They are [complete](Stats::complete) if each row that the job
    /// found could be read.
    pub fn stats(&self, report: &Report) -> Stats {
        let stats = self.counts().clone().finish();
        Stats { complete: stats.rows == report.total.examined, ..stats }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A row is added by code that does not panic.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageStep<DynamicEntity> for Tally {
    fn step(&self, page: Page<DynamicEntity>) -> impl Future<Output = Result<Report>> + Send {
        self.step_in(0, page)
    }

    fn step_in(
        &self,
        range: u64,
        page: Page<DynamicEntity>,
    ) -> impl Future<Output = Result<Report>> + Send {
        let mut counts = self.counts();
        for row in &page.entities {
            counts.add(range, &row.entity);
        }
        if page.continuation.is_none() {
            counts.end(range);
        }
        ready(Ok(Report::of(Verdict::Right, page.entities.len() as u64)))
    }
}

/// The counts so far.
#[derive(Clone)]
struct Counts {
    stats: Stats,
    top: usize,
    open: Open,
}

/// The partitions that may have further rows.
#[derive(Clone)]
enum Open {
    /// The last one of each range.
    InOrder(HashMap<u64, PartitionStats>),
    /// All of them, with their rows and bytes.
    Unordered(HashMap<String, (u64, u64)>),
}

impl Counts {
    fn new(top: usize, is_in_order: bool) -> Self {
        let open = if is_in_order {
            Open::InOrder(HashMap::new())
        } else {
            Open::Unordered(HashMap::new())
        };
        Self { stats: Stats::default(), top, open }
    }

    fn add(&mut self, range: u64, row: &DynamicEntity) {
        let bytes = row.size() as u64;
        self.stats.rows += 1;
        self.stats.bytes += bytes;
        for (name, value) in row.iter() {
            let value = value.as_ref();
            let property = match self.stats.properties.get_mut(name) {
                Some(property) => property,
                None => self.stats.properties.entry(name.to_owned()).or_default(),
            };
            *property.types.entry(value.edm_type().name()).or_default() += 1;
            property.bytes += value.size() as u64;
        }
        match &mut self.open {
            Open::Unordered(all) => {
                let (rows, sum) = match all.get_mut(&row.partition_key) {
                    Some(sums) => sums,
                    None => all.entry(row.partition_key.clone()).or_default(),
                };
                *rows += 1;
                *sum += bytes;
            }
            Open::InOrder(ranges) => {
                let partition_key = &row.partition_key;
                if let Some(open) = ranges.get_mut(&range)
                    && open.partition_key == *partition_key
                {
                    open.rows += 1;
                    open.bytes += bytes;
                    return;
                }
                let partition_key = partition_key.clone();
                let begun = PartitionStats { partition_key, rows: 1, bytes };
                let ended = ranges.insert(range, begun);
                self.close(ended);
            }
        }
    }

    /// A range has no further rows.
    fn end(&mut self, range: u64) {
        if let Open::InOrder(ranges) = &mut self.open {
            let ended = ranges.remove(&range);
            self.close(ended);
        }
    }

    /// Counts a partition that has no further rows.
    fn close(&mut self, ended: Option<PartitionStats>) {
        let Some(ended) = ended else { return };
        let Self { stats, top, .. } = self;
        stats.partitions += 1;
        keep(&mut stats.most_rows, *top, &ended, |partition| partition.rows);
        keep(&mut stats.most_bytes, *top, &ended, |partition| partition.bytes);
    }

    fn finish(mut self) -> Stats {
        let open: Vec<_> = match &mut self.open {
            Open::InOrder(ranges) => ranges.drain().map(|(_, open)| open).collect(),
            Open::Unordered(all) => {
                let all = all.drain();
                all.map(|(partition_key, (rows, bytes))| PartitionStats {
                    partition_key,
                    rows,
                    bytes,
                })
                .collect()
            }
        };
        for partition in open {
            self.close(Some(partition));
        }
        self.stats
    }
}

/// Keeps the largest partitions, sorted; of equal ones those whose keys come first.
fn keep(
    largest: &mut Vec<PartitionStats>,
    top: usize,
    one: &PartitionStats,
    by: fn(&PartitionStats) -> u64,
) {
    let is_before = |other: &PartitionStats| {
        let sizes = by(one).cmp(&by(other));
        sizes.then_with(|| compare_keys(&other.partition_key, &one.partition_key)).is_lt()
    };
    let at = largest.partition_point(is_before);
    if at < top {
        largest.insert(at, one.clone());
        largest.truncate(top);
    }
}

shown!(PartitionStats: rows, bytes);
shown!(Tally: table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_partitions_and_one_of_each_range_are_kept() {
        let mut counts = Counts::new(3, true);
        for partition in 0..10_000_u32 {
            // One in a thousand has more rows.
            for row in 0..=u32::from(partition % 1_000 == 0) {
                let row = DynamicEntity::new(format!("{partition:05}"), row.to_string());
                counts.add((partition / 2_500).into(), &row);
                let Open::InOrder(open) = &counts.open else { panic!("has an order") };
                assert!(open.len() <= 4 && counts.stats.most_rows.len() <= 3);
            }
        }
        counts.end(0);
        let stats = counts.finish();
        assert_eq!((stats.rows, stats.partitions), (10_010, 10_000));
        let keys: Vec<_> = stats.most_rows.iter().map(|one| &*one.partition_key).collect();
        assert_eq!(keys, ["00000", "01000", "02000"]);
        assert!(!format!("{:?}", stats.most_rows).contains("01000"));
    }
}
