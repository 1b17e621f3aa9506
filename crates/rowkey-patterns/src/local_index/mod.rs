//! Secondary indexes beside their entities, kept by one entity group transaction: the guide's
//! intra-partition secondary index.
//!
//! The entity declares its indexes (`#[entity(index(..))]`, see the
//! [derive](derive@rowkey::Entity#indexes)); [`LocalIndex`] writes the entity and its copies in one
//! transaction, so that a lookup by any index is one point query of a copy that is never out of step.
//!
//! - [`indexed`]: [`Indexed`], an entity as it was read through one of its rows
//! - [`query`]: [`IndexQuery`], ranges of an index in its order
//! - [`transaction`]: [`IndexedTransaction`], changes of several entities at once
//! - `alongside`: a row that goes with every change
//! - `change`: what a change writes, and how rows that are out of step are mended on the way

mod alongside;
mod change;
pub mod indexed;
pub mod query;
pub mod transaction;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rowkey::index::{Copied, IndexKey, IndexRange, SamePartition, Scope};
use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Outcome, Projection, Result, Stored, Table,
};

use crate::index_row::{Pointer, Seen};
use crate::rounds::{Rounds, was_lost};
use alongside::Alongside;
use change::Changes;
use indexed::Found;
pub use indexed::Indexed;
pub use query::IndexQuery;
pub use transaction::IndexedTransaction;

/// The operations that a transaction has at most.
const LIMIT: usize = 100;

/// A table of entities of type `E` and their copies in the indexes of the same partition.
///
/// Every write is one transaction of the entity and all its copies. Indexes in other partitions
/// are not kept by this, and their addresses are not taken:
///
/// ```compile_fail,E0308
/// # use rowkey::Entity;
/// # use rowkey_patterns::local_index::LocalIndex;
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     city: String,
/// }
///
/// async fn find(staff: LocalIndex<Employee>) {
///     staff.find(Employee::by_city("Leeds", "sales", 7)).await; // expected `SamePartition`
/// }
/// ```
///
/// # Example
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_patterns::local_index::LocalIndex;
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, row = "email_{email:lower}"))]
/// #[entity(index(name = by_last_name, row = "last_{last_name}", many))]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
///     email: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let staff = LocalIndex::<Employee>::new(account.table("staff"));
/// staff.table().create_if_missing().await?;
/// let ada = Employee {
///     department: "sales".into(),
///     id: 7,
///     last_name: "King".into(),
///     email: "ada@contoso.com".into(),
/// };
/// staff.insert(&ada).await?; // one request: the entity and two copies
///
/// // One point query; the index is in lower case, and so is what is looked up.
/// let found = staff.find(Employee::by_email("sales", "ADA@contoso.com")).await?;
/// let found = found.ok_or("nobody has it")?;
/// assert_eq!(found.id, 7);
///
/// // The copy under the old name goes and one under the new name comes, in one request.
/// staff.replace(&found.map(|e| e.last_name = "Lovelace".into())).await?;
/// let names = staff.query(Employee::by_last_name_all("sales").prefix("Love")).all().await?;
/// assert_eq!(names.len(), 1);
/// assert!(staff.query(Employee::by_last_name("sales", "King")).all().await?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Limits
///
/// A transaction has 100 operations and 4 MiB: an entity of *n* indexes takes *n* + 1 operations to
/// insert and up to [`OPERATIONS`](Self::OPERATIONS) to change, which is checked when the type is
/// compiled, and whole copies of a large entity must fit as well.
///
/// Writes to the table by other means leave the copies out of step. A row that is found to be so
/// while writing is mended in the same transaction.
///
/// See the section "Intra-partition secondary index pattern" of the
/// [table design guide](https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns).
pub struct LocalIndex<E> {
    table: Table,
    alongside: Option<Arc<Alongside<E>>>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> LocalIndex<E> {
    /// The operations that changing an entity takes at most: one for the entity, and two for each
    /// index, if its copy is deleted under one key and inserted under another.
    pub const OPERATIONS: usize = 1 + 2 * in_partition::<E>();

    /// The entities of type `E` and their copies in this table. Sends nothing.
    pub fn new(table: Table) -> Self {
        const {
            assert!(
                Self::OPERATIONS <= LIMIT,
                "changing an entity of so many indexes takes more than 100 operations"
            );
        }
        Self { table, alongside: None, entity: PhantomData }
    }

    /// The table. What is written to it without this is not in the indexes.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// How many indexes of `E` are in its partition.
const fn in_partition<E: Entity>() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < E::INDEXES.len() {
        if matches!(E::INDEXES[at].scope, Scope::SamePartition) {
            count += 1;
        }
        at += 1;
    }
    count
}

/// Reading.
impl<E: Entity + Send + Sync + 'static> LocalIndex<E> {
    /// Reads the entity at its own key, or `None` when there is none. One point query.
    pub async fn get(&self, key: Key<E>) -> Result<Option<Indexed<E>>> {
        let stored = self.table.get_as::<Found<E>>(key).await?;
        Ok(stored.map(Indexed::new))
    }

