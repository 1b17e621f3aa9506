//! The store: one handle that writes and reads a type.
//!
//! - this file: [`Store`] and its writes
//! - `build`: [`StoreBuilder`]
//! - `copying`: copies that another store keeps in the entities
//! - `expiry`: entities that are expired, and the job that removes them
//! - `explain`: plans that are shown and not run
//! - `patch`: changes of single properties
//! - `parts`: reads of single properties of a wide entity
//! - `manifest`: programs of several versions that write one table
//! - `list`: reads through a list
//! - `query`: pages and streams of entities
//! - `read`: reads by key and through an index
//! - `transaction`: [`Transaction`], changes of several entities
//! - `verify`, `delete`, `bulk`, `rewriting`: jobs over many entities · `examine`: the checks of `verify` ·
//!   `causes`: why a repair fails
//! - `sweep`: a job over the blobs · `upload`, `download`: the content of references to blobs
//! - `work`: settling writes that were interrupted
//! - `writing`: the change of one entity, from the head that is read to the plan that runs

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use rowkey_client::{DynamicEntity, Entity, Error, Key, Receipt, Result, Table};
use rowkey_patterns::job::Report;

use crate::declarations::Named;
use crate::declaring::settling::Settled;
use crate::execute::settler::TypeSettler;
use crate::layer::deciding::Deciding;
use crate::layer::place::OtherTables;
use crate::layer::seal::Sealer;
use crate::row::blobs::Blobs;
use crate::row::{Keys, keys_of};

mod build;
mod bulk;
mod causes;
mod clean;
mod copying;
mod delete;
mod download;
mod examine;
mod expiry;
mod explain;
mod if_match;
mod list;
mod manifest;
mod measured;
mod orphans;
mod parts;
mod patch;
mod query;
mod read;
mod repair;
mod rewriting;
mod sweep;
mod totals;
mod transaction;
mod upload;
mod verify;
mod version;
mod work;
mod writing;

pub use build::StoreBuilder;
pub use bulk::Group;
pub use delete::Deletions;
pub use download::{Content, ContentReader, Download};
pub use explain::Explain;
pub use if_match::{IfMatch, IfMatchError};
use manifest::Manifest;
pub use manifest::Stage;
use measured::{ended, with_its_receipt};
pub use patch::Patch;
pub use query::{Page, Query, Selection};
pub use sweep::Sweeping;
pub use transaction::{Refusing, Submitted, Transaction};
pub use upload::Upload;
pub use version::{Version, Versioned};
pub use work::Worked;
use writing::{Changing, ReadHead, is_race, version_of};

/// A store of one entity type. Each write keeps everything that the type declares consistent.
///
/// ```
/// use rowkey::store::Store;
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// #[entity(index(name = by_name, row = "name_{name}", many))]
/// #[entity(unique(name = by_email, value = "{email:lower}"))]
/// struct User { tenant: String, id: u32, name: String, email: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
/// users.create_if_missing().await?;
///
/// let ada =
///     User { tenant: "contoso".into(), id: 1, name: "Ada".into(), email: "Ada@contoso.com".into() };
/// users.insert(&ada).await?;
/// let found = users.find(User::by_email("ada@contoso.com")).await?.ok_or("not found")?;
/// assert_eq!(found.entity, ada);
///
/// let other = User { tenant: "fabrikam".into(), id: 2, ..ada.clone() };
/// let taken = users.insert(&other).await.unwrap_err();
/// assert_eq!(taken.details().index, Some("by_email"));
///
/// users.update(User::key("contoso", 1), |user| user.name = "Ada L.".into()).await?;
/// let read = users.get(User::key("contoso", 1)).await?.ok_or("not found")?;
/// assert_eq!(read.entity.name, "Ada L.");
///
/// users.upsert(&ada).await?;
/// let several = users.get_many((1..=3).map(|id| User::key("contoso", id))).await?;
/// assert_eq!(several.iter().flatten().count(), 1);
///
/// assert!(users.delete(User::key("contoso", 1)).await?);
/// assert!(!users.exists(User::key("contoso", 1)).await?);
/// # Ok(()) }
/// ```
///
/// A [`Table`] reads such a type but does not write it. This does not compile (with `cargo build`; `cargo check` does
/// not compile calls for their types, and accepts it):
///
/// ```compile_fail
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// # struct User { tenant: String, id: u32 }
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
/// let user = User { tenant: "contoso".into(), id: 1 };
/// let _past_the_store = account.table("users").insert(&user);
/// ```
///
/// Cost in requests: if all declarations of a type are in its partition, a write is one transaction.
/// `insert` and `replace_if` are that request alone, or that request and one read. Declarations in
/// other places add a message, the deletion of the op row, and the costs on their own pages.
pub struct Store<E> {
    inner: Arc<Inner<E>>,
}

