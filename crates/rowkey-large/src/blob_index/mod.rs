//! An index in blobs: for each value, a blob that lists the keys of the entities that have it.
//!
//! The first of the design guide's three options for index entities. Lists may be of any length and
//! their entities in any partition; the price is that no transaction spans table and blob. So a key is
//! listed before its entity is written and taken off after, and lookups look at the entity itself:
//! while nobody dies they miss none, and they never return one that has another value.
//!
//! ```
//! use rowkey::{Entity, StorageAccount};
//! use rowkey_large::BlobIndex;
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "{id:6}")]
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
//! # account.container("indexes").create().await?;
//! let (table, container) = (account.table("staff"), account.container("indexes"));
//! let staff = BlobIndex::new(table, container, "last-name", |employee: &Employee| {
//!     Some(employee.last_name.clone())
//! });
//! let ada = Employee { department: "sales".into(), id: 7, last_name: "Jones".into() };
//! staff.insert(&ada).await?;
//! staff.insert(&Employee { department: "research".into(), ..ada }).await?;
//! assert_eq!(staff.find("Jones").await?.len(), 2, "in both departments");
//!
//! staff.update(Employee::key("sales", 7), |employee| employee.last_name = "King".into()).await?;
//! assert_eq!(staff.find("King").await?[0].entity.department, "sales");
//! # Ok(())
//! # }
//! ```
//!
//! - `format`: names of blobs and what is in them: the stored format
//! - `list`: the list of one value, read and changed, and split when it is long
//! - `settle`: entities written, and lists brought into agreement with them
//! - `lookup`: a list and its entities, read
//! - `verify`: what is missing or left over, found and mended
//!
//! The blobs are described in the book, under "Index in blobs".

mod format;
mod list;
mod lookup;
mod settle;
mod verify;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rowkey::{
    ClientOptions, Container, Entity, Error, ErrorKind, Key, Result, RetryOptions, Table,
};

use crate::guard::Guard;
use format::Listed;
use list::Lists;
pub use verify::Report;

const OPERATION: &str = "BlobIndex";
const CHUNK_KEYS: usize = 20_000;
const CONCURRENCY: usize = 16;

/// A table whose entities of type `E` are listed in blobs by a value.
///
/// Entities of type `E` are written through this: what is written to the table directly is not listed
/// until [`index`](Self::index) or [`repair`](Self::repair) is called. Or another program tells this of
/// every change, with [`settle`](Self::settle). Clones are cheap.
pub struct BlobIndex<E> {
    table: Table,
    /// The table for whoever decides by what is read.
    rows: Table,
    container: Container,
    lists: Lists,
    value: Value<E>,
    guard: Guard,
    concurrency: usize,
}

type Value<E> = Arc<dyn Fn(&E) -> Option<String> + Send + Sync>;

/// Making one.
impl<E: Entity> BlobIndex<E> {
    /// Lists the entities in `table` by what `value` says of each; one of which it says `None` is in no
    /// list.
    ///
    /// `name`, of ASCII letters, digits and `-`, begins the names of the blobs: `last-name/Jones`.
    /// Several indexes may share a container. Values are compared byte for byte: bring them into one
    /// form first if case or spelling must not matter.
    pub fn new(
        table: Table,
        container: Container,
        name: &str,
        value: impl Fn(&E) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        // Whoever decides by what it reads must not read the secondary, and a row that comes late is
        // one that nobody settles any more.
        let options = table.options().clone();
        let retry = RetryOptions { repeat_inserts: false, ..options.retry.clone() };
        let options = ClientOptions { read_from_secondary: false, retry, ..options };
        let blobs = ClientOptions { read_from_secondary: false, ..container.options().clone() };
        let lists = Lists {
            container: container.with_options(blobs),
            name: name.into(),
            max: CHUNK_KEYS,
            concurrency: CONCURRENCY,
        };
        Self {
            rows: table.with_options(options),
            table,
            container,
            lists,
            value: Arc::new(value),
            guard: Guard::default(),
            concurrency: CONCURRENCY,
        }
    }

    /// How many keys a blob has at most, 20,000 unless set: a longer list is divided over several.
    ///
    /// A change reads and writes one of them. May be changed at any time, and differ among programs.
    #[must_use = "the handle itself does not change"]
    pub fn chunk_keys(mut self, keys: usize) -> Self {
        self.lists.max = keys.max(2);
        self
    }

    /// How many entities, or chunks of a list, are read at once, 16 unless set.
    #[must_use = "the handle itself does not change"]
    pub fn concurrency(mut self, reads: usize) -> Self {
        self.concurrency = reads.max(1);
        self.lists.concurrency = self.concurrency;
        self
    }

    /// How old an unused chunk must be before [`repair`](Self::repair) deletes it, because the one who
    /// wrote it may be about to use it: a day unless set, and four times as long as an operation may take
    /// at least.
    #[must_use = "the handle itself does not change"]
    pub fn guard(mut self, guard: Duration) -> Self {
        self.guard = Guard(guard);
        self
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The container of the lists.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The value by which an entity is listed.
    pub fn value_of(&self, entity: &E) -> Option<String> {
        (self.value)(entity)
    }

    fn listed(&self, key: &Key<E>) -> Result<Listed> {
        self.check()?;
        let (partition_key, row_key) =
            key.parts().map_err(|error| Error::refused(ErrorKind::Invalid, error.to_string()))?;
        Ok(Listed { partition_key: partition_key.into(), row_key: row_key.into() })
    }

    fn check(&self) -> Result<()> {
        let name = &self.lists.name;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            let what = "the name of an index in blobs is of ASCII letters, digits and `-`";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        self.guard.check(self.lists.container.options().timeout)
    }

    fn error(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }
}

impl Listed {
    fn key<E>(&self) -> Key<E> {
        Key::new(&*self.partition_key, &*self.row_key)
    }
}

impl<E> Clone for BlobIndex<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            rows: self.rows.clone(),
            container: self.container.clone(),
            lists: self.lists.clone(),
            value: Arc::clone(&self.value),
            guard: self.guard,
            concurrency: self.concurrency,
        }
    }
}

impl<E> fmt::Debug for BlobIndex<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobIndex")
            .field("table", &self.table.name())
            .field("container", &self.container.name())
            .field("name", &self.lists.name)
            .finish_non_exhaustive()
    }
}
