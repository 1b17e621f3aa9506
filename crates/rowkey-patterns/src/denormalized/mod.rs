//! Denormalisation: copies of an entity's properties in other entities of its partition.
//!
//! A department shows the name and e-mail of its manager. Copied into the department entity they are
//! there with the point query that reads it; `Denormalized` keeps the copies as the manager's own
//! entity is, by writing both in one entity group transaction.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_patterns::denormalized::Denormalized;
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     name: String,
//!     is_manager: bool,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{name}", row = "department")]
//! struct Department {
//!     name: String,
//!     manager: Option<String>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! # account.table("staff").create().await?;
//! let staff = Denormalized::<Employee>::new(account.table("staff")).copy(
//!     // Where copies belong: nowhere, unless the employee is a manager.
//!     |employee| employee.is_manager.then(|| Department::key(&employee.department)),
//!     // What is copied.
//!     |employee| employee.name.clone(),
//!     // How it is put there, and taken away.
//!     |department: &mut Department, name| department.manager = name.cloned(),
//! );
//! staff.table().insert(&Department { name: "sales".into(), manager: None }).await?;
//! let ada = Employee { department: "sales".into(), id: 7, name: "Ada".into(), is_manager: true };
//! staff.insert(&ada).await?;
//! staff.update(Employee::key("sales", 7), |e| e.name = "Ada King".into()).await?;
//!
//! let sales = staff.table().get(Department::key("sales")).await?.ok_or("no department")?;
//! assert_eq!(sales.entity.manager.as_deref(), Some("Ada King"));
//! # Ok(())
//! # }
//! ```

mod copies;

use std::fmt;
use std::sync::Arc;

use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Outcome, Result, Stored, Table, Transaction,
};

use crate::rounds::{Rounds, was_lost};
use copies::{Copies, Rule};

const OPERATION: &str = "Denormalized";

/// A table whose entities of type `S` are copied, in parts, into others of their partition.
///
/// Entities of type `S` are written through this. Those that hold copies are written as any other;
/// a change of theirs and a change of the copies do not overwrite each other, as both carry the
/// ETag that was read. Clones are cheap.
pub struct Denormalized<S> {
    table: Table,
    copies: Vec<Arc<dyn Copies<S>>>,
}

