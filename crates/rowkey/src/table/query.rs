//! What to read: a partition, a part of one, or the whole table.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;

use rowkey_wire::filter as wire;
use rowkey_wire::filter::Operator;
use rowkey_wire::limits::MAX_PAGE;

use super::ahead;
use super::continuation::Continuation;
use super::cost::Cost;
use super::entities;
use super::explain::Explanation;
use super::handle::{Table, key_error};
use super::keyed::Keyed;
use super::pages::{Page, Reader, Stream};
use super::plan::Plan;
use crate::entity::{DynamicEntity, Entity, Projection, Rows, Stored};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filter;
use crate::key::Partition;
use crate::key::address::Span;
use crate::options::ScanPolicy;
use crate::service::progress::{Limits, limits};

/// The property that tells the type of an entity whose rows do not.
const KIND: &str = "EntityType";

/// A query of entities, read as type `P`.
///
/// Made by [`Table::query`] and [`Table::scan`]; nothing is sent before [`stream`](Self::stream),
/// [`pages`](Self::pages), [`all`](Self::all) or [`first`](Self::first).
#[must_use = "a query reads nothing until `stream`, `pages`, `all` or `first`"]
pub struct Query<P> {
    table: Table,
    span: Option<Span>,
    rows: (Bound<String>, Bound<String>),
    filter: Option<wire::Filter>,
    select: Option<Vec<String>>,
    page_size: Option<u32>,
    take: Option<u64>,
    resume: Option<Continuation>,
    prefetch: bool,
    limits: Limits,
    scan_policy: ScanPolicy,
    /// Why nothing can be sent.
    error: Option<(ErrorKind, String)>,
    projection: PhantomData<fn() -> P>,
}

impl<P: Projection + Send + 'static> Query<P> {
    /// Only entities for which `filter` holds. Several filters must all hold.
    ///
    /// A filter on properties makes the answer shorter, not the reading cheaper: see
    /// [`cost`](Self::cost).
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_wire() {
            Ok(filter) => {
                self.filter = Some(wire::Filter::narrowed(self.filter.take(), filter));
            }
            Err(error) => self.fail(ErrorKind::Invalid, format!("in the filter: {error}")),
        }
        self
    }

    /// Reads each entity as `Q`, and asks the service for the properties of `Q` alone.
    pub fn project<Q: Projection + Send + 'static>(self) -> Query<Q> {
        let select = Q::COLUMNS.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        Query { select, ..self.read_as() }
    }

    /// Reads each entity together with its keys as they are stored: exact, whatever the type makes
    /// of them, where the place of an entity matters.
    pub fn keyed(self) -> Query<Keyed<P>> {
        self.read_as()
    }

    /// How many entities a page has at most, 1 to 1000 (`$top`). The service may send fewer, even
    /// none, and still have more.
    pub fn page_size(mut self, entities: u32) -> Self {
        if !(1..=MAX_PAGE).contains(&entities) {
            self.fail(ErrorKind::Invalid, format!("a page has 1 to {MAX_PAGE} entities"));
        }
        self.page_size = Some(entities);
        self
    }

    /// At most this many entities in all, over as many pages as it takes; said several times, the
    /// least of them.
    pub fn take(mut self, entities: u64) -> Self {
        self.take = Some(self.take.map_or(entities, |take| take.min(entities)));
        self
    }

    limits!();

    /// Goes on where `continuation` points; it must come from the same query. What was left of its
    /// [`take`](Self::take) is left, or less if this query takes less.
    pub fn resume(mut self, continuation: Continuation) -> Self {
        self.resume = Some(continuation);
        self
    }

    /// Asks for the next page while one is being used, when the query is read as a stream: the
    /// service and the program work at the same time.
    ///
    /// At most two pages are in memory. A stream that is dropped early
    /// may have asked for a page that nobody reads.
    pub fn prefetch(mut self) -> Self {
        self.prefetch = true;
        self
    }

    /// What this query may do if it is a table scan, whatever the client's options say.
    pub fn scan_policy(mut self, policy: ScanPolicy) -> Self {
        self.scan_policy = policy;
        self
    }

    /// The table that is read.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What the query makes the service read.
    pub fn cost(&self) -> Result<Cost> {
        Ok(self.plan()?.cost)
    }

    /// The requests that the query begins with, or goes on with after
    /// [`resume`](Self::resume), without sending them.
    ///
    /// Fails as the query would before it is sent: with [`ErrorKind::TooLarge`] when a filter makes an
    /// address of more than 65,534 bytes.
    pub fn explain(&self) -> Result<Explanation> {
        let plan = self.plan()?;
        let from = super::pages::begin(&self.table, &plan, self.take, self.resume.clone())?;
        Explanation::new(&self.table, &plan, self.page_size, from.as_ref())
            .map_err(|error| error.of("QueryEntities", self.table.name()))
    }

    /// Reads the entities one by one, asking for the next page when one is used up, or
    /// before with [`prefetch`](Self::prefetch).
    pub fn stream(self) -> Stream<Stored<P>> {
        let prefetch = self.prefetch;
        entities::entities(self.into_reader(), prefetch)
    }

    /// Reads page by page. A page may be empty and have a continuation.
    pub fn pages(self) -> Stream<Page<P>> {
        if self.prefetch {
            ahead::pages(self.into_reader())
        } else {
            super::pages::pages(self.into_reader())
        }
    }

    /// Reads all entities into memory.
    pub async fn all(self) -> Result<Vec<Stored<P>>> {
        let mut reader = self.into_reader()?;
        let mut all = Vec::new();
        while let Some(page) = reader.next().await? {
            if all.is_empty() {
                all = page.entities;
            } else {
                all.extend(page.entities);
            }
        }
        Ok(all)
    }

    /// Reads the first entity, following continuations until there is one.
    pub async fn first(self) -> Result<Option<Stored<P>>> {
        Ok(self.take(1).all().await?.pop())
    }

    fn into_reader(self) -> Result<Reader<P>> {
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
        Reader::new(self.table, plan, self.page_size, self.take, self.resume, self.limits)
    }

    fn plan(&self) -> Result<Plan> {
        if let Some((kind, what)) = &self.error {
            let error = match kind {
                ErrorKind::TooLarge => Error::too_large(what.clone()),
                _ => Error::invalid(what.clone()),
            };
            return Err(error.of("QueryEntities", self.table.name()));
        }
        Plan::new(
            self.span.as_ref(),
            (&self.rows.0, &self.rows.1),
            self.filter.clone(),
            self.select.clone(),
        )
        .map_err(|error| error.of("QueryEntities", self.table.name()))
    }

    fn fail(&mut self, kind: ErrorKind, what: String) {
        self.error.get_or_insert((kind, what));
    }

    fn read_as<Q>(self) -> Query<Q> {
        Query {
            table: self.table,
            span: self.span,
            rows: self.rows,
            filter: self.filter,
            select: self.select,
            page_size: self.page_size,
            take: self.take,
            resume: self.resume,
            prefetch: self.prefetch,
            limits: self.limits,
            scan_policy: self.scan_policy,
            error: self.error,
            projection: PhantomData,
        }
    }
}

