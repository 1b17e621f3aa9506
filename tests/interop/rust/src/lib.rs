//! What the programs that use `azure_data_tables` 0.21 share: a client of the account that
//! `ROWKEY_CONNECTION_STRING` names, the [`entities`] that they write, and the
//! [`profiles`] under which rowkey writes rows for other libraries.

pub mod before;
pub mod entities;
pub mod profiles;

use azure_data_tables::clients::{TableServiceClient, TableServiceClientBuilder};
use azure_storage::{CloudLocation, StorageCredentials};

/// The result of the programs.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The connection string of the account under test.
pub fn connection_string() -> Result<String> {
    std::env::var("ROWKEY_CONNECTION_STRING")
        .map_err(|_| "ROWKEY_CONNECTION_STRING is not set; use tests/interop/run rust".into())
}

/// A client of the crate before. It reads no connection strings, so its parts are taken apart here.
pub fn service(connection_string: &str) -> Result<TableServiceClient> {
    let part = |name: &str| {
        connection_string.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    };
    let account = part("AccountName").ok_or("the connection string names an account")?;
    let key = part("AccountKey").ok_or("the connection string has a key")?;
    let location = match part("TableEndpoint") {
        Some(uri) => CloudLocation::Custom { account: account.to_owned(), uri: uri.to_owned() },
        None => CloudLocation::Public { account: account.to_owned() },
    };
    let credentials = StorageCredentials::access_key(account.to_owned(), key.to_owned());
    Ok(TableServiceClientBuilder::with_location(location, credentials).build())
}
