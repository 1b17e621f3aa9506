//! Loading many entities with all their rows.

use std::fmt;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use rowkey_client::{Entity, Error, ErrorKind, Result};
use rowkey_patterns::internals::{Merge, is_same, pack, try_all};
use rowkey_patterns::job::{Attempt, Batch, Job, Loading, Packs, Report, Verdict};

use super::{Store, is_race};
use crate::declarations::Named;
use crate::execute::Ran;
use crate::layer::wide;
use crate::plan::{MAX_OPERATIONS, Plan};
use crate::row::declared::prefix;
use crate::row::op::Op;
use crate::row::{Keys, keys_of};

/// Entities of one partition that one transaction writes: an item of the stream of [`Store::load`].
pub struct Group<E> {
    store: Store<E>,
    /// Whether existing entities are replaced.
    replaces: bool,
    /// The entities with their keys.
    entities: Vec<(Keys, E)>,
    /// The most operations that the entities need in the transaction.
    rows: usize,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Inserts all entities of a stream with all their rows. A transaction takes as many as fit, and
    /// each partition gets one transaction at a time.
    ///
    /// Requests that the service does not accept are repeated later; throttling loses no entity. An
    /// entity that is already stored with the same content counts as stored, so a load can be repeated.
    /// An entity that cannot be stored because its keys or a value are taken is reported with its keys,
    /// and the others continue.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// #[entity(index(name = by_name, row = "name_{name}", many))]
    /// struct User { tenant: String, id: u32, name: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let users = Store::<User>::builder(account.table("users")).build()?;
    /// users.create_if_missing().await?;
    /// let all = (0..200).map(|id| User { tenant: "contoso".into(), id, name: format!("user {id}") });
    /// let report = users.load(stream::iter(all)).run().await?;
    /// assert!(report.is_clean() && report.total.right == 200);
    ///
    /// let renamed = |id| User { tenant: "contoso".into(), id, name: "the same".into() };
    /// users.load_over(stream::iter((0..10).map(renamed))).run().await?;
    /// assert_eq!(users.count(User::by_name("contoso", "the same")).await?, 10);
    /// assert!(users.verify().run().await?.is_clean());
    /// # Ok(()) }
    /// ```
    pub fn load(
        &self,
        entities: impl Stream<Item = E> + Send + 'static,
    ) -> Job<'static, Loading<Packs<Group<E>>>> {
        self.loading("load", false, entities)
    }

    /// Inserts or replaces all entities of a stream with all their rows. If an entity occurs twice, the
    /// last one is kept. The entities of a transaction are read first, all at once. Otherwise like
    /// [`load`](Self::load).
    pub fn load_over(
        &self,
        entities: impl Stream<Item = E> + Send + 'static,
    ) -> Job<'static, Loading<Packs<Group<E>>>> {
        self.loading("load over", true, entities)
    }

    fn loading(
        &self,
        name: &str,
        replaces: bool,
        entities: impl Stream<Item = E> + Send + 'static,
    ) -> Job<'static, Loading<Packs<Group<E>>>> {
        let (store, all) = (self.clone(), self.clone());
        let groups = entities.map(move |entity| Group::of(store.clone(), replaces, entity));
        Job::load(format!("{name} {}", prefix::<E>()), &self.inner.table, pack(groups)).around(
            move |load, pace| {
                async move { all.executor().sharing_at(Some(pace), load).await }.boxed()
            },
        )
    }
}

/// Returns the most operations for an insert of the entity, without those of further rows.
pub(super) fn rows_of<E: Entity>(entity: &E) -> usize {
    let beside = Named::all::<E>().filter(|named| named.is_beside::<E>());
    1 + beside.map(|named| named.rows(entity).map_or(0, |rows| rows.len())).sum::<usize>()
}

