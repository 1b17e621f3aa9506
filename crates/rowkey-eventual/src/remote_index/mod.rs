//! Secondary indexes in other partitions, tables and accounts: the guide's inter-partition secondary
//! index.
//!
//! The entity declares them with a `partition` of their own; a [`Source`](crate::source::Source) writes
//! the entities, and its worker carries each change on to the copies. They follow after a while, so
//! whoever looks something up chooses: [`find`](RemoteIndex::find) reads the copy and then the entity, and
//! returns what is true now; [`find_stale`](RemoteIndex::find_stale) reads the copy alone, as old as it
//! may be.
//!
//! - [`RemoteIndex`]: the indexes of a type; lookups
//! - [`query`]: [`RemoteQuery`], ranges of an index in its order
//! - `settle`: how a copy is made to agree with its entity

pub mod query;
mod settle;

use std::fmt;
use std::ops::Deref;

use rowkey::edm::DateTime;
use rowkey::index::{IndexKey, IndexRange, OtherPartition, Scope};
use rowkey::{
    DynamicEntity, Entity, Error, ErrorKind, Index, Key, Projection, Result, Stored, Table,
};
use rowkey_patterns::index_row::{IndexRow, Pointer, Seen};
use rowkey_patterns::local_index::{Indexed, LocalIndex};
use rowkey_patterns::verify::Verify;

use crate::source::Follower;
pub use query::RemoteQuery;

/// The indexes of `E` that are in other partitions than their entities.
///
/// Those of the same partition are the [`Source`](crate::source::Source)'s own; their addresses are not
/// taken here:
///
/// ```compile_fail,E0308
/// # use rowkey::Entity;
/// # use rowkey_eventual::remote_index::RemoteIndex;
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, row = "email_{email:lower}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// async fn find(index: RemoteIndex<Employee>) {
///     index.find(Employee::by_email("sales", "ada@contoso.com")).await; // expected `OtherPartition`
/// }
/// ```
///
/// # Example
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_eventual::remote_index::RemoteIndex;
/// use rowkey_eventual::source::Source;
/// use rowkey_eventual::worker::Step;
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// #[entity(index(name = by_email, partition = "email", row = "{email:lower}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let (table, queue) = (account.table("staff"), account.queue("staff-changes"));
/// let index = RemoteIndex::<Employee>::new(table.clone())
///     .index_table(["by_email"], account.table("staffByEmail"))?;
/// let staff = Source::new(table, queue, [index.follower()])?;
/// staff.create_if_missing().await?;
/// index.create_if_missing().await?;
///
/// let email = "ada@contoso.com".to_owned();
/// staff.insert(&Employee { department: "sales".into(), id: 7, email }).await?;
/// assert!(index.find(Employee::by_email("ada@contoso.com")).await?.is_none(), "not yet");
/// assert_eq!(staff.worker().step().await?, Step::Handled);
///
/// // The copy and then the entity: what is found is true, and can be changed.
/// let ada = index.find(Employee::by_email("Ada@contoso.com")).await?.ok_or("nobody has it")?;
/// assert_eq!((&*ada.department, ada.id), ("sales", 7));
/// staff.replace(&ada.map(|e| e.email = "king@contoso.com".into())).await?;
///
/// // The copy alone does not know of it yet.
/// let stale = index.find_stale::<Employee>(Employee::by_email("ada@contoso.com")).await?;
/// assert!(stale.is_some());
/// assert!(index.find(Employee::by_email("ada@contoso.com")).await?.is_none());
/// # Ok(())
/// # }
/// ```
///
/// # Limits
///
/// A unique index elsewhere cannot refuse a value that is taken: the entity is written long before its
/// copy. The first one has the place. The change of the other is tried again by the worker until it
/// is put into the poison queue, with a reason that names the index, and by every
/// [`drain`](crate::source::Source::drain), which succeeds when the place is free;
/// [`verify`](Self::verify) reports it as `taken`. To have it refused, reserve the value first.
///
/// See the section "Inter-partition secondary index pattern" of the
/// [table design guide](https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns).
pub struct RemoteIndex<E> {
    entities: LocalIndex<E>,
    /// The tables of indexes, that of the entities first.
    tables: Vec<Table>,
    /// Which of them each index is in, in the order of [`Entity::INDEXES`].
    places: Vec<usize>,
}

/// What a copy says of an entity: how the entity was when the copy was written, which may be a while
/// ago. It derefs to what was read.
///
/// There is no ETag of the entity in it, so it cannot be given to a `replace`: read the entity at
/// [`primary`](Self::primary) for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale<P> {
    /// What the copy says.
    pub value: P,
    /// Where the entity is, or was.
    pub primary: Key<DynamicEntity>,
    /// When the copy was written.
    pub written: DateTime,
}

