//! Get User Delegation Key: a signing key for the holder of a token, of any service.

use std::time::Duration;

use rowkey_wire::auth::{KeyInfo, parse_time};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::front::auth::wire::{parse_key_info, render_delegation_key};
use crate::front::auth::{self, Access};
use crate::front::documents;
use crate::front::respond::HttpResponse;
use crate::op::rejection::invalid_document;
use crate::services::authorized::Authorized;

/// The maximum validity of a key.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Rejects a request that has no token, whose holder the key is for.
pub(crate) fn check(access: &Access) -> Result<(), Rejection> {
    if matches!(access, Access::Token(_)) {
        return Ok(());
    }
    Err(Rejection::new(ErrorCode::AUTHENTICATION_FAILED)
        .because("a user delegation key is for the holder of a token"))
}

/// Get User Delegation Key, after [`check`].
pub(crate) fn key(call: &Authorized<'_>, document: &[u8]) -> Result<HttpResponse, Rejection> {
    let Authorized { account, headers, context, version, .. } = call;
    let info = parse_key_info(document).map_err(|error| invalid_document(&error, document))?;
    let now = context.now.to_chrono();
    let begin = if info.start.is_empty() { Some(now) } else { parse_time(&info.start) };
    let (Some(begin), Some(end)) = (begin, parse_time(&info.expiry)) else {
        return Err(Rejection::new(ErrorCode::INVALID_XML_NODE_VALUE));
    };
    // A start in the past counts as now.
    let lasts = (end - begin.max(now)).to_std().unwrap_or_default();
    if lasts.is_zero() || lasts > LONGEST {
        return Err(Rejection::new(ErrorCode::INVALID_XML_NODE_VALUE));
    }
    let start = begin.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let info = KeyInfo { start, ..info };
    let key = auth::delegation_key(account, context.service, headers, info, version);
    Ok(documents::document(render_delegation_key(&key)))
}
