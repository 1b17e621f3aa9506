//! Queries whose results are decrypted.

use std::fmt;
use std::marker::PhantomData;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use rowkey::table::Stream;
use rowkey::{
    Continuation, DynamicEntity, Entity, Filter, Page, Projection, Query, Result, Stored,
};

use crate::AT_ONCE;
use crate::encrypted::Encrypted;

/// A query of entities with encrypted properties, from [`Encrypted::query`] and [`Encrypted::scan`].
///
/// It is a [`Query`], except that it always reads all properties: decrypting needs them.
#[must_use = "a query reads nothing until `stream`, `pages`, `all` or `first`"]
pub struct EncryptedQuery<E, P = E> {
    encrypted: Encrypted<E>,
    query: Query<DynamicEntity>,
    projection: PhantomData<fn() -> P>,
}

impl<E: Entity + Send + 'static> EncryptedQuery<E> {
    pub(crate) fn new(encrypted: Encrypted<E>, query: Query<DynamicEntity>) -> Self {
        Self { encrypted, query, projection: PhantomData }
    }
}

impl<E: Entity + Send + 'static, P: Projection + Send + 'static> EncryptedQuery<E, P> {
    /// Reads the entities as `Q`, as [`Query::project`] does, except that all properties are fetched.
    pub fn project<Q: Projection + Send + 'static>(self) -> EncryptedQuery<E, Q> {
        let Self { encrypted, query, .. } = self;
        EncryptedQuery { encrypted, query, projection: PhantomData }
    }

    /// Only entities for which `filter` holds. Encrypted properties are compared with
    /// [`Encrypted::equals`]; a filter on one itself finds nothing.
    pub fn filter(self, filter: Filter) -> Self {
        Self { query: self.query.filter(filter), ..self }
    }

    /// How many entities a page has at most, 1 to 1000.
    pub fn page_size(self, entities: u32) -> Self {
        Self { query: self.query.page_size(entities), ..self }
    }

    /// At most this many entities in all.
    pub fn take(self, entities: u64) -> Self {
        Self { query: self.query.take(entities), ..self }
    }

    /// Goes on where `continuation` points.
    pub fn resume(self, continuation: Continuation) -> Self {
        Self { query: self.query.resume(continuation), ..self }
    }

    /// Reads the entities one by one. One that cannot be decrypted ends the stream.
    pub fn stream(self) -> Stream<Stored<P>> {
        self.pages()
            .map_ok(|page| stream::iter(page.entities.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    /// Reads page by page.
    pub fn pages(self) -> Stream<Page<P>> {
        let Self { encrypted, query, .. } = self;
        let decrypted = query.pages().and_then(move |page| {
            let encrypted = encrypted.clone();
            async move {
                let Page { entities, continuation } = page;
                let entities = stream::iter(entities)
                    .map(|stored| encrypted.decrypt_as(stored))
                    .buffered(AT_ONCE)
                    .try_collect()
                    .await?;
                Ok(Page { entities, continuation })
            }
        });
        decrypted.boxed()
    }

    /// Reads all entities into memory.
    pub async fn all(self) -> Result<Vec<Stored<P>>> {
        self.stream().try_collect().await
    }

    /// Reads the first entity.
    pub async fn first(self) -> Result<Option<Stored<P>>> {
        Ok(self.take(1).all().await?.pop())
    }
}

impl<E, P> fmt::Debug for EncryptedQuery<E, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedQuery").field("query", &self.query).finish_non_exhaustive()
    }
}
