//! What is refused by the head of a request alone, before its sender is known: versions that are
//! none, headers that must not be repeated, and hosts that are not this server's.

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;

use crate::auth;
use crate::respond::{Failure, Layer, Stamps};
use crate::route::{self, Place};
use crate::state::State;

/// Headers of HTTP of which one value decides. Of a repeated one a proxy may take the first and the
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

/// The beginning of all headers of the services, and of the only ones that may be repeated.
const MS: &str = "x-ms-";
const METADATA: &str = "x-ms-meta-";

/// Checks a head, and returns where the request goes.
pub(crate) fn check<'a>(
    state: &State,
    request: &'a Parts,
    stamps: &Stamps,
) -> Result<Place<'a>, Failure> {
    check_version(request, stamps)?;
    check_repeated(&request.headers).map_err(Failure::front_end)?;
    let place = route::place(request).map_err(Failure::front_end)?;
    state.hosts.check(request).map_err(Failure::front_end)?;
    Ok(place)
}

/// Refuses a repeated header that authorizes the request or decides what it does.
pub(crate) fn check_repeated(headers: &HeaderMap) -> Result<(), Rejection> {
    // Nearly all requests end here.
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
        return !text.starts_with(METADATA) && *name != headers::CLIENT_REQUEST_ID;
    }
    SINGLE.contains(name)
}

/// The service joins the values of a repeated header, and then refuses what is none any more.
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

/// Refuses a version that is no date, or from before JSON. Newer ones than are known may come.
fn check_version(request: &Parts, stamps: &Stamps) -> Result<(), Failure> {
    // Good ones are stamped, and so is the one that stands for none.
    if stamps.version.is_some() {
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

/// Whether this is a version of the services that has JSON.
pub(crate) fn is_version(text: &[u8]) -> bool {
    let shape = text.len() == 10
        && text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text >= b"2009-04-14".as_slice()
}