struct Inner<E> {
    /// The table for reads that decide nothing; these may use the secondary.
    table: Table,
    /// What settles the targets and claims of the type: its declarations, layers and announcer.
    of_type: Arc<TypeSettler<E>>,
    sealer: Option<Arc<dyn Sealer>>,
    /// Whether copies are read before they are replaced, even if a store wrote their entity.
    reads_copies: bool,
    /// The manifest, if the store was opened.
    manifest: OnceLock<Manifest>,
    /// `None` if the type stores nothing in blobs.
    blobs: Option<Blobs>,
    /// The tables of declarations that have one of their own.
    tables: OtherTables,
}

impl<E> Deref for Inner<E> {
    type Target = TypeSettler<E>;

    fn deref(&self) -> &TypeSettler<E> {
        &self.of_type
    }
}

/// A step of a job over rows of the table.
pub type Step = Box<
    dyn Fn(rowkey_client::Page<DynamicEntity>) -> BoxFuture<'static, Result<Report>> + Send + Sync,
>;

/// The result of a write. Two are equal if their versions and what is settled are.
#[derive(Clone, Debug)]
pub struct Written {
    /// The new version of the entity.
    pub version: Version,
    /// Whether everything outside the transaction agrees already. A worker settles pending targets.
    pub settled: Settled,
    /// What all requests of the write used.
    pub receipt: Receipt,
}

impl PartialEq for Written {
    fn eq(&self, other: &Self) -> bool {
        let Self { version, settled, receipt: _ } = self;
        *version == other.version && *settled == other.settled
    }
}

