//! Loading many entities, with all that belongs to them.

use std::collections::HashMap;
use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use rowkey::{Entity, Error, Result};

use super::{Inner, Store, is_race};
use crate::execute::Ran;
use crate::job::{Attempt, Batch, Job, Loading, Report, Verdict};
use crate::plan::list::list_keys;
use crate::plan::{MAX_OPERATIONS, Op, Plan};
use crate::row::{Keys, index_keys, keys_of};

/// Partitions that are packed at a time.
const OPEN: usize = 64;

/// Entities of one partition that are inserted by one transaction; what [`Store::load`] is a stream of.
#[derive(Debug)]
pub struct Group<E> {
    store: Store<E>,
    keys: Keys,
    entities: Vec<E>,
    /// The rows that they have in the transaction.
    rows: usize,
}

/// The groups of a load.
pub type Groups<E> = Pin<Box<dyn Stream<Item = Group<E>> + Send>>;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Inserts all entities of a stream, with all that belongs to them: as many to a transaction as fit,
    /// and a transaction a partition at a time.
    ///
    /// What the service does not take now is sent later; throttling loses no entity. An entity that is
    /// there already as it is counts as stored, so a load can be repeated. One that cannot be stored,
    /// because its keys or a value are taken, is reported with its keys, and the others go on.
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::{Entity, StorageAccount};
    /// use rowkey_store::Store;
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
    /// #[entity(index(name = by_name, row = "name_{name}", many))]
    /// struct User { tenant: String, id: u32, name: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_server::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let users = Store::<User>::builder(account.table("users")).build()?;
    /// users.create_if_missing().await?;
    /// let all = (0..200).map(|id| User { tenant: "contoso".into(), id, name: format!("user {id}") });
    /// let report = users.load(stream::iter(all)).run().await?;
    /// assert!(report.is_clean() && report.total.right == 200);
    /// assert!(users.verify().run().await?.is_clean());
    /// # Ok(()) }
    /// ```
    pub fn load<S>(&self, entities: S) -> Job<'static, Loading<Groups<E>>>
    where
        S: Stream<Item = E> + Send + 'static,
    {
        let groups = pack(self.clone(), entities.boxed()).boxed();
        Job::load(format!("load {}", Inner::<E>::of()), &self.inner.table, groups)
    }
}

/// What is packed.
struct Packing<E, S> {
    store: Store<E>,
    entities: S,
    open: HashMap<String, Group<E>>,
    /// Whether the stream has ended.
    ended: bool,
}

fn pack<E, S>(store: Store<E>, entities: S) -> impl Stream<Item = Group<E>> + Send
where
    E: Entity + Clone + Send + Sync + 'static,
    S: Stream<Item = E> + Send + Unpin,
{
    let packing = Packing { store, entities, open: HashMap::new(), ended: false };
    stream::unfold(packing, |mut packing| async move {
        packing.next().await.map(|group| (group, packing))
    })
}

impl<E, S> Packing<E, S>
where
    E: Entity + Clone + Send + Sync + 'static,
    S: Stream<Item = E> + Send + Unpin,
{
    async fn next(&mut self) -> Option<Group<E>> {
        while !self.ended {
            let Some(entity) = self.entities.next().await else {
                self.ended = true;
                break;
            };
            if let Some(full) = self.add(entity) {
                return Some(full);
            }
        }
        self.fullest()
    }

    /// Adds an entity to the group of its partition; returns a group that is full, or that makes room.
    fn add(&mut self, entity: E) -> Option<Group<E>> {
        // An entity without keys is a group of its own, whose storing tells why.
        let keys = keys_of(&entity).unwrap_or_default();
        let rows = rows_of(&entity);
        let store = self.store.clone();
        let group = Group { store, keys: keys.clone(), entities: vec![entity], rows };
        if keys == Keys::default() {
            return Some(group);
        }
        if let Some(open) = self.open.get_mut(&keys.0) {
            let is_twice =
                open.entities.iter().any(|other| keys_of(other).is_ok_and(|k| k == keys));
            if open.rows + rows < MAX_OPERATIONS && !is_twice {
                open.entities.extend(group.entities);
                open.rows += rows;
                return None;
            }
            return self.open.insert(keys.0, group);
        }
        let room = if self.open.len() >= OPEN { self.fullest() } else { None };
        self.open.insert(keys.0, group);
        room
    }

    fn fullest(&mut self) -> Option<Group<E>> {
        let fullest =
            self.open.iter().max_by_key(|(key, group)| (group.rows, std::cmp::Reverse(*key)));
        let key = fullest.map(|(key, _)| key.clone())?;
        self.open.remove(&key)
    }
}

/// The most operations that an insert of the entity has.
fn rows_of<E: Entity>(entity: &E) -> usize {
    let local = E::INDEXES.iter().enumerate().filter(|(position, index)| {
        index.scope == rowkey::index::Scope::SamePartition
            && index_keys(entity, *position).is_ok_and(|keys| keys.is_some())
    });
    let lists = (0..E::LISTS.len()).map(|position| list_keys(entity, position).len());
    1 + local.count() + lists.sum::<usize>()
}

impl<E: Entity + Clone + Send + Sync + 'static> Group<E> {
    /// Inserts these entities by one transaction.
    async fn insert(&self, entities: &[E]) -> Result<()> {
        let op = Op::random(self.store.inner.deciding.clock().now())?;
        let mut plan = Plan::new(self.keys.0.clone(), op);
        for entity in entities {
            self.store.add(&mut plan, &keys_of(entity)?, None, Some(entity)).await?;
        }
        match self.store.executor().run(plan).await? {
            Ran::Done { .. } => Ok(()),
            Ran::Stale(error) => Err(error),
        }
    }

    /// Inserts one entity, unless it is there as it is.
    async fn insert_one(&self, entity: &E, report: &mut Report) -> Result<()> {
        let keys = keys_of(entity)?;
        let error = match self.store.insert(entity).await {
            Ok(_) => {
                report.note(None, Verdict::Right, 1);
                return Ok(());
            }
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => error,
        };
        if error.is_already_exists() && self.is_stored(&keys, entity).await? {
            report.note(None, Verdict::Right, 1);
        } else {
            report.problem(error.index(), Verdict::Failed, (&keys.0, &keys.1), &error);
        }
        Ok(())
    }

    async fn is_stored(&self, keys: &Keys, entity: &E) -> Result<bool> {
        let Some(stored) = self.store.read(keys).await? else { return Ok(false) };
        let row = rowkey::DynamicEntity::of_any_size::<E>;
        Ok(row(&stored.entity)? == row(entity)?)
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Batch for Group<E> {
    fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }

    fn entities(&self) -> u64 {
        self.rows as u64
    }

    async fn store(&self, attempt: Attempt) -> Result<Report> {
        let mut report = Report::default();
        // After a request without an answer some may be stored: they are looked at one by one.
        if !attempt.after_unknown {
            match self.insert(&self.entities).await {
                Ok(()) => {
                    report.note(None, Verdict::Right, self.entities.len() as u64);
                    return Ok(report);
                }
                Err(error) if !is_of_one(&error) => return Err(error),
                Err(_) => {}
            }
        }
        for entity in &self.entities {
            self.insert_one(entity, &mut report).await?;
        }
        Ok(report)
    }
}

/// Whether an error is about one of several entities, so that the others may be stored.
fn is_of_one(error: &Error) -> bool {
    use rowkey::ErrorKind::{Decode, Invalid, TooLarge};
    is_race(error)
        || error.is_already_exists()
        || matches!(error.kind(), Decode | Invalid | TooLarge)
}
