//! Checks that need only the head of a request and come before authentication: invalid versions,
//! headers that must not be repeated, and hosts that do not belong to this server.

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;

use super::auth;
use super::hosts::Hosts;
use super::respond::{Failure, Layer, ResponseContext};
use super::route::{self, Route};

/// HTTP headers that must have one value. If one is repeated, a proxy may use the first and the
/// server the last.
const SINGLE: [HeaderName; 11] = [
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    HeaderName::from_static("content-md5"),
    header::DATE,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::ORIGIN,
    header::RANGE,
];

/// The prefix of all headers of the services. Only headers with this prefix may be repeated.
const MS: &str = "x-ms-";

/// The most bytes in the `x-ms-client-request-id` header: 1 KiB.
pub(crate) const MAX_CLIENT_REQUEST_ID: usize = 1024;

/// Checks a head, and returns the endpoint that the request is for.
pub(crate) fn check<'a>(
    hosts: &Hosts,
    request: &'a Parts,
    context: &ResponseContext,
) -> Result<Route<'a>, Failure> {
    check_version(request, context)?;
    check_repeated(&request.headers).map_err(Failure::front_end)?;
    let route = route::parse(request).map_err(Failure::front_end)?;
    hosts.check(request).map_err(Failure::front_end)?;
    Ok(route)
}

/// Rejects a repeated header that authorizes the request or decides what it does.
pub(crate) fn check_repeated(headers: &HeaderMap) -> Result<(), Rejection> {
    // Nearly all requests return here.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    headers
        .keys()
        .find(|name| is_single(name) && headers.get_all(*name).iter().nth(1).is_some())
        .map_or(Ok(()), |name| Err(repeated(name)))
}

fn is_single(name: &HeaderName) -> bool {
    let text = name.as_str();
    if text.starts_with(MS) {
        return !text.starts_with(headers::METADATA_PREFIX) && *name != headers::CLIENT_REQUEST_ID;
    }
    SINGLE.contains(name)
}

/// The service joins the values of a repeated header, and rejects the result if it is invalid.
fn repeated(name: &HeaderName) -> Rejection {
    let detail = format!("The header {name} is specified more than once.");
    let rule = "a header that authorizes or decides is repeated";
    match name {
        name if name == header::AUTHORIZATION => {
            let rejection = Rejection::new(ErrorCode::INVALID_AUTHENTICATION_INFO).because(rule);
            auth::explain(rejection, detail)
        }
        name if name == header::DATE || name == headers::MS_DATE => auth::failed(rule, detail),
        name => Rejection::with_message(
            ErrorCode::INVALID_HEADER_VALUE,
            format!("The value for one of the HTTP headers is not in the correct format. {detail}"),
        )
        .because(rule)
        .detail("HeaderName", name.as_str()),
    }
}

/// Rejects a version that is not a date, or that is older than JSON support. Unknown newer versions
/// are accepted.
fn check_version(request: &Parts, context: &ResponseContext) -> Result<(), Failure> {
    // A valid version is in the context, and so is the default for a request without one.
    if context.version.is_some() {
        return Ok(());
    }
    let version = request.headers.get(headers::VERSION);
    Err(Failure {
        rejection: Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
            .detail("HeaderName", "x-ms-version")
            .detail(
                "HeaderValue",
                version.and_then(|version| version.to_str().ok()).unwrap_or_default(),
            ),
        layer: Layer::Version,
    })
}

/// Whether this is a version of the services that supports JSON.
pub(crate) fn is_version(text: &[u8]) -> bool {
    let shape = text.len() == 10
        && text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text >= b"2009-04-14".as_slice()
}
