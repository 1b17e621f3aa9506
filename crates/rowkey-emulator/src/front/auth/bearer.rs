//! Bearer tokens of Microsoft Entra ID: whether one is for this account and valid now.
//!
//! As with Azurite's `--oauth basic`, the signature of a token is not verified, because that
//! requires the issuers' keys. Anyone can make a token.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::VERSION;
use serde::Deserialize;

use super::{Caller, explain, failed};
use crate::account::Account;
use crate::clock::unix_seconds;
use crate::tls::Https;

/// The claims of a token that are used here.
#[derive(Deserialize)]
struct Claims {
    aud: String,
    iss: String,
    exp: i64,
    nbf: i64,
    oid: Option<String>,
    tid: Option<String>,
}

/// The issuers of tokens, in Azure's clouds.
const ISSUERS: [&str; 5] = [
    "https://sts.windows.net/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.microsoftonline.de/",
    "https://sts.windows-ppe.net/",
    "https://login.microsoftonline.com/",
];

/// The audiences of tokens for all accounts: Azure Storage, by its address and by its id.
const AUDIENCES: [&str; 2] = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];

/// The first version that accepts tokens. It is the same for all services: the official table
/// libraries send `2019-02-02` with theirs.
const FIRST_VERSION: &str = "2017-11-09";

/// Checks a token. A valid one permits everything that tokens can.
pub(super) fn verify(
    account: &Account,
    caller: Caller<'_>,
    request: &Parts,
    token: &str,
) -> Result<(), Rejection> {
    if !account.takes_tokens {
        return Err(failed(
            "bearer tokens are not enabled",
            "This server takes bearer tokens only when it is started with --oauth basic.",
        ));
    }
    if request.extensions.get::<Https>().is_none() && !caller.address.to_canonical().is_loopback() {
        return Err(failed(
            "a bearer token was sent over HTTP from another machine",
            "Bearer tokens are taken over HTTPS, or from the same machine.",
        ));
    }
    let version = request.headers.get(VERSION);
    if version.is_none_or(|version| version.as_bytes() < FIRST_VERSION.as_bytes()) {
        return Err(failed(
            "x-ms-version takes no bearer tokens",
            "Authentication scheme Bearer is not supported in this version.",
        ));
    }
    let claims = read(token).ok_or_else(|| invalid("The token is not a JSON Web Token."))?;
    let now = unix_seconds(caller.now);
    if now < claims.nbf {
        return Err(invalid("Lifetime validation failed. The token is not yet valid."));
    }
    if now >= claims.exp {
        return Err(invalid("Lifetime validation failed. The token is expired."));
    }
    if !ISSUERS.iter().any(|issuer| claims.iss.starts_with(issuer)) {
        return Err(invalid("Issuer validation failed. Issuer did not match."));
    }
    if !is_for(&claims.aud, account, caller.service) {
        return Err(invalid("Audience validation failed. Audience did not match."));
    }
    Ok(())
}

/// The user of the token that came with a request, and the user's directory. Zeros if the token
/// does not name them.
pub(super) fn user(headers: &HeaderMap) -> (String, String) {
    let value = headers.get(http::header::AUTHORIZATION);
    let claims = value
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .and_then(|(_, token)| read(token));
    let (oid, tid) = claims.map(|claims| (claims.oid, claims.tid)).unwrap_or_default();
    let zeros = || "00000000-0000-0000-0000-000000000000".to_owned();
    (oid.unwrap_or_else(zeros), tid.unwrap_or_else(zeros))
}

fn read(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || signature.is_empty() {
        return None;
    }
    let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok();
    let header: serde_json::Value = serde_json::from_slice(&decode(header)?).ok()?;
    header.get("alg")?;
    serde_json::from_slice(&decode(claims)?).ok()
}

/// Whether a token is for all accounts, or for this service of this account.
fn is_for(audience: &str, account: &Account, service: Service) -> bool {
    let audience = audience.trim_end_matches('/');
    if AUDIENCES.contains(&audience) {
        return true;
    }
    let service = match service {
        Service::Blob => "blob",
        Service::Queue => "queue",
        Service::Table => "table",
    };
    let host = audience.strip_prefix("https://").and_then(|host| host.strip_prefix(&account.name));
    host.and_then(|host| host.strip_prefix('.'))
        .and_then(|host| host.strip_prefix(service))
        .is_some_and(|host| host.starts_with(".core."))
}

/// 401, with a challenge that tells the client where to get a valid token.
fn invalid(why: &'static str) -> Rejection {
    let message = "Server failed to authenticate the request. Please refer to the information in \
                   the www-authenticate header.";
    let rejection = Rejection {
        status: StatusCode::UNAUTHORIZED,
        ..Rejection::with_message(ErrorCode::INVALID_AUTHENTICATION_INFO, message)
    };
    explain(rejection.because(why), why)
}
