//! The ordered read over all buckets: a merge of one query each.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::table::Stream;
use rowkey::{
    Continuation, Entity, Error, ErrorKind, Filter, Page, Partition, Query, Result, Stored, Table,
};

use crate::parallel::Parallel;

/// Buckets that are read at a time.
const AT_ONCE: usize = 16;
/// Entities that a request asks for at most.
const LARGEST_PAGE: u32 = 1000;
/// What tokens of a gathered reading are bound to, before the reading itself.
const GATHER: &str = "gather";

/// Reads several partitions as one, in the order of the RowKey, and of the bucket where that is the
/// same.
///
/// Made by [`Spread::gather`](super::Spread::gather) and [`of`](Self::of); nothing is sent before
/// [`page`](Self::page) or [`stream`](Self::stream). Each bucket is one query, and in memory is at most one
/// page of each: make pages smaller ([`page_size`](Self::page_size)) where buckets are many.
///
/// It costs a request for each page of each bucket, at least one a bucket. Rows that are written
/// while it runs are found if their place lies ahead.
#[must_use = "nothing is read before `page` or `stream`"]
pub struct Gather<E> {
    table: Table,
    partitions: Vec<Partition<E>>,
    filter: Option<Filter>,
    page_size: Option<u32>,
    after: Option<Continuation>,
}

/// An entity, and where it was found.
#[derive(Clone, Debug)]
pub struct Found<E> {
    /// The bucket.
    pub bucket: u16,
    /// The RowKey as it is stored.
    pub row_key: String,
    /// The entity.
    pub stored: Stored<E>,
    reading: Arc<str>,
}

impl<E: Entity + Send + 'static> Gather<E> {
    /// Gathers partitions that are named one by one, such as `Event::partitions(day)` of a template
    /// with `{device:bucket(8)}`. The bucket of what is found is its place among them.
    pub fn of(table: &Table, partitions: Vec<Partition<E>>) -> Self {
        let table = table.clone();
        Self { table, partitions, filter: None, page_size: None, after: None }
    }

    /// Only entities for which `filter` holds. Several filters must all hold.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(other) => other.and(filter),
            None => filter,
        });
        self
    }

    /// How many entities a request asks a bucket for at most, 1 to 1000. Default: as many as the service
    /// sends, up to 1,000; for [`page`](Self::page), as many as the page has.
    pub fn page_size(mut self, entities: u32) -> Self {
        self.page_size = Some(entities);
        self
    }

    /// Goes on behind an entity that was found before, in this process or another: see
    /// [`Found::continuation`]. Buckets may have been added since, behind the others.
    pub fn resume(mut self, after: Continuation) -> Self {
        self.after = Some(after);
        self
    }

    /// Reads `entities` of them, or all that are left if those are fewer, from the beginning or from
    /// where a page before this one ended.
    ///
    /// At least one request a bucket, 16 at a time. (If the page ends with the last entity that there is,
    /// its continuation leads to an empty page.)
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `entities` is 0, and if `from` comes from
    /// another query: nothing is sent then.
    pub async fn page(mut self, entities: u32, from: Option<Continuation>) -> Result<Page<E>> {
        if entities == 0 {
            return Err(self.refused("a page has at least 1 entity"));
        }
        self.after = from.or(self.after);
        self.page_size = self.page_size.or(Some(entities.min(LARGEST_PAGE)));
        let wanted = usize::try_from(entities).unwrap_or(usize::MAX);
        let mut found: Vec<_> = self.stream().take(wanted).try_collect().await?;
        let last = found.last().filter(|_| found.len() == wanted);
        let continuation = last.map(Found::continuation);
        Ok(Page { entities: found.drain(..).map(|found| found.stored).collect(), continuation })
    }

    /// Reads. An error ends the stream; resume behind the last entity that came.
    pub fn stream(self) -> Stream<Found<E>> {
        let (reading, buckets) = match self.buckets() {
            Ok(buckets) => buckets,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        Parallel::new(buckets)
            .by_row_key()
            .in_flight(AT_ONCE)
            .stream()
            .map_ok(move |found| Found {
                // There are as many partitions as buckets.
                bucket: u16::try_from(found.query).unwrap_or(u16::MAX),
                row_key: found.row_key,
                stored: found.stored,
                reading: Arc::clone(&reading),
            })
            .map_err(|failure| failure.error)
            .boxed()
    }

    /// The queries, and what tokens of this reading are bound to: what is read of the first bucket.
    fn buckets(&self) -> Result<(Arc<str>, Vec<Query<E>>)> {
        let first = self.partitions.first().map(|first| self.query(first.clone()).fingerprint());
        let reading: Arc<str> = format!("{:016x}", first.transpose()?.unwrap_or_default()).into();
        let after = self.after.as_ref().map(|after| {
            let (bucket, row_key) = after.place_in(&[GATHER, &reading])?;
            let bucket: u16 = bucket.parse().map_err(|_| self.refused("the token is damaged"))?;
            Ok((bucket, row_key))
        });
        let after =
            after.transpose().map_err(|error: Error| error.of("Gather", self.table.name()))?;
        let buckets = (0..).zip(&self.partitions).map(|(number, partition)| {
            let mut rows = partition.clone();
            if let Some((bucket, row)) = after {
                // Of equal RowKeys, those of earlier buckets came before.
                let from =
                    if number > bucket { Bound::Included(row) } else { Bound::Excluded(row) };
                rows = rows.row_keys((from, Bound::Unbounded));
            }
            self.query(rows)
        });
        Ok((reading, buckets.collect()))
    }

    fn query(&self, rows: Partition<E>) -> Query<E> {
        let mut query = self.table.query(rows);
        if let Some(filter) = &self.filter {
            query = query.filter(filter.clone());
        }
        if let Some(entities) = self.page_size {
            query = query.page_size(entities);
        }
        query
    }

    fn refused(&self, what: &'static str) -> Error {
        Error::refused(ErrorKind::Invalid, what).of("Gather", self.table.name())
    }
}

impl<E> Found<E> {
    /// Where to go on behind this entity. The token contains the RowKey: treat it as you treat the data.
    pub fn continuation(&self) -> Continuation {
        Continuation::behind(&[GATHER, &self.reading], &self.bucket.to_string(), &self.row_key)
    }
}

impl<E> fmt::Debug for Gather<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("table", &self.table.name())
            .field("buckets", &self.partitions.len())
            .finish_non_exhaustive()
    }
}
