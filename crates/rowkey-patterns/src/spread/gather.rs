//! The ordered read over all buckets: a merge of one query each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::table::{Page, Stream};
use rowkey::{Entity, Error, ErrorKind, Filter, Key, Partition, Query, Result, Stored, Table};

use crate::keyed::Keyed;

/// So many buckets are asked at a time.
const AT_ONCE: usize = 16;

/// Reads several partitions as one, in the order of the RowKey, and of the bucket where that is the
/// same.
///
/// Made by [`Spread::gather`](super::Spread::gather); nothing is sent before
/// [`stream`](Self::stream). Each bucket is one query, and in memory is at most one page of each:
/// make pages smaller ([`page_size`](Self::page_size)) where buckets are many.
///
/// It costs a request for each page of each bucket, at least one a bucket. Rows that are written
/// while it runs are found if their place lies ahead.
#[must_use = "nothing is read before `stream`"]
pub struct Gather<E> {
    table: Table,
    partitions: Vec<Partition<E>>,
    filter: Option<Filter>,
    page_size: Option<u32>,
    after: Option<Place>,
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
}

/// A place in the order of all rows of all buckets, to go on after it.
///
/// Text (`to_string` and `parse`) to be stored; it contains a RowKey, so treat it as you treat the
/// data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    bucket: u16,
    row_key: String,
}

impl<E: Entity + Send + 'static> Gather<E> {
    pub(super) fn new(table: Table, partitions: Vec<Partition<E>>) -> Self {
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

    /// How many entities a page of a bucket has at most, 1 to 1000. Default: as many as the service
    /// sends, up to 1,000.
    pub fn page_size(mut self, entities: u32) -> Self {
        self.page_size = Some(entities);
        self
    }

    /// Goes on after the place of an entity that was found before, in this process or another. The
    /// number of buckets may have grown since.
    pub fn resume(mut self, after: Place) -> Self {
        self.after = Some(after);
        self
    }

    /// Reads. An error ends the stream; resume after the last entity that came.
    pub fn stream(self) -> Stream<Found<E>> {
        let merge = Merge {
            buckets: (0..).zip(&self.partitions).map(|at| self.bucket(at)).collect(),
            heads: BinaryHeap::new(),
            used_up: (0..self.partitions.len()).collect(),
        };
        stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.next().await?.map(|found| (found, merge)))
        })
        .boxed()
    }

    fn bucket(&self, (number, partition): (u16, &Partition<E>)) -> Bucket<E> {
        let mut rows = partition.clone();
        if let (Some(after), Ok(key)) = (&self.after, partition.partition_key()) {
            let row = Key::new(key, &*after.row_key);
            // Of equal RowKeys, those of earlier buckets came before.
            let from =
                if number > after.bucket { Bound::Included(row) } else { Bound::Excluded(row) };
            rows = rows.range((from, Bound::Unbounded));
        }
        let mut query: Query<Keyed<E>> = self.table.query(rows).project();
        if let Some(filter) = &self.filter {
            query = query.filter(filter.clone());
        }
        if let Some(entities) = self.page_size {
            query = query.page_size(entities);
        }
        Bucket { number, pages: query.pages(), page: VecDeque::new() }
    }
}

/// A merge of sorted buckets.
struct Merge<E> {
    buckets: Vec<Bucket<E>>,
    /// For each bucket that has a page: the RowKey of its first row, as keys are ordered (by UTF-16
    /// unit), and its number.
    heads: BinaryHeap<Reverse<(Vec<u16>, usize)>>,
    /// Buckets whose page is used up, or was never read.
    used_up: Vec<usize>,
}

struct Bucket<E> {
    number: u16,
    pages: Stream<Page<Keyed<E>>>,
    page: VecDeque<Stored<Keyed<E>>>,
}

impl<E: Entity + Send + 'static> Merge<E> {
    async fn next(&mut self) -> Result<Option<Found<E>>> {
        self.refill().await?;
        let Some(Reverse((_, at))) = self.heads.pop() else { return Ok(None) };
        let bucket = &mut self.buckets[at];
        let Some(Stored { entity, etag, timestamp }) = bucket.page.pop_front() else {
            return Ok(None);
        };
        let Keyed { row_key, entity } = entity;
        let stored = Stored { entity, etag, timestamp };
        let found = Found { bucket: bucket.number, row_key, stored };
        self.head(at);
        Ok(Some(found))
    }

    /// Asks all buckets that have nothing left, several at a time.
    async fn refill(&mut self) -> Result<()> {
        if self.used_up.is_empty() {
            return Ok(());
        }
        let used_up = std::mem::take(&mut self.used_up);
        let mut asked = Vec::with_capacity(used_up.len());
        for (at, bucket) in self.buckets.iter_mut().enumerate() {
            if used_up.binary_search(&at).is_ok() {
                asked.push(bucket.refill());
            }
        }
        stream::iter(asked).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        for at in used_up {
            if !self.buckets[at].page.is_empty() {
                self.head(at);
            }
        }
        Ok(())
    }

    /// Notes what a bucket has next.
    fn head(&mut self, at: usize) {
        match self.buckets[at].page.front() {
            Some(row) => {
                let key = row.entity.row_key.encode_utf16().collect();
                self.heads.push(Reverse((key, at)));
            }
            None => self.used_up.push(at),
        }
    }
}

impl<E> Bucket<E> {
    /// Reads the next page that is not empty; nothing at the end.
    async fn refill(&mut self) -> Result<()> {
        while self.page.is_empty() {
            match self.pages.try_next().await? {
                Some(page) => self.page = page.entities.into(),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

impl<E> Found<E> {
    /// Where to go on after this entity.
    pub fn place(&self) -> Place {
        Place { bucket: self.bucket, row_key: self.row_key.clone() }
    }
}

impl fmt::Display for Place {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bucket, self.row_key)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(':');
        let place = parts.and_then(|(bucket, row_key)| {
            Some(Self { bucket: bucket.parse().ok()?, row_key: row_key.to_owned() })
        });
        place.ok_or_else(|| {
            let what = "the text is not that of a place in gathered buckets";
            Error::refused(ErrorKind::Invalid, what)
        })
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
