//! Materialized views: summaries of groups of entities, each read by one point query.
//!
//! Each summary is stored together with one contribution row per entity, which holds what the entity
//! adds. One transaction changes both. A change that is settled twice, late or out of order therefore
//! counts once.
//!
//! | row | RowKey | properties |
//! |---|---|---|
//! | summary | chosen by the group | those of the view; `View`, its name; all others unchanged |
//! | contribution | `from_{summary}_{partition}_{row}` | `RowFormat`, `View`, `PrimaryPartitionKey`, `PrimaryRowKey`, the values of the entity |

mod columns;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use futures_util::future::try_join;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::index::{PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY};
use rowkey_client::internals::shown;
use rowkey_client::key::{KeyReader, KeyWriter, PartFormat};
use rowkey_client::{
    Column, DynamicEntity, Entity, Error, ErrorKind, Key, Outcome, Partition, Property, Result,
    Stored, Table,
};
use rowkey_patterns::job::Verdict;

use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::deciding::{Deciding, is_lost, is_still};
use crate::row::op::{keys_at, row_address};
use crate::row::{FORMAT, FORMAT_VERSION, Keys, check_format, primary_keys, text};
use columns::{Columns, Kind, Order, stored};

/// The property with the name of the view that a summary or a contribution belongs to.
const VIEW: &str = "View";

/// How often a summary is added up again that changes in the meantime.
const ROUNDS: u32 = 8;

/// Summaries of type `S`, one for each group of entities of type `E`.
///
/// The store of the entities maintains the view: see
/// [`StoreBuilder::with`](crate::StoreBuilder::with). A summary is an ordinary entity in any table
/// and is read with one request. The view writes the columns that were added to it, with the types that `S`
/// stores, and leaves all others unchanged. All other properties of `S` must be optional.
///
/// A summary is updated after the commit of a write. This usually happens in the same call. If another writer
/// changed the summary at the same time or the program stopped, [`Store::run`](crate::Store::run) updates it
/// a moment later. A summary without entities is kept, with the count 0.
///
/// Costs three reads and one transaction for each group that an entity joins, leaves or changes. A write that
/// changes nothing in the view costs nothing. When an entity leaves that has the smallest or greatest value
/// of a column, all contributions of the group are read. All writes of a group update one summary, which
/// limits a group to about ten writes per second. Entities that were stored before the view was added are
/// counted when they are written again: [`Store::rewrite`](crate::Store::rewrite).
///
/// ```
/// use rowkey::store::{Store, View};
/// use rowkey::{Entity, StorageAccount, edm::DateTime};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{region}", row = "id_{id:6}")]
/// struct Employee {
///     region: String,
///     id: u32,
///     department: String,
///     cents: u32,
///     hired: DateTime,
/// }
///
/// /// The figures of the dashboard.
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{name}", row = "summary")]
/// struct Department {
///     name: String,
///     headcount: i64,
///     cents: i64,
///     latest_hire: Option<DateTime>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let summaries = account.table("departments");
/// let departments = View::new("departments", &summaries, |employee: &Employee| {
///     Some(Department::key(&employee.department))
/// })
/// .count(Department::HEADCOUNT)
/// .sum(Department::CENTS, |employee| employee.cents)
/// .max(Department::LATEST_HIRE, |employee| employee.hired);
///
/// let staff = Store::<Employee>::builder(account.table("staff"))
///     .queue(account.queue("staff"))
///     .with(departments)
///     .build()?;
/// staff.create_if_missing().await?;
/// let hired = "2026-11-20T09:00:00Z".parse()?;
/// let department = "sales".to_owned();
/// staff.insert(&Employee { region: "west".into(), id: 7, department, cents: 420_000, hired }).await?;
///
/// let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?.entity;
/// assert_eq!((sales.headcount, sales.cents, sales.latest_hire), (1, 420_000, Some(hired)));
/// # Ok(()) }
/// ```
pub struct View<E, S> {
    name: &'static str,
    table: Deciding,
    group: GroupOf<E, S>,
    columns: Columns<E>,
}

type GroupOf<E, S> = Box<dyn Fn(&E) -> Option<Key<S>> + Send + Sync>;