    /// Reads the entity of this value of a unique index, or `None` when there is none.
    ///
    /// One point query of the copy; if the index copies some properties only, another one of the
    /// entity. [`find_as`](Self::find_as) reads the copy alone.
    pub async fn find(&self, key: IndexKey<E, SamePartition>) -> Result<Option<Indexed<E>>> {
        let position = key.position();
        let copy: Key<E> = key.clone().key_of();
        if key.index().copy == Copied::All {
            return self.get(copy).await;
        }
        let mut before = None;
        loop {
            let Some(found) = self.table.get_as::<Pointer<E>>(copy.clone()).await? else {
                return Ok(None);
            };
            let pointer = found.entity;
            let entity = self.get(pointer.primary.clone()).await?;
            if let Some(entity) =
                entity.filter(|entity| entity.has_copy(position, &pointer.row_key))
            {
                return Ok(Some(entity));
            }
            // The entity changed between the two requests, and another may have the value now.
            if before.replace(found.etag.clone()) == Some(found.etag) {
                return Ok(None);
            }
        }
    }

    /// Reads the copy in a unique index as a `P`, which sees the keys of the entity. One point query.
    ///
    /// Fails with [`ErrorKind::Invalid`], and sends nothing, if `P` needs a property that the copies do not
    /// have.
    pub async fn find_as<P: Projection>(
        &self,
        key: IndexKey<E, SamePartition>,
    ) -> Result<Option<Stored<P>>> {
        let checked = key.index().check_projection::<P>();
        checked.map_err(|error| error.of("LocalIndex", self.table.name()))?;
        Ok(self.table.get_as::<Seen<P>>(key.key_of::<E>()).await?.map(of_entity))
    }

    /// A query of an index, in its order. Nothing is sent yet.
    pub fn query(&self, range: IndexRange<E, SamePartition>) -> IndexQuery<E> {
        IndexQuery::new(self.clone(), range)
    }
}

