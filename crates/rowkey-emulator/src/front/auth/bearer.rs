//! Bearer tokens of Microsoft Entra ID: whether one is for this account and valid now.
//!
//! If the server issues tokens, their signature is verified with its key, and they permit what the
//! roles of their identity permit. Otherwise, as with Azurite's `--oauth basic`, the signature is
//! not verified, because that requires the issuers' keys: anyone can make a token.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::VERSION;
use serde::Deserialize;

use super::rights::Rights;
use super::{Caller, explain, failed};
use crate::account::{Account, Tokens};
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
    /// Whether it is an access token of an application or of a user.
    #[cfg(feature = "oauth")]
    #[serde(default)]
    idtyp: Option<String>,
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

/// Checks a token, and returns what its identity may do.
pub(super) fn verify(
    account: &Account,
    caller: Caller<'_>,
    request: &Parts,
    token: &str,
) -> Result<Rights, Rejection> {
    if matches!(account.tokens, Tokens::Refused) {
        return Err(failed(
            "bearer tokens are not enabled",
            "This server takes bearer tokens only when it is started with --oauth basic or issue.",
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
    #[cfg(feature = "oauth")]
    if let Tokens::Issued(issuer) = &account.tokens
        && !issuer.key.has_signed(token)
    {
        return Err(invalid(
            "Signature validation failed. The token was not issued by this server.",
        ));
    }
    let now = unix_seconds(caller.now);
    if now < claims.nbf {
        return Err(invalid("Lifetime validation failed. The token is not yet valid."));
    }
    if now >= claims.exp {
        return Err(invalid("Lifetime validation failed. The token is expired."));
    }
    let is_unsigned = matches!(account.tokens, Tokens::Unsigned);
    if is_unsigned && !ISSUERS.iter().any(|issuer| claims.iss.starts_with(issuer)) {
        return Err(invalid("Issuer validation failed. Issuer did not match."));
    }
    if !is_for(&claims.aud, account, caller.service) {
        return Err(invalid("Audience validation failed. Audience did not match."));
    }
    // An id token of an application whose id is an audience is no access token.
    #[cfg(feature = "oauth")]
    if matches!(account.tokens, Tokens::Issued(_))
        && !matches!(claims.idtyp.as_deref(), Some("app" | "user"))
    {
        return Err(invalid("The token is no access token."));
    }
    Ok(Rights::of(account, claims.oid.as_deref()))
}

/// The user of the token that came with a request, and the user's directory. Zeros if the token
/// does not name them.
pub(super) fn user(headers: &HeaderMap) -> (String, String) {
    let claims = headers.get(http::header::AUTHORIZATION).and_then(claims);
    let (oid, tid) = claims.map(|claims| (claims.oid, claims.tid)).unwrap_or_default();
    let zeros = || "00000000-0000-0000-0000-000000000000".to_owned();
    (oid.unwrap_or_else(zeros), tid.unwrap_or_else(zeros))
}

/// The directory of the token in an `Authorization` header.
#[cfg(feature = "oauth")]
pub(super) fn tenant(authorization: &HeaderValue) -> Option<String> {
    claims(authorization)?.tid
}

fn claims(authorization: &HeaderValue) -> Option<Claims> {
    let (_, token) = authorization.to_str().ok()?.split_once(' ')?;
    read(token)
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
/// The ends of the services' host names in Azure's clouds.
const CLOUDS: [&str; 4] =
    [".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net", ".core.cloudapi.de"];

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
        .is_some_and(|host| CLOUDS.contains(&host))
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
