//! Credentials, which authorize requests.
//!
//! - [`Credential`]: an account key, a shared access signature, a bearer token
//! - `slot`: [`CredentialSlot`], a credential that can be replaced while clients use it
//! - `token`: [`TokenProvider`], and the cache of its tokens

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rowkey_wire::auth::{Scheme, SigningKey};

use crate::clock::Clock;
use crate::endpoint::Endpoint;
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

/// A credential, which authorizes requests. `Debug` never shows the secret.
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

/// An account's name, one of its keys, and the way to sign.
pub(crate) struct SharedKey {
    pub(crate) scheme: Scheme,
    pub(crate) account: String,
    pub(crate) key: SigningKey,
}

/// The authorization of one attempt. It is chosen when the attempt begins; later changes of the
/// credential do not affect it.
#[derive(Clone)]
pub(crate) enum Authority {
    /// The value of the `Authorization` header.
    Bearer(HeaderValue),
    Nothing,
    /// A shared access signature, to append to the query.
    Sas(Arc<str>),
    SharedKey(Arc<SharedKey>),
}

impl Credential {
    /// Creates a credential from the account's name and one of its two keys, in base64 as in the
    /// portal.
    ///
    /// Requests contain a signature, which is valid only for that request and for 15 minutes, but never the
    /// key. Over plain http, anyone on the network path can read requests and responses, change bodies, which
    /// are not signed, and replay requests.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the key is not base64. See
    /// [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
    pub fn shared_key(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKey, account.into(), key)
    }

    /// Like [`shared_key`](Self::shared_key), but signs only the date and the URL, for proxies that
    /// change headers.
    pub fn shared_key_lite(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKeyLite, account.into(), key)
    }

    /// Creates a credential from a shared access signature: `sv=..&sig=..`, with or without a
    /// leading `?`.
    ///
    /// It is sent only over https or to this machine. For http to any other host, the account can be built
    /// only with [`allow_http_to`](crate::StorageAccountBuilder::allow_http_to).
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is not a URL query or has
    /// no signature. The module [`sas`](crate::sas) creates such signatures.
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

    /// Creates a credential for bearer tokens of Microsoft Entra ID. The provider is asked for a
    /// new token when the last one is about to expire. An `Arc` of a provider is a provider, too.
    ///
    /// Clones share the tokens. They are sent only over https or to this machine. For http to any other host,
    /// the account can be built only with [`allow_http_to`](crate::StorageAccountBuilder::allow_http_to). See
    /// [Authorize with Microsoft Entra ID](https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory).
    pub fn token(provider: impl TokenProvider + 'static) -> Self {
        Self(Repr::Tokens(Arc::new(Tokens::new(Box::new(provider)))))
    }

    /// Sends no authorization, for servers that require none.
    pub fn anonymous() -> Self {
        Self(Repr::Anonymous)
    }

    /// The authorization of an attempt that begins now. Waits only for tokens.
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
        // A slot may now have another kind of credential than when the account was built.
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

    /// The authorization, if it is available without waiting; not for tokens.
    pub(crate) fn settled(&self) -> Authority {
        match &self.0 {
            Repr::Anonymous | Repr::Tokens(_) => Authority::Nothing,
            Repr::Sas(sas) => Authority::Sas(Arc::clone(sas)),
            Repr::SharedKey(key) => Authority::SharedKey(Arc::clone(key)),
            Repr::Slot(slot) => slot.current().settled(),
        }
    }

    /// Whether the credential has changed since the authorization that the service has refused. A
    /// refused token is not used again.
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

    /// Refuses an endpoint to which this credential must not be sent.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<()> {
        match &self.0 {
            Repr::Sas(_) => endpoint.check_secret("a shared access signature"),
            Repr::Tokens(_) => endpoint.check_secret("a bearer token"),
            // Shared Key signatures are valid for one request and do not reveal the key.
            Repr::SharedKey(_) | Repr::Anonymous => Ok(()),
            Repr::Slot(slot) => slot.current().check(endpoint),
        }
    }

    /// The account's name, if the credential has one.
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