impl Eq for Written {}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Inserts a new entity. Costs one request if no declaration is outside the partition.
    ///
    /// An expired entity with these keys (`#[entity(expiry)]`) is replaced: one read and one more write after the first
    /// was refused.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if an entity with these keys exists or a unique value
    /// is taken; [`ErrorDetails::index`](rowkey_client::ErrorDetails::index) then names the declaration.
    ///
    /// [`ErrorKind::AlreadyExists`]: rowkey_client::ErrorKind::AlreadyExists
    pub async fn insert(&self, entity: &E) -> Result<Written> {
        let insert = async {
            let keys = keys_of(entity)?;
            let mut rounds = self.rounds(&keys);
            let written = match self.write(&keys, None, Some(entity), &mut rounds).await {
                Err(error) => self.insert_over(&keys, entity, error, &mut rounds).await,
                written => written,
            };
            written.map(|(written, _)| ended(version_of(&written)))
        };
        self.measured("Insert", insert).await.map(with_its_receipt)
    }

    /// Replaces an entity that has this version, or meets this [condition](IfMatch). Costs one read and the write.
    ///
    /// Like every write of a store over an existing entity, it keeps stored properties that the type does
    /// not have, because a newer or another program wrote them, in the entity and in its whole copies. A
    /// [`Table`](Table::replace) erases them.
    ///
    /// Fails with [`ErrorKind::Conflict`] if the entity has another version or does not exist. With
    /// [`IfMatch::Any`], repeats this while other writers come first.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, open: bool }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id| Order { tenant: "contoso".into(), id, open: true };
    /// # use rowkey::ErrorKind;
    /// let read = orders.insert(&order(1)).await?.version;
    /// let closed = Order { open: false, ..order(1) };
    /// orders.replace_if(&closed, &read).await?;
    ///
    /// let stale = orders.replace_if(&order(1), &read).await.unwrap_err();
    /// assert_eq!(stale.kind(), ErrorKind::Conflict);
    /// let stale = orders.delete_if(Order::key("contoso", 1), &read).await.unwrap_err();
    /// assert_eq!(stale.kind(), ErrorKind::Conflict);
    /// # Ok(()) }
    /// ```
    ///
    /// [`ErrorKind::Conflict`]: rowkey_client::ErrorKind::Conflict
    pub async fn replace_if(&self, entity: &E, version: impl Into<IfMatch>) -> Result<Written> {
        let condition = version.into();
        let replace = async {
            let keys = keys_of(entity)?;
            self.write_if(&keys, &condition, Some(entity)).await.map(ended)
        };
        self.measured("Replace", replace).await.map(with_its_receipt)
    }

    /// Inserts or replaces an entity. Costs one read and the write.
    pub async fn upsert(&self, entity: &E) -> Result<Written> {
        let upsert = async {
            let keys = keys_of(entity)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let before = self.replaced(self.read_before(&keys).await?);
                let error = match self.write(&keys, before, Some(entity), &mut rounds).await {
                    Ok((written, _)) => return Ok(ended(version_of(&written))),
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        self.measured("Upsert", upsert).await.map(with_its_receipt)
    }

    /// Reads the entity, changes it, and writes it if the version is still the one that was read. Repeats this
    /// while other writers come first. Costs two requests if no declaration is outside the partition.
    ///
    /// Properties that the type does not have are kept. `change` may run several times. Fails with
    /// [`ErrorKind::NotFound`] if the entity does not exist, and with [`ErrorKind::Invalid`] if the change
    /// alters a part of the key.
    ///
    /// [`ErrorKind::NotFound`]: rowkey_client::ErrorKind::NotFound
    /// [`ErrorKind::Invalid`]: rowkey_client::ErrorKind::Invalid
    pub async fn update(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) + Send,
    ) -> Result<Versioned<E>> {
        let change = |entity: &mut E| {
            change(entity);
            Ok::<_, std::convert::Infallible>(())
        };
        match self.try_update(key, change).await? {
            Ok(versioned) => Ok(versioned),
            Err(refused) => match refused {},
        }
    }

    /// Like [`update`](Self::update), with a change that may refuse. If it refuses, nothing is written, and
    /// its error is the inner result.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, open: bool }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id| Order { tenant: "contoso".into(), id, open: true };
    /// orders.insert(&order(1)).await?;
    /// let close = |order: &mut Order| {
    ///     if !order.open {
    ///         return Err("it is closed already");
    ///     }
    ///     order.open = false;
    ///     Ok(())
    /// };
    /// assert!(orders.try_update(Order::key("contoso", 1), close).await?.is_ok());
    /// assert_eq!(
    ///     orders.try_update(Order::key("contoso", 1), close).await?.unwrap_err(),
    ///     "it is closed already"
    /// );
    /// # Ok(()) }
    /// ```
    pub async fn try_update<R: Send>(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) -> std::result::Result<(), R> + Send,
    ) -> Result<std::result::Result<Versioned<E>, R>> {
        self.update_whole(key, None, &mut |entity, _, _| change(entity)).await
    }

    /// Like [`try_update`](Self::try_update), but `change` also gets the properties that the type
    /// does not have, and the names of those that stay sealed; and with a condition that the entity meets.
    async fn update_whole<R: Send>(
        &self,
        key: Key<E>,
        condition: Option<&IfMatch>,
        change: &mut Changing<'_, E, R>,
    ) -> Result<std::result::Result<Versioned<E>, R>> {
        let update = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let mut before = self.read_to_change(&keys, condition).await?;
                let after = match before.change(&keys, change)? {
                    Ok(after) => after,
                    Err(refused) => return Ok((Err(refused), None)),
                };
                let written = self.write(&keys, Some(before), Some(&after), &mut rounds).await;
                let error = match written {
                    Ok((written, _)) => {
                        let Written { version, settled, .. } = version_of(&written);
                        return Ok((Ok(Versioned { entity: after, version }), Some(settled)));
                    }
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        self.measured("Update", update).await.map(|(updated, _)| updated)
    }

    /// Writes the entity unchanged, together with every row that its declarations demand. Use it after a
    /// declaration was added, or after another program damaged rows. Returns whether the entity exists.
    /// Costs one read and a write of all rows.
    ///
    /// Does not claim unique values again; [`repair`](Self::repair) does.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
    /// # struct Order { tenant: String, id: u32, customer: String, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id, customer: &str| Order {
    /// #     tenant: "contoso".into(), id, customer: customer.into(), cents: 100 * i64::from(id),
    /// # };
    /// orders.insert(&order(1, "ada")).await?;
    /// // Another program deletes the entity's copy in the index.
    /// # let mut rows = orders.table().scan::<rowkey::DynamicEntity>().scan_policy(rowkey::ScanPolicy::Allow).all().await?;
    /// # rows.retain(|row| row.entity.row_key.starts_with("customer"));
    /// # let copy = rows[0].entity.key();
    /// orders.table().delete(copy, rowkey::Match::Any).await?;
    /// assert!(orders.rewrite(Order::key("contoso", 1)).await?);
    /// assert_eq!(orders.count(Order::by_customer("contoso", "ada")).await?, 1);
    /// # Ok(()) }
    /// ```
    pub async fn rewrite(&self, key: Key<E>) -> Result<bool> {
        let rewrite = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let Some(before) = self.read_before(&keys).await? else { return Ok((false, None)) };
                let after = before.entity.clone();
                let rounds_left = &mut rounds;
                let error = match self
                    .write_all(&keys, Some(before), Some(&after), true, rounds_left)
                    .await
                {
                    Ok((written, _)) => return Ok((true, Some(written.settled))),
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        self.measured("Rewrite", rewrite).await.map(|(exists, _)| exists)
    }

    /// Deletes the entity and all its rows; returns whether it existed. Costs one read and the
    /// write.
    pub async fn delete(&self, key: Key<E>) -> Result<bool> {
        let delete = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let Some(before) = self.read_before(&keys).await? else { return Ok((false, None)) };
                let error = match self.write(&keys, Some(before), None, &mut rounds).await {
                    Ok((written, _)) => return Ok((true, Some(written.settled))),
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        self.measured("Delete", delete).await.map(|(existed, _)| existed)
    }

    /// Deletes the entity if it has this version, or meets this [condition](IfMatch). Costs one read and the
    /// write.
    ///
    /// Fails with [`ErrorKind::Conflict`] if it has another version or does not exist. With
    /// [`IfMatch::Any`], repeats this while other writers come first.
    ///
    /// [`ErrorKind::Conflict`]: rowkey_client::ErrorKind::Conflict
    pub async fn delete_if(&self, key: Key<E>, version: impl Into<IfMatch>) -> Result<()> {
        let condition = version.into();
        let delete = async {
            let keys = parts(&key)?;
            let written = self.write_if(&keys, &condition, None).await?;
            Ok(((), Some(written.settled)))
        };
        self.measured("Delete", delete).await.map(|((), _)| ())
    }

    /// Replaces or deletes an entity that meets the condition.
    async fn write_if(
        &self,
        keys: &Keys,
        condition: &IfMatch,
        after: Option<&E>,
    ) -> Result<Written> {
        let mut rounds = self.rounds(keys);
        loop {
            let before = self.read_if(keys, condition).await?;
            let error = match self.write(keys, Some(before), after, &mut rounds).await {
                Ok((written, _)) => return Ok(version_of(&written)),
                Err(error) => error,
            };
            // Another version than the expected one is the caller's conflict.
            let repeats = *condition == IfMatch::Any && is_race(&error);
            if !repeats || !rounds.again().await {
                return Err(error);
            }
        }
    }

    /// Begins a transaction of several entities, of this type and of others in the same table and
    /// partition.
    pub fn transaction(&self) -> Transaction<'_, E> {
        Transaction::new(self)
    }

    /// The table of the entities.
    pub fn table(&self) -> &Table {
        &self.inner.table
    }

    /// The table of the rows of an index, a unique value or a list: that of the entities, or the one of `table = ".."`
    /// and [`StoreBuilder::index_table`]. `None` if the type has no such declaration.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # #[entity(index(name = by_customer, table = "customers", partition = "{customer}", row = "{tenant}_{id:6}"))]
    /// # struct Order { tenant: String, id: u32, customer: String }
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let orders =
    ///     Store::<Order>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    /// assert_eq!(orders.index_table("by_customer").map(|table| table.name()), Some("customers"));
    /// assert!(orders.index_table("by_courier").is_none());
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn index_table(&self, name: &str) -> Option<&Table> {
        let is_declared = Named::all::<E>().any(|named| named.name::<E>() == name);
        is_declared.then(|| self.inner.table_of(name))
    }

    /// Whether the store announces writes in a queue.
    #[cfg(feature = "test-util")]
    pub(crate) fn has_announcer(&self) -> bool {
        self.inner.announcer.is_some()
    }

    #[cold]
    fn named(&self, operation: &'static str, error: Error) -> Error {
        error.of(operation, self.inner.table.name())
    }
}

impl<E> Inner<E> {
    /// The table of a declaration for reads that decide nothing.
    fn table_of(&self, declaration: &str) -> &Table {
        self.tables.get(declaration).map_or(&self.table, |other| other.table())
    }

    /// The table of a declaration for reads that decide.
    fn deciding_of(&self, declaration: &str) -> &Deciding {
        self.tables.get(declaration).map_or(&self.deciding, |other| other.deciding())
    }

    /// Names the declaration in the error of a request to its table, if it is another table.
    fn named_at(&self, declaration: &str, error: Error) -> Error {
        match self.tables.get(declaration) {
            Some(other) => other.named(error),
            None => error,
        }
    }
}

fn parts<E>(key: &Key<E>) -> Result<Keys> {
    let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
    Ok((partition_key.to_owned(), row_key.to_owned()))
}

impl<E> Clone for Store<E> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<E> fmt::Debug for Store<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("table", &self.inner.table.name()).finish_non_exhaustive()
    }
}
