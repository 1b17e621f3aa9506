//! Makes the tokens of identities.

use std::sync::{Arc, OnceLock};

use rowkey_wire::edm::DateTime;
use serde_json::{Value, json};

use super::directory::Directory;
use super::jwt::TokenKey;
use super::principal::{DEVELOPMENT_TENANT_ID, Identity, IdentityKind};
use crate::clock::unix_seconds;

/// How long an access token is valid, in seconds.
pub(crate) const LIFETIME: i64 = 3600;
/// How long a refresh token is valid, in seconds.
const REFRESH_LIFETIME: i64 = 90 * 24 * 3600;
/// The audience of refresh tokens, which no service accepts.
const REFRESH: &str = "urn:rowkey:refresh";
/// The resource of Azure Storage.
pub(crate) const STORAGE: &str = "https://storage.azure.com";

/// The key and the identities of a server that issues tokens.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) key: Arc<TokenKey>,
    pub(crate) identities: Directory,
    /// The authority's address, known once it listens.
    address: OnceLock<String>,
}

/// What a token is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant<'a> {
    pub(crate) identity: &'a Identity,
    /// The application that asks, which is another than the identity if that is a user.
    pub(crate) client_id: &'a str,
    pub(crate) tenant: &'a str,
    /// The address of the issuer, without a slash at the end.
    pub(crate) authority: &'a str,
    /// The audience.
    pub(crate) resource: &'a str,
    pub(crate) now: DateTime,
}

impl Issuer {
    /// An issuer with these identities.
    pub(crate) fn new(key: Arc<TokenKey>, identities: Option<&[Identity]>) -> Self {
        Self { key, identities: Directory::new(identities), address: OnceLock::new() }
    }

    /// Sets the authority's address, without a slash at the end.
    pub(crate) fn listen(&self, address: String) {
        let _ = self.address.set(address);
    }

    /// The authority's address; empty before it listens.
    pub(crate) fn address(&self) -> &str {
        self.address.get().map_or("", String::as_str)
    }

    /// An access token; `None` if signing fails.
    pub(crate) fn access_token(&self, grant: &Grant<'_>) -> Option<String> {
        let mut claims = claims(grant, grant.resource, LIFETIME);
        claims["appid"] = grant.client_id.into();
        claims["ver"] = "1.0".into();
        if grant.identity.kind() == IdentityKind::User {
            claims["idtyp"] = "user".into();
            claims["scp"] = "user_impersonation".into();
            claims["upn"] = grant.identity.id().into();
        } else {
            claims["idtyp"] = "app".into();
            claims["appidacr"] = "1".into();
        }
        self.key.sign(&claims)
    }

    /// An id token for the application that signs a user in.
    pub(crate) fn id_token(&self, grant: &Grant<'_>) -> Option<String> {
        let mut claims = claims(grant, grant.client_id, LIFETIME);
        claims["preferred_username"] = grant.identity.id().into();
        claims["name"] = grant.identity.id().into();
        claims["ver"] = "2.0".into();
        self.key.sign(&claims)
    }

    /// A refresh token of a user.
    pub(crate) fn refresh_token(&self, grant: &Grant<'_>) -> Option<String> {
        let mut claims = claims(grant, REFRESH, REFRESH_LIFETIME);
        // No access token has this, not even one for this audience.
        claims["idtyp"] = "refresh".into();
        claims["appid"] = grant.client_id.into();
        self.key.sign(&claims)
    }

    /// The identity of a refresh token, which must be valid at `now` and of this application.
    pub(crate) fn refreshed(
        &self,
        token: &str,
        client_id: &str,
        now: DateTime,
    ) -> Option<Arc<Identity>> {
        let claims = self.key.claims(token)?;
        let is_valid = claims["aud"] == REFRESH
            && claims["idtyp"] == "refresh"
            && claims["appid"] == client_id
            && claims["exp"].as_i64() > Some(unix_seconds(now));
        self.identities.with_object_id(claims["oid"].as_str().filter(|_| is_valid)?)
    }

    /// The identity of a token or of a delegation key; without roles if it was removed.
    pub(crate) fn identity(&self, object_id: &str) -> Arc<Identity> {
        let known = self.identities.with_object_id(object_id);
        known.unwrap_or_else(|| Arc::new(Identity::removed(object_id)))
    }

    /// A token of an identity for Azure Storage.
    pub(crate) fn storage_token(&self, id: &str, now: DateTime) -> Option<String> {
        let identity = &*self.identities.find(id)?;
        let (tenant, client_id) = (DEVELOPMENT_TENANT_ID, identity.id());
        let authority = self.address();
        self.access_token(&Grant { identity, client_id, tenant, authority, resource: STORAGE, now })
    }
}

/// The claims that all tokens have.
fn claims(grant: &Grant<'_>, audience: &str, lifetime: i64) -> Value {
    let Grant { identity, tenant, authority, now, .. } = grant;
    let now = unix_seconds(*now);
    json!({
        "aud": audience,
        "iss": format!("{authority}/{tenant}/v2.0"),
        "iat": now,
        "nbf": now,
        "exp": now + lifetime,
        "oid": identity.object_id(),
        "sub": identity.object_id(),
        "tid": tenant,
    })
}
