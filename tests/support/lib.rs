//! Shared test support: an account on the server under test, unique names, the [`sweep`] over all requests of
//! a scenario, and a [`timeline`] for tests that take long.
//!
//! The same test bodies run on three servers, selected by `ROWKEY_ARM`: `ours` (the default, a separate
//! server for each test), `azurite` (connection string in `ROWKEY_AZURITE`) and `azure` (connection string in
//! `AZURE_STORAGE_CONNECTION_STRING`).

pub mod erased;
mod failure;
pub mod growth;
pub mod random;
pub mod recorded;
pub mod rows;
pub mod sweep;
pub mod timeline;
pub mod traces;

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

pub use failure::{TestError, TestResult};
use rowkey::{ConnectionOptions, StorageAccount, Table};
use rowkey_emulator::Server;

/// The environment variable with the connection string of the account in Azure.
pub const AZURE_VARIABLE: &str = "AZURE_STORAGE_CONNECTION_STRING";

/// An account for tests. Our own server runs until this is dropped.
#[derive(Debug)]
pub struct Fixture {
    /// The account.
    pub account: StorageAccount,
    /// The server of the account, if it is our own.
    pub server: Option<Server>,
}

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A storage account in Azure.
    Azure,
    /// Microsoft's emulator.
    Azurite,
    /// A `rowkey-emulator` in this process.
    Ours,
}

/// The server selected by the environment.
pub fn arm() -> Arm {
    match std::env::var("ROWKEY_ARM").as_deref() {
        Ok("azure") => Arm::Azure,
        Ok("azurite") => Arm::Azurite,
        Ok("ours") | Err(_) => Arm::Ours,
        Ok(other) => panic!("ROWKEY_ARM is ours, azurite or azure, not {other}"),
    }
}

impl Fixture {
    /// Connects to the server under test.
    pub async fn new() -> TestResult<Self> {
        let variable = match arm() {
            Arm::Azure => AZURE_VARIABLE,
            Arm::Azurite => "ROWKEY_AZURITE",
            Arm::Ours => {
                let server = Server::start().await?;
                let account = StorageAccount::from_connection_string(server.connection_string())?;
                return Ok(Self { account, server: Some(server) });
            }
        };
        let text = std::env::var(variable).map_err(|_| {
            format!("{variable} is not set; tests/interop/azure and tests/interop/azurite set it")
        })?;
        let account = StorageAccount::from_connection_string(&text)?;
        Ok(Self { account, server: None })
    }

    /// Creates a new, empty table.
    pub async fn table(&self) -> Result<Table, rowkey::Error> {
        let table = self.account.table(&unique_name());
        table.create().await?;
        Ok(table)
    }

    /// Creates a new, empty table that keeps the server alive.
    pub async fn table_with_server(self) -> Result<TestTable, rowkey::Error> {
        Ok(TestTable { table: self.table().await?, fixture: self })
    }
}

/// A table together with its server.
#[derive(Debug)]
pub struct TestTable {
    table: Table,
    /// The account, and its server if it is our own.
    pub fixture: Fixture,
}

impl Deref for TestTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

/// Connections that trust the certificate of a server with HTTPS.
pub fn trusting(server: &Server) -> ConnectionOptions {
    ConnectionOptions::new().trust_only(server.certificate().unwrap_or_default())
}

/// A name for a table, queue or container that no other test uses, in this process or another. It begins with
/// `ROWKEY_RUN`, by which the `cleanup` program finds everything that a run left in an account.
pub fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let run = std::env::var("ROWKEY_RUN").unwrap_or_default();
    format!("{run}t{:x}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
