//! The ordered read over all buckets: a merge of one query each.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::table::Stream;
use rowkey::{Entity, Error, ErrorKind, Filter, Partition, Query, Result, Stored, Table};

use crate::parallel::Parallel;

/// Buckets that are read at a time.
const AT_ONCE: usize = 16;

/// Reads several partitions as one, in the order of the RowKey, and of the bucket where that is the
/// same.
///
/// Made by [`Spread::gather`](super::Spread::gather) and [`of`](Self::of); nothing is sent before
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
        let buckets: Vec<_> = (0..).zip(&self.partitions).map(|at| self.bucket(at)).collect();
        Parallel::new(buckets)
            .by_row_key()
            .in_flight(AT_ONCE)
            .stream()
            .map_ok(|found| {
                // There are as many partitions as buckets.
                let bucket = u16::try_from(found.query).unwrap_or(u16::MAX);
                Found { bucket, row_key: found.row_key, stored: found.stored }
            })
            .map_err(|failure| failure.error)
            .boxed()
    }

    fn bucket(&self, (number, partition): (u16, &Partition<E>)) -> Query<E> {
        let mut rows = partition.clone();
        if let Some(after) = &self.after {
            let row = &*after.row_key;
            // Of equal RowKeys, those of earlier buckets came before.
            let from =
                if number > after.bucket { Bound::Included(row) } else { Bound::Excluded(row) };
            rows = rows.row_keys((from, Bound::Unbounded));
        }
        let mut query = self.table.query(rows);
        if let Some(filter) = &self.filter {
            query = query.filter(filter.clone());
        }
        if let Some(entities) = self.page_size {
            query = query.page_size(entities);
        }
        query
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