/// Declaring.
impl<S: Entity + Clone + Send + Sync + 'static> Denormalized<S> {
    /// Nothing is copied until [`copy`](Self::copy) says what.
    pub fn new(table: Table) -> Self {
        Self { table, copies: Vec::new() }
    }

    /// Copies `what` of an entity into those at `targets`, which are none, one (an `Option`) or
    /// several keys of its partition, up to 99 over all calls of this.
    ///
    /// `set` puts the copy into a target, or takes it away when the entity does not belong there any
    /// more. No target may be named by two calls for one entity.
    #[must_use = "the handle itself does not change"]
    pub fn copy<T, V, I>(
        mut self,
        targets: impl Fn(&S) -> I + Send + Sync + 'static,
        what: impl Fn(&S) -> V + Send + Sync + 'static,
        set: impl Fn(&mut T, Option<&V>) + Send + Sync + 'static,
    ) -> Self
    where
        T: Entity + Clone + PartialEq + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
        I: IntoIterator<Item = Key<T>>,
    {
        self.copies.push(Arc::new(Rule {
            targets: Box::new(move |source| targets(source).into_iter().collect()),
            what: Box::new(what),
            set: Box::new(set),
        }));
        self
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

/// Writing: one transaction, after one read of each target that changes; again, up to 40 times, if
/// somebody else changed the entity or a target in between.
///
/// A target that is not there is an error of kind [`ErrorKind::NotFound`], and nothing is written;
/// where a copy is only to be taken away, it is none. An error whose [`outcome`](Error::outcome) is
/// unknown leaves the entity and its copies as they were or all of them changed.
impl<S: Entity + Clone + Send + Sync + 'static> Denormalized<S> {
    /// Stores a new entity, and its copies. Fails with [`ErrorKind::AlreadyExists`] if there is one
    /// with its keys.
    pub async fn insert(&self, entity: &S) -> Result<ETag> {
        let mut rounds = Rounds::new(&self.table, self.row_key(&Key::of(entity))?);
        loop {
            let transaction = self.table.transaction().insert(entity);
            let transaction = self.follow(transaction, None, Some(entity)).await?;
            match transaction.submit().await {
                Ok(tags) => return self.first(tags),
                // Operation 0 is the entity, and that it exists is for the caller to know.
                Err(error) if error.operation_index() == Some(0) => return Err(error),
                Err(error) if was_lost(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the entity at `key`, changes it and replaces it, and its copies if what is copied, or
    /// where to, has changed. Targets that it does not belong to any more lose their copy, unless
    /// they hold somebody else's by now.
    ///
    /// Returns the entity as it is now stored. `change` may run several times, so it should do
    /// nothing but change the entity. Fails with [`ErrorKind::NotFound`] if there is no such entity.
    pub async fn update(&self, key: Key<S>, mut change: impl FnMut(&mut S)) -> Result<Stored<S>> {
        let mut rounds = Rounds::new(&self.table, self.row_key(&key)?);
        loop {
            match self.update_once(&key, &mut change).await {
                Err(error) if was_lost(&error) && rounds.again().await => {}
                result => return result,
            }
        }
    }

    /// Deletes the entity at `key` and takes its copies away; says whether there was one.
    pub async fn delete(&self, key: Key<S>) -> Result<bool> {
        let mut rounds = Rounds::new(&self.table, self.row_key(&key)?);
        loop {
            let Some(stored) = self.table.get(key.clone()).await? else { return Ok(false) };
            let transaction = self.table.transaction().delete(key.clone(), &stored);
            let transaction = self.follow(transaction, Some(&stored.entity), None).await?;
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

    /// Writes the copies of the entity at `key` where they differ from it: in a target that was
    /// stored later, or for an entity that was not written through this. Says whether there were
    /// such.
    pub async fn refresh(&self, key: Key<S>) -> Result<bool> {
        let mut rounds = Rounds::new(&self.table, self.row_key(&key)?);
        loop {
            let Some(stored) = self.table.get(key.clone()).await? else { return Ok(false) };
            let (partition_key, row_key) = self.parts(&key)?;
            // Merging nothing leaves the entity as it is, and fails if it was changed.
            let nothing = DynamicEntity::new(partition_key, row_key);
            let transaction = self.table.transaction().merge((&nothing, &stored));
            let transaction = self.follow(transaction, None, Some(&stored.entity)).await?;
            if transaction.len() == 1 {
                return Ok(false);
            }
            match transaction.submit().await {
                Ok(_) => return Ok(true),
                Err(error) if was_lost(&error) && rounds.again().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn update_once(
        &self,
        key: &Key<S>,
        change: &mut impl FnMut(&mut S),
    ) -> Result<Stored<S>> {
        let Some(before) = self.table.get(key.clone()).await? else {
            let what = "there is no such entity";
            return Err(self.refused(ErrorKind::NotFound, what));
        };
        let after = before.clone().map(change);
        if Key::of(&after.entity) != *key {
            let what = "the change alters a part of the key, and keys cannot change: delete the \
                        entity and insert the other one";
            return Err(self.refused(ErrorKind::Invalid, what));
        }
        let transaction = self.table.transaction().replace(&after);
        let (old, new) = (Some(&before.entity), Some(&after.entity));
        let transaction = self.follow(transaction, old, new).await?;
        let etag = if transaction.len() == 1 {
            self.table.replace(&after).await?
        } else {
            self.first(transaction.submit().await?)?
        };
        let timestamp = etag.timestamp().unwrap_or(after.timestamp);
        Ok(Stored { entity: after.entity, etag, timestamp })
    }

    /// Adds what the copies need when the entity was `old` and is `new`.
    async fn follow(
        &self,
        mut transaction: Transaction,
        old: Option<&S>,
        new: Option<&S>,
    ) -> Result<Transaction> {
        for copies in &self.copies {
            transaction = copies.follow(&self.table, transaction, old, new).await?;
        }
        Ok(transaction)
    }

    fn parts<'a>(&self, key: &'a Key<S>) -> Result<(&'a str, &'a str)> {
        key.parts().map_err(|error| self.refused(ErrorKind::Invalid, error.to_string()))
    }

    fn row_key<'a>(&self, key: &'a Key<S>) -> Result<&'a str> {
        self.parts(key).map(|(_, row_key)| row_key)
    }

    /// The tag of the entity, which is the first operation of each transaction here.
    fn first(&self, tags: Vec<Option<ETag>>) -> Result<ETag> {
        tags.into_iter().next().flatten().ok_or_else(|| {
            let what = "the transaction succeeded but its answer has no ETag of the entity";
            self.refused(ErrorKind::Decode, what)
        })
    }

    fn refused(&self, kind: ErrorKind, what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::refused(kind, what).of(OPERATION, self.table.name())
    }
}

impl<S> Clone for Denormalized<S> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), copies: self.copies.clone() }
    }
}

impl<S> fmt::Debug for Denormalized<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denormalized")
            .field("table", &self.table.name())
            .field("copies", &self.copies.len())
            .finish()
    }
}
