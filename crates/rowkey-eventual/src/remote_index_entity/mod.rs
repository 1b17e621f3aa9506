//! Index entities elsewhere: for each value that entities share, a list of their keys, whichever
//! partitions the entities lie in.
//!
//! An [`IndexEntity`](rowkey_patterns::index_entity::IndexEntity) lists the entities of its own
//! partition and changes with them. The lists of a [`RemoteIndexEntity`] lie in partitions of their
//! own, one for each value, in the table of the entities or in another, and follow the entities after
//! a while: whatever happens to an entity, its lists are settled, that is, made to agree with what the
//! entity is now, however often and in whatever order.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_eventual::remote_index_entity::RemoteIndexEntity;
//! use rowkey_eventual::source::Source;
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
//! let (table, lists) = (account.table("staff"), account.table("names"));
//! # lists.create().await?;
//! let by_name = RemoteIndexEntity::new("last", table.clone(), lists, |e: &Employee| {
//!     Some(e.last_name.clone())
//! });
//! // Whatever is written through the source, its workers carry on to the lists.
//! let staff = Source::new(table, account.queue("staff-changes"), [by_name.follower()])?;
//! staff.create_if_missing().await?;
//! for (department, id) in [("sales", 7), ("research", 9)] {
//!     let jones = Employee { department: department.into(), id, last_name: "Jones".into() };
//!     staff.insert(&jones).await?;
//!     staff.worker().step().await?;
//! }
//! // All Joneses, of every department.
//! assert_eq!(by_name.find("Jones").await?.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! The rows are described in the book, under "Index entities elsewhere".

mod lookup;
mod repair;
mod settle;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use rowkey::key::{KeyWriter, PartFormat};
use rowkey::{Entity, Error, ErrorKind, Key, KeyPart, Result, Rows, Table};

use crate::source::{Follower, Target};
use crate::worker::Done;

const OPERATION: &str = "RemoteIndexEntity";
const MAX_ROWS: u16 = 8;
const CONCURRENCY: usize = 16;

/// What the RowKey of each row of a list begins with.
const STEM: &str = "list_";
/// Stands between the PartitionKey and the RowKey of an entity in a list; no key contains it.
const BETWEEN: char = '#';

/// Lists, by a value of type `V`, of the keys of entities of type `E`: one for each value.
///
/// Clones are cheap.
pub struct RemoteIndexEntity<E, V> {
    name: &'static str,
    entities: Table,
    lists: Table,
    value: ValueOf<E, V>,
    max_rows: u16,
    concurrency: usize,
}

type ValueOf<E, V> = Arc<dyn Fn(&E) -> Option<V> + Send + Sync>;

/// Making one.
impl<E: Entity, V: KeyPart> RemoteIndexEntity<E, V> {
    /// Lists the `entities` of a table by what `value` says of each, in the table `lists`; one of which
    /// it says `None` is in no list. Sends nothing.
    ///
    /// `name`, of ASCII letters and digits, begins the PartitionKey of each list: `last_Jones`.
    pub fn new(
        name: &'static str,
        entities: Table,
        lists: Table,
        value: impl Fn(&E) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        let value = Arc::new(value);
        Self { name, entities, lists, value, max_rows: MAX_ROWS, concurrency: CONCURRENCY }
    }

    /// How many rows the list of a value may have, 1 to 10,000; 8 unless set. A row holds 8
    /// properties of 64 KiB. A key more is refused with [`ErrorKind::TooLarge`] by
    /// [`settle`](Self::settle).
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

    /// The name of the lists.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The table of the lists.
    pub fn table(&self) -> &Table {
        &self.lists
    }
}

/// Keeping them in step.
impl<E: Entity + Send + Sync + 'static, V: KeyPart + Send + Sync + 'static>
    RemoteIndexEntity<E, V>
{
    /// What carries changes of the entities on to the lists: for the [`Source`](crate::source::Source)
    /// through which they are written.
    pub fn follower(&self) -> Follower<E> {
        let (demands, settles) = (self.clone(), self.clone());
        // A list says of an entity that it is there, and no more.
        let targets = move |entity: &E| {
            let list = demands.list_of(entity)?;
            Ok(list.map(|list| Target::new(list).content("")).into_iter().collect())
        };
        Follower::new(self.name, targets, move |primary, list| {
            let lists = settles.clone();
            async move {
                lists.settle_all(&list, &[primary.key().clone()]).await?;
                Ok(Done::Applied)
            }
        })
    }
}

/// Keys.
impl<E: Entity, V: KeyPart> RemoteIndexEntity<E, V> {
    /// The PartitionKey of an entity's list; `None` if it is in none.
    fn list_of(&self, entity: &E) -> Result<Option<String>> {
        (self.value)(entity).map(|value| self.list_at(&value)).transpose()
    }

    /// The PartitionKey of the list of a value.
    fn list_at(&self, value: &V) -> Result<String> {
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.refused("the name of the lists is not of ASCII letters and digits"));
        }
        let mut out = KeyWriter::new();
        out.literal(self.name);
        out.literal("_");
        out.part(value, PartFormat::default());
        out.finish().map_err(|error| self.named(Error::no_such_key(&error)))
    }

    /// How a list names an entity: both keys, the RowKey without the literal head of its template.
    fn listed(&self, key: &Key<E>) -> Result<String> {
        let (partition_key, row_key) =
            key.parts().map_err(|error| self.named(Error::no_such_key(error)))?;
        let Some(row_key) = row_key.strip_prefix(Self::head()) else {
            return Err(self.refused("the RowKey is not one of the entity's type"));
        };
        Ok(format!("{partition_key}{BETWEEN}{row_key}"))
    }

    /// The entity of such a name.
    fn key_of(listed: &str) -> Option<Key<E>> {
        let (partition_key, row_key) = listed.split_once(BETWEEN)?;
        Some(Key::new(partition_key, format!("{}{row_key}", Self::head())))
    }

    fn head() -> &'static str {
        match E::ROWS {
            Rows::Head(head) => head,
            Rows::All | Rows::One(_) => "",
        }
    }

    fn refused(&self, what: impl Into<Cow<'static, str>>) -> Error {
        self.named(Error::refused(ErrorKind::Invalid, what))
    }

    fn named(&self, error: Error) -> Error {
        error.of(OPERATION, self.lists.name())
    }
}

impl<E, V> Clone for RemoteIndexEntity<E, V> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            entities: self.entities.clone(),
            lists: self.lists.clone(),
            value: Arc::clone(&self.value),
            max_rows: self.max_rows,
            concurrency: self.concurrency,
        }
    }
}

impl<E, V> fmt::Debug for RemoteIndexEntity<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteIndexEntity")
            .field("name", &self.name)
            .field("table", &self.lists.name())
            .finish_non_exhaustive()
    }
}
