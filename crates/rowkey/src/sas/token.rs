//! What is handed out.

use std::fmt;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use rowkey_wire::auth::{Sas, Service};

use super::lint::{Warning, check};
use crate::account::StorageAccount;
use crate::credential::Credential;
use crate::error::Result;

/// A signed token. Its holder has the access that it grants; `Debug` shows what it grants, and
/// not the signature.
#[derive(Clone)]
pub struct SasToken {
    sas: Sas,
    query: String,
    /// The account and its endpoints, as connection strings name them.
    places: String,
    /// What is signed for, without the query.
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

    /// The token as a query, without a `?`: `sv=..&sig=..`. It is a secret.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// A credential for clients in this process.
    pub fn credential(&self) -> Result<Credential> {
        Credential::sas(&self.query)
    }

    /// A connection string with the endpoints of the services that it opens, for any client of
    /// Azure storage. It is a secret.
    pub fn connection_string(&self) -> String {
        format!("{}SharedAccessSignature={}", self.places, self.query)
    }

    /// The address of what it opens, with the token. It is a secret.
    pub fn url(&self) -> String {
        format!("{}?{}", self.address, self.query)
    }

    /// What is unwise about it, seen from `now`. Nothing is wrong with a token without warnings.
    pub fn lint(&self, now: DateTime<Utc>) -> Vec<Warning> {
        check(&self.sas, now)
    }
}

impl fmt::Debug for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SasToken").field(&self.sas).finish()
    }
}
