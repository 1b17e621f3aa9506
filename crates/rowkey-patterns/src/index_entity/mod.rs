//! Index entities: for each value that many entities of a partition share, a list of their keys.
//!
//! A secondary index stores a copy of the entity for each value; an index entity stores a key, some
//! bytes. `IndexEntity` keeps the list of each value in the partition of the entities it lists, so
//! that one entity group transaction changes an entity and its list.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_patterns::index_entity::IndexEntity;
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     last_name: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! # account.table("staff").create().await?;
//! let staff = IndexEntity::new(account.table("staff"), "last", |employee: &Employee| {
//!     Some(employee.last_name.clone())
//! });
//! let ada = Employee { department: "sales".into(), id: 7, last_name: "Jones".into() };
//! staff.insert(&ada).await?;
//!
//! // Three entities change together: the employee, the list she leaves and the one she joins.
//! staff.update(Employee::key("sales", 7), |e| e.last_name = "King".into()).await?;
//! let kings = staff.find(Employee::partition("sales"), "King").await?;
//! assert_eq!(kings[0].entity.id, 7);
//! assert!(staff.find(Employee::partition("sales"), "Jones").await?.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! The rows are described in the book, under "Index entities".

pub mod list;
mod lookup;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use rowkey::key::{KeyWriter, PartFormat};
use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Key, KeyPart, Outcome, Result, Rows, Stored,
    Table, Transaction,
};

use crate::rounds::{Rounds, was_lost};

const OPERATION: &str = "IndexEntity";
const MAX_ROWS: u16 = 8;
const CONCURRENCY: usize = 16;

/// A table whose entities of type `E` are listed by a value of type `V`.
///
/// Entities of type `E` are written through this: what is written to the table directly is not
/// listed until [`index`](Self::index) is called for it. Clones are cheap.
pub struct IndexEntity<E, V> {
    table: Table,
    name: Box<str>,
    value: Value<E, V>,
    max_rows: u16,
    concurrency: usize,
}

type Value<E, V> = Arc<dyn Fn(&E) -> Option<V> + Send + Sync>;

/// Making one.
impl<E: Entity, V: KeyPart> IndexEntity<E, V> {
    /// Lists the entities in `table` by what `value` says of each; one of which it says `None` is
    /// in no list.
    ///
    /// `name`, of ASCII letters and digits, begins the RowKey of each list: `last_Jones_0000`. The row
    /// template of `E` must begin with a literal, too, and neither may begin with the other.
    pub fn new(
        table: Table,
        name: &str,
        value: impl Fn(&E) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        let value = Arc::new(value);
        Self { table, name: name.into(), value, max_rows: MAX_ROWS, concurrency: CONCURRENCY }
    }

    /// How many rows the list of a value may have, 1 to 10,000; 8 unless set. A row holds 8
    /// properties of 64 KiB, which is 37,448 keys of six characters. A key more is refused with
    /// [`ErrorKind::TooLarge`].
    #[must_use = "the handle itself does not change"]
    pub fn max_rows(mut self, rows: u16) -> Self {
        self.max_rows = rows.clamp(1, 10_000);
        self
    }

