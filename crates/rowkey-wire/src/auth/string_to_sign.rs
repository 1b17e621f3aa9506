//! The string to sign of Shared Key and Shared Key Lite, and the `Authorization` header.
//!
//! Both the client (to sign) and the server (to verify) use it, so each format is tested against
//! signatures that other libraries made.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::header_order;
use crate::headers::MS_DATE;

/// A storage service. Each has its own rules for signatures.
///
/// In serde formats it is `"blob"`, `"queue"` or `"table"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// Blob storage.
    Blob,
    /// Queue storage.
    Queue,
    /// Table storage.
    Table,
}

/// The scheme by which a request is signed with the account key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Signs the method and all relevant headers.
    SharedKey,
    /// Signs fewer of them; the official table libraries use it.
    SharedKeyLite,
}

impl Scheme {
    /// The scheme's name in the `Authorization` header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "SharedKey",
            Self::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// The parts of a request that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct Unsigned<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path exactly as encoded on the wire, including the account segment of path-style
    /// addresses (`http://127.0.0.1:10002/devstoreaccount1/..`).
    pub path: &'a str,
    /// The text after the `?`, still encoded.
    pub query: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The length of the body in bytes.
    pub content_length: u64,
}

/// The string to sign of `request`.
///
/// `account` is the primary name, without `-secondary`. With a path-style address it appears
/// twice in the result, which is what the service expects.
pub fn string_to_sign(
    service: Service,
    scheme: Scheme,
    account: &str,
    request: &Unsigned<'_>,
) -> String {
    match service {
        Service::Table => table(scheme, account, request),
        Service::Blob | Service::Queue => blob_or_queue(scheme, account, request),
    }
}

/// The value of the `Authorization` header for a signature, in pieces.
pub const fn authorization<'a>(
    scheme: Scheme,
    account: &'a str,
    signature: &'a str,
) -> [&'a str; 5] {
    [scheme.name(), " ", account, ":", signature]
}

/// Signs only the headers Content-MD5, Content-Type and the date, and of the query only `comp`.
fn table(scheme: Scheme, account: &str, request: &Unsigned<'_>) -> String {
    let headers = request.headers;
    let date = headers.get(MS_DATE).or_else(|| headers.get(header::DATE));
    let mut text =
        String::with_capacity(account.len().saturating_add(request.path.len()).saturating_add(160));
    if scheme == Scheme::SharedKey {
        push_line(&mut text, request.method);
        push_header_line(&mut text, headers, &CONTENT_MD5);
        push_header_line(&mut text, headers, &header::CONTENT_TYPE);
    }
    if let Some(date) = date {
        push_value(&mut text, date);
    }
    text.push('\n');
    push_short_resource(&mut text, account, request);
    text
}

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

fn blob_or_queue(scheme: Scheme, account: &str, request: &Unsigned<'_>) -> String {
    let headers = request.headers;
    let mut text = String::with_capacity(request.path.len().saturating_add(512));
    push_line(&mut text, request.method);
    if scheme == Scheme::SharedKey {
        push_header_line(&mut text, headers, &header::CONTENT_ENCODING);
        push_header_line(&mut text, headers, &header::CONTENT_LANGUAGE);
        if request.content_length > 0 {
            // Since version 2015-02-21 empty instead of 0.
            text.push_str(&request.content_length.to_string());
        }
        text.push('\n');
    }
    push_header_line(&mut text, headers, &CONTENT_MD5);
    push_header_line(&mut text, headers, &header::CONTENT_TYPE);
    if headers.contains_key(MS_DATE) {
        // The date is signed among the `x-ms-` headers.
        text.push('\n');
    } else {
        push_header_line(&mut text, headers, &header::DATE);
    }
    if scheme == Scheme::SharedKey {
        for name in [
            &header::IF_MODIFIED_SINCE,
            &header::IF_MATCH,
            &header::IF_NONE_MATCH,
            &header::IF_UNMODIFIED_SINCE,
            &header::RANGE,
        ] {
            push_header_line(&mut text, headers, name);
        }
    }
    push_ms_headers(&mut text, headers);
    match scheme {
        Scheme::SharedKey => push_full_resource(&mut text, account, request),
        Scheme::SharedKeyLite => push_short_resource(&mut text, account, request),
    }
    text
}

/// All `x-ms-` headers in the service's order, including those with an empty value. (Header values
/// contain no line breaks here, so nothing has to be unfolded.)
fn push_ms_headers(text: &mut String, headers: &HeaderMap) {
    let mut names: Vec<&HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-ms-")).collect();
    names.sort_unstable_by(|a, b| header_order::compare(a.as_str(), b.as_str()));
    for name in names {
        text.push_str(name.as_str());
        text.push(':');
        push_values(text, headers, name);
        text.push('\n');
    }
}

/// `/account/path`, and `?comp=..` if the query has it.
fn push_short_resource(text: &mut String, account: &str, request: &Unsigned<'_>) {
    push_path(text, account, request.path);
    let comp = request.query.and_then(|query| {
        query.split('&').map(name_and_value).find(|(name, _)| name.eq_ignore_ascii_case("comp"))
    });
    if let Some((_, value)) = comp {
        text.push_str("?comp=");
        text.push_str(value);
    }
}

/// `/account/path`, then a line with the decoded values for every name in the query.
fn push_full_resource(text: &mut String, account: &str, request: &Unsigned<'_>) {
    push_path(text, account, request.path);
    let Some(query) = request.query else { return };
    let mut parameters: Vec<(String, Cow<'_, str>)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(name_and_value)
        .map(|(name, value)| (decode(name).to_lowercase(), decode(value)))
        .collect();
    parameters.sort_unstable();
    let mut previous: Option<&str> = None;
    for (name, value) in &parameters {
        if previous == Some(name.as_str()) {
            text.push(',');
        } else {
            text.push('\n');
            text.push_str(name);
            text.push(':');
        }
        text.push_str(value);
        previous = Some(name);
    }
}

fn push_path(text: &mut String, account: &str, path: &str) {
    text.push('/');
    text.push_str(account);
    text.push_str(if path.is_empty() { "/" } else { path });
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The header's value, if any, and a line break.
fn push_header_line(text: &mut String, headers: &HeaderMap, name: &HeaderName) {
    if let Some(value) = headers.get(name) {
        push_value(text, value);
    }
    text.push('\n');
}

fn push_values(text: &mut String, headers: &HeaderMap, name: &HeaderName) {
    for (i, value) in headers.get_all(name).iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        push_value(text, value);
    }
}

fn push_value(text: &mut String, value: &HeaderValue) {
    let bytes = value.as_bytes().trim_ascii();
    match std::str::from_utf8(bytes) {
        Ok(value) => text.push_str(value),
        // Latin-1, the encoding of header values before UTF-8.
        Err(_) => text.extend(bytes.iter().map(|byte| char::from(*byte))),
    }
}

fn name_and_value(pair: &str) -> (&str, &str) {
    pair.split_once('=').unwrap_or((pair, ""))
}

/// A `+` is a space, as in query parsers: Go's libraries send a space this way, and sign the space.
fn decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}
