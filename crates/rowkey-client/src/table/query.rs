//! Queries: of a partition, a part of one, or the whole table. This file is what a query asks for and what it costs;
//! `reading` sends it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;

use rowkey_entity::index::Index;
use rowkey_entity::internals::{RowKeys, Span, Stretch, columns};
use rowkey_entity::{DynamicEntity, Entity, FailedRow, Filter, Partition, Projection};
use rowkey_wire::filter as wire;
use rowkey_wire::filter::Operator;
use rowkey_wire::limits::MAX_PAGE;

use super::copies::copies_have;
use super::cost::Cost;
use super::explain::Explanation;
use super::handle::Table;
use super::keyed::Keyed;
use super::pages::{Reader, RowLimits};
use super::plan::Plan;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{ClientOptions, ScanPolicy};
use crate::paging::progress::{Limits, limits};
use crate::paging::{Continuation, ServiceToken};

mod reading;

/// A query of entities, read as type `P`.
///
/// Created by [`Table::query`] and [`Table::scan`]; nothing is sent before [`page`](Self::page),
/// [`stream`](Self::stream), [`pages`](Self::pages), [`all`](Self::all) or [`first`](Self::first).
#[must_use = "a query reads nothing until `page`, `stream`, `pages`, `all` or `first`"]
pub struct Query<P> {
    table: Table,
    partitions: Stretch,
    rows: RowKeys,
    /// The index whose copies are read; `None` for the entities themselves.
    index: Option<&'static Index>,
    /// The indexes whose copies are skipped.
    copies: &'static [&'static [Index]],
    filter: Option<wire::Filter>,
    select: Option<Vec<String>>,
    page_size: Option<u32>,
    take: Option<u64>,
    resume: Option<Continuation>,
    prefetch: bool,
    limits: Limits,
    fail_fast: bool,
    scan_policy: ScanPolicy,
    /// The error that prevents the query from being sent.
    error: Option<(ErrorKind, String)>,
    projection: PhantomData<fn() -> P>,
}

