//! Get User Delegation Key: a signing key for the holder of a token.

use std::time::Duration;

use hyper::body::Incoming;
use rowkey_wire::auth::{KeyInfo, parse_time};
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::call::Call;
use super::upload;
use crate::auth::wire::{parse_key_info, render_delegation_key};
use crate::auth::{self, Access};
use crate::documents;
use crate::rejection::invalid_document;
use crate::respond::{HttpResponse, RequestError};

/// The maximum validity of a key.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Get User Delegation Key.
pub(super) async fn get_key(
    call: &Call<'_>,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    if !matches!(call.access, Access::Token) {
        return Err(Rejection::new(ErrorCode::AUTHENTICATION_FAILED).into());
    }
    let headers = &call.request.headers;
    let checksum = Checksum::new(false, false);
    let (document, _) = upload::receive_document(body, headers, checksum).await?;
    let info = parse_key_info(&document).map_err(|error| invalid_document(&error, &document))?;
    let now = call.context.now.to_chrono();
    let begin = if info.start.is_empty() { Some(now) } else { parse_time(&info.start) };
    let (Some(begin), Some(end)) = (begin, parse_time(&info.expiry)) else {
        return Err(Rejection::new(ErrorCode::INVALID_XML_NODE_VALUE).into());
    };
    // A start in the past counts as now.
    let lasts = (end - begin.max(now)).to_std().unwrap_or_default();
    if lasts.is_zero() || lasts > LONGEST {
        return Err(Rejection::new(ErrorCode::INVALID_XML_NODE_VALUE).into());
    }
    let start = begin.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let info = KeyInfo { start, expiry: info.expiry };
    let key = auth::delegation_key(call.account, call.request, info, call.version);
    Ok(documents::document(render_delegation_key(&key)))
}
