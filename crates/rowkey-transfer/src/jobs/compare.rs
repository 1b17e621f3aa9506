//! Whether two tables hold the same entities: a job that can be resumed.

use std::fmt;
use std::pin::Pin;

use futures_util::stream::{BoxStream, Peekable};
use futures_util::{Stream, StreamExt as _, stream};
use rowkey_client::internals::has_order;
use rowkey_client::{DynamicEntity, Error, ErrorKind, FailedRow, Page, Result, Table};
use rowkey_patterns::job::{
    Attempt, Batch, Job, Jobs, Keys, Loading, Packs, Report, Verdict, Walk, Walking,
};

use super::look_up::{Found as _, compare, look_up, primary};
use super::others::{self, Others};
use crate::row::Row;

/// The most rows that are looked for at once.
const BATCH: usize = 1_000;
/// And the most bytes, as the service counts them: a few batches for each place wait in memory.
const BATCH_BYTES: usize = 512 * 1024;
/// The most properties that the message of a difference names.
const MAX_NAMES: usize = 5;

/// Compares two tables, of one account or of two: their entities, with the type and the value of each property, and without
/// the Timestamp ([`Row::same_entity`]).
///
/// The first job reads the first table, and of the other one the entities between the keys of each page. Its
/// [part](Report::part) of the report is `entities`: those that are the same ([`Verdict::Right`]), missing in the other table
/// ([`Verdict::Missing`]), different ([`Verdict::Stale`]), and unreadable. The second job, `others`, reads the keys of the other
/// table, and finds those that the first one lacks ([`Verdict::Orphaned`]). The problems of the report have the keys. What is
/// written meanwhile may be a difference or not.
///
/// Costs one request for each 1,000 entities of the first table and at most three for what the other one has between their
/// keys, and the same again for the keys of the other table. If one of both is in Azure Cosmos DB, whose queries have no order,
/// it costs a request for each entity instead.
///
/// ```
/// use rowkey::{DynamicEntity, StorageAccount};
/// use rowkey_transfer::jobs::Comparison;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let (orders, archive) = (account.table("orders"), account.table("archive"));
/// for table in [&orders, &archive] {
///     table.create().await?;
///     table.insert(&DynamicEntity::new("contoso", "1")).await?;
/// }
/// let compare = || Comparison::of(&orders).with(&archive);
/// assert!(compare().run().await?.is_clean());
///
/// orders.insert(&DynamicEntity::new("contoso", "2")).await?;
/// archive.insert(&DynamicEntity::new("fabrikam", "1")).await?;
/// let report = compare().run().await?;
/// assert_eq!((report.part("entities").right, report.part("entities").missing), (1, 1));
/// assert_eq!(report.part("others").orphaned, 1);
/// # Ok(()) }
/// ```
pub struct Comparison {
    source: Table,
    concurrency: usize,
}

impl Comparison {
    /// Compares this table with another one.
    pub fn of(source: &Table) -> Self {
        Self { source: source.clone(), concurrency: 8 }
    }

    /// Reads this many ranges at once, at least 1. Default: 8.
    ///
    /// ```
    /// use rowkey::StorageAccount;
    /// use rowkey_transfer::jobs::Comparison;
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let (orders, archive) = (account.table("orders"), account.table("archive"));
    /// let _jobs = Comparison::of(&orders).concurrency(2).with(&archive);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    #[must_use = "this returns the changed comparison"]
    pub fn concurrency(mut self, ranges: usize) -> Self {
        self.concurrency = ranges;
        self
    }

    /// The jobs that compare both tables, with one report and one checkpoint. Nothing is sent before
    /// [`run`](Jobs::run).
    pub fn with(self, destination: &Table) -> Jobs<'static> {
        let Self { source, concurrency } = self;
        let both = [&source, destination].map(Table::place);
        let is_ordered = has_order(&source) && has_order(destination);
        let second = primary(destination);

