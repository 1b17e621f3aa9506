//! Queries: pages and streams of the entities in a partition, an index or a list.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::cost::Class;
use rowkey_client::index::{Copied, IndexRange, ListKey, Scope};
use rowkey_client::internals::shown;
use rowkey_client::telemetry::with_receipt;
use rowkey_client::{
    Continuation, DynamicEntity, Entity, Error, ErrorKind, Filter, Partition, Projection, Receipt,
    Result,
};

use super::Store;
use super::version::Versioned;
use crate::plan::explain::Explanation;
use crate::row::Seen;

mod read;

pub(super) use read::{Part, ends, rows_of, whole};

/// Entities in one request of a stream.
const STREAMED: u32 = 100;

/// The source of a [`Query`]: a partition or part of one, part of an index, or a list.
pub struct Selection<E>(Rows<E>);

enum Rows<E> {
    Entities(Partition<E>),
    Index(usize, Partition<DynamicEntity>),
    List(ListKey<E>),
}

impl<E> From<Partition<E>> for Selection<E> {
    fn from(partition: Partition<E>) -> Self {
        Self(Rows::Entities(partition))
    }
}

impl<E: Entity, S> From<IndexRange<E, S>> for Selection<E> {
    fn from(range: IndexRange<E, S>) -> Self {
        Self(Rows::Index(range.position(), range.partition_of()))
    }
}

impl<E> From<ListKey<E>> for Selection<E> {
    fn from(list: ListKey<E>) -> Self {
        Self(Rows::List(list))
    }
}

/// A query of a store, from [`Store::query`].
///
/// ```
/// # use rowkey::store::Store;
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
/// # struct Order { tenant: String, id: u32, customer: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
/// # orders.create_if_missing().await?;
/// for id in 0..5 {
///     orders.insert(&Order { tenant: "contoso".into(), id, customer: "ada".into() }).await?;
/// }
/// let first = orders.query(Order::by_customer("contoso", "ada")).page(3, None).await?;
/// assert_eq!(first.entities.len(), 3);
///
/// // The token needs no escaping in a URL.
/// let token = first.continuation.ok_or("there is more")?.to_string();
/// let second = orders.query(Order::by_customer("contoso", "ada")).page(3, Some(token.parse()?)).await?;
/// assert_eq!((second.entities.len(), second.continuation), (2, None));
/// # Ok(()) }
/// ```
#[must_use = "a query reads nothing until `page`, `stream` or `all`"]
pub struct Query<E> {
    store: Store<E>,
    source: Selection<E>,
    filter: Option<Filter>,
}

/// A page of entities and the position of the next page.
#[derive(Clone, Debug)]
pub struct Page<E> {
    /// The entities, each with its version.
    pub entities: Vec<Versioned<E>>,
    /// The start of the next page; `None` after the last page.
    pub continuation: Option<Continuation>,
    /// What all requests for the page used.
    pub receipt: Receipt,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Queries a partition, part of a partition, an index or a list: `Order::partition("contoso")`,
    /// `Order::by_customer("contoso", "ada")`.
    pub fn query(&self, source: impl Into<Selection<E>>) -> Query<E> {
        Query { store: self.clone(), source: source.into(), filter: None }
    }

