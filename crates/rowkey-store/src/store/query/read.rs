//! Reading one page of what a query selects: entities, through an index or through a list.

use std::pin::pin;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::index::{Copied, Scope};
use rowkey_client::{
    Continuation, DynamicEntity, Entity, Error, ErrorKind, FailedRow, Filter, Partition,
    Projection, Result, Stored,
};
use rowkey_patterns::internals::all_until;

use super::{Query, Rows, no_properties};
use crate::row::{Copy, Head, Keys, Pointer};
use crate::store::expiry::is_expired;
use crate::store::version::{Version, Versioned};

/// Entities read at once if the copies in an index are not whole.
const AT_A_TIME: usize = 16;

impl<E: Entity + Clone + Send + Sync + 'static> Query<E> {
    /// Reads up to `entities` entities that are not expired, from one page of the source.
    pub(super) async fn some(&self, entities: u32, from: Option<Continuation>) -> Result<Part<E>> {
        let mut part = self.stored(entities, from).await?;
        if E::DECLARED.expiry.is_some() {
            let now = self.store.now();
            let is_expired = |one: &Versioned<E>| is_expired(&one.entity, now);
            part.rows.retain(|row| !row.as_ref().is_ok_and(is_expired));
        }
        Ok(part)
    }

    /// Reads up to `entities` entities, expired ones among them, from one page of the source.
    async fn stored(&self, entities: u32, from: Option<Continuation>) -> Result<Part<E>> {
        let mut compared = self.filter.iter().flat_map(Filter::columns);
        if let Some(name) = compared.find(|name| E::DECLARED.encrypted.contains(name)) {
            let what = format!("the filter compares `{name}`, which is encrypted");
            let error = Error::refused(ErrorKind::Invalid, what)
                .advise("read more entities and compare them in the program");
            return Err(self.store.named("Query", error));
        }
        let mut compared = self.filter.iter().flat_map(Filter::columns);
        let of_heads = matches!(self.source.0, Rows::Entities(_)) && E::DECLARED.wide.rows > 1;
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
                let index = &E::DECLARED.indexes[*position];
                self.store.inner.check_reader(index.name).await?;
                let is_whole = self.store.inner.layers.copies_are_whole();
                if is_whole && (index.scope, index.copy) == (Scope::SamePartition, Copied::All) {
                    return self.copies(*position, rows.clone(), entities, from).await;
                }
                let inner = &self.store.inner;
                let rows = inner.table_of(index.name).query(rows.clone()).project::<At>();
                let page = places(self.filtered(rows), entities, from).await;
                let page = page.map_err(|error| inner.named_at(index.name, error))?;
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

    /// Reads whole copies in the partition of the entities, which are always up to date.
    async fn copies(
        &self,
        position: usize,
        rows: Partition<DynamicEntity>,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<Part<E>> {
        let (table, layers) = (&self.store.inner.table, &self.store.inner.layers);
        let query = self.filtered(table.query(rows));
        let (copies, continuation) = if layers.is_empty() {
            let page = query.project::<Copy<E>>().results().page(entities, from).await?;
            let copies = page.entities.into_iter();
            let copies = copies.map(|row| match row.entity {
                Ok(copy) => Ok(Ok(copy)),
                Err(row) => Err(Error::of_rows(vec![row])),
            });
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
            match copy? {
                Ok(Copy { value: entity, mark: Some(mark), digest, .. }) => {
                    Ok(Some(Versioned { entity, version: Version::of_copy(&mark, digest) }))
                }
                // A copy that no store wrote has no version.
                Ok(Copy { primary, .. }) | Err(primary) => {
                    self.store.get(rowkey_client::Key::new(primary.0, primary.1)).await
                }
            }
        });
        Ok(Part { rows: rows_of(found).await?, continuation })
    }

    /// Reads a page of entities and opens them.
    async fn heads(
        &self,
        query: rowkey_client::Query<E>,
        entities: u32,
        from: Option<Continuation>,
    ) -> Result<Part<E>> {
        let (table, layers) = (&self.store.inner.table, &self.store.inner.layers);
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
}

/// One page of the source.
pub(in crate::store) struct Part<E> {
    /// The entities, and an error for each row that does not decode.
    pub(in crate::store) rows: Vec<Result<Versioned<E>>>,
    pub(in crate::store) continuation: Option<Continuation>,
}

/// Collects the rows that exist. Fails at the first error that does not name rows.
pub(in crate::store) async fn rows_of<T>(
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

/// Collects all entities. If rows do not decode, the error names all of them.
pub(in crate::store) async fn whole<T>(found: impl Stream<Item = Result<T>>) -> Result<Vec<T>> {
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

/// Whether an error ends the read: any error that does not name rows.
pub(in crate::store) fn ends<T>(read: &Result<T>) -> bool {
    read.as_ref().is_err_and(|error| error.details().failed_rows.is_empty())
}

/// Turns the decoding error of one row into an error that names the row.
fn of_row(error: Error, (partition_key, row_key): Keys) -> Error {
    if error.kind() != ErrorKind::Decode {
        return error;
    }
    of_rows(vec![FailedRow::new(partition_key, row_key, &error)], error.details().index)
}

/// Returns the error of rows that do not decode, with the index if the rows are its copies.
fn of_rows(rows: Vec<FailedRow>, index: Option<&'static str>) -> Error {
    let error = Error::of_rows(rows);
    match index {
        Some(index) => error.in_index(index),
        None => error,
    }
}

/// The keys of a row in an index, and the keys of its entity.
struct At {
    keys: Keys,
    primary: Keys,
}

/// Reads a page of places. Boxed, so that it is compiled here, once for all types.
fn places(
    query: rowkey_client::Query<At>,
    entities: u32,
    from: Option<Continuation>,
) -> BoxFuture<'static, Result<rowkey_client::Page<std::result::Result<At, FailedRow>>>> {
    async move { query.results().page(entities, from).await }.boxed()
}

impl Projection for At {
    const COLUMNS: Option<&'static [&'static str]> = <Pointer as Projection>::COLUMNS;

    fn decode(
        row: &rowkey_client::entity::RowReader<'_>,
    ) -> std::result::Result<Self, rowkey_client::DecodeError> {
        let Pointer(primary) = Pointer::decode(row)?;
        let keys = (row.partition_key()?.to_owned(), row.row_key()?.to_owned());
        Ok(Self { keys, primary })
    }
}