/// What is where.
impl<E: Entity + Send + Sync + 'static> RemoteIndex<E> {
    /// The indexes of the entities in this table, in the same table. Sends nothing.
    pub fn new(table: Table) -> Self {
        let (tables, places) = (vec![table.clone()], vec![0; E::INDEXES.len()]);
        Self { entities: LocalIndex::new(table), tables, places }
    }

    /// The indexes with these names are in another table, which may be one of another account.
    ///
    /// Fails with [`ErrorKind::Invalid`] if `E` declares no such index in another partition.
    pub fn index_table<'n>(
        mut self,
        names: impl IntoIterator<Item = &'n str>,
        table: Table,
    ) -> Result<Self> {
        for name in names {
            let position = position_of::<E>(name).ok_or_else(|| {
                let what = "the type declares no index of this name in another partition";
                Error::refused(ErrorKind::Invalid, what).of("RemoteIndex", table.name())
            })?;
            self.places[position] = self.tables.len();
        }
        self.tables.push(table);
        Ok(self)
    }

    /// What keeps the copies in step: give it to [`Source::new`](crate::source::Source::new).
    pub fn follower(&self) -> Follower<E> {
        settle::follower(self.clone())
    }

    /// Verifies these indexes, mends them, and builds new ones while writers go on.
    ///
    /// A change that no worker has carried on yet counts as drift: it is found to be `missing`, `stale` or
    /// an `orphan`, and mending it before the worker does no harm.
    pub fn verify(&self) -> Verify<E> {
        let names = |place| {
            let here = move |(at, _): &(usize, _)| self.places[*at] == place;
            remote::<E>().filter(here).map(|(_, index)| index.name)
        };
        let all = remote::<E>().map(|(_, index)| index.name);
        let verify = Verify::new(self.entities.table().clone()).only(all);
        let elsewhere = self.tables.iter().enumerate().skip(1);
        elsewhere
            .fold(verify, |verify, (place, table)| verify.index_table(names(place), table.clone()))
    }

    /// Creates the tables of the entities and of the indexes, those that are missing.
    pub async fn create_if_missing(&self) -> Result<()> {
        for table in &self.tables {
            table.create_if_missing().await?;
        }
        Ok(())
    }

    /// The table of the index at this place.
    fn table(&self, position: usize) -> &Table {
        &self.tables[self.places[position]]
    }
}

/// Lookups.
impl<E: Entity + Send + Sync + 'static> RemoteIndex<E> {
    /// Finds the entity of this value of a unique index, as it is now: reads the copy, then the
    /// entity, and looks whether it has the value. Two point queries; up to four if it has not.
    ///
    /// What is found is true. What is not found may be there nevertheless, if the copy is not written
    /// yet.
    pub async fn find(&self, key: IndexKey<E, OtherPartition>) -> Result<Option<Indexed<E>>> {
        let position = key.position();
        let copy: Key<E> = key.key_of();
        let mut before = None;
        loop {
            let found = self.table(position).get_as::<Pointer<E>>(copy.clone()).await?;
            let Some(found) = found else { return Ok(None) };
            if let Some(entity) = self.follow(position, found.entity).await? {
                return Ok(Some(entity));
            }
            // The entity has another value, and another one may have this by now.
            if before.replace(found.etag.clone()) == Some(found.etag) {
                return Ok(None);
            }
        }
    }

    /// Finds what the copy in a unique index says, which may be no longer true, or not yet. One point
    /// query.
    ///
    /// `P` is `E` itself, if the index copies all properties, or a projection of those it copies: with
    /// another one it fails, and sends nothing.
    pub async fn find_stale<P: Projection>(
        &self,
        key: IndexKey<E, OtherPartition>,
    ) -> Result<Option<Stale<P>>> {
        let table = self.table(key.position());
        let checked = key.index().check_projection::<P>();
        checked.map_err(|error| error.of("RemoteIndex", table.name()))?;
        Ok(table.get_as::<Seen<P>>(key.key_of::<E>()).await?.map(Stale::of))
    }

    /// A query of an index, in its order. Nothing is sent yet.
    pub fn query(&self, range: IndexRange<E, OtherPartition>) -> RemoteQuery<E> {
        RemoteQuery::new(self.clone(), range)
    }

    /// The entity that a copy points at, if it demands that copy.
    async fn follow(&self, position: usize, copy: Pointer<E>) -> Result<Option<Indexed<E>>> {
        let entity = self.entities.get(copy.primary).await?;
        Ok(entity.filter(|entity| {
            let demanded = IndexRow::of(&**entity, position).ok().flatten();
            demanded.is_some_and(|row| row.keys() == (&copy.partition_key, &copy.row_key))
        }))
    }
}

impl<P> Stale<P> {
    fn of(seen: Stored<Seen<P>>) -> Self {
        let Stored { entity: Seen { value, primary }, timestamp, .. } = seen;
        Self { value, primary, written: timestamp }
    }
}

/// The indexes of `E` in other partitions, with their places.
fn remote<E: Entity>() -> impl Iterator<Item = (usize, &'static Index)> {
    let indexes = E::INDEXES.iter().enumerate();
    indexes.filter(|(_, index)| index.scope == Scope::OtherPartition)
}

fn position_of<E: Entity>(name: &str) -> Option<usize> {
    remote::<E>().find(|(_, index)| index.name == name).map(|(position, _)| position)
}

impl<P> Deref for Stale<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.value
    }
}

impl<E> Clone for RemoteIndex<E> {
    fn clone(&self) -> Self {
        let (tables, places) = (self.tables.clone(), self.places.clone());
        Self { entities: self.entities.clone(), tables, places }
    }
}

impl<E: Entity + Send + Sync + 'static> fmt::Debug for RemoteIndex<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RemoteIndex");
        for (position, index) in remote::<E>() {
            out.field(index.name, &self.table(position).name());
        }
        out.finish_non_exhaustive()
    }
}
