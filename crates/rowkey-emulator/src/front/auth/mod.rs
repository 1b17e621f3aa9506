//! Authentication and authorization of requests.
//!
//! - [`shared_key`]: requests signed with an account key
//! - [`sas`]: shared access signatures: permissions and validity
//! - [`bearer`]: tokens of Microsoft Entra ID
//! - [`access`]: [`Access`], the permissions of a request
//! - [`rights`]: [`Rights`], what the roles of a token's identity permit
//! - `actions`: the action that a role must permit for each operation
//! - [`wire`]: the formats that these read and write
//!
//! A request is authenticated before its body is read, and authorized after it has been parsed.

mod access;
#[cfg(feature = "oauth")]
mod actions;
mod bearer;
mod rights;
mod sas;
mod shared_key;
pub(crate) mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use access::{Access, Need, Scope};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
pub(crate) use rights::Rights;
use rowkey_wire::auth::{DelegationKey, KeyInfo, Resource, Service};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use tracing::info;
use wire::{Authorization, parse_authorization};

use crate::account::Account;
use crate::front::respond::Owner;

/// The element of a 403 or 401 with the reason why a request is not authenticated.
pub(crate) const AUTHENTICATION_ERROR_DETAIL: &str = "AuthenticationErrorDetail";

/// The facts about a request and its connection that authentication uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) service: Service,
    /// The queue, container or blob of the request, which a shared access signature must match. A
    /// signature for a table names its table itself.
    pub(crate) resource: Option<Resource<'a>>,
    pub(crate) address: std::net::IpAddr,
    pub(crate) now: DateTime,
    /// Whether the path begins with the account's name and `-secondary`.
    pub(crate) secondary: bool,
    /// The request id for the log, if strings to sign are logged.
    pub(crate) signing_log: Option<&'a HeaderValue>,
}

impl Caller<'_> {
    /// Rejects a request whose signature is not that of `text`. The log has the text if that is enabled: it contains the
    /// keys of entities.
    fn not_signed(&self, text: &str, rule: &'static str, detail: String) -> Rejection {
        if let Some(id) = self.signing_log {
            info!(?id, string_to_sign = text, "the signature does not match the string to sign");
        }
        failed(rule, detail).unsigned(text)
    }
}

/// 403 `AuthenticationFailed`: `rule` is for the log, `detail` for the client.
pub(crate) fn failed(rule: &'static str, detail: impl Into<String>) -> Rejection {
    explain(Rejection::new(ErrorCode::AUTHENTICATION_FAILED).because(rule), detail)
}

/// Adds the reason why a request is not authenticated. It may quote the request; characters that
/// XML does not allow are replaced.
pub(crate) fn explain(rejection: Rejection, detail: impl Into<String>) -> Rejection {
    let mut detail = detail.into();
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if !detail.chars().all(is_text) {
        detail = detail.chars().map(|c| if is_text(c) { c } else { '\u{FFFD}' }).collect();
    }
    rejection.detail(AUTHENTICATION_ERROR_DETAIL, detail)
}

/// The delegation key of a service for the user whose token came with a request.
pub(crate) fn delegation_key(
    account: &Account,
    service: Service,
    headers: &HeaderMap,
    info: KeyInfo,
    version: &str,
) -> DelegationKey {
    let (oid, tid) = bearer::user(headers);
    let mut key = DelegationKey {
        oid,
        tid,
        start: info.start,
        expiry: info.expiry,
        service: sas::letter(service).to_owned(),
        version: version.to_owned(),
        delegated_tid: info.delegated_tid,
        value: String::new().into(),
    };
    if let Some(signer) = account.keys.first() {
        key.value = sas::delegated_value(signer, &key).into();
    }
    key
}

/// The directory that the token in an `Authorization` header names.
#[cfg(feature = "oauth")]
pub(crate) fn tenant(authorization: &HeaderValue) -> Option<String> {
    bearer::tenant(authorization)
}

/// Authenticates a request, and returns its permissions.
pub(crate) fn authenticate(
    account: &Account,
    caller: Caller<'_>,
    request: &Parts,
) -> Result<Access, Rejection> {
    if request.extensions.get::<Owner>().is_some() {
        return Ok(Access::Key);
    }
    if let Some(value) = request.headers.get(http::header::AUTHORIZATION) {
        let authorization = value.to_str().ok().and_then(parse_authorization);
        return match authorization {
            Some(Authorization::SharedKey { scheme, account: name, signature }) => {
                shared_key::verify(account, caller, request, scheme, name, signature)?;
                Ok(Access::Key)
            }
            Some(Authorization::Bearer(token)) => {
                bearer::verify(account, caller, request, token).map(Access::Token)
            }
            None => Err(Rejection::new(ErrorCode::INVALID_AUTHENTICATION_INFO)
                .because("the Authorization header has no known form")),
        };
    }
    match request.uri.query().filter(|query| sas::is_signed(query)) {
        Some(query) => sas::verify(account, caller, request, query),
        // Containers can be public. Whether this one is public is checked after the request has
        // been parsed.
        None if caller.service == Service::Blob => Ok(Access::Anonymous),
        None => Err(Rejection::new(ErrorCode::NO_AUTHENTICATION_INFORMATION)),
    }
}