impl<P: Projection + Send + 'static> Query<P> {
    /// Returns only entities that match `filter`. If it is called several times, all filters must
    /// match.
    ///
    /// A filter on properties makes the response smaller, but the query no cheaper: see
    /// [`cost`](Self::cost). A query of the copies in an index fails, and sends nothing, if the
    /// filter needs a property that the copies do not have: see [`Index::has_column`].
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let of_contoso = orders.query(Order::partition("contoso"));
    /// let found = of_contoso.filter(Order::CENTS.ge(200)).filter(Order::CENTS.lt(400)).all().await?;
    /// assert_eq!(found.iter().map(|found| found.entity.id).collect::<Vec<_>>(), [2, 3]);
    ///
    /// let first = orders.query(Order::partition("contoso")).filter(Order::CENTS.gt(300)).first();
    /// assert_eq!(first.await?.ok_or("not found")?.entity.id, 4);
    /// # Ok(()) }
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_wire() {
            Ok(filter) => {
                self.filter = Some(wire::Filter::narrowed(self.filter.take(), filter));
            }
            Err(error) => self.fail(ErrorKind::Invalid, format!("in the filter: {error}")),
        }
        self
    }

    /// Reads each entity as `Q`, and requests only the properties of `Q` from the service.
    ///
    /// A query of the copies in an index fails, and sends nothing, if `Q` needs a property that the
    /// copies do not have: see [`Index::has_column`].
    ///
    /// ```
    /// use rowkey::Projection;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// #[derive(Debug, PartialEq, Projection)]
    /// struct Price { cents: i64 }
    ///
    /// let prices = orders.query(Order::partition("contoso")).project::<Price>().all().await?;
    /// assert_eq!(prices[4].entity, Price { cents: 500 });
    /// # Ok(()) }
    /// ```
    pub fn project<Q: Projection + Send + 'static>(self) -> Query<Q> {
        let select = Q::COLUMNS.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        Query { select, ..self.read_as() }
    }

    /// Reads each entity together with its exact stored keys, for code that needs the address of an
    /// entity even if its type would write other keys.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let keyed = orders.query(Order::partition("contoso")).keyed();
    /// let first = keyed.first().await?.ok_or("not found")?;
    /// assert_eq!(&*first.entity.row_key, "order_000001");
    /// # Ok(()) }
    /// ```
    pub fn keyed(self) -> Query<Keyed<P>> {
        self.read_as()
    }

    /// Reads each row as a [`Result`]: the entity, or the [`FailedRow`] if it does not decode. Use
    /// it to separate the rows that decode from those that do not, and to page through such rows.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, Entity, StorageAccount};
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:9}")]
    /// # struct Order { tenant: String, id: u64, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # orders.insert(&Order { tenant: "contoso".into(), id: 1, cents: 995 }).await?;
    /// # orders.insert(&DynamicEntity::new("contoso", "order_2")).await?;
    /// let (mut found, mut failed) = (Vec::new(), Vec::new());
    /// for row in orders.query(Order::partition("contoso")).results().all().await? {
    ///     match row.entity {
    ///         Ok(order) => found.push(order),
    ///         Err(row) => failed.push(row),
    ///     }
    /// }
    /// assert_eq!((found.len(), failed.len()), (1, 1));
    /// assert_eq!(&*failed[0].row_key, "order_2");
    ///
    /// let stopped = orders.query(Order::partition("contoso")).fail_fast().all().await;
    /// assert!(stopped.is_err_and(|error| error.details().failed_rows.len() == 1));
    /// # Ok(()) }
    /// ```
    pub fn results(self) -> Query<Result<P, FailedRow>> {
        self.read_as()
    }

    /// Stops at the first row that does not decode: a stream ends after its error, and
    /// [`all`](Self::all) requests no further page.
    ///
    /// Without it a stream yields an error for each such row, which
    /// [names the row](crate::ErrorDetails::failed_rows), and continues with the next one. Any
    /// other error ends a stream in both cases.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// The most entities that a request asks for, 1 to 1000 (`$top`). The service may send fewer,
    /// even none, and still have more. [`page`](Self::page) fills pages.
    pub fn page_size(mut self, entities: u32) -> Self {
        if !(1..=MAX_PAGE).contains(&entities) {
            self.fail(ErrorKind::Invalid, format!("the page size must be 1 to {MAX_PAGE}"));
        }
        self.page_size = Some(entities);
        self
    }

    /// Limits this reading to `entities` entities, over as many requests as it takes. If it is
    /// called several times, the lowest limit applies. A row that does not decode counts as one.
    ///
    /// A continuation does not contain the limit: the last page of [`pages`](Self::pages) has one
    /// if there are more entities, and a query that [resumes](Self::resume) there takes as many
    /// again.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let three = orders.query(Order::partition("contoso")).page_size(2).take(3).all().await?;
    /// assert_eq!(three.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn take(mut self, entities: u64) -> Self {
        self.take = Some(self.take.map_or(entities, |take| take.min(entities)));
        self
    }

    limits!();

    /// Resumes from `continuation`, which must come from the same query.
    ///
    /// If it comes from another query, reading fails with [`ErrorKind::Invalid`] and sends nothing.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let query = || orders.query(Order::partition("contoso")).page_size(2);
    /// let first = query().pages().try_next().await?.ok_or("there is a page")?;
    /// let stored = first.continuation.ok_or("there is more")?.to_string();
    ///
    /// let rest = query().resume(stored.parse()?).all().await?;
    /// assert_eq!(rest.iter().map(|found| found.entity.id).collect::<Vec<_>>(), [3, 4, 5]);
    /// # Ok(()) }
    /// ```
    pub fn resume(mut self, continuation: Continuation) -> Self {
        self.resume = Some(continuation);
        self
    }

    /// Converts a token of another library into a continuation of this query, for
    /// [`resume`](Self::resume).
    ///
    /// The token must come from the same query. This cannot be checked: the token does not identify
    /// its query, and the service returns the entities after that position.
    ///
    /// Fails with [`ErrorKind::Invalid`] if this query is sent as several, because the token does
    /// not say which of them it belongs to.
    ///
    /// ```
    /// use rowkey::table::ServiceToken;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// // As Azure.Data.Tables stored it: base64 of both keys.
    /// let token: ServiceToken = "1!12!Y29udG9zbw-- 1!16!b3JkZXJfMDAwMDA0".parse()?;
    /// let query = orders.query(Order::partition("contoso"));
    /// let from = query.continuation(token)?;
    /// assert_eq!(query.page(1, Some(from)).await?.entities[0].entity.id, 4);
    /// # Ok(()) }
    /// ```
    pub fn continuation(&self, token: ServiceToken) -> Result<Continuation> {
        let plan = self.plan()?;
        if plan.filters.len() != 1 {
            let what = "the token does not identify one of the queries";
            return Err(Error::invalid(what).of("QueryEntities", self.table.name()));
        }
        let query = plan.fingerprint(self.table.name());
        Ok(Continuation { query, part: 0, token: Some(token.into_wire()), secondary: false })
    }

    /// Requests the next page while the current one is used, when the query is read as a stream, so
    /// that the service and the program work at the same time.
    ///
    /// At most two pages are in memory. A stream that is dropped early may have requested a page
    /// that is never read.
    pub fn prefetch(mut self) -> Self {
        self.prefetch = true;
        self
    }

    /// What happens if this query is a table scan; overrides the client's option.
    pub fn scan_policy(mut self, policy: ScanPolicy) -> Self {
        self.scan_policy = policy;
        self
    }

    /// The table to read.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How much the service reads for this query.
    ///
    /// ```
    /// use rowkey::{Cost, ScanPolicy};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// assert_eq!(orders.query(Order::partition("contoso")).cost()?, Cost::RangeQuery);
    /// assert_eq!(orders.scan::<Order>().cost()?, Cost::TableScan);
    /// let denied = orders.scan::<Order>().scan_policy(ScanPolicy::Deny).all().await.unwrap_err();
    /// assert_eq!(denied.kind(), rowkey::ErrorKind::Invalid);
    /// # Ok(()) }
    /// ```
    pub fn cost(&self) -> Result<Cost> {
        Ok(self.plan()?.cost)
    }

    /// The first requests of the query, or those after [`resume`](Self::resume), without sending
    /// them.
    ///
    /// Fails as the query would before it is sent: with [`ErrorKind::TooLarge`] when a filter makes
    /// a URL of more than 65,534 bytes.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// let query = orders.query(Order::partition("contoso")).filter(Order::CENTS.exact().ge(200));
    /// let explanation = query.explain()?;
    /// assert_eq!(explanation.requests.len(), 1);
    /// assert!(explanation.to_string().contains("cents ge 200L"), "{explanation}");
    /// # Ok(()) }
    /// ```
    pub fn explain(&self) -> Result<Explanation> {
        let plan = self.plan()?;
        let row_limits = RowLimits::new(self.page_size, self.take);
        let from = super::pages::begin(&self.table, &plan, self.resume.clone())?;
        let from = from.filter(|_| !row_limits.is_done());
        Explanation::new(&self.table, &plan, row_limits.top(), from.as_ref())
            .map_err(|error| error.of("QueryEntities", self.table.name()))
    }

    pub(super) fn into_reader(self) -> Result<Reader<P>> {
        let plan = self.plan()?;
        if plan.cost == Cost::TableScan {
            match self.scan_policy {
                ScanPolicy::Allow => {}
                ScanPolicy::Deny => {
                    let what = "the query is a table scan, and the scan policy denies those; name a \
                                partition, or allow this one with `scan_policy`";
                    return Err(Error::invalid(what).of("QueryEntities", self.table.name()));
                }
                ScanPolicy::Warn => tracing::warn!(
                    table = self.table.name(),
                    "table scan: the query reads every partition"
                ),
            }
        }
        let row_limits = (self.page_size, self.take);
        Reader::new(self.table, plan, row_limits, self.resume, (self.limits, self.fail_fast))
    }

    /// The same query once more.
    pub(super) fn again(&self) -> Self {
        Self {
            table: self.table.clone(),
            partitions: self.partitions.clone(),
            rows: self.rows.clone(),
            filter: self.filter.clone(),
            select: self.select.clone(),
            resume: self.resume.clone(),
            error: self.error.clone(),
            ..*self
        }
    }

    /// The same query on the primary.
    pub(super) fn on_primary(mut self) -> Self {
        let options = self.table.account().options();
        if options.read_from_secondary {
            let options = ClientOptions { read_from_secondary: false, ..options.clone() };
            self.table = self.table.with_options(options);
        }
        self
    }

    /// Whether it reads only a part: from a place on, or some of the entities.
    pub(super) fn is_part(&self) -> bool {
        self.take.is_some() || self.resume.is_some()
    }

    pub(super) fn table_name(&self) -> &str {
        self.table.name()
    }

    /// A fingerprint of the query, the same in every process: tokens over several queries are bound
    /// to it.
    #[doc(hidden)]
    pub fn fingerprint(&self) -> Result<u64> {
        self.plan().map(|plan| plan.fingerprint(self.table.name()))
    }

    /// Whether ranges of its keys, read apart, give the same rows in the same order. A query that is sent as several begins
    /// again with the lowest keys for each of them, and a [limit](Self::take) would apply to each range.
    #[doc(hidden)]
    pub fn is_divisible(&self) -> bool {
        self.take.is_none() && self.plan().is_ok_and(|plan| plan.filters.len() <= 1)
    }

    fn plan(&self) -> Result<Plan> {
        if let Some((kind, what)) = &self.error {
            let error = match kind {
                ErrorKind::TooLarge => Error::too_large(what.clone()),
                _ => Error::invalid(what.clone()),
            };
            return Err(error.of("QueryEntities", self.table.name()));
        }
        let (filter, select) = (self.filter.clone(), self.select.clone());
        self.check_columns()
            .and_then(|()| Plan::new(&self.partitions, &self.rows, filter, select))
            .map(|plan| plan.without_copies(self.copies))
            .map_err(|error| error.of("QueryEntities", self.table.name()))
    }

    /// Checks that the copies have every property that is needed: one that they lack must not count
    /// as absent.
    fn check_columns(&self) -> Result<()> {
        let Some(index) = self.index else { return Ok(()) };
        let mut compared = Vec::new();
        if let Some(filter) = &self.filter {
            columns(filter, &mut compared);
        }
        let selected = self.select.iter().flatten().map(String::as_str);
        copies_have(index, compared, "filter")?;
        copies_have(index, selected, "projection")
    }

    fn fail(&mut self, kind: ErrorKind, what: String) {
        self.error.get_or_insert((kind, what));
    }

    fn read_as<Q>(self) -> Query<Q> {
        Query {
            table: self.table,
            partitions: self.partitions,
            rows: self.rows,
            index: self.index,
            copies: self.copies,
            filter: self.filter,
            select: self.select,
            page_size: self.page_size,
            take: self.take,
            resume: self.resume,
            prefetch: self.prefetch,
            limits: self.limits,
            fail_fast: self.fail_fast,
            scan_policy: self.scan_policy,
            error: self.error,
            projection: PhantomData,
        }
    }
}

