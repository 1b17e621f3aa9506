//! Many entities at once: a stream of them, packed into entity group transactions.
//!
//! - this file: [`Bulk`], and what it guarantees: [`Atomic`], [`PerPartitionOrdered`], [`BestEffort`]
//! - `load`: packing, and the transactions in flight
//! - `send`: one transaction, and what becomes of its entities when it fails
//! - [`report`](Report): what was written and what was not

use std::fmt;
use std::pin::pin;

use futures_util::{Stream, StreamExt as _};
use rowkey::{ETag, Entity, Result, Table, Transaction};

use self::load::{Load, Settings};
use self::send::Failing;

mod load;
mod report;
mod send;

pub use report::{Failure, Progress, Report};

/// Writes a stream of entities in as few entity group transactions as it takes.
///
/// What is guaranteed is the type `G`: [`Atomic`], [`PerPartitionOrdered`] or [`BestEffort`].
///
/// Transactions are packed by partition, up to 100 entities and 4 MiB each, and an entity that comes
/// twice goes into two of them. An `upsert` or `upsert_merge` may be sent again when its answer is
/// lost, and is; an `insert` may not, so entities can be left of which nobody knows whether they
/// were inserted ([`Progress::unknown`]).
///
/// ```
/// use futures_util::stream;
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_patterns::bulk::{Bulk, PerPartitionOrdered};
///
/// #[derive(Entity)]
/// #[entity(partition = "{sensor}", row = "{hour:6}")]
/// struct Reading { sensor: String, hour: u32, degrees: f64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("readings");
/// table.create_if_missing().await?;
/// let readings = (0..1000).map(|hour| Reading {
///     sensor: format!("sensor-{}", hour % 4),
///     hour,
///     degrees: 20.0,
/// });
/// let report = Bulk::new(table, PerPartitionOrdered).upsert(stream::iter(readings)).await;
/// assert!(report.is_complete());
/// assert_eq!((report.progress.written, report.progress.transactions), (1000, 12));
/// # Ok(()) }
/// ```
///
/// The limits are those of
/// [entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
#[must_use = "nothing is written until `insert`, `upsert` or `upsert_merge`"]
pub struct Bulk<G> {
    table: Table,
    settings: Settings,
    guarantee: G,
}

/// All entities are written or none is.
///
/// They must fit one transaction: one partition, at most 100, none twice, at most 4 MiB. What does
/// not is refused before anything is sent.
#[derive(Clone, Copy, Debug)]
pub struct Atomic;

/// In each partition an entity is written only after all that came before it.
///
/// One transaction of a partition is in flight at a time. When one fails, nothing more of its
/// partition is written; other partitions go on.
#[derive(Clone, Copy, Debug)]
pub struct PerPartitionOrdered;

/// Whatever can be written is, in no particular order.
///
/// A transaction that the service refuses is sent again without the entity that it refused, until
/// the rest is written. When an entity comes twice, either may be the one that stays.
#[derive(Clone, Copy, Debug)]
pub struct BestEffort;

/// What is done with each entity.
#[derive(Clone, Copy)]
enum Verb {
    Insert,
    Upsert,
    UpsertMerge,
}

impl Verb {
    fn transaction<E: Entity>(self, table: &Table, entity: &E) -> Transaction {
        let transaction = table.transaction();
        match self {
            Self::Insert => transaction.insert(entity),
            Self::Upsert => transaction.upsert(entity),
            Self::UpsertMerge => transaction.upsert_merge(entity),
        }
    }
}

impl<G> Bulk<G> {
    /// Writes to `table`, with this guarantee.
    pub fn new(table: Table, guarantee: G) -> Self {
        Self { table, settings: Settings::default(), guarantee }
    }
}

/// Everything in one transaction. An empty stream is written by sending nothing.
impl Bulk<Atomic> {
    /// Inserts all entities or none; fails if one of them exists.
    ///
    /// Returns the ETag of each, in order. The stream is read no further than the first entity that does
    /// not fit; the error then has the outcome [`NotSent`](rowkey::Outcome::NotSent).
    pub async fn insert<E: Entity>(
        self,
        entities: impl Stream<Item = E> + Send,
    ) -> Result<Vec<ETag>> {
        self.write(Verb::Insert, entities).await
    }

