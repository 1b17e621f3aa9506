//! Responses: the headers common to all, and errors in the format that fits the request.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::{Rejection, render_json};
use rowkey_wire::headers;
use rowkey_wire::odata::Metadata;

use super::auth::AUTHENTICATION_ERROR_DETAIL;
use super::body::Body;
use crate::clock::unix_seconds;
use crate::op::table::Prefer;
use crate::wire::error_body::{render_xml, render_xml_plain, render_xml_version};
use crate::wire::table::parse::ResponseFormat;

/// A response as hyper sends it.
pub(crate) type HttpResponse = Response<ResponseBody>;

/// The body of a response.
pub(crate) type ResponseBody = Body;

/// `DataServiceId`.
pub(crate) const DATA_SERVICE_ID: HeaderName = HeaderName::from_static("dataserviceid");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

const SERVER_BLOB: HeaderValue = HeaderValue::from_static(concat!(
    "Windows-Azure-Blob/1.0 rowkey-server/",
    env!("CARGO_PKG_VERSION")
));
const SERVER_QUEUE: HeaderValue = HeaderValue::from_static(concat!(
    "Windows-Azure-Queue/1.0 rowkey-server/",
    env!("CARGO_PKG_VERSION")
));
const SERVER_TABLE: HeaderValue = HeaderValue::from_static(concat!(
    "Windows-Azure-Table/1.0 rowkey-server/",
    env!("CARGO_PKG_VERSION")
));
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const XML: HeaderValue = HeaderValue::from_static("application/xml");
const XML_DATA: HeaderValue = HeaderValue::from_static("application/xml;charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// The part of the service that rejects a request. Each formats errors in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Handles entities and tables.
    Data,
    /// Authorizes requests, and handles ACLs and service properties.
    FrontEnd,
    /// Reads `x-ms-version`.
    Version,
}

/// A rejected request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) rejection: Rejection,
    pub(crate) layer: Layer,
}

impl Failure {
    pub(crate) fn data(rejection: Rejection) -> Self {
        Self { rejection, layer: Layer::Data }
    }

    pub(crate) fn front_end(rejection: Rejection) -> Self {
        Self { rejection, layer: Layer::FrontEnd }
    }
}

/// The reason why an operation has no response.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The connection broke while the body was read.
    Broken(io::Error),
    /// The request is rejected.
    Failed(Failure),
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Rejection> for RequestError {
    fn from(rejection: Rejection) -> Self {
        Self::Failed(Failure::front_end(rejection))
    }
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Marks, in its extensions, a request of the owner of the server, which needs no credential. Faults, targets,
/// page cuts and the journal do not see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner;

/// The values that a response repeats from its request, or tells about it.
#[derive(Clone, Debug)]
pub(crate) struct ResponseContext {
    /// The service that responds.
    pub(crate) service: Service,
    /// The server's id of the request.
    pub(crate) id: HeaderValue,
    /// When the request arrived.
    pub(crate) now: DateTime,
    /// The version used for the response: the requested one, unless that is invalid.
    pub(crate) version: Option<HeaderValue>,
    /// The client's id of the request, in versions that return it.
    pub(crate) client_id: Option<HeaderValue>,
    /// Whether the owner of the server sent it.
    pub(crate) is_owner: bool,
}

impl ResponseContext {
    /// The version used for the response.
    pub(crate) fn version(&self) -> &str {
        self.version.as_ref().and_then(|version| version.to_str().ok()).unwrap_or_default()
    }
}

/// An empty response.
pub(crate) fn empty(status: StatusCode) -> HttpResponse {
    with_body(status, Bytes::new())
}

/// A response with a body.
pub(crate) fn with_body(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Body::from(body.into()));
    *answer.status_mut() = status;
    // Room for the headers of every response, so that the map never grows.
    answer.headers_mut().reserve(12);
    answer
}

/// A JSON response about entities or tables, with this metadata level.
pub(crate) fn data(status: StatusCode, level: Metadata, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = with_body(status, body);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(level));
    headers.insert(header::CACHE_CONTROL, NO_CACHE);
    headers.insert(CONTENT_TYPE_OPTIONS, NOSNIFF);
    answer
}

/// An empty response about entities or tables.
pub(crate) fn data_empty(status: StatusCode) -> HttpResponse {
    let mut answer = empty(status);
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_CACHE);
    headers.insert(CONTENT_TYPE_OPTIONS, NOSNIFF);
    answer
}

/// A response with an XML document.
pub(crate) fn xml(status: StatusCode, body: String) -> HttpResponse {
    let mut answer = with_body(status, body);
    answer.headers_mut().insert(header::CONTENT_TYPE, XML);
    answer
}

/// The response to a rejected request.
pub(crate) fn failure(
    failure: &Failure,
    format: ResponseFormat,
    context: &ResponseContext,
) -> HttpResponse {
    let Failure { rejection, layer } = failure;
    let mut message = message(&rejection.message, context);
    let code = &rejection.code;
    let status = rejection.status;
    if context.service != Service::Table {
        // All errors of queues and blobs have the same format. A status without content has no
        // body.
        let mut answer = if status == StatusCode::NOT_MODIFIED {
            empty(status)
        } else {
            xml(status, render_xml_plain(code, &message, &rejection.details))
        };
        answer.headers_mut().insert(headers::ERROR_CODE, code_value(code));
        challenge(&mut answer, context);
        return answer;
    }
    // The Table service's error format has no place for more elements.
    for (name, text) in &rejection.details {
        if *name == AUTHENTICATION_ERROR_DETAIL {
            message.extend(["\n", name, ":", text]);
        }
    }
    let mut answer = match layer {
        Layer::Version => {
            let mut answer = xml(status, render_xml_version(code, &message));
            answer.headers_mut().insert(headers::ERROR_CODE, code_value(code));
            answer
        }
        Layer::FrontEnd => {
            let mut answer = if format.json {
                let mut answer = with_body(status, render_json(code, &message));
                answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
                answer
            } else {
                xml(status, render_xml(code, &message))
            };
            answer.headers_mut().insert(headers::ERROR_CODE, code_value(code));
            answer
        }
        Layer::Data if format.json => data(status, format.level, render_json(code, &message)),
        Layer::Data => {
            // Like the front end's, but without the prefix. Escaped text has no `<`.
            let body = render_xml(code, &message)
                .replace("<m:", "<")
                .replace("</m:", "</")
                .replacen("xmlns:m=", "xmlns=", 1);
            let mut answer = data(status, format.level, body);
            answer.headers_mut().insert(header::CONTENT_TYPE, XML_DATA);
            answer
        }
    };
    challenge(&mut answer, context);
    answer
}

