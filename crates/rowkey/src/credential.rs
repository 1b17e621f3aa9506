//! What authorizes requests.
//!
//! - [`Credential`]: an account key, a shared access signature, a bearer token
//! - `slot`: [`CredentialSlot`], a credential that is replaced while clients use it
//! - `token`: [`TokenProvider`], and the tokens that are kept until shortly before they expire

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rowkey_wire::auth::{Scheme, SigningKey};

use crate::account::Endpoint;
use crate::clock::Clock;
use crate::error::{Error, Result};

#[cfg(feature = "azure-identity")]
mod azure;
pub(crate) mod slot;
pub(crate) mod token;

#[cfg(test)]
mod tests;

use slot::CredentialSlot;
pub(crate) use token::Scope;
pub(crate) use token::TokenProvider;
use token::Tokens;

/// What authorizes requests. `Debug` never shows the secret.
#[derive(Clone)]
pub struct Credential(Repr);

#[derive(Clone)]
enum Repr {
    Anonymous,
    Sas(Arc<str>),
    SharedKey(Arc<SharedKey>),
    Slot(CredentialSlot),
    Tokens(Arc<Tokens>),
}

/// An account's name, one of its keys, and how to sign with it.
pub(crate) struct SharedKey {
    pub(crate) scheme: Scheme,
    pub(crate) account: String,
    pub(crate) key: SigningKey,
}

/// What authorizes one attempt: settled when the attempt begins, and not changed by what happens
/// to the credential later.
#[derive(Clone)]
pub(crate) enum Authority {
    /// The value of the `Authorization` header.
    Bearer(HeaderValue),
    Nothing,
    /// To be appended to the query.
    Sas(Arc<str>),
    SharedKey(Arc<SharedKey>),
}

