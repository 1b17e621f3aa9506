//! Queries of many entities: of a partition or through an index, page by page.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use rowkey::index::{Copied, IndexRange, ListKey, Scope};
use rowkey::{
    Continuation, DynamicEntity, Entity, Error, ErrorKind, FailedRow, Filter, Partition,
    Projection, Result, Stored,
};

use super::{Inner, Store};
use crate::plan::Explanation;
use crate::row::{Copy, Head, Keys, Pointer, Seen};
use crate::together::all_until;
use crate::version::{Version, Versioned};

/// Entities that are read at a time where an index has no whole copies.
const AT_A_TIME: usize = 16;

/// Entities in one request of a stream.
const STREAMED: u32 = 100;

/// What a [`Query`] reads: a partition or a part of one, a part of an index, or a list.
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
/// # use rowkey::{Entity, StorageAccount};
/// # use rowkey_store::Store;
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
/// // The token stands in a URL as it is.
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

/// A page of entities and where the next one begins.
#[derive(Clone, Debug)]
pub struct Page<E> {
    /// The entities, each with its version.
    pub entities: Vec<Versioned<E>>,
    /// Where the next page begins; `None` if nothing is left.
    pub continuation: Option<Continuation>,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// A query of a partition, or of a part of one, or of entities by an index or a list:
    /// `Order::partition("contoso")`, `Order::by_customer("contoso", "ada")`.
    pub fn query(&self, source: impl Into<Selection<E>>) -> Query<E> {
        Query { store: self.clone(), source: source.into(), filter: None }
    }

    /// The number of rows that a query reads. One request for each 1,000; of a list one request.
    pub async fn count(&self, source: impl Into<Selection<E>>) -> Result<u64> {
        let table = &self.inner.table;
        let keys = |query: rowkey::Query<crate::job::Keys>| async move {
            query.stream().try_fold(0, |count, _| async move { Ok(count + 1) }).await
        };
        match source.into().0 {
            Rows::Entities(partition) => keys(table.query(partition).project()).await,
            Rows::Index(position, partition) => {
                self.inner.check_reader(E::INDEXES[position].name).await?;
                keys(table.query(partition).project()).await
            }
            Rows::List(list) => Ok(self.list_keys(&list).await?.len() as u64),
        }
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Query<E> {
    /// Only entities that a filter accepts: `Order::CENTS.ge(100)`. Makes the answer shorter, not the
    /// reading cheaper.
    ///
    /// In an index whose copies lack the property, of a list, for a property that is encrypted, and for one of
    /// wide entities of a partition, reading fails and sends nothing.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// Reads `entities` of them, or all that are left if those are fewer, from the beginning or from
    /// where a page before this one ended.
    ///
    /// One request, and one more for each page of the service that had fewer. Through an index in
    /// another partition, or one whose copies are not whole, each entity is read as well, 16 at a time,
    /// and those that are not in the index any more are passed over. Of a list, each page reads the list
    /// and its entities.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `entities` is 0, and if the continuation is
    /// of another query: nothing is sent then. [`ErrorKind::Decode`] if rows do not decode
    /// ([`failed_rows`](rowkey::ErrorDetails::failed_rows)).
    pub async fn page(self, entities: u32, from: Option<Continuation>) -> Result<Page<E>> {
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
                return Ok(Page { entities, continuation: from });
            }
        }
    }

    /// What it takes to read a page of entities. Sends nothing.
    pub fn explain(&self, entities: u32) -> Explanation {
        let entities = usize::try_from(entities).unwrap_or(usize::MAX);
        let pages = entities.div_ceil(1000).max(1);
        let mut explanation = Explanation::default();
        match &self.source.0 {
            Rows::Entities(_) => {
                explanation.read("rows of a partition, 1,000 a request", pages);
                if self.store.inner.layers.is_wide() {
                    explanation.read("the further rows of each entity that has some", entities);
                }
            }
            Rows::Index(position, _) => {
                let index = &E::INDEXES[*position];
                let rows = format!("rows of the index {}, 1,000 a request", index.name);
                explanation.read(&rows, pages);
                let is_whole = self.store.inner.layers.copies_are_whole();
                if !is_whole || (index.scope, index.copy) != (Scope::SamePartition, Copied::All) {
                    explanation.read("each entity", entities);
                }
            }
            Rows::List(list) => {
                explanation.read(&format!("the list {}", list.list().name), 1);
                explanation.read("each entity", entities);
            }
        }
        explanation
    }

    /// Reads all entities one by one.
    ///
    /// A row that does not decode is an error that names it ([`failed_rows`](rowkey::ErrorDetails::failed_rows)), and the stream goes on
    /// with the next one. Any other error ends the stream.
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

    /// Reads all entities. Their number is bounded by memory alone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Decode`] if rows do not decode, after all are read: the message says how many, and
    /// [`failed_rows`](rowkey::ErrorDetails::failed_rows) which.
    pub async fn all(self) -> Result<Vec<Versioned<E>>> {
        let store = self.store.clone();
        whole(self.stream()).await.map_err(|error| store.named("Query", error))
    }