/// Declaration.
impl<E, S: Entity> View<E, S> {
    /// Creates a view whose summaries are stored in `table`, which the store's
    /// [`create_if_missing`](crate::Store::create_if_missing) creates. Sends nothing.
    ///
    /// `group` returns the key of the summary that an entity belongs to, if any. Each summary belongs to
    /// one view and stores its `name`: give each view its own name and do not change it. `group` and the
    /// functions of the columns must depend on the entity alone and return the same result each time.
    pub fn new(
        name: &'static str,
        table: &Table,
        group: impl Fn(&E) -> Option<Key<S>> + Send + Sync + 'static,
    ) -> Self {
        const {
            assert!(
                !S::STORE,
                "the type of the summary has #[entity(store)], and a summary is written by its view: summarize \
                 into a plain type of its own, without `store`, and read it through a `Table`"
            );
        }
        let columns = Columns(Vec::new());
        Self { name, table: Deciding::new(table), group: Box::new(group), columns }
    }

    /// Stores the number of entities in the group in this column.
    #[must_use = "this returns the view with the column"]
    pub fn count(self, column: Column<i64>) -> Self {
        self.column(column.name(), Kind::Count(column))
    }

    /// Stores the sum of a number of each entity in this column, such as an amount in cents.
    ///
    /// Sums of doubles are not supported, because they depend on the order of addition. If a sum does not fit
    /// an `i64` or the stored type, the change is not settled, and workers report it.
    #[must_use = "this returns the view with the column"]
    pub fn sum<N: Into<i64>>(
        self,
        column: Column<i64>,
        of: impl Fn(&E) -> N + Send + Sync + 'static,
    ) -> Self {
        self.column(column.name(), Kind::Sum(column, Box::new(move |entity| of(entity).into())))
    }

    /// Stores the smallest value of any entity of the group in this column.
    #[must_use = "this returns the view with the column"]
    pub fn min<P: Property + Ord + 'static, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
    ) -> Self {
        self.first(column.name(), of, Order::ascending(column))
    }

    /// Stores the greatest value, or the latest time, of any entity of the group in this column.
    #[must_use = "this returns the view with the column"]
    pub fn max<P: Property + Ord + 'static, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
    ) -> Self {
        self.first(column.name(), of, Order::descending(column))
    }

    fn first<P: Property, V: Into<Option<P>>>(
        self,
        name: &'static str,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
        order: Order,
    ) -> Self {
        let of = Box::new(move |entity: &E| stored(name, of(entity).into().as_ref()));
        self.column(name, Kind::First { of, order })
    }

    fn column(mut self, name: &'static str, kind: Kind<E>) -> Self {
        self.columns.0.retain(|(known, _)| *known != name);
        self.columns.0.push((name, kind));
        self
    }
}

/// The contribution of an entity to a group, and the keys of the group's summary.
struct Part {
    summary: Keys,
    row: DynamicEntity,
}