impl Credential {
    /// The account's name and one of its two keys, in base64 as the portal shows it.
    ///
    /// Requests carry a signature, which is good for that request for 15 minutes, and never the key.
    /// Over plain http everybody on the way can read requests and answers, change bodies, which are not
    /// signed, and send a request again.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the key is not base64.
    /// See [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
    pub fn shared_key(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKey, account.into(), key)
    }

    /// Like [`shared_key`](Self::shared_key), but signing only the date and the address, for
    /// proxies that change headers.
    pub fn shared_key_lite(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKeyLite, account.into(), key)
    }

    /// A shared access signature: `sv=..&sig=..`, with or without a leading `?`.
    ///
    /// It is sent over https, or to this machine; for any other host
    /// [`allow_http_to`](crate::StorageAccountBuilder::allow_http_to) names it, or the account cannot
    /// be built.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is not the query of an
    /// address or has no signature. [`sas`](crate::sas) makes them.
    pub fn sas(signature: &str) -> Result<Self> {
        let sas = signature.trim();
        let sas = sas.strip_prefix('?').unwrap_or(sas).trim_matches('&');
        let is_query = sas.bytes().all(|b| b.is_ascii_graphic() && !b"#?\"<>\\^`{|}".contains(&b));
        if !is_query {
            return Err(Error::invalid(
                "the shared access signature is not the query of an address",
            )
            .advise("give what follows the `?`, percent-encoded as it was issued"));
        }
        let signed = sas.split('&').any(|p| p.strip_prefix("sig=").is_some_and(|s| !s.is_empty()));
        if !signed {
            return Err(Error::invalid("the shared access signature has no `sig`")
                .advise("give all of it, from `sv=` to the end"));
        }
        Ok(Self(Repr::Sas(sas.into())))
    }

    /// Bearer tokens of Microsoft Entra ID, from a provider that is asked for one when the last is
    /// about to expire. An `Arc` of a provider is one, too.
    ///
    /// Clones share the tokens. They are sent over https, or to this machine; for any other host
    /// [`allow_http_to`](crate::StorageAccountBuilder::allow_http_to) names it, or the account cannot
    /// be built.
    /// See [Authorize with Microsoft Entra ID](https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory).
    pub fn token(provider: impl TokenProvider + 'static) -> Self {
        Self(Repr::Tokens(Arc::new(Tokens::new(Box::new(provider)))))
    }

    /// No authorization, for servers that ask for none.
    pub fn anonymous() -> Self {
        Self(Repr::Anonymous)
    }

    /// What authorizes an attempt that begins now. Only tokens may have to be waited for.
    pub(crate) async fn settle(
        &self,
        scope: &Scope,
        endpoint: &Endpoint,
        clock: &dyn Clock,
        limit: Duration,
    ) -> Result<Authority> {
        let slotted;
        let current = match &self.0 {
            Repr::Slot(slot) => {
                slotted = slot.current();
                &slotted
            }
            _ => self,
        };
        // What is in a slot may be of another kind than what the account was built with.
        current.check(endpoint)?;
        if let Repr::Tokens(tokens) = &current.0 {
            // Boxed, so that the futures of all other requests stay small.
            let token = Box::pin(tokens.get(scope, clock));
            return match tokio::time::timeout(limit, token).await {
                Ok(token) => token.map(Authority::Bearer),
                Err(_) => Err(Error::unauthorized("no token came in time")),
            };
        }
        Ok(current.settled())
    }

    /// What authorizes without waiting: not tokens.
    pub(crate) fn settled(&self) -> Authority {
        match &self.0 {
            Repr::Anonymous | Repr::Tokens(_) => Authority::Nothing,
            Repr::Sas(sas) => Authority::Sas(Arc::clone(sas)),
            Repr::SharedKey(key) => Authority::SharedKey(Arc::clone(key)),
            Repr::Slot(slot) => slot.current().settled(),
        }
    }

    /// Whether there is something newer than what the service has just refused. A token that was
    /// refused is not used again.
    pub(crate) fn has_newer(&self, scope: &Scope, refused: &Authority) -> bool {
        match &self.0 {
            Repr::Tokens(tokens) => {
                if let Authority::Bearer(token) = refused {
                    tokens.discard(scope, token);
                }
                true
            }
            Repr::Slot(slot) => {
                let current = slot.current();
                match (current.settled(), refused) {
                    (Authority::Sas(current), Authority::Sas(refused)) => {
                        !Arc::ptr_eq(&current, refused)
                    }
                    (Authority::SharedKey(current), Authority::SharedKey(refused)) => {
                        !Arc::ptr_eq(&current, refused)
                    }
                    (Authority::Nothing, Authority::Nothing) => false,
                    (Authority::Nothing, _) => current.has_newer(scope, refused),
                    _ => true,
                }
            }
            Repr::Anonymous | Repr::Sas(_) | Repr::SharedKey(_) => false,
        }
    }

    /// Refuses an endpoint to which this credential must not be shown.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<()> {
        match &self.0 {
            Repr::Sas(_) => endpoint.check_secret("a shared access signature"),
            Repr::Tokens(_) => endpoint.check_secret("a bearer token"),
            // Signatures of Shared Key are good for one request, and do not tell the key.
            Repr::SharedKey(_) | Repr::Anonymous => Ok(()),
            Repr::Slot(slot) => slot.current().check(endpoint),
        }
    }

    /// The account's name, when the credential has one.
    pub(crate) fn account(&self) -> Option<&str> {
        match &self.0 {
            Repr::SharedKey(key) => Some(&key.account),
            Repr::Slot(slot) => slot.account(),
            Repr::Anonymous | Repr::Sas(_) | Repr::Tokens(_) => None,
        }
    }

    fn with_scheme(scheme: Scheme, account: String, key: &str) -> Result<Self> {
        if account.is_empty() {
            return Err(Error::invalid("the account's name is empty"));
        }
        let key = SigningKey::from_base64(key).map_err(|error| {
            Error::invalid("the account key is not base64")
                .advise("copy it again from the account's access keys")
                .with_source(error)
        })?;
        Ok(Self(Repr::SharedKey(Arc::new(SharedKey { scheme, account, key }))))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Anonymous => f.write_str("Anonymous"),
            Repr::Sas(_) => f.write_str("Sas(..)"),
            Repr::SharedKey(key) => f
                .debug_struct(key.scheme.name())
                .field("account", &key.account)
                .finish_non_exhaustive(),
            Repr::Slot(slot) => slot.fmt(f),
            Repr::Tokens(_) => f.write_str("Token(..)"),
        }
    }
}