/// Writing.
impl<E: Entity + Send + Sync + 'static> LocalIndex<E> {
    /// Stores a new entity and its copies. One request; returns the ETag of the entity.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is an entity with its key, or if another one
    /// has its value of a unique index: the message names the index then.
    pub async fn insert(&self, entity: &E) -> Result<ETag> {
        let mut changes = self.changes();
        changes.insert(entity)?;
        self.submit_one(changes).await
    }

    /// Replaces an entity and its copies, if nobody wrote since it was read. One request.
    ///
    /// A value of an index that was changed moves the copy. Fails with [`ErrorKind::Conflict`] if
    /// somebody wrote in between, and with [`ErrorKind::AlreadyExists`] if another entity has a value
    /// that is new in a unique index.
    pub async fn replace(&self, indexed: &Indexed<E>) -> Result<ETag> {
        let mut changes = self.changes();
        changes.replace(&indexed.entity, indexed)?;
        self.submit_one(changes).await
    }

    /// Reads the entity at `key`, changes it and replaces it; if somebody else wrote in between, reads
    /// and changes it again. Two requests when nobody did.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do
    /// nothing but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity,
    /// and with [`ErrorKind::Conflict`] if other writers won every round.
    ///
    /// When the answer to the write is lost, the entity is read to see whether it was applied. That
    /// settles it if `change` sets what it sets. If it adds to what is there, as a counter does,
    /// another writer's entity may look like this one's: then the error stays, with
    /// [`Outcome::Unknown`], rather than that a change is lost or made twice.
    pub async fn update(&self, key: Key<E>, mut change: impl FnMut(&mut E)) -> Result<Indexed<E>> {
        let mut rounds = Rounds::new(&self.table, key.parts().ok());
        loop {
            let Some(read) = self.get(key.clone()).await? else {
                return Err(Error::refused(ErrorKind::NotFound, "it does not exist")
                    .of("UpdateEntity", self.table.name()));
            };
            let changed = read.map(&mut change);
            match self.replace(&changed).await {
                Ok(etag) => return changed.written(etag),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    let Ok(Some(now)) = self.get(key).await else { return Err(error) };
                    return if is_settled(&*now, &*changed, change) { Ok(now) } else { Err(error) };
                }
                Err(error) if error.is_conflict() && was_lost(&error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores an entity and its copies, whether or not there is one with its key. Two requests, for
    /// the copies of what is replaced have to be known; more if others write at the same time.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if another entity has its value of a unique index.
    pub async fn upsert(&self, entity: &E) -> Result<ETag> {
        let (partition_key, row_key) = crate::index_row::primary_keys(entity)?;
        let mut rounds = Rounds::new(&self.table, (&partition_key, &row_key));
        loop {
            let read = self.get(Key::new(&*partition_key, &*row_key)).await?;
            let mut changes = self.changes();
            match &read {
                Some(read) => changes.replace(entity, read)?,
                None => changes.insert(entity)?,
            }
            match self.submit_one(changes).await {
                // Somebody inserted, changed or deleted it since it was read.
                Err(error) if was_lost(&error) && error.operation_index() == Some(0) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Deletes an entity and its copies, if nobody wrote since it was read. One request.
    ///
    /// Fails with [`ErrorKind::Conflict`] if somebody did, with [`ErrorKind::NotFound`] if it is gone.
    pub async fn delete(&self, indexed: &Indexed<E>) -> Result<()> {
        let mut changes = self.changes();
        changes.delete(indexed)?;
        changes.submit(&self.table).await.map(drop)
    }

    /// Deletes the entity at `key` and its copies, whatever it is, if it is there; says whether it
    /// was. Two requests; more if others write at the same time.
    pub async fn delete_if_exists(&self, key: Key<E>) -> Result<bool> {
        let mut rounds = Rounds::new(&self.table, key.parts().ok());
        loop {
            let Some(read) = self.get(key.clone()).await? else { return Ok(false) };
            match self.delete(&read).await {
                Ok(()) => return Ok(true),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    return match self.get(key).await {
                        Ok(None) => Ok(true),
                        _ => Err(error),
                    };
                }
                Err(error) if was_lost(&error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins a transaction of several entities of one partition, all of them with their copies.
    /// Nothing is sent before [`submit`](IndexedTransaction::submit).
    pub fn transaction(&self) -> IndexedTransaction<'_, E> {
        IndexedTransaction::new(self.table.clone(), self.alongside.clone())
    }

    fn changes<'e>(&self) -> Changes<'e, E> {
        Changes::new(self.alongside.clone())
    }

    /// Submits the change of one entity, and returns its new ETag.
    async fn submit_one(&self, changes: Changes<'_, E>) -> Result<ETag> {
        let etags = changes.submit(&self.table).await?;
        etags.into_iter().flatten().next().ok_or_else(|| {
            Error::refused(ErrorKind::Decode, "the write succeeded but the answer has no ETag")
                .of("EntityGroupTransaction", self.table.name())
        })
    }
}

/// What was read of a copy, without where its entity is.
fn of_entity<P>(seen: Stored<Seen<P>>) -> Stored<P> {
    Stored { entity: seen.entity.value, etag: seen.etag, timestamp: seen.timestamp }
}

/// Whether `now` is what a change made of an entity, and changing it again would change nothing: then
/// it does not matter whether it was this change or another writer's that made it so.
fn is_settled<E: Entity>(now: &E, changed: &E, change: impl FnOnce(&mut E)) -> bool {
    let copy = DynamicEntity::of(now).and_then(|stored| stored.read_as::<E>());
    copy.is_ok_and(|mut again| {
        change(&mut again);
        is_same(now, changed) && is_same(&again, changed)
    })
}

/// Whether both are stored alike.
fn is_same<E: Entity>(a: &E, b: &E) -> bool {
    match (DynamicEntity::of(a), DynamicEntity::of(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

impl<E> Clone for LocalIndex<E> {
    fn clone(&self) -> Self {
        let (table, alongside) = (self.table.clone(), self.alongside.clone());
        Self { table, alongside, entity: PhantomData }
    }
}

impl<E> fmt::Debug for LocalIndex<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalIndex").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