/// Settling.
impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> View<E, S> {
    fn part(&self, entity: &E, keys: &Keys) -> Result<Option<Part>> {
        let Some(summary) = (self.group)(entity) else { return Ok(None) };
        let (partition_key, row_key) = summary.parts().map_err(Error::no_such_key)?;
        let summary = (partition_key.to_owned(), row_key.to_owned());
        let mut row = contribution(self.name, &summary, keys)?;
        self.columns.contribute(entity, &mut row)?;
        Ok(Some(Part { summary, row }))
    }

    /// Makes a summary agree with the current state of one entity.
    ///
    /// The order matters. First the summary is read, then the entity and its contribution. Then the
    /// summary is always written, on condition that it is unchanged. A late write is therefore refused
    /// if another one came in between, and a write based on an older state of the entity never
    /// overwrites a newer one. This is why a summary that needs no change is written as well, and why a
    /// summary without entities is kept.
    async fn settle_one(&self, settling: &Settling<E>, keys: &Keys) -> Result<Settled> {
        let summary = self.table.row(keys).await?;
        let of_view = summary.as_ref().map(|stored| text(&stored.entity, VIEW));
        if of_view.flatten().is_some_and(|view| view != self.name) {
            return Err(of_another_view());
        }
        let place = contribution(self.name, keys, settling.keys())?;
        let row = (place.partition_key, place.row_key);
        let (old, entity) = try_join(self.table.row(&row), settling.entity()).await?;
        let part = entity.map(|entity| self.part(&entity, settling.keys())).transpose()?.flatten();
        let new = part.filter(|part| part.summary == *keys).map(|part| part.row);
        if let Some(old) = &old {
            self.check_contribution(&old.entity)?;
        }
        let is_settled = old.as_ref().map(|old| &old.entity) == new.as_ref();
        let transaction = self.table.transaction();
        let transaction = match &summary {
            Some(summary) if is_settled => {
                let nothing = DynamicEntity::new(&*keys.0, &*keys.1);
                transaction.merge((&nothing, summary))
            }
            Some(summary) => {
                let new = self.summary(&summary.entity, old.as_ref(), new.as_ref()).await?;
                transaction.replace((&new, summary))
            }
            None => {
                let empty = DynamicEntity::new(&*keys.0, &*keys.1);
                let new = self.summary(&empty, old.as_ref(), new.as_ref()).await?;
                transaction.insert(&new)
            }
        };
        let transaction = match (&old, &new) {
            _ if is_settled => transaction,
            (None, None) => transaction,
            (None, Some(new)) => transaction.insert(new),
            (Some(old), Some(new)) => transaction.replace((new, old)),
            (Some(old), None) => transaction.delete(old.entity.key(), old),
        };
        settling.wrote(transaction.submit().await)
    }

    /// Refuses a row at the key of a contribution that is not one: it is never overwritten.
    fn check_contribution(&self, row: &DynamicEntity) -> Result<()> {
        if text(row, VIEW) == Some(self.name) {
            return check_format(row, "a contribution to a view");
        }
        let what = "a row of another program has the key of a contribution to the view";
        Err(Error::refused(ErrorKind::Invalid, what)
            .advise("move that row: RowKeys that begin with `from_` are reserved beside summaries")
            .in_index(self.name))
    }

    /// Returns the summary with `new` in place of `old`. Computes it from the old summary if
    /// possible, and otherwise from all contributions.
    async fn summary(
        &self,
        before: &DynamicEntity,
        old: Option<&Stored<DynamicEntity>>,
        new: Option<&DynamicEntity>,
    ) -> Result<DynamicEntity> {
        let old = old.map(|stored| &stored.entity);
        let mut summary = before.clone();
        if text(before, VIEW).is_some() && self.columns.replace(&mut summary, old, new)? {
            return Ok(summary);
        }
        self.added_up(before, old, new).await
    }

    /// Computes a summary from all contributions, with `new` in place of `old`.
    ///
    /// Contributions may be read in several pages. A writer that changes one in between also writes
    /// the summary, so the condition on the summary fails.
    async fn added_up(
        &self,
        before: &DynamicEntity,
        old: Option<&DynamicEntity>,
        new: Option<&DynamicEntity>,
    ) -> Result<DynamicEntity> {
        let mut summary = before.clone();
        summary.mark_as::<S>();
        summary.set(VIEW, self.name);
        self.columns.clear(&mut summary)?;
        let head = writer(&summary.row_key).finish().map_err(|error| Error::no_such_key(&error))?;
        let all = Partition::<DynamicEntity>::new(&*summary.partition_key).prefix(&head);
        let mut rows = self.table.query(all).stream();
        let changed = old.or(new).map(|row| row.row_key.clone());
        while let Some(Stored { entity: row, .. }) = rows.try_next().await? {
            if Some(&row.row_key) != changed.as_ref() && text(&row, VIEW) == Some(self.name) {
                check_format(&row, "a contribution to a view")?;
                self.columns.replace(&mut summary, None, Some(&row))?;
            }
        }
        self.columns.replace(&mut summary, None, new)?;
        Ok(summary)
    }

    /// Checks that a summary is what its contributions add up to. If it is not and `repairs` is set, corrects it.
    ///
    /// Settling moves a summary by the difference between two contributions. It keeps a right summary right
    /// and a wrong one wrong, so that a repair may set summaries and contributions in any order.
    async fn examine_summary(&self, keys: &Keys, repairs: bool) -> Result<Verdict> {
        let mut verdict = Verdict::Right;
        for _ in 0..ROUNDS {
            // An entity of the group reports a missing one.
            let Some(stored) = self.table.row(keys).await? else { return Ok(verdict) };
            if text(&stored.entity, VIEW).is_some_and(|view| view != self.name) {
                return Err(of_another_view());
            }
            let total = self.added_up(&stored.entity, None, None).await?;
            if total == stored.entity {
                return Ok(verdict);
            }
            if repairs {
                let written = self.table.transaction().replace((&total, &stored)).submit().await;
                match written {
                    Ok(_) => return Ok(Verdict::Stale),
                    // If it was written, the next round finds it right.
                    Err(error) if error.outcome() == Outcome::Unknown => verdict = Verdict::Stale,
                    Err(error) if is_lost(&error) => {}
                    Err(error) => return Err(error),
                }
            } else if is_still(&self.table, keys, &stored.etag).await? {
                return Ok(Verdict::Stale);
            }
        }
        Ok(Verdict::Skipped)
    }
}

