//! User delegation keys: a program that has a token but no account key signs with one.

use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, Utc};
use http::HeaderValue;
use rowkey_wire::auth::{DelegationKey, KeyInfo, SigningKey};
use rowkey_wire::headers::VERSION;
use zeroize::Zeroize as _;

use super::builder::{Resource, Sas};
use super::terms::Signing;
use super::{SasToken, blob, queue, table};
use crate::account::StorageAccount;
use crate::endpoint::Flavor;
use crate::error::{Error, Result};
use crate::service::wire::{delegation, documents};
use crate::service::{Service, unreadable};
use crate::transport::{Call, Host, Request, Safety};

/// A user delegation key of a service, from [`StorageAccount::user_delegation_key`]. `Debug` does not show it.
#[derive(Clone, Debug)]
pub struct UserDelegationKey {
    pub(super) key: DelegationKey,
    pub(super) signer: SigningKey,
    pub(super) service: Service,
}

impl StorageAccount {
    /// Requests a user delegation key of a service. A program that has a token but no account key signs shared
    /// access signatures with it: see [`Sas::sign_with`]. The key is valid until `expiry`, at most 7 days from
    /// now. Its signatures expire with it or earlier.
    ///
    /// Tables and queues have such keys since 2026; Azure Cosmos DB has none.
    ///
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use rowkey::StorageAccount;
    /// use rowkey::sas::{Sas, SasToken, TablePermissions};
    /// use rowkey::service::Service;
    ///
    /// async fn give(account: &StorageAccount) -> rowkey::Result<SasToken> {
    ///     let hour = Duration::from_secs(3600);
    ///     let key = account.user_delegation_key(Service::Table, account.clock().now() + hour).await?;
    ///     Sas::table("orders")
    ///         .permissions(TablePermissions::QUERY)
    ///         .valid_for(hour)
    ///         .sign_with(account, &key)
    /// }
    /// ```
    pub async fn user_delegation_key(
        &self,
        service: Service,
        expiry: DateTime<Utc>,
    ) -> Result<UserDelegationKey> {
        if service == Service::Table && self.flavor() == Flavor::Cosmos {
            return Err(Error::invalid("Azure Cosmos DB has no user delegation keys"));
        }
        let call = Call::new("GetUserDelegationKey", "", Safety::Read).at(Host::Primary);
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
        let start = time(self.clock().now());
        let info = KeyInfo { start, expiry: time(expiry), ..KeyInfo::default() };
        let reply = self.pipeline().send(request(service, &info), call).await?;
        let mut key =
            delegation::decode(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        let signer = SigningKey::from_base64(&key.value).map_err(|_| {
            Error::decode("the user delegation key is not base64").of_answer(&call, &reply)
        })?;
        // Only the signer is needed from here on.
        key.value.zeroize();
        Ok(UserDelegationKey { key, signer, service })
    }
}

impl<P: Display> Sas<P> {
    /// Signs with a user delegation key of the table's, the queue's or the blob's service, from
    /// [`user_delegation_key`](StorageAccount::user_delegation_key). Nothing is sent.
    ///
    /// The signature cannot refer to a stored access policy. It ends with the key, or when the account's user
    /// delegation keys are revoked.
    ///
    /// Fails as [`sign`](Self::sign) does, and with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the key
    /// is of another service, if there is a policy, and if the signature is for an account.
    pub fn sign_with(&self, account: &StorageAccount, key: &UserDelegationKey) -> Result<SasToken> {
        if self.terms.policy.is_some() {
            let what = "a signature with a user delegation key has no stored access policy";
            return Err(Error::invalid(what));
        }
        let service = match &self.resource {
            Resource::Table(_) => Service::Table,
            Resource::Queue(_) => Service::Queue,
            Resource::Blob { .. } => Service::Blob,
            Resource::Account { .. } => {
                let what = "a user delegation key signs for no account";
                return Err(Error::invalid(what).advise("sign for a table, a queue or a blob"));
            }
        };
        if key.service != service {
            let what = "the user delegation key is of another service than the signature";
            return Err(Error::invalid(what).advise("request one with this service"));
        }
        let signing = Signing {
            account: account.name(),
            key: &key.signer,
            delegation: Some((&key.key, version(service))),
        };
        let permissions = self.permissions.to_string();
        match &self.resource {
            Resource::Table(name) => {
                table::sign_table(account, name, &self.range, &self.terms, &permissions, &signing)
            }
            Resource::Queue(name) => {
                queue::sign_queue(account, name, &self.terms, &permissions, &signing)
            }
            _ => blob::sign_blob(account, self, &signing),
        }
    }
}

/// The signed version. For blobs, signatures of two official libraries are known; tables and queues have it as
/// their first version.
fn version(service: Service) -> &'static str {
    match service {
        Service::Blob => "2026-04-06",
        Service::Queue => "2026-02-06",
        Service::Table => "2025-07-05",
    }
}

fn request(service: Service, info: &KeyInfo) -> Request {
    let mut request = documents::get_delegation_key(service, delegation::encode(info));
    // The version of all other requests to tables and queues does not have the operation.
    if service != Service::Blob {
        request.headers.insert(VERSION, HeaderValue::from_static(version(service)));
    }
    request
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_key_is_requested_from_its_service_in_a_version_that_has_it() {
        for (service, version) in [
            (Service::Blob, None),
            (Service::Queue, Some("2026-02-06")),
            (Service::Table, Some("2025-07-05")),
        ] {
            let request = request(service, &KeyInfo::default());
            assert_eq!((request.service, request.method), (service, Method::POST));
            assert_eq!(request.target, "/?restype=service&comp=userdelegationkey");
            let sent = request.headers.get(VERSION).map(|value| value.to_str().unwrap());
            assert_eq!(sent, version, "{service:?}");
            assert_eq!(request.headers["content-type"], "application/xml", "{service:?}");
        }
    }
}