/// Tells an unauthenticated caller where to get tokens, in versions that accept tokens. This server
/// has no tenant, so the tenant named here does not exist.
fn challenge(answer: &mut HttpResponse, context: &ResponseContext) {
    const CHALLENGE: HeaderValue = HeaderValue::from_static(
        "Bearer authorization_uri=https://login.microsoftonline.com/\
         00000000-0000-0000-0000-000000000000/oauth2/authorize \
         resource_id=https://storage.azure.com",
    );
    let takes_tokens = context
        .version
        .as_ref()
        .is_some_and(|version| version.as_bytes() >= headers::TABLE_VERSION_BEARER.as_bytes());
    if answer.status() == StatusCode::UNAUTHORIZED && takes_tokens {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
    }
}

/// Sets `Preference-Applied`.
pub(crate) fn apply_prefer(answer: &mut HttpResponse, prefer: Option<Prefer>) {
    if let Some(prefer) = prefer {
        let value = HeaderValue::from_static(prefer.as_str());
        answer.headers_mut().insert(PREFERENCE_APPLIED, value);
    }
}

/// Appends the lines that the service adds to each error message.
pub(crate) fn message(text: &str, context: &ResponseContext) -> String {
    let id = context.id.to_str().unwrap_or_default();
    format!("{text}\nRequestId:{id}\nTime:{}", context.now.to_iso7())
}

/// Adds the headers that every response has.
pub(crate) fn finish(answer: &mut HttpResponse, context: ResponseContext) {
    let headers = answer.headers_mut();
    headers.insert(header::DATE, date(context.now));
    let server = match context.service {
        Service::Blob => SERVER_BLOB,
        Service::Queue => SERVER_QUEUE,
        Service::Table => SERVER_TABLE,
    };
    headers.insert(header::SERVER, server);
    headers.insert(headers::REQUEST_ID, context.id);
    if let Some(version) = context.version {
        // The account's default version may be set already.
        headers.entry(headers::VERSION).or_insert(version);
    }
    if let Some(id) = context.client_id {
        headers.insert(headers::CLIENT_REQUEST_ID, id);
    }
}

/// A header value. The text must be valid in a header, as all texts of the service are.
pub(crate) fn value(text: impl Into<Bytes>) -> HeaderValue {
    HeaderValue::from_maybe_shared(text.into()).unwrap_or(HeaderValue::from_static(""))
}

fn code_value(code: &ErrorCode) -> HeaderValue {
    value(code.as_str().to_owned())
}

fn content_type(level: Metadata) -> HeaderValue {
    // Constants, because creating a header value checks every byte.
    const FULL: HeaderValue = HeaderValue::from_static(Metadata::Full.content_type());
    const MINIMAL: HeaderValue = HeaderValue::from_static(Metadata::Minimal.content_type());
    const NONE: HeaderValue = HeaderValue::from_static(Metadata::None.content_type());
    match level {
        Metadata::Full => FULL,
        Metadata::Minimal => MINIMAL,
        Metadata::None => NONE,
    }
}

/// The `Date` header. It is formatted once a second.
fn date(now: DateTime) -> HeaderValue {
    thread_local! {
        static CACHED: RefCell<(i64, HeaderValue)> =
            const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    let second = unix_seconds(now);
    CACHED.with_borrow_mut(|(at, text)| {
        if *at != second {
            *text = instant(now);
            *at = second;
        }
        text.clone()
    })
}

/// An instant in the format of HTTP headers. Not cached, unlike the current time.
pub(crate) fn instant(instant: DateTime) -> HeaderValue {
    value(instant.to_http())
}

/// Generates request ids: a prefix per server, and a number. Servers started at different instants
/// have different prefixes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: [u8; 24],
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(seed: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let text = format!(
            "{:08x}-{:04x}-0072-{:04x}-",
            mixed >> 32,
            mixed >> 16 & 0xFFFF,
            mixed & 0xFFFF
        );
        let mut prefix = *b"00000000-0000-0072-0000-";
        prefix.copy_from_slice(text.as_bytes());
        Self { prefix, next: AtomicU64::new(0) }
    }

    /// A new request id, 36 characters in the format of a GUID.
    pub(crate) fn next(&self) -> HeaderValue {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut text = [b'0'; 36];
        text[..24].copy_from_slice(&self.prefix);
        for digit in text[24..].iter_mut().rev() {
            *digit = DIGITS[usize::try_from(number & 0xF).unwrap_or_default()];
            number >>= 4;
        }
        value(Bytes::copy_from_slice(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_unique_guids() {
        let ids = RequestIds::new(7);
        let (one, two) = (ids.next(), ids.next());
        assert_ne!(one, two);
        for id in [one, two] {
            let text = id.to_str().unwrap();
            assert_eq!(text.len(), 36);
            assert_eq!(text.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        }
    }
}
