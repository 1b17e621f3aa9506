//! Ranges of an index elsewhere, in its order.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::index::{IndexRange, OtherPartition};
use rowkey::table::pages::Stream;
use rowkey::{Entity, Filter, Projection, Query, Result};
use rowkey_patterns::index_row::{Pointer, Seen};
use rowkey_patterns::local_index::Indexed;

use super::{RemoteIndex, Stale};

/// How many entities are read at a time.
const AT_A_TIME: usize = 8;

/// A query of entities by an index elsewhere, in its order; from [`RemoteIndex::query`].
///
/// [`stream`](Self::stream), [`all`](Self::all) and [`first`](Self::first) read each entity after its copy,
/// eight at a time, and leave out those that have left the range.
/// [`stream_stale`](Self::stream_stale) reads the copies alone, a request a page.
///
/// The order is by RowKey. (Cosmos DB for Table keeps none.)
#[must_use = "a query reads nothing until `stream`, `all`, `first` or `stream_stale`"]
pub struct RemoteQuery<E> {
    index: RemoteIndex<E>,
    position: usize,
    copies: Query<E>,
    take: Option<u64>,
}

impl<E: Entity + Send + Sync + 'static> RemoteQuery<E> {
    pub(super) fn new(index: RemoteIndex<E>, range: IndexRange<E, OtherPartition>) -> Self {
        let position = range.position();
        let copies = index.table(position).query(range.partition_of::<E>());
        Self { index, position, copies, take: None }
    }

    /// Only the copies for which `filter` holds.
    ///
    /// Reading fails, and sends nothing, if it names a property that the copies do not have.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.copies = self.copies.filter(filter);
        self
    }

    /// How many copies a page has at most, 1 to 1000.
    pub fn page_size(mut self, copies: u32) -> Self {
        self.copies = self.copies.page_size(copies);
        self
    }

    /// At most this many entities in all.
    pub fn take(mut self, entities: u64) -> Self {
        self.take = Some(entities);
        self
    }

    /// Reads the entities one by one, as they are now.
    pub fn stream(self) -> Stream<Indexed<E>> {
        let Self { index, position, copies, take } = self;
        let entities = copies
            .project::<Pointer<E>>()
            .stream()
            .map_ok(move |copy| {
                let index = index.clone();
                async move { index.follow(position, copy.entity).await }
            })
            .try_buffered(AT_A_TIME)
            .try_filter_map(|entity| async move { Ok(entity) });
        match take {
            Some(take) => entities.take(usize::try_from(take).unwrap_or(usize::MAX)).boxed(),
            None => entities.boxed(),
        }
    }

    /// Reads what the copies say, which may be no longer true, or not yet, as `P`s: `E` itself, if the
    /// index copies all properties, or a projection of those it copies. With another one it fails, and
    /// sends nothing.
    pub fn stream_stale<P: Projection + Send + 'static>(self) -> Stream<Stale<P>> {
        let mut copies = self.copies.project::<Seen<P>>();
        if let Some(take) = self.take {
            copies = copies.take(take);
        }
        copies.stream().map_ok(Stale::of).boxed()
    }

    /// Reads all entities into memory, as they are now.
    pub async fn all(self) -> Result<Vec<Indexed<E>>> {
        self.stream().try_collect().await
    }

    /// Reads the first entity, as it is now.
    pub async fn first(self) -> Result<Option<Indexed<E>>> {
        self.take(1).stream().try_next().await
    }
}

impl<E> fmt::Debug for RemoteQuery<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteQuery").field("copies", &self.copies).finish_non_exhaustive()
    }
}