        let walk = Walk::new(&source, Table::scan::<DynamicEntity>);
        let entities = Job::walk("compare", walk.split_automatically(), move |page| {
            let other = second.clone();
            async move { entities(&other, is_ordered, page).await }
        });
        let walk = Walk::keys(destination).split_automatically();
        let others = Job::stepping("compare", walk, Others::reported(&source, destination));
        let tied = both.join(" and ");
        Jobs::new("compare")
            .then("entities", entities.concurrency(concurrency).parameter("tables", &*tied))
            .then("others", others.concurrency(concurrency).parameter("tables", tied))
    }

    /// A job that finds the entities of another table that this one lacks: the second of the jobs of [`with`](Self::with) alone, for
    /// what `walk` finds, such as one partition.
    ///
    /// The report has those that both have ([`Verdict::Right`]) and those that only the walk finds ([`Verdict::Orphaned`]), without
    /// their keys. Costs one request for each 1,000 entities of the walk and at most three for what this table has between their keys.
    ///
    /// ```
    /// use rowkey::patterns::job::Walk;
    /// use rowkey::{DynamicEntity, StorageAccount};
    /// use rowkey_transfer::jobs::Comparison;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let (orders, archive) = (account.table("orders"), account.table("archive"));
    /// orders.create().await?;
    /// archive.create().await?;
    /// archive.insert(&DynamicEntity::new("contoso", "1")).await?;
    /// let walk = Walk::keys(&archive).split_automatically();
    /// assert_eq!(Comparison::of(&orders).others(walk).run().await?.total.orphaned, 1);
    /// # Ok(()) }
    /// ```
    pub fn others(self, walk: Walk<Keys>) -> Job<'static, Walking<Keys, Others>> {
        let step = Others::counted(&self.source, walk.table());
        others::job("compare", walk, step, &self.source).concurrency(self.concurrency)
    }

    /// A job that deletes the entities of another table that this one lacks, of those that `walk` finds. After a copy, both then hold
    /// the same.
    ///
    /// Each is deleted under the ETag that it had when it was found, and only after a read of its keys in this table finds nothing: one
    /// that another program has written meanwhile stays ([`Verdict::Skipped`]). The report has those that both have
    /// ([`Verdict::Right`]) and those that were deleted, which are [`Verdict::Orphaned`] and repaired. Of an entity of this table that
    /// cannot be read, the other one is kept.
    ///
    /// A checkpoint is tied to both tables. What was deleted between the last checkpoint and the end of a program is not in the report
    /// of the run that resumes it.
    ///
    /// Fails if the credential of this table is a shared access signature for a range of keys, because entities outside of it
    /// would seem not to exist. Nothing is sent before `run`. Costs, besides the requests of [`others`](Self::others), a read for each entity that is deleted, and
    /// one request for each 100 of a partition.
    ///
    /// ```
    /// use rowkey::patterns::job::{Job, Jobs, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    /// use rowkey_transfer::jobs::Comparison;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let (orders, replica) = (account.table("orders"), account.table("replica"));
    /// orders.create().await?;
    /// replica.create().await?;
    /// orders.insert(&DynamicEntity::new("contoso", "1")).await?;
    /// replica.insert(&DynamicEntity::new("contoso", "2")).await?;
    ///
    /// let all = Walk::new(&orders, |orders| orders.scan::<DynamicEntity>()).split_automatically();
    /// let others = Walk::keys(&replica).split_automatically();
    /// let report = Jobs::new("synchronize")
    ///     .then("copy", Job::copy(all, &replica))
    ///     .then("others", Comparison::of(&orders).delete_others(others)?)
    ///     .run()
    ///     .await?;
    /// assert_eq!((report.part("copy").right, report.part("others").repaired), (1, 1));
    /// assert!(Comparison::of(&orders).with(&replica).run().await?.is_clean());
    /// # Ok(()) }
    /// ```
    pub fn delete_others(self, walk: Walk<Keys>) -> Result<Job<'static, Walking<Keys, Others>>> {
        let Self { source, concurrency } = self;
        others::check_whole(&source)?;
        let step = Others::deleted(&source, walk.table());
        Ok(others::job("delete others", walk, step, &source).concurrency(concurrency))
    }

    /// A job that compares the table with entities, such as [those of a backup](super::Source::entities). It reads what the table has
    /// between the keys of each 1,000 in a row whose keys ascend, or 512 KiB, by three queries at most.
    ///
    /// The report has entities that are the same ([`Verdict::Right`]), that the table does not have ([`Verdict::Orphaned`]), and that
    /// differ ([`Verdict::Stale`]). If the table has more entities than are the same or differ, the stream lacks some.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::patterns::job::{Job, Jobs, Walk};
    /// use rowkey::{DynamicEntity, StorageAccount};
    /// use rowkey_transfer::jobs::Comparison;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = account.table("orders");
    /// orders.create().await?;
    /// orders.insert(&DynamicEntity::new("contoso", "1")).await?;
    ///
    /// let expected = ["1", "2"].map(|number| DynamicEntity::new("contoso", number));
    /// let report = Jobs::new("check")
    ///     .then_load("expected", Comparison::of(&orders).with_entities(stream::iter(expected)))
    ///     .then("all", Job::count(Walk::keys(&orders)))
    ///     .run()
    ///     .await?;
    /// let expected = report.part("expected");
    /// assert_eq!((expected.right, expected.orphaned, report.part("all").right), (1, 1, 1));
    /// # Ok(()) }
    /// ```
    pub fn with_entities(
        self,
        entities: impl Stream<Item = DynamicEntity> + Send + 'static,
    ) -> Job<'static, Loading<Packs<RowBatch>>> {
        let Self { source, concurrency } = self;
        let (is_ordered, table) = (has_order(&source), primary(&source));
        let entities = entities.map(Row::new).boxed().peekable();
        let batches = stream::unfold(entities, move |mut entities| {
            let table = table.clone();
            async move {
                let rows = batch(Pin::new(&mut entities)).await;
                let batch = RowBatch { table, is_ordered, rows };
                (!batch.rows.is_empty()).then_some((batch, entities))
            }
        });
        Job::load("compare", &source, batches.boxed())
            .concurrency(concurrency)
            .groups_per_partition(concurrency.max(1))
    }
}

