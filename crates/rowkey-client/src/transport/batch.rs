//! Decodes the response to a batch: the result of each operation, by position. A batch that failed has a
//! successful status, so the transport reads it, too.

// Decoders read untrusted numbers, dates and lengths: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::fmt;
use std::ops::Range;

use memchr::{memchr, memmem};
use rowkey_wire::multipart::{self, BatchError, BatchFault, Ending, Header, Part};

/// The response to one operation.
///
/// Responses are in the order of the operations. Their `Content-ID` is not reliable: the service
/// leaves it out, or gives a failure the number of another operation.
#[derive(Clone, Copy)]
pub(crate) struct PartResponse<'a> {
    /// The status, such as 204.
    pub(crate) status: u16,
    /// The entity's new ETag.
    pub(crate) etag: Option<&'a str>,
    /// The body: an entity, an error, or empty.
    pub(crate) body: &'a [u8],
    headers: &'a [u8],
}

impl<'a> PartResponse<'a> {
    /// The value of a header, whose name is compared case-insensitively; `None` also if it is not
    /// UTF-8.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let mut found = None;
        let _ = multipart::head(self.headers, 0..self.headers.len(), |header| {
            if found.is_none() && header.name.eq_ignore_ascii_case(name.as_bytes()) {
                found = Some(header.value);
            }
            Ok(())
        });
        found.and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl fmt::Debug for PartResponse<'_> {
    /// Does not show any part of an entity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartResponse")
            .field("status", &self.status)
            .field("etag", &self.etag)
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Reads the response to a batch: the responses in order, or a single one if the batch failed.
///
/// Accepts responses within a changeset and outside of one (to a query), and CRLF or LF. A
/// truncated body is an error, never a shorter list.
pub(crate) fn decode_response<'a>(
    content_type: &str,
    body: &'a [u8],
) -> Result<Vec<PartResponse<'a>>, BatchError> {
    let mut responses = Vec::new();
    for part in multipart::parts(content_type, body, Ending::Closed)? {
        match part {
            Part::Changeset { messages, .. } => {
                responses.reserve(messages.len());
                for extent in messages {
                    responses.push(response(body, extent)?);
                }
            }
            Part::Message(extent) => responses.push(response(body, extent)?),
        }
    }
    Ok(responses)
}

/// The response that says why the whole batch failed, if it did; it is the only one.
///
/// Costs next to nothing if the batch succeeded, which the first response shows. An unreadable body
/// is not a failure here, but an error in [`decode_response`]; nor is a status that refuses nothing, such
/// as 302, of which it is unknown what it means.
pub(crate) fn failure<'a>(content_type: &str, body: &'a [u8]) -> Option<PartResponse<'a>> {
    let line = memmem::find(body, b"HTTP/1.1 ")?;
    let end = memchr(b'\n', &body[line..]).map_or(body.len(), |end| line.saturating_add(end));
    if status(&body[line..end]).is_some_and(is_success) {
        return None;
    }
    let parts = decode_response(content_type, body).ok()?;
    parts.into_iter().find(|part| part.status >= 400)
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Reads one message of a response.
pub(crate) fn response(bytes: &[u8], extent: Range<usize>) -> Result<PartResponse<'_>, BatchError> {
    let mut etag = None;
    let (start_line, at) = multipart::start_line(bytes, extent.clone())?;
    let head = multipart::head(bytes, at..extent.end, |Header { name, value, .. }| {
        if etag.is_none() && name.eq_ignore_ascii_case(b"ETag") {
            etag = Some(value);
        }
        Ok(())
    })?;
    let fault = BatchError::new(start_line.start, BatchFault::StartLine);
    let status = status(&bytes[start_line]).ok_or(fault)?;
    let body = multipart::body(bytes, head.end..extent.end, head.content_length);
    Ok(PartResponse {
        status,
        etag: etag.and_then(|etag| std::str::from_utf8(etag).ok()),
        body: &bytes[body],
        headers: &bytes[head.headers],
    })
}

/// The status in `HTTP/1.1 204 No Content`.
fn status(line: &[u8]) -> Option<u16> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.next().filter(|version| version.starts_with(b"HTTP/"))?;
    let status = words.next().filter(|status| status.len() == 3)?;
    std::str::from_utf8(status).ok()?.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
pub(crate) mod tests;
