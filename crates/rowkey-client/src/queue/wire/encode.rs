//! Encodes requests, one function for each operation: the client's half.
//!
//! Queue names are assumed to be valid; the caller checks them first, see
//! [`rowkey_wire::queue::check_name`]. Numbers are not checked; the service refuses those beyond its limits
//! with `OutOfRangeQueryParameterValue`.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of data in memory")]

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowkey_wire::auth::Service;
use rowkey_wire::xml::{SignedIdentifier, Writer, encode_acl};

use crate::service::wire::metadata::{self, MetadataError};
use crate::transport::Request;

/// The characters that are not escaped in a path or in the value of a query parameter.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const XML: HeaderValue = HeaderValue::from_static("application/xml");

/// The parameters of a listing of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing<'a> {
    /// The prefix of their names.
    pub(crate) prefix: Option<&'a str>,
    /// The marker from the previous page.
    pub(crate) marker: Option<&'a str>,
    /// The maximum number of queues in a page, 1 to 5,000.
    pub(crate) max: Option<u32>,
    /// Whether to include their metadata.
    pub(crate) metadata: bool,
}

/// The time to live of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until it is deleted.
    Forever,
    /// For this number of seconds.
    Seconds(u32),
}

/// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1).
pub(crate) fn list(listing: &Listing<'_>) -> Request {
    let mut target = "/?comp=list".to_owned();
    parameter(&mut target, "prefix", listing.prefix);
    parameter(&mut target, "marker", listing.marker);
    parameter(&mut target, "maxresults", listing.max.map(|n| n.to_string()).as_deref());
    parameter(&mut target, "include", listing.metadata.then_some("metadata"));
    bare(Method::GET, target)
}

/// [Create Queue](https://learn.microsoft.com/rest/api/storageservices/create-queue4): 201 if it is
/// new, 204 if it exists with the same metadata.
pub(crate) fn create<'a>(
    queue: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Request, MetadataError> {
    let mut request = bare(Method::PUT, format!("/{queue}"));
    metadata::encode(&mut request.headers, metadata)?;
    Ok(request)
}

/// [Delete Queue](https://learn.microsoft.com/rest/api/storageservices/delete-queue3).
pub(crate) fn delete(queue: &str) -> Request {
    bare(Method::DELETE, format!("/{queue}"))
}

/// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata),
/// whose response also has the number of messages.
pub(crate) fn get_metadata(queue: &str) -> Request {
    bare(Method::GET, format!("/{queue}?comp=metadata"))
}

/// [Set Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata):
/// replaces all of it.
pub(crate) fn set_metadata<'a>(
    queue: &str,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Request, MetadataError> {
    let mut request = bare(Method::PUT, format!("/{queue}?comp=metadata"));
    metadata::encode(&mut request.headers, metadata)?;
    Ok(request)
}

/// [Get Queue ACL](https://learn.microsoft.com/rest/api/storageservices/get-queue-acl).
/// [`rowkey_wire::xml::decode_acl`] decodes the response.
pub(crate) fn get_acl(queue: &str) -> Request {
    bare(Method::GET, format!("/{queue}?comp=acl"))
}

/// [Set Queue ACL](https://learn.microsoft.com/rest/api/storageservices/set-queue-acl).
pub(crate) fn set_acl(queue: &str, identifiers: &[SignedIdentifier]) -> Request {
    document(Method::PUT, format!("/{queue}?comp=acl"), encode_acl(identifiers))
}

/// [Put Message](https://learn.microsoft.com/rest/api/storageservices/put-message). Without a
/// lifetime, the message lives 7 days; without a visibility timeout, it is visible at once.
pub(crate) fn put(
    queue: &str,
    text: &str,
    lifetime: Option<Lifetime>,
    visibility_seconds: Option<u32>,
) -> Request {
    let mut target = format!("/{queue}/messages");
    let lifetime = lifetime.map(|lifetime| match lifetime {
        Lifetime::Forever => "-1".to_owned(),
        Lifetime::Seconds(seconds) => seconds.to_string(),
    });
    parameter(
        &mut target,
        "visibilitytimeout",
        visibility_seconds.map(|n| n.to_string()).as_deref(),
    );
    parameter(&mut target, "messagettl", lifetime.as_deref());
    document(Method::POST, target, message(text))
}

/// [Get Messages](https://learn.microsoft.com/rest/api/storageservices/get-messages): `count` is 1
/// to 32; the visibility timeout is 30 seconds if it is not set.
pub(crate) fn get(queue: &str, count: u32, visibility_seconds: Option<u32>) -> Request {
    let mut target = format!("/{queue}/messages?numofmessages={count}");
    parameter(
        &mut target,
        "visibilitytimeout",
        visibility_seconds.map(|n| n.to_string()).as_deref(),
    );
    bare(Method::GET, target)
}

/// [Peek Messages](https://learn.microsoft.com/rest/api/storageservices/peek-messages): `count` is
/// 1 to 32.
pub(crate) fn peek(queue: &str, count: u32) -> Request {
    bare(Method::GET, format!("/{queue}/messages?peekonly=true&numofmessages={count}"))
}

/// [Update Message](https://learn.microsoft.com/rest/api/storageservices/update-message). Without a
/// text, the message's text does not change.
pub(crate) fn update(
    queue: &str,
    id: &str,
    pop_receipt: &str,
    visibility_seconds: u32,
    text: Option<&str>,
) -> Request {
    let mut target = handle(queue, id, pop_receipt);
    parameter(&mut target, "visibilitytimeout", Some(&visibility_seconds.to_string()));
    match text {
        Some(text) => document(Method::PUT, target, message(text)),
        None => bare(Method::PUT, target),
    }
}

/// [Delete Message](https://learn.microsoft.com/rest/api/storageservices/delete-message2).
pub(crate) fn delete_message(queue: &str, id: &str, pop_receipt: &str) -> Request {
    bare(Method::DELETE, handle(queue, id, pop_receipt))
}

/// [Clear Messages](https://learn.microsoft.com/rest/api/storageservices/clear-messages).
pub(crate) fn clear(queue: &str) -> Request {
    bare(Method::DELETE, format!("/{queue}/messages"))
}

fn handle(queue: &str, id: &str, pop_receipt: &str) -> String {
    let mut target = format!("/{queue}/messages/");
    target.extend(utf8_percent_encode(id, UNRESERVED));
    parameter(&mut target, "popreceipt", Some(pop_receipt));
    target
}

pub(crate) fn message(text: &str) -> String {
    let mut writer = Writer::request();
    writer.reserve(text.len() + 80);
    writer.start("QueueMessage");
    writer.leaf("MessageText", text);
    writer.end("QueueMessage");
    writer.finish()
}

fn bare(method: Method, target: String) -> Request {
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(ACCEPT, XML);
    Request { service: Service::Queue, method, target, headers, body: Bytes::new() }
}

/// A request whose body is an XML document.
fn document(method: Method, target: String, document: String) -> Request {
    let mut request = bare(method, target);
    request.headers.insert(CONTENT_TYPE, XML);
    request.body = document.into();
    request
}

fn parameter(target: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(name);
        target.push('=');
        target.extend(utf8_percent_encode(value, UNRESERVED));
    }
}
