//! A server with tables, and sessions over them.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use futures::stream;
use rowkey::edm::Type;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount, Table};
use rowkey_datafusion::{TableSource, WriteMode, session};
use rowkey_emulator::{Operation, Server};

pub(crate) struct Account {
    pub(crate) server: Server,
    pub(crate) storage: StorageAccount,
    pub(crate) session: SessionContext,
}

impl Account {
    pub(crate) async fn start() -> Self {
        let server = Server::start().await.unwrap();
        let storage = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        Self { server, storage, session: session() }
    }

    /// A table with these entities.
    pub(crate) async fn table(&self, name: &str, rows: Vec<DynamicEntity>) -> Table {
        let table = self.storage.table(name);
        table.create().await.unwrap();
        Job::upsert(&table, stream::iter(rows)).run().await.unwrap();
        table
    }

    /// The same, in the session.
    pub(crate) async fn with(&self, name: &str, rows: Vec<DynamicEntity>) -> Table {
        let table = self.table(name, rows).await;
        self.register(name, TableSource::open(&table).await.unwrap());
        table
    }

    pub(crate) fn register(&self, name: &str, source: TableSource) {
        self.session.deregister_table(name).unwrap();
        self.session.register_table(name, Arc::new(source)).unwrap();
    }

    /// The rows of a query as text, a line each, and the requests that were sent for it.
    pub(crate) async fn ask(&self, sql: &str) -> (Vec<String>, usize) {
        let before = self.server.journal();
        let rows = self.session.sql(sql).await.unwrap().collect().await.unwrap();
        let sent = self.server.journal().since(&before).count(Operation::QueryEntities);
        let text = pretty_format_batches(&rows).unwrap().to_string();
        let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
        let cells = lines.map(|line| {
            let cells = line.trim_matches('|').split('|').map(str::trim);
            cells.collect::<Vec<_>>().join(" ")
        });
        (cells.collect(), sent)
    }

    /// The rows alone, sorted.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        let mut rows = self.ask(sql).await.0;
        rows.sort();
        rows
    }

    /// The message of a query that fails.
    pub(crate) async fn fails(&self, sql: &str) -> String {
        let failed = match self.session.sql(sql).await {
            Ok(frame) => frame.collect().await.unwrap_err(),
            Err(error) => error,
        };
        failed.to_string()
    }

    /// An empty table with a column of numbers.
    pub(crate) async fn numbers(&self, name: &str, mode: WriteMode, rejects: u64) -> Table {
        let table = self.table(name, Vec::new()).await;
        let source =
            TableSource::open(&table).column("number", Type::Int64).write(mode).rejects(rejects);
        self.register(name, source.await.unwrap());
        table
    }

    /// The count that a statement returns.
    pub(crate) async fn count(&self, sql: &str) -> u64 {
        let (rows, _) = self.ask(sql).await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0].parse().unwrap()
    }

    /// The number of entities that the server has.
    pub(crate) fn stored(&self, table: &str) -> usize {
        self.server.snapshot().table(table).unwrap().len()
    }
}

/// A query of the rows of a table of numbers, in partitions of 100.
pub(crate) fn numbers(rows: usize) -> String {
    format!(
        "SELECT 'p' || lpad(CAST(value / 100 AS VARCHAR), 4, '0'), lpad(CAST(value AS VARCHAR), 6, '0'), NULL, value \
         FROM generate_series(0, {})",
        rows - 1
    )
}

/// An entity with properties of any types.
pub(crate) fn entity(
    partition: &str,
    row: &str,
    set: impl FnOnce(&mut DynamicEntity),
) -> DynamicEntity {
    let mut entity = DynamicEntity::new(partition, row);
    set(&mut entity);
    entity
}