    /// Counts the rows that a query reads. Costs one request per 1,000 rows; for a list, one
    /// request. If entities of the type expire, it counts the entities of the [query](Self::query), at its cost.
    pub async fn count(&self, source: impl Into<Selection<E>>) -> Result<u64> {
        let source = source.into();
        if E::DECLARED.expiry.is_some() {
            let found = self.query(source).stream();
            return found.try_fold(0, |count, _| future::ready(Ok(count + 1))).await;
        }
        let table = &self.inner.table;
        match source.0 {
            Rows::Entities(partition) => table.query(partition).count().await,
            Rows::Index(position, partition) => {
                let name = E::DECLARED.indexes[position].name;
                self.inner.check_reader(name).await?;
                let count = self.inner.table_of(name).query(partition).count().await;
                count.map_err(|error| self.inner.named_at(name, error))
            }
            Rows::List(list) => Ok(self.list_keys(&list).await?.len() as u64),
        }
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Query<E> {
    /// Returns only entities that match a filter: `Order::CENTS.ge(100)`. This shortens the response but does
    /// not make the read cheaper.
    ///
    /// Reading fails and sends nothing for a list, for an index whose copies lack a property in the filter,
    /// for an encrypted property, and for a query of a partition of wide entities that filters by a property
    /// other than the keys and the Timestamp.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
    /// # struct Order { tenant: String, id: u32, customer: String, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id, customer: &str| Order {
    /// #     tenant: "contoso".into(), id, customer: customer.into(), cents: 100 * i64::from(id),
    /// # };
    /// use futures_util::TryStreamExt as _;
    ///
    /// # for id in 1..=3 { orders.insert(&order(id, "ada")).await?; }
    /// assert_eq!(orders.count(Order::by_customer("contoso", "ada")).await?, 3);
    /// let large = orders.query(Order::by_customer("contoso", "ada")).filter(Order::CENTS.ge(200));
    /// assert_eq!(large.explain(20).reads(), 1);
    ///
    /// let mut found = large.stream();
    /// while let Some(found) = found.try_next().await? {
    ///     assert!(found.entity.cents >= 200);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// Reads up to `entities` entities, from the start or from the continuation of an earlier page.
    ///
    /// Costs one request, plus one for each page of the service that held fewer entities. For an index
    /// in another partition, or one whose copies are not whole, each entity is read as well, 16 at a
    /// time, and entities that are no longer in the index are skipped. For a list, each page reads the
    /// list and its entities.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `entities` is 0 or the continuation belongs to another query;
    /// nothing is sent. [`ErrorKind::Decode`] if rows do not decode
    /// ([`failed_rows`](rowkey_client::ErrorDetails::failed_rows)).
    pub async fn page(self, entities: u32, from: Option<Continuation>) -> Result<Page<E>> {
        let (page, receipt) = with_receipt(self.filled(entities, from)).await;
        page.map(|(entities, continuation)| Page { entities, continuation, receipt })
    }

    async fn filled(
        self,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<(Vec<Versioned<E>>, Option<Continuation>)> {
        let mut rows = Vec::new();
        let mut from = from;
        loop {
            let left = entities - u32::try_from(rows.len()).unwrap_or(entities);
            let page = self.some(left, from).await?;
            rows.extend(page.rows);
            from = page.continuation;
            if from.is_none() || rows.len() >= usize::try_from(entities).unwrap_or(usize::MAX) {
                let found = whole(stream::iter(rows)).await;
                let entities = found.map_err(|error| self.store.named("Query", error))?;
                return Ok((entities, from));
            }
        }
    }

    /// Lists the requests that reading a page of entities takes. Sends nothing.
    pub fn explain(&self, entities: u32) -> Explanation {
        let entities = usize::try_from(entities).unwrap_or(usize::MAX);
        let pages = entities.div_ceil(1000).max(1);
        let mut explanation = Explanation::default();
        match &self.source.0 {
            Rows::Entities(_) => {
                let rows = "rows of a partition, 1,000 per request";
                explanation.read(rows, Class::TableScan, pages);
                if self.store.inner.layers.is_wide() {
                    let rows = "the further rows of each entity that has some";
                    explanation.read(rows, Class::TableScan, entities);
                }
            }
            Rows::Index(position, _) => {
                let index = &E::DECLARED.indexes[*position];
                let rows = format!("rows of the index {}, 1,000 per request", index.name);
                explanation.read(&rows, Class::TableScan, pages);
                let is_whole = self.store.inner.layers.copies_are_whole();
                if !is_whole || (index.scope, index.copy) != (Scope::SamePartition, Copied::All) {
                    explanation.read("each entity", Class::TableRead, entities);
                }
            }
            Rows::List(list) => {
                let name = format!("the list {}", list.list().name);
                explanation.read(&name, Class::TableRead, 1);
                explanation.read("each entity", Class::TableRead, entities);
            }
        }
        explanation
    }

    /// Reads all entities one by one.
    ///
    /// A row that does not decode yields an error that names it
    /// ([`failed_rows`](rowkey_client::ErrorDetails::failed_rows)), and the stream continues with the next row. Any
    /// other error ends the stream.
    pub fn stream(self) -> Pin<Box<dyn Stream<Item = Result<Versioned<E>>> + Send>> {
        stream::try_unfold((self, Some(None)), |(query, from)| async move {
            let Some(from) = from else { return Ok(None) };
            let page = query.some(STREAMED, from).await?;
            let rows = stream::iter(page.rows);
            Ok::<_, Error>(Some((rows, (query, page.continuation.map(Some)))))
        })
        .try_flatten()
        .boxed()
    }

    /// Reads all entities into memory. Their number is limited only by memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] if rows do not decode, after all rows were read: the message says how
    /// many, and [`failed_rows`](rowkey_client::ErrorDetails::failed_rows) lists them.
    pub async fn all(self) -> Result<Vec<Versioned<E>>> {
        let store = self.store.clone();
        whole(self.stream()).await.map_err(|error| store.named("Query", error))
    }

    /// Streams selected properties of the entities of a partition, or of the copies in an index, without
    /// reading the whole entities. `P` is a type with `#[derive(Projection)]`, whose keys are those of the
    /// entity; the result has no version.
    ///
    /// Costs one request per 1,000 entities. A copy in another partition may lag behind its entity for a
    /// while.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`], and nothing is sent, if the copies in the index lack a property of
    /// `P`, or if a layer has to open the rows of the type, such as encryption.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, Projection, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(index(name = by_customer, row = "customer_{customer}", many, copy(cents)))]
    /// struct Order { tenant: String, id: u32, customer: String, cents: i64, notes: String }
    ///
    /// #[derive(Debug, PartialEq, Projection)]
    /// struct Spent { cents: i64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// let (tenant, customer, notes) = ("contoso".to_owned(), "ada".to_owned(), "-".repeat(1000));
    /// orders.insert(&Order { tenant, id: 1, customer, cents: 995, notes }).await?;
    /// let of_ada = orders.query(Order::by_customer("contoso", "ada"));
    /// let spent: Vec<_> = of_ada.stream_as::<Spent>().try_collect().await?;
    /// assert_eq!(spent, [Spent { cents: 995 }]);
    ///
    /// let of_ada = orders.query(Order::by_customer("contoso", "ada"));
    /// let (page, next) = of_ada.page_as::<Spent>(10, None).await?;
    /// assert_eq!((page, next), (spent, None));
    /// # Ok(()) }
    /// ```
    pub fn stream_as<P>(self) -> Pin<Box<dyn Stream<Item = Result<P>> + Send>>
    where
        P: Projection + Send + 'static,
    {
        if let Err(error) = self.store.may_project() {
            return stream::once(async { Err(error) }).boxed();
        }
        let table = &self.store.inner.table;
        match &self.source.0 {
            Rows::Entities(partition) => self
                .filtered(table.query(partition.clone()).project::<P>())
                .stream()
                .map_ok(|stored| stored.entity)
                .boxed(),
            Rows::Index(position, rows) => {
                let (inner, name) =
                    (Arc::clone(&self.store.inner), E::DECLARED.indexes[*position].name);
                let rows = inner.table_of(name).query(rows.clone()).project::<Seen<P>>();
                let stored = self.filtered(rows).stream();
                let of = Arc::clone(&inner);
                let found = stored.map_ok(|stored| stored.entity.0);
                let found = found.map_err(move |error| of.named_at(name, error));
                let checked = async move { inner.check_reader(name).await.map(|()| found) };
                stream::once(checked).try_flatten().boxed()
            }
            Rows::List(list) => {
                let error = no_properties(list.list().name);
                stream::once(async { Err(error) }).boxed()
            }
        }
    }

    /// Reads selected properties of up to `entities` entities, as [`stream_as`](Self::stream_as) does, and
    /// returns the start of the next page, as [`page`](Self::page) does.
    pub async fn page_as<P>(
        self,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<(Vec<P>, Option<Continuation>)>
    where
        P: Projection + Send + 'static,
    {
        self.store.may_project()?;
        let table = &self.store.inner.table;
        match &self.source.0 {
            Rows::Entities(partition) => {
                let query = table.query(partition.clone()).project::<P>();
                let page = self.filtered(query).page(entities, from).await?;
                let found = page.entities.into_iter().map(|stored| stored.entity);
                Ok((found.collect(), page.continuation))
            }
            Rows::List(list) => Err(no_properties(list.list().name)),
            Rows::Index(position, rows) => {
                let (inner, name) = (&self.store.inner, E::DECLARED.indexes[*position].name);
                inner.check_reader(name).await?;
                let query = inner.table_of(name).query(rows.clone()).project::<Seen<P>>();
                let page = self.filtered(query).page(entities, from).await;
                let page = page.map_err(|error| inner.named_at(name, error))?;
                let found = page.entities.into_iter().map(|stored| stored.entity.0);
                Ok((found.collect(), page.continuation))
            }
        }
    }

    fn filtered<P>(&self, query: rowkey_client::Query<P>) -> rowkey_client::Query<P>
    where
        P: Projection + Send + 'static,
    {
        match &self.filter {
            Some(filter) => query.filter(filter.clone()),
            None => query,
        }
    }
}

fn no_properties(list: &'static str) -> Error {
    let what = format!("the list `{list}` names entities, but has none of their properties");
    Error::refused(ErrorKind::Invalid, what)
        .advise("read the entities, and filter them")
        .in_index(list)
}

impl<E> fmt::Debug for Selection<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            Rows::Entities(_) => "a partition",
            Rows::Index(..) => "an index",
            Rows::List(_) => "a list",
        };
        f.debug_tuple("Selection").field(&what).finish()
    }
}

shown!([E] Query<E>: source);
