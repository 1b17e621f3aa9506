//! Walks: jobs that read a table in ranges, page by page.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use rowkey_client::entity::RowReader;
use rowkey_client::internals::compare_keys;
use rowkey_client::{
    DecodeError, DynamicEntity, Filter, Operator, Page, Projection, Query, Result, ScanPolicy,
    Stored, Table,
};

use super::{Job, Report, Verdict, primary};
use crate::probe::{self, PARTITION_KEY, ROW_KEY};

/// The most ranges in a walk: the checkpoint holds one token for each open range.
const MAX_RANGES: usize = 256;

/// The input of a job: a query, split into ranges of keys that are read in parallel.
///
/// Reads always use the primary and may scan the table. They override the client's options
/// `read_from_secondary` and [`ScanPolicy`]: a job writes based on what it reads, and its scans are
/// intended.
///
/// A walk costs one request for each page of up to 1,000 entities, and at least one for each range.
///
/// ```
/// # use rowkey::{DynamicEntity, Partition, StorageAccount};
/// use rowkey::patterns::job::{Job, Walk};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let events = account.table("events");
/// # events.create().await?;
/// # for number in 0..20 { events.insert(&DynamicEntity::new("device-7", format!("{number:02}"))).await?; }
/// let all = Walk::keys(&events).split_partitions(["device-3", "device-6"]);
/// assert_eq!(Job::count(all).run().await?.total.right, 20);
///
/// let device = Walk::new(&events, |table| table.query(Partition::<DynamicEntity>::new("device-7")))
///     .split_rows(["05", "10", "15"]);
/// assert_eq!(Job::count(device).run().await?.total.right, 20);
/// # Ok(()) }
/// ```
pub struct Walk<P> {
    pub(super) table: Table,
    query: MakeQuery<P>,
    pub(super) split_by: &'static str,
    pub(super) splits: Vec<String>,
    /// The PartitionKey of a row, if ranges are split while they are read.
    pub(super) locate: Option<Locate<P>>,
    /// How many entities a step gets at least, if there are more pages.
    pub(super) gather: usize,
}

pub(super) type Locate<P> = fn(&P) -> &str;
type MakeQuery<P> = Arc<dyn Fn(&Table) -> Query<P> + Send + Sync>;

/// The keys of an entity as stored, and no other property: the smallest rows to walk.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The PartitionKey.
    pub partition_key: String,
    /// The RowKey.
    pub row_key: String,
}

impl Walk<Keys> {
    /// Walks the keys of all rows of a table, of all types.
    pub fn keys(table: &Table) -> Self {
        Self::new(table, |table| table.scan::<DynamicEntity>().project())
    }

    /// Splits the walk while it runs, as [`Walk::<DynamicEntity>::split_automatically`](Walk::split_automatically) does.
    #[must_use = "this returns the changed walk"]
    pub fn split_automatically(mut self) -> Self {
        self.locate = Some(|row| &row.partition_key);
        self
    }
}

impl Walk<DynamicEntity> {
    /// Splits ranges while they are read, if the job has fewer of them than its
    /// [concurrency](Job::concurrency): the rest of a range's partitions becomes a range of its own. Nothing has to be known
    /// of the keys. A partition is never split, so a table of one partition is read page after page.
    ///
    /// Costs three requests for each place of the job's concurrency and one for each four pages, at most. In Azure Cosmos DB,
    /// whose queries have no order, nothing is split. Neither is a query with a limit ([`Query::take`]), or one that is sent as
    /// several because its filter has many alternatives.
    ///
    /// ```
    /// use rowkey::patterns::job::{Job, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let events = account.table("events");
    /// events.create().await?;
    /// for device in 0..12 {
    ///     let rows = (0..100).map(|row| DynamicEntity::new(format!("device-{device:02}"), format!("{row:02}")));
    ///     rows.fold(events.transaction(), |all, row| all.insert(&row)).submit().await?;
    /// }
    /// let walk = Walk::new(&events, |events| events.scan::<DynamicEntity>().page_size(100));
    /// let mut ranges = None;
    /// let count = Job::count(walk.split_automatically()).progress(|progress| ranges = progress.units).run().await?;
    /// assert_eq!(count.total.right, 1200);
    /// assert!(ranges > Some(1));
    /// # Ok(()) }
    /// ```
    #[must_use = "this returns the changed walk"]
    pub fn split_automatically(mut self) -> Self {
        self.locate = Some(|row| &row.partition_key);
        self
    }
}