    /// How many entities of a list are read at once, 16 unless set.
    #[must_use = "the handle itself does not change"]
    pub fn concurrency(mut self, entities: usize) -> Self {
        self.concurrency = entities.max(1);
        self
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// Writing: each takes the reads it says and one transaction, and begins again, up to 40 times, if
/// somebody else changed the entity or a list in between.
///
/// An error whose [`outcome`](Error::outcome) is unknown leaves the entity and its lists as they
/// were or all of them changed.
impl<E: Entity + Send + Sync + 'static, V: KeyPart> IndexEntity<E, V> {
    /// Stores a new entity and puts its key into the list of its value: one read, one transaction.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is an entity with its keys, and with
    /// [`ErrorKind::TooLarge`] if the list is full.
    pub async fn insert(&self, entity: &E) -> Result<ETag> {
        let at = self.address_of(entity)?;
        let to = self.stem_of(entity)?;
        let mut rounds = Rounds::new(&self.table, &at.row_key);
        loop {
            let transaction = self.table.transaction().insert(entity);
            let transaction = self.relist(transaction, &at, None, to.as_deref()).await?;
            match transaction.submit().await {
                Ok(tags) => return first(tags),
                // Operation 0 is the entity, and that it exists is for the caller to know.
                Err(error) if error.operation_index() == Some(0) => return Err(error),
                Err(error) if was_lost(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the entity at `key`, changes it and replaces it; if its value changes, its key moves
    /// from the one list to the other in the same transaction. One read and one replace, or three
    /// reads and one transaction.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do
    /// nothing but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity.
    pub async fn update(&self, key: Key<E>, mut change: impl FnMut(&mut E)) -> Result<Stored<E>> {
        let at = self.address(&key)?;
        let mut rounds = Rounds::new(&self.table, &at.row_key);
        loop {
            match self.update_once(&at, &mut change).await {
                Err(error) if was_lost(&error) && rounds.again().await => {}
                result => return result,
            }
        }
    }

    /// Deletes the entity at `key` and takes its key off its list; says whether there was one. Two
    /// reads and one transaction.
    pub async fn delete(&self, key: Key<E>) -> Result<bool> {
        let at = self.address(&key)?;
        let mut rounds = Rounds::new(&self.table, &at.row_key);
        loop {
            let Some(stored) = self.table.get(key.clone()).await? else { return Ok(false) };
            let from = self.stem_of(&stored.entity)?;
            let transaction = self.table.transaction().delete(key.clone(), &stored);
            let transaction = self.relist(transaction, &at, from.as_deref(), None).await?;
            match transaction.submit().await {
                Ok(_) => return Ok(true),
                // The entity is gone: the first attempt, whose answer was lost, is taken to be what
                // deleted it. If another row of the transaction is gone, it says nothing of that.
                Err(error)
                    if error.is_not_found()
                        && error.operation_index() == Some(0)
                        && error.outcome() == Outcome::Unknown =>
                {
                    return Ok(true);
                }
                Err(error) if was_lost(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts the entity at `key`, stored before there were lists or without this, into its list;
    /// says whether it was missing there. Two reads, and one transaction if it was.
    ///
    /// To list what a table holds already, let all writers use this first, then call it for each
    /// entity; writers need not stop meanwhile, and it may be repeated.
    pub async fn index(&self, key: Key<E>) -> Result<bool> {
        let at = self.address(&key)?;
        let mut rounds = Rounds::new(&self.table, &at.row_key);
        loop {
            let Some(stored) = self.table.get(key.clone()).await? else { return Ok(false) };
            let Some(to) = self.stem_of(&stored.entity)? else { return Ok(false) };
            if self.read(&at.partition_key, &to).await?.contains(&at.listed) {
                return Ok(false);
            }
            // Merging nothing leaves the entity as it is, and fails if it was changed.
            let nothing = DynamicEntity::new(&*at.partition_key, &*at.row_key);
            let transaction = self.table.transaction().merge((&nothing, &stored));
            let transaction = self.relist(transaction, &at, None, Some(&to)).await?;
            match transaction.submit().await {
                Ok(_) => return Ok(true),
                Err(error) if was_lost(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn update_once(
        &self,
        at: &Address,
        change: &mut impl FnMut(&mut E),
    ) -> Result<Stored<E>> {
        let key = Key::new(&*at.partition_key, &*at.row_key);
        let Some(mut stored) = self.table.get::<E>(key).await? else {
            let what = "there is no such entity";
            return Err(Error::refused(ErrorKind::NotFound, what).of(OPERATION, self.table.name()));
        };
        let from = self.stem_of(&stored.entity)?;
        change(&mut stored.entity);
        if self.address_of(&stored.entity)? != *at {
            return Err(self.refused(
                "the change alters a part of the key, and keys cannot change: delete the entity \
                 and insert the other one",
            ));
        }
        let to = self.stem_of(&stored.entity)?;
        let etag = if from == to {
            self.table.replace(&stored).await?
        } else {
            let transaction = self.table.transaction().replace(&stored);
            let transaction = self.relist(transaction, at, from.as_deref(), to.as_deref()).await?;
            first(transaction.submit().await?)?
        };
        let timestamp = etag.timestamp().unwrap_or(stored.timestamp);
        Ok(Stored { entity: stored.entity, etag, timestamp })
    }

    /// Adds to `transaction` what moves an entity's key from one list to another.
    async fn relist(
        &self,
        mut transaction: Transaction,
        at: &Address,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Transaction> {
        if let Some(stem) = from {
            let mut list = self.read(&at.partition_key, stem).await?;
            list.remove(&at.listed);
            transaction = list.write(transaction);
        }
        if let Some(stem) = to {
            let mut list = self.read(&at.partition_key, stem).await?;
            list.add(&at.listed, self.max_rows)
                .map_err(|error| error.of(OPERATION, self.table.name()))?;
            transaction = list.write(transaction);
        }
        Ok(transaction)
    }
}

/// Where an entity lies, and how a list names it.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    partition_key: String,
    row_key: String,
    /// The RowKey without the literal that all of its type begin with.
    listed: String,
}

/// Keys.
impl<E: Entity, V: KeyPart> IndexEntity<E, V> {
    fn address_of(&self, entity: &E) -> Result<Address> {
        self.address(&Key::of(entity))
    }

    fn address(&self, key: &Key<E>) -> Result<Address> {
        let (partition_key, row_key) =
            key.parts().map_err(|error| self.refused(error.to_string()))?;
        let Some(listed) = row_key.strip_prefix(self.head()?) else {
            return Err(self.refused("the RowKey is not one of the entity's type"));
        };
        Ok(Address {
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
            listed: listed.to_owned(),
        })
    }

    /// The literal that the RowKey of each entity begins with, so that lists are not among them.
    fn head(&self) -> Result<&'static str> {
        let Rows::Head(head) = E::ROWS else {
            return Err(self.refused(
                "the row template of the entity needs a literal before its first part, so that \
                 lists can lie in the same partition",
            ));
        };
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.refused("the name of the lists is not of ASCII letters and digits"));
        }
        let lists = format!("{}_", self.name);
        if head.starts_with(&lists) || lists.starts_with(head) {
            return Err(self.refused(
                "the RowKeys of the entities and those of their lists begin alike; name the lists \
                 otherwise",
            ));
        }
        Ok(head)
    }

    /// What the RowKey of each row of an entity's list begins with; `None` if it is in none.
    fn stem_of(&self, entity: &E) -> Result<Option<String>> {
        (self.value)(entity).map(|value| self.stem(&value)).transpose()
    }

    fn stem(&self, value: &V) -> Result<String> {
        self.head()?;
        let mut out = KeyWriter::new();
        out.literal(&self.name);
        out.literal("_");
        out.part(value, PartFormat { separator: Some('_'), ..PartFormat::default() });
        out.literal("_");
        out.finish().map_err(|error| self.refused(error.to_string()))
    }

    fn refused(&self, what: impl Into<Cow<'static, str>>) -> Error {
        Error::refused(ErrorKind::Invalid, what).of(OPERATION, self.table.name())
    }
}

/// The tag of the entity, which is the first operation of each transaction here.
fn first(tags: Vec<Option<ETag>>) -> Result<ETag> {
    tags.into_iter().next().flatten().ok_or_else(|| {
        let what = "the transaction succeeded but its answer has no ETag of the entity";
        Error::refused(ErrorKind::Decode, what)
    })
}

impl<E, V> Clone for IndexEntity<E, V> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            name: self.name.clone(),
            value: Arc::clone(&self.value),
            max_rows: self.max_rows,
            concurrency: self.concurrency,
        }
    }
}

impl<E, V> fmt::Debug for IndexEntity<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexEntity")
            .field("table", &self.table.name())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