impl<E: Entity + Clone + Send + Sync + 'static> Group<E> {
    pub(super) fn of(store: Store<E>, replaces: bool, entity: E) -> Self {
        let keys = keys_of(&entity).unwrap_or_default();
        // A replaced entity may have had other copies.
        let rows = rows_of(&entity);
        let rows = if replaces { 2 * rows - 1 } else { rows };
        // Further rows keep their keys.
        let rows = rows + wide::estimate(&entity) - 1;
        Self { store, replaces, entities: vec![(keys, entity)], rows }
    }

    /// Plans the first attempt, and returns the number of its entities.
    pub(super) async fn plan(&self) -> Result<(usize, Plan)> {
        let plan = self.plan_of(&self.entities).await?;
        let empty = || Error::refused(ErrorKind::Invalid, "there is nothing to load");
        Ok((self.entities.len(), plan.ok_or_else(empty)?))
    }

    async fn plan_of(&self, entities: &[(Keys, E)]) -> Result<Option<Plan>> {
        let Some((first, _)) = entities.first() else { return Ok(None) };
        let op = Op::random(self.store.inner.deciding.clock().now())?;
        let mut plan = Plan::new(first.0.clone(), op);
        let before = entities.iter().map(|(keys, _)| async move {
            if self.replaces {
                Ok(self.store.replaced(self.store.read(keys).await?))
            } else {
                Ok(None)
            }
        });
        let before = try_all(before, usize::MAX).await?;
        for ((keys, entity), before) in entities.iter().zip(&before) {
            self.store.add(&mut plan, keys, before.as_ref(), Some(entity)).await?;
        }
        Ok(Some(plan))
    }

    /// Writes these entities in one transaction.
    async fn write(&self, entities: &[(Keys, E)]) -> Result<()> {
        let Some(plan) = self.plan_of(entities).await? else { return Ok(()) };
        match self.store.executor().run(plan).await? {
            Ran::Done { .. } => Ok(()),
            Ran::Stale(error) => Err(error),
        }
    }

    /// Writes the entities in one transaction. If they are too large for one, splits them into halves.
    async fn write_all(&self, report: &mut Report) -> Result<()> {
        let mut left = vec![&*self.entities];
        while let Some(entities) = left.pop() {
            match self.write(entities).await {
                Ok(()) => report.note(None, Verdict::Right, entities.len() as u64),
                Err(error) if error.kind() == ErrorKind::TooLarge && entities.len() > 1 => {
                    let (one, other) = entities.split_at(entities.len() / 2);
                    left.extend([other, one]);
                }
                Err(error) if is_of_one(&error) => {
                    for (keys, entity) in entities {
                        self.write_one(keys, entity, report).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes one entity, unless it is already stored with the same content.
    async fn write_one(&self, keys: &Keys, entity: &E, report: &mut Report) -> Result<()> {
        let written = if self.replaces {
            self.store.upsert(entity).await
        } else {
            self.store.insert(entity).await
        };
        let error = match written {
            Ok(_) => {
                report.note(None, Verdict::Right, 1);
                return Ok(());
            }
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => error,
        };
        // The attempt that was not answered may have given the entity its references, and no other one may.
        let may_be_stored = error.kind() == ErrorKind::AlreadyExists
            || (!E::DECLARED.references.is_empty() && error.kind() == ErrorKind::Invalid);
        if may_be_stored && self.is_stored(keys, entity).await? {
            report.note(None, Verdict::Right, 1);
        } else {
            report.problem(error.details().index, Verdict::Failed, (&keys.0, &keys.1), &error);
        }
        Ok(())
    }

    async fn is_stored(&self, keys: &Keys, entity: &E) -> Result<bool> {
        let Some(stored) = self.store.read(keys).await? else { return Ok(false) };
        is_same(&stored.entity, entity)
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Batch for Group<E> {
    fn keys(&self) -> (&str, &str) {
        self.entities.first().map_or(("", ""), |(keys, _)| (&keys.0, &keys.1))
    }

    fn entities(&self) -> u64 {
        self.rows as u64
    }

    async fn store(&self, attempt: Attempt) -> Result<Report> {
        let mut report = Report::default();
        // After an unanswered request some may be stored, so check them one by one.
        if attempt.after_unknown {
            for (keys, entity) in &self.entities {
                self.write_one(keys, entity, &mut report).await?;
            }
        } else {
            self.write_all(&mut report).await?;
        }
        Ok(report)
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Merge for Group<E> {
    fn merge(&mut self, other: Self) -> Option<Self> {
        let is_twice = self
            .entities
            .iter()
            .any(|(keys, _)| other.entities.iter().any(|(other, _)| other == keys));
        if self.rows + other.rows >= MAX_OPERATIONS || is_twice {
            return Some(other);
        }
        self.entities.extend(other.entities);
        self.rows += other.rows;
        None
    }
}

/// Whether an error concerns one of several entities, so that the others can be stored.
fn is_of_one(error: &Error) -> bool {
    use rowkey_client::ErrorKind::{Decode, Invalid, TooLarge};
    is_race(error)
        || error.kind() == ErrorKind::AlreadyExists
        || matches!(error.kind(), Decode | Invalid | TooLarge)
}

impl<E> fmt::Debug for Group<E> {
    /// Shows neither keys nor entities.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("entities", &self.entities.len()).finish_non_exhaustive()
    }
}
