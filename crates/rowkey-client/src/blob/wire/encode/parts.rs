//! The shared parts of requests: paths, conditions, headers.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowkey_wire::auth::Service;
use rowkey_wire::blob::ContentHeaders;
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{checksum, name};
use rowkey_wire::etag::Match;
use rowkey_wire::headers::http_date;
use uuid::Uuid;

use crate::transport::Request;

/// The characters that are not escaped in the value of a query parameter.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The same for the path, in which a blob's name can have slashes.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// The container and the name of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobPath<'a> {
    /// The container.
    pub(crate) container: &'a str,
    /// The blob.
    pub(crate) blob: &'a str,
}

/// The preconditions of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// It has this `ETag`, or it exists (`If-Match`).
    pub(crate) matches: Option<Match>,
    /// It does not have this `ETag`, or it does not exist (`If-None-Match`).
    pub(crate) none_match: Option<Match>,
    /// It was changed after this time (`If-Modified-Since`), in whole seconds.
    pub(crate) modified_since: Option<DateTime<Utc>>,
    /// It was not changed after this time (`If-Unmodified-Since`), in whole seconds.
    pub(crate) unmodified_since: Option<DateTime<Utc>>,
    /// The lease that the caller holds on it.
    pub(crate) lease: Option<Uuid>,
}

impl Conditions {
    /// No conditions.
    pub(crate) const NONE: Self = Self {
        matches: None,
        none_match: None,
        modified_since: None,
        unmodified_since: None,
        lease: None,
    };

    /// Adds the conditions to the headers of a request.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        self.write_named(
            headers,
            [
                header::IF_MATCH,
                header::IF_NONE_MATCH,
                header::IF_MODIFIED_SINCE,
                header::IF_UNMODIFIED_SINCE,
                names::LEASE_ID,
            ],
        );
    }

    /// The same for the source of a copy.
    pub(super) fn write_for_source(&self, headers: &mut HeaderMap) {
        self.write_named(
            headers,
            [
                names::SOURCE_IF_MATCH,
                names::SOURCE_IF_NONE_MATCH,
                names::SOURCE_IF_MODIFIED_SINCE,
                names::SOURCE_IF_UNMODIFIED_SINCE,
                names::SOURCE_LEASE_ID,
            ],
        );
    }

    fn write_named(&self, headers: &mut HeaderMap, names: [HeaderName; 5]) {
        let [matches, none_match, modified, unmodified, lease] = names;
        let tag = |value: &Option<Match>| value.as_ref().map(|value| value.as_str().to_owned());
        let date = |value: Option<DateTime<Utc>>| value.map(http_date);
        set(headers, matches, tag(&self.matches));
        set(headers, none_match, tag(&self.none_match));
        set(headers, modified, date(self.modified_since));
        set(headers, unmodified, date(self.unmodified_since));
        set(headers, lease, self.lease.map(|lease| lease.to_string()));
    }
}

/// The path of a container.
pub(super) fn container(name: &str, query: &str) -> String {
    format!("/{name}?restype=container{query}")
}

/// The path of a blob.
pub(super) fn blob(path: BlobPath<'_>, query: &str) -> String {
    let BlobPath { container, blob } = path;
    // Other clients omit the root container; the service also accepts its name.
    let container = if container.is_empty() { name::ROOT } else { container };
    format!("/{container}/{}{query}", utf8_percent_encode(blob, PATH))
}

/// Adds a query parameter.
pub(super) fn parameter(target: &mut String, name: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    target.push(if target.contains('?') { '&' } else { '?' });
    target.push_str(name);
    target.push('=');
    target.extend(utf8_percent_encode(value, UNRESERVED));
}

/// A request without a body.
pub(super) fn bare(method: Method, target: String) -> Request {
    with_body(method, target, Bytes::new())
}

/// A request whose body is content of a blob.
pub(super) fn with_body(method: Method, target: String, body: Bytes) -> Request {
    Request { service: Service::Blob, method, target, headers: HeaderMap::new(), body }
}

/// A request whose body is an XML document.
pub(super) fn document(target: String, document: String) -> Request {
    let mut request = with_body(Method::PUT, target, document.into());
    request.headers.insert(header::CONTENT_TYPE, XML);
    request
}

/// Sets a header, unless its value is not valid in a header.
pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<String>) {
    if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
        headers.insert(name, value);
    }
}

/// Adds the content headers of a blob.
pub(super) fn describe(headers: &mut HeaderMap, content: &ContentHeaders) {
    for (name, value) in [
        (names::CACHE_CONTROL, &content.cache_control),
        (names::CONTENT_DISPOSITION, &content.disposition),
        (names::CONTENT_ENCODING, &content.encoding),
        (names::CONTENT_LANGUAGE, &content.language),
        (names::CONTENT_TYPE, &content.content_type),
    ] {
        if let Some(value) = value {
            headers.insert(name, value.clone());
        }
    }
    set(headers, names::CONTENT_MD5, content.md5.as_deref().map(checksum::encode));
}

/// Adds the checksums of the body.
pub(super) fn sum(headers: &mut HeaderMap, sums: &rowkey_wire::blob::Sums) {
    let md5 = HeaderName::from_static("content-md5");
    set(headers, md5, sums.md5.map(|md5| checksum::encode(&md5)));
    set(headers, names::CONTENT_CRC64, sums.crc64.map(|crc64| checksum::encode(&crc64)));
}