/// Entities that a job of [`Comparison::with_entities`] compares with a table, by one to three queries.
#[derive(Debug)]
pub struct RowBatch {
    table: Table,
    is_ordered: bool,
    /// Sorted by their keys.
    rows: Vec<Row>,
}

impl Batch for RowBatch {
    fn keys(&self) -> (&str, &str) {
        self.rows.first().map_or(("", ""), |row| row.entity.keys())
    }

    fn entities(&self) -> u64 {
        self.rows.len() as u64
    }

    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.entity.size()).sum()
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        let absent = (Verdict::Orphaned, "the table does not have it");
        compare_rows(&self.table, self.is_ordered, &self.rows, absent).await
    }
}

/// The next rows whose keys ascend. None at the end.
async fn batch(mut rows: Pin<&mut Peekable<BoxStream<'static, Row>>>) -> Vec<Row> {
    let (mut found, mut bytes) = (Vec::<Row>::new(), 0);
    loop {
        let follows = |row: &Row| {
            found.last().is_none_or(|last| compare(last.entity.keys(), row.entity.keys()).is_lt())
        };
        match rows.as_mut().next_if(follows).await {
            Some(row) => {
                bytes += row.entity.size();
                found.push(row);
            }
            None => return found,
        }
        if found.len() >= BATCH || bytes >= BATCH_BYTES {
            return found;
        }
    }
}

/// Compares a page of the first table with the other one.
async fn entities(other: &Table, is_ordered: bool, page: Page<DynamicEntity>) -> Result<Report> {
    let rows: Vec<_> = page.entities.into_iter().map(|stored| Row::new(stored.entity)).collect();
    let absent = (Verdict::Missing, "the other table does not have it");
    compare_rows(other, is_ordered, &rows, absent).await
}

/// Compares rows with a table. `absent` is the finding on those that it does not have.
async fn compare_rows(
    table: &Table,
    is_ordered: bool,
    rows: &[Row],
    absent: (Verdict, &'static str),
) -> Result<Report> {
    let mut report = Report::default();
    let keys: Vec<_> = rows.iter().map(|row| row.entity.keys()).collect();
    look_up(table, is_ordered, &keys, |at, found: Option<Result<DynamicEntity, FailedRow>>| {
        let fault = match found {
            None => (absent.0, absent.1.to_owned()),
            Some(Err(_)) => (Verdict::Unreadable, "the table has it, and it cannot be read".into()),
            Some(Ok(entity)) => {
                let found = Row::new(entity);
                if rows[at].same_entity(&found) {
                    return report.note(None, Verdict::Right, 1);
                }
                (Verdict::Stale, difference(&rows[at], &found))
            }
        };
        let error = Error::refused(ErrorKind::Invalid, fault.1);
        report.problem(None, fault.0, keys[at], &error);
    })
    .await?;
    Ok(report)
}

/// Names the properties that differ, and no values.
fn difference(one: &Row, other: &Row) -> String {
    let same = |name: &str| {
        let of = |row: &Row| {
            let mut entity = DynamicEntity::new("", "");
            if let Some(value) = row.entity.get(name) {
                entity.set(name, value.clone());
            }
            Row::new(entity)
        };
        of(one).same_entity(&of(other))
    };
    let names = one.entity.iter().map(|(name, _)| name);
    let added = other.entity.iter().map(|(name, _)| name);
    let added = added.filter(|name| one.entity.get(name).is_none());
    let names: Vec<_> = names.chain(added).filter(|name| !same(name)).collect();
    let shown: Vec<_> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > MAX_NAMES { ", .." } else { "" };
    format!("both have it, with different {}{more}", shown.join(", "))
}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comparison").field("source", &self.source.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_properties_with_their_types_and_no_values() {
        let mut one = DynamicEntity::new("p", "r");
        one.set("Same", 1);
        one.set("Type", 1);
        one.set("Value", "secret");
        let mut other = DynamicEntity::new("p", "r");
        other.set("Same", 1);
        other.set("Type", 1_i64);
        other.set("Value", "other");
        other.set("Added", true);
        let text = difference(&Row::new(one), &Row::new(other));
        assert_eq!(text, "both have it, with different `Type`, `Value`, `Added`");
    }
}