impl<P: Projection + Send + 'static> Walk<P> {
    /// Walks the results of `query`, which builds a query of the given table and must build the same
    /// one at each call. A limit ([`Query::take`]) counts anew when a range is read again after an error or a resume, so more rows
    /// may be found then.
    ///
    /// A row that does not decode as `P` is counted as [`Verdict::Unreadable`], with its keys among the
    /// [problems](Report::problems), and is not passed to the steps. Walk [`DynamicEntity`] rows if a
    /// step has to see such rows.
    pub fn new(table: &Table, query: impl Fn(&Table) -> Query<P> + Send + Sync + 'static) -> Self {
        let query = Arc::new(query);
        Self {
            table: table.clone(),
            query,
            split_by: PARTITION_KEY,
            splits: Vec::new(),
            locate: None,
            gather: 0,
        }
    }

    /// Passes several pages of a range to the step as one, as soon as they have this many entities or 4 MiB. Pages are passed
    /// whole, so they may have up to a page more: 999 entities, or 4 MiB. Each range holds as much in memory. For steps that write a
    /// file each time. Default: each page is passed by itself.
    #[must_use = "this returns the changed walk"]
    pub fn gather(self, entities: usize) -> Self {
        Self { gather: entities, ..self }
    }

    /// Splits a table at these stored values of the PartitionKey: `["g", "n"]` makes three ranges.
    ///
    /// Choose keys that divide the entities evenly; if the keys of all partitions are known, pass them all.
    /// The keys need not exist or be sorted. At most 255 are used; further keys are skipped. Without keys
    /// the table is one range, which is read sequentially.
    #[must_use = "this returns the changed walk"]
    pub fn split_partitions(self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.split(PARTITION_KEY, keys)
    }

    /// Splits a query of one partition at these values of the RowKey, as
    /// [`split_partitions`](Self::split_partitions) splits a table.
    #[must_use = "this returns the changed walk"]
    pub fn split_rows(self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.split(ROW_KEY, keys)
    }

    fn split(
        mut self,
        split_by: &'static str,
        keys: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.splits = splits(keys.into_iter().map(Into::into).collect());
        self.split_by = split_by;
        self
    }

    /// Walks the same rows, decoded as `Q`.
    #[doc(hidden)]
    pub fn project<Q: Projection + Send + 'static>(self) -> Walk<Q> {
        let query = self.query;
        Walk {
            table: self.table,
            query: Arc::new(move |table| query(table).project()),
            split_by: self.split_by,
            splits: self.splits,
            locate: None,
            gather: self.gather,
        }
    }

    /// Reads the row with these keys again; `None` if the walk no longer finds it.
    #[doc(hidden)]
    pub async fn again(&self, (partition_key, row_key): (&str, &str)) -> Result<Option<Stored<P>>> {
        let is = |name, key: &str| Filter::dynamic(name, Operator::Equal, key);
        let query = (self.query)(&primary(&self.table)).scan_policy(ScanPolicy::Allow);
        let query = query.filter(is(PARTITION_KEY, partition_key)).filter(is(ROW_KEY, row_key));
        query.stream().try_next().await
    }

    /// The table of the walk.
    #[doc(hidden)]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the query of the rows from a key and before another one.
    pub(super) fn between(&self, table: &Table, range: (Option<&str>, Option<&str>)) -> Query<P> {
        let query = (self.query)(table).scan_policy(ScanPolicy::Allow);
        probe::between(query, self.split_by, range)
    }
}

/// The work of a job from [`Job::walk`].
pub struct Walking<P, F> {
    pub(super) walk: Walk<P>,
    pub(super) step: F,
    /// Other tables that belong to it, each with a step of its own and as one range.
    pub(super) beside: Vec<(Walk<P>, F)>,
}

impl<P, F> Walking<P, F> {
    /// The number of ranges, each of which has a page at least.
    pub(super) fn ranges(&self) -> usize {
        self.walk.splits.len() + 1 + self.beside.len()
    }
}

/// A step that processes each page of a walk.
pub trait PageStep<P>: Send + Sync {
    /// Processes a page and reports the findings and changes.
    fn step(&self, page: Page<P>) -> impl Future<Output = Result<Report>> + Send;

    /// Processes a page of the range with this number. The rows of a range come in the order of their keys, and no partition of a
    /// walk that is split has rows in two ranges. The last page of a range has no continuation.
    #[doc(hidden)]
    fn step_in(&self, range: u64, page: Page<P>) -> impl Future<Output = Result<Report>> + Send {
        let _ = range;
        self.step(page)
    }
}