    /// Replaces or inserts all entities or none. As [`insert`](Self::insert) otherwise.
    pub async fn upsert<E: Entity>(
        self,
        entities: impl Stream<Item = E> + Send,
    ) -> Result<Vec<ETag>> {
        self.write(Verb::Upsert, entities).await
    }

    /// Merges or inserts all entities or none. As [`insert`](Self::insert) otherwise.
    pub async fn upsert_merge<E: Entity>(
        self,
        entities: impl Stream<Item = E> + Send,
    ) -> Result<Vec<ETag>> {
        self.write(Verb::UpsertMerge, entities).await
    }

    async fn write<E: Entity>(
        self,
        verb: Verb,
        entities: impl Stream<Item = E> + Send,
    ) -> Result<Vec<ETag>> {
        let ones = entities.map(|entity| verb.transaction(&self.table, &entity));
        let mut ones = pin!(ones);
        let mut all = self.table.transaction();
        while let Some(one) = ones.next().await {
            let fits = !one.is_empty() && all.fits(&one);
            all = all.append(one);
            if !fits {
                // What is too much is in it now, so this refuses it, and says why.
                return all.submit().await.map(etags);
            }
        }
        if all.is_empty() { Ok(Vec::new()) } else { all.submit().await.map(etags) }
    }
}

fn etags(answers: Vec<Option<ETag>>) -> Vec<ETag> {
    answers.into_iter().flatten().collect()
}

macro_rules! streaming {
    ($guarantee:ident, $failing:expr) => {
        /// Settings, and the writing itself. Nothing fails as a whole: the [`Report`] says what became
        /// of the entities. Dropping the future stops the writing; what was in flight may have been
        /// written.
        impl Bulk<$guarantee> {
            /// How many transactions are in flight at once, at least 1. Default: 8.
            pub fn in_flight(mut self, transactions: usize) -> Self {
                self.settings.in_flight = transactions.max(1);
                self
            }

            /// How many partitions are packed at the same time, at least 1. Default: 64.
            ///
            /// When the stream comes to one more, the fullest transaction is sent as it is. More
            /// partitions make fuller transactions of a stream that is not sorted by partition, and
            /// take more memory: up to 100 entities each, beside those in flight.
            pub fn open_partitions(mut self, partitions: usize) -> Self {
                self.settings.open_partitions = partitions.max(1);
                self
            }

            /// Reads no further when so many entities were not written. Default: 1000.
            ///
            /// What has been read until then is still written. This bounds the report, and ends a load
            /// that cannot succeed.
            pub fn stop_after(mut self, entities: u64) -> Self {
                self.settings.stop_after = entities;
                self
            }

            /// Calls `progress` when a transaction has been answered.
            pub fn on_progress(mut self, progress: impl FnMut(Progress) + Send + 'static) -> Self {
                self.settings.on_progress = Some(Box::new(progress));
                self
            }

            /// Inserts the entities; one that exists is refused.
            pub async fn insert<E: Entity + Send>(
                self,
                entities: impl Stream<Item = E> + Send,
            ) -> Report<E> {
                self.write(Verb::Insert, entities).await
            }

            /// Replaces or inserts the entities.
            pub async fn upsert<E: Entity + Send>(
                self,
                entities: impl Stream<Item = E> + Send,
            ) -> Report<E> {
                self.write(Verb::Upsert, entities).await
            }

            /// Merges or inserts the entities.
            pub async fn upsert_merge<E: Entity + Send>(
                self,
                entities: impl Stream<Item = E> + Send,
            ) -> Report<E> {
                self.write(Verb::UpsertMerge, entities).await
            }

            async fn write<E: Entity + Send>(
                self,
                verb: Verb,
                entities: impl Stream<Item = E> + Send,
            ) -> Report<E> {
                Load::new(self.table, verb, $failing, self.settings).run(entities).await
            }
        }
    };
}

streaming!(PerPartitionOrdered, Failing::EndsThePartition);
streaming!(BestEffort, Failing::IsTakenOut);

impl<G: fmt::Debug> fmt::Debug for Bulk<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk")
            .field("table", &self.table.name())
            .field("guarantee", &self.guarantee)
            .finish_non_exhaustive()
    }
}
