//! What the tests share: an account on the server under test, names that no other test uses, the
//! [`sweep`] over all requests of a scenario, and a [`timeline`] for what takes long.
//!
//! The same test bodies run on three arms, chosen by `ROWKEY_ARM`: `ours` (the default, a server of
//! its own for each test), `azurite` (`ROWKEY_AZURITE` holds the connection string) and `azure`
//! (`AZURE_STORAGE_CONNECTION_STRING` does).

pub mod random;
pub mod recorded;
pub mod rows;
pub mod sweep;
pub mod timeline;

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

use rowkey::{StorageAccount, Table};
use rowkey_emulator::Server;

/// The variable with the connection string of the account in Azure.
pub const AZURE_VARIABLE: &str = "AZURE_STORAGE_CONNECTION_STRING";

/// What a test returns.
pub type TestResult = Result<(), Box<dyn std::error::Error>>;

/// An account to test on. A server of ours lives as long as this.
#[derive(Debug)]
pub struct Fixture {
    /// The account.
    pub account: StorageAccount,
    /// Its server, when it is ours.
    pub server: Option<Server>,
}

/// Which server the tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A storage account in Azure.
    Azure,
    /// The emulator that most people use.
    Azurite,
    /// A `rowkey-emulator` in this process.
    Ours,
}

/// The arm that the environment asks for.
pub fn arm() -> Arm {
    match std::env::var("ROWKEY_ARM").as_deref() {
        Ok("azure") => Arm::Azure,
        Ok("azurite") => Arm::Azurite,
        Ok("ours") | Err(_) => Arm::Ours,
        Ok(other) => panic!("ROWKEY_ARM is ours, azurite or azure, not {other}"),
    }
}

impl Fixture {
    /// Connects to the arm.
    pub async fn new() -> Result<Self, Box<dyn std::error::Error>> {
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

    /// A new, empty table.
    pub async fn table(&self) -> Result<Table, rowkey::Error> {
        let table = self.account.table(&unique_name());
        table.create().await?;
        Ok(table)
    }

    /// A new, empty table that keeps the server alive.
    pub async fn table_with_server(self) -> Result<TestTable, rowkey::Error> {
        Ok(TestTable { table: self.table().await?, fixture: self })
    }
}

/// A table together with the server that it lives on.
#[derive(Debug)]
pub struct TestTable {
    table: Table,
    /// The account, and its server when it is ours.
    pub fixture: Fixture,
}

impl Deref for TestTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

/// An HTTP client, about to be built, that trusts the certificate of a server that speaks HTTPS.
pub fn trusting(server: &Server) -> Result<reqwest::ClientBuilder, Box<dyn std::error::Error>> {
    let certificate = server.certificate().unwrap_or_default();
    let certificate = reqwest::Certificate::from_pem(certificate.as_bytes())?;
    Ok(reqwest::Client::builder().no_proxy().tls_backend_rustls().tls_certs_only([certificate]))
}

/// A name of a table, queue or container that no other test uses, in this process or another. It begins with
/// `ROWKEY_RUN`, by which the `cleanup` program finds what a run left in an account.
pub fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let run = std::env::var("ROWKEY_RUN").unwrap_or_default();
    format!("{run}t{:x}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