impl Query<DynamicEntity> {
    /// Asks for these properties alone; the keys and the Timestamp always come along. A type of
    /// yours would miss the others: read a part of one with [`project`](Query::project).
    pub fn select<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.select = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

impl<E: Entity + Send + 'static> Query<E> {
    pub(crate) fn of_partition(table: Table, partition: Partition<E>) -> Self {
        let (span, error) = match partition.into_span() {
            Ok(span) => (Some(span), None),
            Err(error) => (None, Some((key_error(&error).kind(), error.to_string()))),
        };
        let rows = span.as_ref().map_or((Bound::Unbounded, Bound::Unbounded), |span| {
            (span.from.clone(), span.to.clone())
        });
        Self::new(table, span, rows, error)
    }

    pub(crate) fn of_table(table: Table) -> Self {
        let rows = match E::ROWS {
            Rows::All => (Bound::Unbounded, Bound::Unbounded),
            Rows::Head(head) => crate::key::address::prefix(head),
            Rows::One(row) => (Bound::Included(row.to_owned()), Bound::Included(row.to_owned())),
        };
        Self::new(table, None, rows, None)
    }

    fn new(
        table: Table,
        span: Option<Span>,
        rows: (Bound<String>, Bound<String>),
        error: Option<(ErrorKind, String)>,
    ) -> Self {
        let filter = E::KIND.map(|kind| wire::Filter::compare(KIND, Operator::Equal, kind));
        let scan_policy = table.options().scan_policy;
        Self {
            table,
            span,
            rows,
            filter,
            select: None,
            page_size: None,
            take: None,
            resume: None,
            prefetch: false,
            limits: Limits::default(),
            scan_policy,
            error,
            projection: PhantomData,
        }
    }
}

impl<P> fmt::Debug for Query<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
