//! Signed tokens.

use std::fmt;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use rowkey_wire::auth::{Sas, Service};

use super::lint::{Warning, check};
use crate::account::StorageAccount;
use crate::credential::Credential;
use crate::error::Result;

/// A signed token. Its holder has the access that it grants. `Debug` shows the permissions, but not
/// the signature.
#[derive(Clone)]
pub struct SasToken {
    sas: Sas,
    query: String,
    /// The account and its endpoints, in the form of a connection string.
    places: String,
    /// The URL of the resource, without the query.
    address: String,
}

impl SasToken {
    pub(super) fn new(
        sas: Sas,
        account: &StorageAccount,
        services: &[Service],
        path: &str,
    ) -> Self {
        let endpoints = account.pipeline().endpoints();
        let mut places = format!("AccountName={};", account.name());
        for service in services {
            let name = match service {
                Service::Blob => "BlobEndpoint",
                Service::Queue => "QueueEndpoint",
                Service::Table => "TableEndpoint",
            };
            let _ = write!(places, "{name}={};", endpoints.base(*service));
        }
        let base = services.first().map_or("", |service| endpoints.base(*service));
        let address = format!("{base}{path}");
        Self { query: sas.encode(), sas, places, address }
    }

    /// Returns the token as a query, without a `?`: `sv=..&sig=..`. It is a secret.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns a credential for clients in this process.
    pub fn credential(&self) -> Result<Credential> {
        Credential::sas(&self.query)
    }

    /// Returns a connection string with the token and the endpoints of its services, for any client
    /// of Azure storage. It is a secret.
    pub fn connection_string(&self) -> String {
        format!("{}SharedAccessSignature={}", self.places, self.query)
    }

    /// Returns the URL of the resource with the token. It is a secret.
    pub fn url(&self) -> String {
        format!("{}?{}", self.address, self.query)
    }

    /// Returns warnings about the token at the time `now`, if any.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rowkey::sas::{Sas, TablePermissions, Warning};
    ///
    /// # use rowkey::StorageAccount;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let token = Sas::table("notes").permissions(TablePermissions::QUERY);
    /// let token = token.valid_for(Duration::from_secs(600)).sign(&account)?;
    /// let warnings = token.lint(account.clock().now());
    /// assert!(warnings.contains(&Warning::WholeTable));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn lint(&self, now: DateTime<Utc>) -> Vec<Warning> {
        check(&self.sas, now)
    }
}

impl fmt::Debug for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SasToken").field(&self.sas).finish()
    }
}
