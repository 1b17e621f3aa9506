//! The tables of an account by name, without registration, and sessions over accounts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use futures::TryStreamExt as _;
use rowkey::{ErrorKind, StorageAccount, Table};

use crate::columns::Mismatch;
use crate::error;
use crate::files::Paths;
use crate::scan::TableSource;
use crate::sink::WriteMode;

/// The only schema of a catalog.
pub(crate) const SCHEMA: &str = "tables";
/// The ranges of keys that a scan reads at once, if a program does not say.
const SPLITS: usize = 8;

/// The tables of a storage account, as a catalog of DataFusion with one schema, `tables`.
///
/// A table is [opened](TableSource::open) when a query names it, and stays open, so that the next query samples nothing; one without rows is sampled
/// again, and so is one of at most 1,000 rows to which a statement of [`plan`](crate::plan) or [`sql`](crate::sql) has written. Names of tables
/// are equal in any case, as in the service. Views and files that a session creates are tables of the schema, too, and exist in the session
/// alone.
///
/// ```
/// use std::sync::Arc;
///
/// use rowkey_datafusion::{Catalog, session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("orders").create().await?;
/// # account.table("orders").insert(&rowkey::DynamicEntity::new("contoso", "1")).await?;
/// let session = session();
/// session.register_catalog("shop", Arc::new(Catalog::of(&account).splits(4)));
/// let rows = session.sql("SELECT RowKey FROM shop.tables.Orders").await?;
/// assert_eq!(rows.count().await?, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Catalog {
    account: StorageAccount,
    splits: usize,
    mismatch: Mismatch,
    write: WriteMode,
    most_rejects: u64,
    /// What opens names that are paths.
    paths: Option<Paths>,
    opened: Arc<Mutex<Opened>>,
}

/// What a catalog knows, by names in lower case.
#[derive(Default)]
struct Opened {
    tables: HashMap<String, Arc<TableSource>>,
    /// The columns that statements gave to tables.
    created: HashMap<String, SchemaRef>,
    /// Views and files of the session.
    registered: HashMap<String, Arc<dyn TableProvider>>,
}

impl Catalog {
    /// The tables of an account. Nothing is sent.
    pub fn of(account: &StorageAccount) -> Self {
        Self {
            account: account.clone(),
            splits: SPLITS,
            mismatch: Mismatch::default(),
            write: WriteMode::default(),
            most_rejects: 0,
            paths: None,
            opened: Arc::default(),
        }
    }

    /// Opens tables with at most this many ranges of keys, see [`Open::splits`](crate::Open::splits).
    #[must_use]
    pub fn splits(mut self, ranges: usize) -> Self {
        self.splits = ranges;
        self
    }