    /// Reads single properties of the entities, one after the other: of a partition, or of the copies in an
    /// index, without the entities themselves. A `P` is a type with `#[derive(Projection)]`, whose keys are
    /// those of the entity; it has no version.
    ///
    /// One request for each 1,000. A copy elsewhere may be behind its entity for a while.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`], and nothing is sent, if the copies in the index lack
    /// a property of `P`, or if rows of the type have to be opened before they are read.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
    /// use rowkey::{Entity, Projection, StorageAccount};
    /// use rowkey_store::Store;
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
                let query = self.filtered(table.query(rows.clone()).project::<Seen<P>>());
                let found = query.stream().map_ok(|stored| stored.entity.0);
                let (inner, name) = (Arc::clone(&self.store.inner), E::INDEXES[*position].name);
                let checked = async move { inner.check_reader(name).await.map(|()| found) };
                stream::once(checked).try_flatten().boxed()
            }
            Rows::List(list) => {
                let error = no_properties(list.list().name);
                stream::once(async { Err(error) }).boxed()
            }
        }
    }

    /// Reads single properties of `entities` of them, as [`stream_as`](Self::stream_as) does; returns where
    /// the next page begins, as [`page`](Self::page) does.
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
                self.store.inner.check_reader(E::INDEXES[*position].name).await?;
                let query = table.query(rows.clone()).project::<Seen<P>>();
                let page = self.filtered(query).page(entities, from).await?;
                let found = page.entities.into_iter().map(|stored| stored.entity.0);
                Ok((found.collect(), page.continuation))
            }
        }
    }

    /// Reads up to `entities` of them, by one page of the source.
    async fn some(&self, entities: u32, from: Option<Continuation>) -> Result<Part<E>> {
        let mut compared = self.filter.iter().flat_map(Filter::columns);
        if let Some(name) = compared.find(|name| E::ENCRYPTED.contains(name)) {
            let what = format!("the filter compares `{name}`, which is encrypted");
            let error = Error::refused(ErrorKind::Invalid, what)
                .advise("read more entities and compare them in the program");
            return Err(self.store.named("Query", error));
        }
        let mut compared = self.filter.iter().flat_map(Filter::columns);
        let of_heads = matches!(self.source.0, Rows::Entities(_)) && E::MAX_ROWS > 1;
        let is_in_head = |name: &str| ["PartitionKey", "RowKey", "Timestamp"].contains(&name);
        if let Some(name) = compared.find(|name| of_heads && !is_in_head(name)) {
            let what = format!(
                "the filter compares `{name}`, which may be in a further row of a wide entity"
            );
            let error = Error::refused(ErrorKind::Invalid, what).advise(
                "query an index with this property, or compare the entities in the program",
            );
            return Err(self.store.named("Query", error));
        }
        let table = &self.store.inner.table;
        match &self.source.0 {
            Rows::List(list) if self.filter.is_some() => Err(no_properties(list.list().name)),
            Rows::List(list) => {
                let entities = usize::try_from(entities).unwrap_or(usize::MAX);
                self.store.listed(list, entities, from).await
            }
            Rows::Entities(partition) => {
                let query = self.filtered(table.query(partition.clone()));
                self.heads(query, entities, from).await
            }
            Rows::Index(position, rows) => {
                let index = &E::INDEXES[*position];
                self.store.inner.check_reader(index.name).await?;
                let is_whole = self.store.inner.layers.copies_are_whole();
                if is_whole && (index.scope, index.copy) == (Scope::SamePartition, Copied::All) {
                    return self.copies(*position, rows.clone(), entities, from).await;
                }
                let query = table.query(rows.clone()).project::<At>();
                let page = self.filtered(query).results().page(entities, from).await?;
                let read = page.entities.into_iter().map(|stored| async move {
                    let at = stored.entity.map_err(|row| Error::of_rows(vec![row]))?;
                    self.store.demanding(&at.primary, *position, &at.keys).await
                });
                let found = all_until(read, AT_A_TIME, ends).await;
                Ok(Part {
                    rows: rows_of(stream::iter(found)).await?,
                    continuation: page.continuation,
                })
            }
        }
    }

    /// Whole copies in the partition: as good as the entities.
    async fn copies(
        &self,
        position: usize,
        rows: Partition<DynamicEntity>,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<Part<E>> {
        let Inner { table, layers, .. } = &*self.store.inner;
        let query = self.filtered(table.query(rows));
        let (copies, continuation) = if layers.is_empty() {
            let page = query.project::<Copy<E>>().results().page(entities, from).await?;
            let copies = page.entities.into_iter();
            let copies = copies.map(|row| row.entity.map_err(|row| Error::of_rows(vec![row])));
            (copies.collect::<Vec<_>>(), page.continuation)
        } else {
            let page = query.page(entities, from).await?;
            let opened = page.entities.into_iter().map(|Stored { entity: row, .. }| async move {
                let keys = (row.partition_key.clone(), row.row_key.clone());
                layers.open_copy(table, position, row).await.map_err(|error| of_row(error, keys))
            });
            (all_until(opened, AT_A_TIME, ends).await, page.continuation)
        };
        let found = stream::iter(copies).then(|copy| async move {
            let Copy { value: entity, primary, mark, digest } = copy?;
            match mark {
                Some(mark) => {
                    Ok(Some(Versioned { entity, version: Version::of_copy(&mark, digest) }))
                }
                // It was not written by a store, so it has no version.
                None => self.store.get(rowkey::Key::new(primary.0, primary.1)).await,
            }
        });
        Ok(Part { rows: rows_of(found).await?, continuation })
    }

    /// A part of the entities, opened.
    async fn heads(
        &self,
        query: rowkey::Query<E>,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<Part<E>> {
        let Inner { table, layers, .. } = &*self.store.inner;
        let versioned = |entity, etag| Versioned { entity, version: Version::of_head(&etag) };
        if layers.is_empty() {
            let page = query.project::<Head<E>>().results().page(entities, from).await?;
            let rows = page.entities.into_iter().map(|Stored { entity: head, etag, .. }| {
                let head = head.map_err(|row| Error::of_rows(vec![row]))?;
                Ok(versioned(head.entity, etag))
            });
            return Ok(Part { rows: rows.collect(), continuation: page.continuation });
        }
        let page = query.project::<DynamicEntity>().page(entities, from).await?;
        let opened = page.entities.into_iter().map(|stored| async move {
            let keys = (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
            let opened = layers.open::<E>(table, stored).await;
            let opened = opened.map_err(|error| of_row(error, keys))?;
            Ok(opened.map(|head| versioned(head.entity.entity, head.etag)))
        });
        let found = all_until(opened, AT_A_TIME, ends).await;
        Ok(Part { rows: rows_of(stream::iter(found)).await?, continuation: page.continuation })
    }

    fn filtered<P>(&self, query: rowkey::Query<P>) -> rowkey::Query<P>
    where
        P: Projection + Send + 'static,
    {
        match &self.filter {
            Some(filter) => query.filter(filter.clone()),
            None => query,
        }
    }
}

/// What one page of the source holds.
pub(super) struct Part<E> {
    /// The entities, and an error for each row that does not decode.
    pub(super) rows: Vec<Result<Versioned<E>>>,
    pub(super) continuation: Option<Continuation>,
}

/// The rows that are there. Fails at the first error that is not about rows.
pub(super) async fn rows_of<T>(
    found: impl Stream<Item = Result<Option<T>>>,
) -> Result<Vec<Result<T>>> {
    let mut found = pin!(found);
    let mut rows = Vec::with_capacity(found.size_hint().0);
    while let Some(one) = found.next().await {
        match one {
            Err(error) if error.details().failed_rows.is_empty() => return Err(error),
            one => rows.extend(one.transpose()),
        }
    }
    Ok(rows)
}

/// All of them. If rows do not decode, the error names all of those.
pub(super) async fn whole<T>(found: impl Stream<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut all, mut failed, mut index) = (Vec::new(), Vec::new(), None);
    for one in rows_of(found.map_ok(Some)).await? {
        match one {
            Ok(one) => all.push(one),
            Err(error) => {
                index = index.or(error.details().index);
                failed.extend_from_slice(&error.details().failed_rows);
            }
        }
    }
    if failed.is_empty() { Ok(all) } else { Err(of_rows(failed, index)) }
}

/// The error of a row that was read, and that does not open or decode.
/// Whether what is left need not be read: an error that is not one of rows.
pub(super) fn ends<T>(read: &Result<T>) -> bool {
    read.as_ref().is_err_and(|error| error.details().failed_rows.is_empty())
}

fn of_row(error: Error, (partition_key, row_key): Keys) -> Error {
    if error.kind() != ErrorKind::Decode {
        return error;
    }
    of_rows(vec![FailedRow::new(partition_key, row_key, &error)], error.details().index)
}

/// The error of rows that do not decode, with the index whose copies they are.
fn of_rows(rows: Vec<FailedRow>, index: Option<&'static str>) -> Error {
    let error = Error::of_rows(rows);
    match index {
        Some(index) => error.in_index(index),
        None => error,
    }
}

fn no_properties(list: &'static str) -> Error {
    let what = format!("the list `{list}` names entities, and has none of their properties");
    Error::refused(ErrorKind::Invalid, what)
        .advise("read the entities, and filter them")
        .in_index(list)
}

/// Where a row of an index is, and its entity.
struct At {
    keys: Keys,
    primary: Keys,
}

impl Projection for At {
    const COLUMNS: Option<&'static [&'static str]> = <Pointer as Projection>::COLUMNS;

    fn decode(
        row: &rowkey::entity::RowReader<'_>,
    ) -> std::result::Result<Self, rowkey::DecodeError> {
        let Pointer(primary) = Pointer::decode(row)?;
        let keys = (row.partition_key()?.to_owned(), row.row_key()?.to_owned());
        Ok(Self { keys, primary })
    }
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

impl<E> fmt::Debug for Query<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("source", &self.source).finish_non_exhaustive()
    }
}