impl<P, F, Fut> PageStep<P> for F
where
    F: Fn(Page<P>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Report>> + Send,
{
    fn step(&self, page: Page<P>) -> impl Future<Output = Result<Report>> + Send {
        self(page)
    }
}

/// The step of [`Job::count`].
pub(super) type CountPage<P> = fn(Page<P>) -> Ready<Result<Report>>;

impl<P, F, Fut> Job<'_, Walking<P, F>>
where
    P: Projection + Send + 'static,
    F: Fn(Page<P>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Report>> + Send,
{
    /// Passes each page of `walk` to `step`, and adds up the reports of the steps.
    ///
    /// The pages of one range are processed in order, and ranges are processed in parallel. If a step
    /// returns a [retryable](rowkey_client::Error::is_retryable) error, it gets the page again after a pause, in
    /// its state at that time; any other error ends the job. A step therefore processes each item at
    /// least once and must be repeatable. Its requests have the pace of the job; those of tasks that it spawns
    /// have not.
    ///
    /// ```
    /// use rowkey::patterns::job::{Job, Report, Verdict, Walk};
    /// use rowkey::{DynamicEntity, Page, StorageAccount};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = account.table("orders");
    /// orders.create().await?;
    /// orders.insert(&DynamicEntity::new("contoso", "1")).await?;
    ///
    /// let walk = Walk::new(&orders, |orders| orders.scan::<DynamicEntity>());
    /// let job = Job::walk("verify", walk, |page: Page<DynamicEntity>| async move {
    ///     let mut report = Report::default();
    ///     for row in &page.entities {
    ///         let has_total = row.entity.get("Total").is_some();
    ///         report.note(None, if has_total { Verdict::Right } else { Verdict::Stale }, 1);
    ///     }
    ///     Ok(report)
    /// });
    /// assert_eq!(job.run().await?.total.stale, 1);
    /// # Ok(()) }
    /// ```
    pub fn walk(name: impl Into<String>, walk: Walk<P>, step: F) -> Self {
        Self::stepping(name, walk, step)
    }
}

impl<P, F> Job<'_, Walking<P, F>>
where
    P: Projection + Send + 'static,
    F: PageStep<P>,
{
    #[doc(hidden)]
    pub fn stepping(name: impl Into<String>, walk: Walk<P>, step: F) -> Self {
        let table = walk.table.clone();
        Self::new(name, &table, Walking { walk, step, beside: Vec::new() })
    }

    /// Also walks another table, which may be in another account. If it does not exist, there is nothing in it.
    #[doc(hidden)]
    pub fn beside(mut self, walk: Walk<P>, step: F) -> Self {
        self.work.beside.push((walk, step));
        self
    }
}

impl<P: Projection + Send + 'static> Job<'_, Walking<P, CountPage<P>>> {
    /// Counts the results of `walk`, as [`Verdict::Right`].
    ///
    /// Costs one request per 1,000 entities. [`Walk::keys`] counts all rows and reads the least data;
    /// to count the rows of one type, walk `table.scan::<E>()`. The count is exact, also after
    /// resuming, if nothing is written in the meantime.
    pub fn count(walk: Walk<P>) -> Self {
        let count: CountPage<P> =
            |page| ready(Ok(Report::of(Verdict::Right, page.entities.len() as u64)));
        Self::walk("count", walk, count)
    }
}

/// The keys at which a query is split: sorted, and at most 255. A separate function, so that it is compiled once.
fn splits(mut keys: Vec<String>) -> Vec<String> {
    keys.sort_by(|one, other| compare_keys(one, other));
    keys.dedup();
    let step = keys.len().div_ceil(MAX_RANGES - 1).max(1);
    keys.into_iter().skip(step - 1).step_by(step).collect()
}

impl Projection for Keys {
    const COLUMNS: Option<&'static [&'static str]> = Some(&[PARTITION_KEY, ROW_KEY]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let (partition_key, row_key) = (row.partition_key()?, row.row_key()?);
        Ok(Self { partition_key: partition_key.to_owned(), row_key: row_key.to_owned() })
    }
}

impl fmt::Debug for Keys {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl<P> Clone for Walk<P> {
    fn clone(&self) -> Self {
        let (query, splits) = (Arc::clone(&self.query), self.splits.clone());
        let Self { split_by, locate, gather, .. } = *self;
        Self { table: self.table.clone(), query, split_by, splits, locate, gather }
    }
}

impl<P> fmt::Debug for Walk<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk")
            .field("table", &self.table.name())
            .field("ranges", &(self.splits.len() + 1))
            .finish_non_exhaustive()
    }
}

impl<P, F> fmt::Debug for Walking<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.walk.fmt(f)
    }
}