    /// What scans do with a value that its column's type cannot represent, see [`Open::mismatch`](crate::Open::mismatch).
    #[must_use]
    pub fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }

    /// What `INSERT INTO` does, see [`Open::write`](crate::Open::write).
    #[must_use]
    pub fn write(mut self, mode: WriteMode) -> Self {
        self.write = mode;
        self
    }

    /// How many rows may be rejected by a statement that writes, see [`Open::rejects`](crate::Open::rejects).
    #[must_use]
    pub fn rejects(mut self, most: u64) -> Self {
        self.most_rejects = most;
        self
    }

    /// Opens files by their paths as well.
    pub(crate) fn files(mut self, paths: Paths) -> Self {
        self.paths = Some(paths);
        self
    }

    /// The account.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// Forgets the columns and ranges of all tables, so that each is sampled again when a query names it.
    ///
    /// Needed if other programs have added properties or many rows. Views and files stay.
    pub fn refresh(&self) {
        self.opened().tables.clear();
    }

    /// The names of the account's tables. Costs a request for each 1,000 tables.
    pub async fn names(&self) -> Result<Vec<String>> {
        names(&self.account).await
    }

    /// How `INSERT INTO` writes, and the most rejects.
    pub(crate) const fn mode(&self) -> (WriteMode, u64) {
        (self.write, self.most_rejects)
    }

    /// The table with a name, which need not exist.
    pub(crate) fn table(&self, name: &str) -> Table {
        self.account.table(name)
    }

    /// Whether the session has a view or a file with this name.
    pub(crate) fn is_registered(&self, name: &str) -> bool {
        self.opened().registered.contains_key(&key(name))
    }

    /// Keeps the columns that a statement gives a table. Those that a sample finds come behind them.
    pub(crate) fn keep(&self, name: &str, columns: SchemaRef) {
        let mut opened = self.opened();
        opened.tables.remove(&key(name));
        opened.created.insert(key(name), columns);
    }

    /// Forgets one table, which was created or dropped.
    pub(crate) fn forget(&self, name: &str) {
        let mut opened = self.opened();
        opened.tables.remove(&key(name));
        opened.created.remove(&key(name));
    }

    /// Samples a small table again when it is next named, because a statement writes to it. What is known of a large one stays true of most rows.
    pub(crate) fn grows(&self, name: &str) {
        let mut opened = self.opened();
        if opened.tables.get(&key(name)).is_some_and(|source| source.is_small()) {
            opened.tables.remove(&key(name));
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        // Each change of the maps is one call.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, key: &str) -> Option<Arc<dyn TableProvider>> {
        let opened = self.opened();
        let registered = opened.registered.get(key).cloned();
        registered.or_else(|| opened.tables.get(key).map(|source| Arc::clone(source) as _))
    }

    async fn open(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(known) = self.known(&key(name)) {
            return Ok(Some(known));
        }
        if !is_name(name) {
            return match &self.paths {
                Some(paths) => paths.open(name).await,
                None => Ok(None),
            };
        }
        let created = self.opened().created.get(&key(name)).cloned();
        let open = TableSource::open(&self.table(name))
            .created(created)
            .splits(self.splits)
            .mismatch(self.mismatch)
            .write(self.write)
            .rejects(self.most_rejects);
        match open.await {
            Ok(source) => {
                let source = Arc::new(source);
                // One without rows is sampled until there are some.
                if !source.is_empty() {
                    self.opened().tables.insert(key(name), Arc::clone(&source));
                }
                Ok(Some(source))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names, for callers that cannot wait. They are requested on a thread of its own, because the caller's runtime may have no other.
    fn listed(&self) -> Result<Vec<String>> {
        let account = self.account.with_own_connections().map_err(error::of_service)?;
        let list = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(names(&account))
        };
        let failed = |_| DataFusionError::Internal("the thread that lists tables ended".to_owned());
        thread::spawn(list).join().map_err(failed)?
    }
}

async fn names(account: &StorageAccount) -> Result<Vec<String>> {
    account.tables().stream().try_collect().await.map_err(error::of_service)
}

/// How a name is compared.
fn key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Whether the service could have a table with this name. It is not asked for others, such as paths of files and names of functions.
fn is_name(name: &str) -> bool {
    (3..=63).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether an error says that the table does not exist.
fn is_missing(error: &DataFusionError) -> bool {
    error::service_error(error).is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("account", &self.account.name()).finish_non_exhaustive()
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(Tables(self.clone())) as _)
    }
}

/// The schema of a catalog.
#[derive(Debug)]
struct Tables(Catalog);

/// The name that stands for a list that could not be read. Its type is the error.
const FAILED: &str = "";

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        // An error has no other way out of here, and no names would be wrong.
        let mut names = self.0.listed().unwrap_or_else(|_| vec![FAILED.to_owned()]);
        names.extend(self.0.opened().registered.keys().cloned());
        names.sort_unstable();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name == FAILED {
            self.0.names().await?;
        }
        self.0.open(name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if name == FAILED {
            self.0.names().await?;
            return Ok(None);
        }
        // A table is not opened for it.
        Ok(Some(self.0.known(&key(name)).map_or(TableType::Base, |table| table.table_type())))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.opened().registered.insert(key(&name), table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(registered) = self.0.opened().registered.remove(&key(name)) {
            return Ok(Some(registered));
        }
        if self.table_exist(name) {
            return Err(error::plan(format!(
                "{name} is a table of the account {}; `rowkey_datafusion::sql` drops it",
                self.0.account.name()
            )));
        }
        Ok(None)
    }

    fn table_exist(&self, name: &str) -> bool {
        let key = key(name);
        // Without the list it is taken to exist, so that nothing is created in its place.
        let is_listed = || {
            self.0
                .listed()
                .map_or(true, |names| names.iter().any(|listed| self::key(listed) == key))
        };
        self.0.known(&key).is_some() || (is_name(name) && is_listed())
    }
}

/// The catalogs of a session, by the names of their accounts. A session has it as an extension of its settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogs(pub(crate) Vec<Catalog>);

impl Catalogs {
    /// The catalog in which a name is, and the name of the table; `None` if it is in another catalog or schema.
    pub(crate) fn find<'n>(
        &self,
        config: &datafusion::prelude::SessionConfig,
        name: &'n TableReference,
    ) -> Option<(&Catalog, &'n str)> {
        let defaults = &config.options().catalog;
        let schema = name.schema().unwrap_or(&defaults.default_schema);
        let account = name.catalog().unwrap_or(&defaults.default_catalog);
        let catalog = self.0.iter().find(|catalog| catalog.account.name() == account)?;
        (schema == SCHEMA).then(|| (catalog, name.table()))
    }
}
