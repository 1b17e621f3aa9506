//! Ranges of an index, in its order.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::index::{Copied, IndexRange, SamePartition};
use rowkey::table::pages::Stream;
use rowkey::{Entity, Filter, Projection, Query, Result, Stored};

use super::LocalIndex;
use super::indexed::{Found, Indexed};
use crate::index_row::{Pointer, Seen};

/// How many entities are read at a time where the copies do not have all their properties.
const AT_A_TIME: usize = 8;

/// A query of entities by one of their indexes, in its order; from [`LocalIndex::query`].
///
/// Of an index of whole copies it is one range query, a request a page. Of one that copies some
/// properties it takes a point query more for each entity, several at a time; an entity that has
/// left the range in between is left out. [`stream_as`](Self::stream_as) reads the copies alone.
///
/// The order is by RowKey. (Cosmos DB for Table keeps none.)
#[must_use = "a query reads nothing until `stream`, `all` or `first`"]
pub struct IndexQuery<E> {
    index: LocalIndex<E>,
    position: usize,
    copies: Query<E>,
    take: Option<u64>,
}

impl<E: Entity + Send + Sync + 'static> IndexQuery<E> {
    pub(super) fn new(index: LocalIndex<E>, range: IndexRange<E, SamePartition>) -> Self {
        let position = range.position();
        let copies = index.table().query(range.partition_of::<E>());
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

    /// Reads the entities one by one.
    pub fn stream(self) -> Stream<Indexed<E>> {
        let Self { index, position, copies, take } = self;
        if E::INDEXES[position].copy == Copied::All {
            let copies = copies.project::<Found<E>>();
            let copies = match take {
                Some(take) => copies.take(take),
                None => copies,
            };
            return copies.stream().map_ok(Indexed::new).boxed();
        }
        let read = move |pointer: Stored<Pointer<E>>| {
            let index = index.clone();
            async move {
                let Pointer { primary, row_key, .. } = pointer.entity;
                let entity = index.get(primary).await?;
                Ok(entity.filter(|entity| entity.has_copy(position, &row_key)))
            }
        };
        let entities = copies
            .project::<Pointer<E>>()
            .stream()
            .map_ok(read)
            .try_buffered(AT_A_TIME)
            .try_filter_map(|entity| async move { Ok(entity) });
        match take {
            Some(take) => entities.take(usize::try_from(take).unwrap_or(usize::MAX)).boxed(),
            None => entities.boxed(),
        }
    }

    /// Reads the copies as `P`s, which see the keys of the entities, and asks the service for the
    /// properties of `P` alone. Fails, and sends nothing, if the copies do not have one of them.
    pub fn stream_as<P: Projection + Send + 'static>(self) -> Stream<Stored<P>> {
        let mut copies = self.copies.project::<Seen<P>>();
        if let Some(take) = self.take {
            copies = copies.take(take);
        }
        copies.stream().map_ok(super::of_entity).boxed()
    }

    /// Reads all entities into memory.
    pub async fn all(self) -> Result<Vec<Indexed<E>>> {
        self.stream().try_collect().await
    }

    /// Reads the first entity.
    pub async fn first(self) -> Result<Option<Indexed<E>>> {
        self.take(1).stream().try_next().await
    }
}

impl<E> fmt::Debug for IndexQuery<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexQuery").field("copies", &self.copies).finish_non_exhaustive()
    }
}