fn of_another_view() -> Error {
    Error::refused(ErrorKind::Invalid, "the summary belongs to another view")
        .advise("give the summaries of each view different keys")
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> Declaration<E>
    for View<E, S>
{
    fn name(&self) -> &str {
        self.name
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    async fn create_if_missing(&self) -> Result<()> {
        self.table.table().create_if_missing().await.map(drop)
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        let part = |entity: Option<&E>| entity.map(|entity| self.part(entity, change.keys));
        // An invalid group of `after` refuses the write; an invalid one of `before` was never stored.
        let new = part(change.after).transpose()?.flatten();
        let old = part(change.before).and_then(Result::ok).flatten();
        let is_same = old.as_ref().map(|part| &part.row) == new.as_ref().map(|part| &part.row);
        if is_same && !change.is_rewrite() {
            return Ok(());
        }
        for part in new.into_iter().chain(old) {
            plan.target(row_address(&part.summary));
        }
        Ok(())
    }

    /// A summary that is made, or loses its first value, is added up by a query as well, which is not known before.
    fn settling_usage(&self, _: &str) -> Usage {
        // The summary, the contribution and the entity.
        Usage::of(Class::TableRead, 3) + Usage::of(Class::TableBatchWrite, 1)
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let keys = keys_at(address, self.name)?;
        self.settle_one(settling, &keys).await
    }

    async fn verify(&self, settling: &Settling<E>, address: &str) -> Result<Verdict> {
        let keys = keys_at(address, self.name)?;
        let place = contribution(self.name, &keys, settling.keys())?;
        let stored = (place.partition_key, place.row_key);
        let (summary, stored) = try_join(self.table.row(&keys), self.table.row(&stored)).await?;
        let entity = settling.entity().await?;
        let part = entity.map(|entity| self.part(&entity, settling.keys())).transpose()?;
        let expected = part.flatten().filter(|part| part.summary == keys).map(|part| part.row);
        Ok(match (stored.map(|stored| stored.entity), expected) {
            (Some(_), None) => Verdict::Orphaned,
            (None, Some(_)) => Verdict::Missing,
            (Some(stored), Some(expected)) if stored != expected => Verdict::Stale,
            (Some(_), Some(_)) if summary.is_none() => Verdict::Missing,
            _ => Verdict::Right,
        })
    }

    async fn examine_total(&self, address: &str, repairs: bool) -> Result<Verdict> {
        let keys = keys_at(address, self.name)?;
        self.examine_summary(&keys, repairs).await
    }

    fn total_of(&self, row: &DynamicEntity) -> Option<String> {
        let is_summary = text(row, VIEW) == Some(self.name) && primary_keys(row).is_none();
        is_summary.then(|| row_address(&(row.partition_key.clone(), row.row_key.clone())))
    }

    fn target_of(&self, row: &DynamicEntity) -> Option<(Key<E>, String)> {
        if text(row, VIEW) != Some(self.name) {
            return None;
        }
        let (partition_key, row_key) = primary_keys(row)?;
        let mut reader = KeyReader::new(&row.row_key);
        reader.literal("from_").ok()?;
        let summary = reader.part::<String>(PART).ok()?;
        let address = row_address(&(row.partition_key.clone(), summary));
        Some((Key::new(partition_key, row_key), address))
    }
}

/// Returns the contribution row of `entity` to a summary, without its values.
fn contribution(view: &str, summary: &Keys, entity: &Keys) -> Result<DynamicEntity> {
    let mut out = writer(&summary.1);
    out.part(&entity.0, PART);
    out.literal("_");
    out.literal(&entity.1);
    let row_key = out.finish().map_err(|error| {
        Error::no_such_key(&error)
            .advise("it contains the keys of the entity and of its summary; shorten them")
    })?;
    let mut row = DynamicEntity::new(&*summary.0, row_key);
    row.set(FORMAT, FORMAT_VERSION);
    row.set(VIEW, view);
    row.set(PRIMARY_PARTITION_KEY, &*entity.0);
    row.set(PRIMARY_ROW_KEY, &*entity.1);
    Ok(row)
}

/// In the RowKey of a contribution, all parts except the last end with `_`.
const PART: PartFormat = PartFormat { separator: Some('_'), ..PartFormat::DEFAULT };

/// Writes the prefix of the RowKeys of all contributions to a summary.
fn writer(summary_row_key: &String) -> KeyWriter {
    let mut out = KeyWriter::new();
    out.literal("from_");
    out.part(summary_row_key, PART);
    out.literal("_");
    out
}

shown!([E, S] View<E, S>: name);