impl Query<DynamicEntity> {
    /// Requests only these properties; the keys and the Timestamp are always included. Other types
    /// would miss the properties left out: read a part of one with [`project`](Query::project).
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, Partition};
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let all = orders.query(Partition::<DynamicEntity>::new("contoso"));
    /// let rows = all.select(["cents"]).all().await?;
    /// assert_eq!(rows[0].entity.get_as::<i64>("cents")?, 100);
    /// assert_eq!(rows[0].entity.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn select<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.select = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

impl<E: Entity + Send + 'static> Query<E> {
    pub(crate) fn of_partition(table: Table, partition: Partition<E>) -> Self {
        match partition.into_span() {
            Ok(Span { partition_key, rows, index }) => {
                let key = Bound::Included(partition_key);
                let copies = if index.is_none() { E::COPIES } else { &[] };
                Self { index, copies, ..Self::new(table, (key.clone(), key), rows) }
            }
            Err(error) => {
                let mut none = Self::of_table(table);
                none.fail(Error::no_such_key(&error).kind(), error.to_string());
                none
            }
        }
    }

    pub(crate) fn of_table(table: Table) -> Self {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let partitions = E::PARTITIONS.keys().exactly().cloned().unwrap_or(all);
        Self { copies: E::COPIES, ..Self::new(table, partitions, E::ROWS.keys()) }
    }

    /// A query of the partitions whose PartitionKeys are above a bound.
    pub(super) fn of_partitions(table: Table, after: Bound<String>) -> Self {
        Self::new(table, (after, Bound::Unbounded), E::ROWS.keys())
    }

    fn new(table: Table, partitions: Stretch, rows: RowKeys) -> Self {
        let filter =
            E::KIND.map(|kind| wire::Filter::compare(E::DISCRIMINATOR, Operator::Equal, kind));
        let scan_policy = table.account().options().scan_policy;
        Self {
            table,
            partitions,
            rows,
            index: None,
            copies: &[],
            filter,
            select: None,
            page_size: None,
            take: None,
            resume: None,
            prefetch: false,
            limits: Limits::default(),
            fail_fast: false,
            scan_policy,
            error: None,
            projection: PhantomData,
        }
    }
}

impl<P> fmt::Debug for Query<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
