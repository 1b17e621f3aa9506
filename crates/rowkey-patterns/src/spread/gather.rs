//! The ordered read over all buckets: a merge of one query per bucket.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::table::Stream;
use rowkey_client::telemetry::with_receipt;
use rowkey_client::{
    Continuation, Entity, Error, ErrorKind, Filter, Page, Partition, Query, Result, Stored, Table,
};

use crate::parallel::Parallel;

/// How many buckets are read concurrently.
const AT_ONCE: usize = 16;
/// The maximum number of entities that one request asks for.
const LARGEST_PAGE: u32 = 1000;
/// The label to which the continuation tokens of a gathered read are bound.
const GATHER: &str = "gather";

/// Reads several partitions as one, ordered by RowKey, and by bucket for equal RowKeys.
///
/// Created by [`Spread::gather`](super::Spread::gather) and [`of`](Self::of); sends nothing before
/// [`page`](Self::page) or [`stream`](Self::stream). Each bucket is one query, and memory holds at most one
/// page of each: use smaller pages ([`page_size`](Self::page_size)) with many buckets.
///
/// Costs a request for each page of each bucket, at least one per bucket. Rows written during the read are
/// found if their position has not been passed.
#[must_use = "nothing is read before `page` or `stream`"]
pub struct Gather<E> {
    table: Table,
    partitions: Vec<Partition<E>>,
    filter: Option<Filter>,
    page_size: Option<u32>,
    after: Option<Continuation>,
}

/// An entity, and the place where it was found.
#[derive(Clone, Debug)]
pub struct Found<E> {
    /// The bucket.
    pub bucket: u16,
    /// The RowKey as stored.
    pub row_key: String,
    /// The entity.
    pub stored: Stored<E>,
    reading: Arc<str>,
}

impl<E: Entity + Send + 'static> Gather<E> {
    /// Gathers an explicit list of partitions, such as `Event::partitions(day)` of a template with
    /// `{device:bucket(8)}`. The bucket of a found entity is its partition's index in the list.
    ///
    /// ```
    /// # use rowkey::patterns::spread::Spread;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{day:8}_{bucket:3}", row = "{second:5}")]
    /// # struct Event { day: u32, bucket: u16, second: u32, bytes: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # let spread = Spread::over(4)?;
    /// # for second in 0..10 {
    /// #     events.insert(&Event { day: 20260101, bucket: spread.next_bucket(), second, bytes: second.into() }).await?;
    /// # }
    /// let buckets = (0..4).map(|bucket| Event::partition(20260101, bucket)).collect();
    /// use rowkey::patterns::spread::Gather;
    /// let all = Gather::of(&events, buckets).page(1000, None).await?;
    /// assert_eq!(all.entities.len(), 10);
    /// # Ok(()) }
    /// ```
    pub fn of(table: &Table, partitions: Vec<Partition<E>>) -> Self {
        let table = table.clone();
        Self { table, partitions, filter: None, page_size: None, after: None }
    }

    /// Returns only entities that match `filter`. Several filters must all match.
    ///
    /// ```
    /// # use rowkey::patterns::spread::Spread;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{day:8}_{bucket:3}", row = "{second:5}")]
    /// # struct Event { day: u32, bucket: u16, second: u32, bytes: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # let spread = Spread::over(4)?;
    /// # for second in 0..10 {
    /// #     events.insert(&Event { day: 20260101, bucket: spread.next_bucket(), second, bytes: second.into() }).await?;
    /// # }
    /// let gather = || spread.gather(&events, |bucket| Event::partition(20260101, bucket));
    /// let large = gather().filter(Event::BYTES.ge(5)).page_size(100);
    /// assert_eq!(large.page(1000, None).await?.entities.len(), 5);
    /// # Ok(()) }
    /// ```
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(other) => other.and(filter),
            None => filter,
        });
        self
    }

    /// Sets the maximum number of entities per request to a bucket, 1 to 1000. Default: as many as the
    /// service returns, up to 1,000; for [`page`](Self::page), the size of the page.
    pub fn page_size(mut self, entities: u32) -> Self {
        self.page_size = Some(entities);
        self
    }

    /// Resumes after an entity that was found before, in this process or another: see
    /// [`Found::continuation`]. Since then, buckets may have been added at the end.
    ///
    /// ```
    /// # use rowkey::patterns::spread::Spread;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{day:8}_{bucket:3}", row = "{second:5}")]
    /// # struct Event { day: u32, bucket: u16, second: u32, bytes: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # let spread = Spread::over(4)?;
    /// # for second in 0..10 {
    /// #     events.insert(&Event { day: 20260101, bucket: spread.next_bucket(), second, bytes: second.into() }).await?;
    /// # }
    /// use futures_util::TryStreamExt as _;
    ///
    /// let gather = || spread.gather(&events, |bucket| Event::partition(20260101, bucket));
    /// let third = gather().stream().try_next().await?.ok_or("there are entities")?;
    /// let rest: Vec<_> = gather().resume(third.continuation()).stream().try_collect().await?;
    /// assert_eq!(rest[0].stored.entity.second, 1);
    /// # Ok(()) }
    /// ```
    pub fn resume(mut self, after: Continuation) -> Self {
        self.after = Some(after);
        self
    }

    /// Reads `entities` entities, or all remaining if there are fewer, from the beginning or from the end of
    /// an earlier page.
    ///
    /// At least one request per bucket, 16 concurrently. (If the page ends with the very last entity, its
    /// continuation leads to an empty page.)
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `entities` is 0, or if `from` comes from another query; then nothing is
    /// sent.
    ///
    /// ```
    /// # use rowkey::patterns::spread::Spread;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Debug, Entity)]
    /// # #[entity(partition = "{day:8}_{bucket:3}", row = "{second:5}")]
    /// # struct Event { day: u32, bucket: u16, second: u32, bytes: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let events = account.table("events");
    /// # events.create().await?;
    /// # let spread = Spread::over(4)?;
    /// # for second in 0..10 {
    /// #     events.insert(&Event { day: 20260101, bucket: spread.next_bucket(), second, bytes: second.into() }).await?;
    /// # }
    /// let gather = || spread.gather(&events, |bucket| Event::partition(20260101, bucket));
    /// let first = gather().page(7, None).await?;
    /// let rest = gather().page(7, first.continuation).await?;
    /// let seconds: Vec<_> = rest.entities.iter().map(|found| found.entity.second).collect();
    /// assert_eq!(seconds, [7, 8, 9]);
    /// # Ok(()) }
    /// ```
    pub async fn page(mut self, entities: u32, from: Option<Continuation>) -> Result<Page<E>> {
        if entities == 0 {
            return Err(self.refused("a page must have at least 1 entity"));
        }
        self.after = from.or(self.after);
        self.page_size = self.page_size.or(Some(entities.min(LARGEST_PAGE)));
        let wanted = usize::try_from(entities).unwrap_or(usize::MAX);
        let (found, receipt) = with_receipt(self.stream().take(wanted).try_collect()).await;
        let mut found: Vec<_> = found?;
        let last = found.last().filter(|_| found.len() == wanted);
        let continuation = last.map(Found::continuation);
        let entities = found.drain(..).map(|found| found.stored).collect();
        Ok(Page { entities, continuation, receipt })
    }

    /// Reads the results as a stream. An error ends it; resume after the last entity returned. A row that does
    /// not decode is an error, too, but the stream continues after it.
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

    /// The queries, and the string to which continuation tokens are bound: the query of the first bucket.
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
                // Among equal RowKeys, those of earlier buckets were returned before.
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
    /// The position after this entity. The token contains the RowKey: protect it like the data.
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
