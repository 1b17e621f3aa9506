//! Sessions that fit tables.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use rowkey::StorageAccount;

use crate::catalog::{Catalogs, SCHEMA};
use crate::files::{Paths, StagedFiles};
use crate::scan::WholeFiles;
use crate::{Accounts, Catalog, JoinPruning, Mismatch, WriteMode};

/// The settings of a session that fit tables: names of columns keep their case, so `SELECT PartitionKey` needs no quotes, and a text in CSV may have
/// several lines.
pub fn config() -> SessionConfig {
    SessionConfig::new()
        .set_bool("datafusion.sql_parser.enable_ident_normalization", false)
        // A text may have lines. A large file would be divided in one of them, and have rows that it has not.
        .set_bool("datafusion.catalog.newlines_in_values", true)
}

/// A session with the settings of [`config`], in which scans wait for joins ([`JoinPruning`]), and a file that cannot be
/// written whole is not written.
pub fn session() -> SessionContext {
    session_with(config())
}

/// A session with other settings.
pub fn session_with(config: SessionConfig) -> SessionContext {
    built(config, Arc::default())
}

fn built(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime);
    let state = state
        .with_physical_optimizer_rule(Arc::new(JoinPruning))
        .with_physical_optimizer_rule(Arc::new(WholeFiles))
        .with_physical_optimizer_rule(Arc::new(StagedFiles));
    SessionContext::new_with_state(state.build())
}

/// How [`session_of`] makes a session.
#[derive(Clone, Debug)]
#[must_use]
pub struct SessionOptions {
    splits: Option<usize>,
    mismatch: Mismatch,
    write: WriteMode,
    most_rejects: u64,
    memory: Option<usize>,
    config: SessionConfig,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            splits: None,
            mismatch: Mismatch::default(),
            write: WriteMode::default(),
            most_rejects: 0,
            memory: None,
            config: config(),
        }
    }
}

impl SessionOptions {
    /// The most ranges of keys that a scan reads at once, see [`Open::splits`](crate::Open::splits).
    pub fn splits(mut self, ranges: usize) -> Self {
        self.splits = Some(ranges);
        self
    }

    /// What scans do with a value that its column's type cannot represent, see [`Open::mismatch`](crate::Open::mismatch).
    pub fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }

    /// What `INSERT INTO` does, see [`Open::write`](crate::Open::write).
    pub fn write(mut self, mode: WriteMode) -> Self {
        self.write = mode;
        self
    }

    /// How many rows may be rejected by a statement that writes, see [`Open::rejects`](crate::Open::rejects).
    pub fn rejects(mut self, most: u64) -> Self {
        self.most_rejects = most;
        self
    }

    /// The most bytes that sorts, joins and groups keep in memory. What does not fit goes to files, or the query fails. Default: no limit.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Other settings of DataFusion. Default: [`config`].
    pub fn config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }
}

/// A session over accounts: each is a catalog with its name, and the tables are in its schema `tables`.
///
/// The default account's tables need no prefix, others are `archive.tables.orders`. `SHOW TABLES` and `information_schema` work; the latter's
/// `columns` and `views` open every table. Files of this machine are tables by their paths in quotes, and with the feature `objects` those
/// of blob containers by `az://container/path` or `az://container@account/path`. Nothing is sent.
///
/// ```
/// use rowkey_datafusion::{Accounts, SessionOptions, session_of};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("orders").create().await?;
/// # account.table("orders").insert(&rowkey::DynamicEntity::new("contoso", "1")).await?;
/// let session = session_of(&Accounts::of([account])?, SessionOptions::default().splits(4))?;
/// let rows = session.sql("SELECT COUNT(*) FROM orders").await?;
/// # rows.collect().await?;
/// # Ok(()) }
/// ```
pub fn session_of(accounts: &Accounts, options: SessionOptions) -> Result<SessionContext> {
    let SessionOptions { splits, mismatch, write, most_rejects, memory, config } = options;
    let (paths, default) = (Paths::default(), accounts.default_account()?.name().to_owned());
    let catalog = |account: &StorageAccount| {
        let catalog = Catalog::of(account).mismatch(mismatch).write(write).rejects(most_rejects);
        // A path has no prefix, so it is one of the default account's tables.
        let catalog = match account.name() == default {
            true => catalog.files(paths.clone()),
            false => catalog,
        };
        match splits {
            Some(ranges) => catalog.splits(ranges),
            None => catalog,
        }
    };
    let catalogs: Vec<_> = accounts.iter().map(catalog).collect();
    let config = config
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(default.as_str(), SCHEMA)
        .with_extension(Arc::new(Catalogs(catalogs.clone())));
    // What the engine keeps of files hides what was written since: a list of a folder has no new files, and what is in a file is taken to be
    // that of another one with its path, size and time, which are whole seconds in blob containers, also in another container.
    let mut runtime = RuntimeEnvBuilder::new()
        .with_object_list_cache_limit(0)
        .with_file_statistics_cache_limit(0)
        .with_metadata_cache_limit(0);
    let config = match memory {
        Some(bytes) => reserving_less(config, bytes),
        None => config,
    };
    if let Some(bytes) = memory {
        runtime = runtime.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
    }
    #[cfg(feature = "objects")]
    let runtime =
        runtime.with_object_store_registry(Arc::new(crate::objects::Objects::new(accounts)));
    let session = built(config, runtime.build_arc()?);
    for catalog in catalogs {
        session.register_catalog(catalog.account().name().to_owned(), Arc::new(catalog));
    }
    paths.of(&session);
    Ok(session)
}

/// Settings with which sorts go to files within this many bytes of memory. Each reserves 10 MB for merging what is in files, which is much of a
/// small limit and could be all of it, so that no sort could begin.
fn reserving_less(mut config: SessionConfig, bytes: usize) -> SessionConfig {
    let sorts = config.target_partitions().max(1) * RESERVATIONS;
    let execution = &mut config.options_mut().execution;
    execution.sort_spill_reservation_bytes =
        execution.sort_spill_reservation_bytes.min(bytes / sorts);
    config
}

/// The part of the memory that one partition of a sort reserves, times the number of partitions.
const RESERVATIONS: usize = 8;

/// Forgets the columns and ranges of all tables of a session that [`session_of`] made, see [`Catalog::refresh`].
pub fn refresh(session: &SessionContext) {
    if let Some(catalogs) = session.copied_config().get_extension::<Catalogs>() {
        catalogs.0.iter().for_each(Catalog::refresh);
    }
}
