//! Parses a batch request into its operations.
//!
//! This is about the format only. The caller decides how many operations are allowed, on which
//! entities and with which headers, and what to do with an empty changeset (the service accepts
//! it).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use memchr::{memmem, memrchr};
use rowkey_wire::multipart::{self, BatchError, BatchFault, Ending, Header, Part};
use rowkey_wire::shown;

use crate::wire::options::decode_path;

/// The contents of a batch request.
#[derive(Clone, Debug)]
pub(crate) enum BatchRequest<'a> {
    /// A changeset: writes that are applied together, in order. It may be empty.
    Changes(Vec<PartRequest<'a>>),
    /// A single query.
    Query(PartRequest<'a>),
}

/// One operation of a batch. It borrows from the batch's body.
#[derive(Clone)]
pub(crate) struct PartRequest<'a> {
    /// The method; `MERGE` is among them.
    pub(crate) method: Method,
    /// The address as sent: absolute, or only path and query.
    pub(crate) target: &'a str,
    /// The operation's own headers, shared by operations with identical headers.
    pub(crate) head: Arc<PartHead>,
    /// The body.
    pub(crate) body: &'a [u8],
}

/// The headers of an operation of a batch.
pub(crate) struct PartHead {
    /// All headers except `Content-Length`, which differs between operations and is implied by the
    /// body.
    pub(crate) headers: HeaderMap,
    /// `Content-ID`, if it is among these headers, because the service then echoes it. One in the
    /// head of the part is not echoed.
    pub(crate) content_id: Option<String>,
}

impl fmt::Debug for PartRequest<'_> {
    /// Shows no part of an entity: neither the body nor the keys in the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartRequest")
            .field("method", &self.method)
            .field("body_len", &self.body.len())
            .field("content_id", &self.head.content_id)
            .finish_non_exhaustive()
    }
}

shown!(PartHead: content_id);

/// Parses the body of a batch request.
///
/// Accepts CRLF or LF, `Content-ID` in either place, and lines before and after the batch. The last
/// delimiter of the batch may be missing or not closed if its changeset is closed.
pub(crate) fn parse_request<'a>(
    content_type: &str,
    body: &'a Bytes,
) -> Result<BatchRequest<'a>, BatchError> {
    let mut parts = multipart::parts(content_type, body, Ending::Open)?.into_iter();
    let first = parts.next().ok_or(BatchError::new(0, BatchFault::NoPart))?;
    if let Some(second) = parts.next() {
        let (Part::Changeset { at, .. } | Part::Message(Range { start: at, .. })) = second;
        return Err(BatchError::new(at, BatchFault::SecondPart));
    }
    match first {
        Part::Changeset { messages, .. } => {
            let mut changes = Vec::with_capacity(messages.len());
            let mut known = None;
            for extent in messages {
                let at = extent.start;
                let change = request(body, extent, &mut known)?;
                if change.method == Method::GET {
                    return Err(BatchError::new(at, BatchFault::QueryInChangeset));
                }
                changes.push(change);
            }
            Ok(BatchRequest::Changes(changes))
        }
        Part::Message(extent) => {
            let at = extent.start;
            let query = request(body, extent, &mut None)?;
            if query.method != Method::GET {
                return Err(BatchError::new(at, BatchFault::WriteOutsideChangeset));
            }
            Ok(BatchRequest::Query(query))
        }
    }
}

/// The parsed head of an operation, and its bytes.
struct ParsedHead<'a> {
    text: &'a [u8],
    /// The position of the digits of `Content-Length` in the text.
    digits: Option<Range<usize>>,
    head: Arc<PartHead>,
}

impl ParsedHead<'_> {
    /// The length of the head at the start of `rest` and its `Content-Length`, if the head is
    /// identical to this one except for that value.
    fn begins(&self, rest: &[u8]) -> Option<(usize, Option<usize>)> {
        // Without a final empty line, this head could be a prefix of a longer one.
        if !self.text.ends_with(b"\n\r\n") {
            return None;
        }
        let Some(digits) = self.digits.clone() else {
            return rest.starts_with(self.text).then_some((self.text.len(), None));
        };
        let (before, after) = (&self.text[..digits.start], &self.text[digits.end..]);
        let rest = rest.strip_prefix(before)?;
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at(length);
        let content_length = multipart::decimal(digits)?;
        let end = before.len().saturating_add(length).saturating_add(after.len());
        rest.starts_with(after).then_some((end, Some(content_length)))
    }
}

fn request<'a>(
    bytes: &'a Bytes,
    extent: Range<usize>,
    known: &mut Option<ParsedHead<'a>>,
) -> Result<PartRequest<'a>, BatchError> {
    let (start_line, at) = multipart::start_line(bytes, extent.clone())?;
    // Most operations of a batch have the same headers.
    let begun = known.as_ref().and_then(|known| {
        let begun = known.begins(&bytes[at..extent.end])?;
        Some((begun, Arc::clone(&known.head)))
    });
    let ((length, content_length), head) = if let Some(begun) = begun {
        begun
    } else {
        let (read, content_length) = head(bytes, at..extent.end)?;
        let read = known.insert(read);
        ((read.text.len(), content_length), Arc::clone(&read.head))
    };
    let body = multipart::body(bytes, at.saturating_add(length)..extent.end, content_length);
    let fault = BatchError::new(start_line.start, BatchFault::StartLine);
    let (method, target) = request_line(&bytes[start_line]).ok_or(fault)?;
    Ok(PartRequest { method, target, head, body: &bytes[body] })
}

/// Parses a head and its `Content-Length`.
fn head(bytes: &Bytes, range: Range<usize>) -> Result<(ParsedHead<'_>, Option<usize>), BatchError> {
    let start = range.start;
    let mut headers = HeaderMap::new();
    let mut digits = None;
    let head = multipart::head(bytes, range, |header| {
        let Header { name, value, at, value_at } = header;
        let fault = BatchError::new(at, BatchFault::Header);
        if name.eq_ignore_ascii_case(b"Content-Length") {
            let from_start = |at: usize| at.saturating_sub(start);
            digits = multipart::decimal(value)
                .map(|_| from_start(value_at.start)..from_start(value_at.end));
            return Ok(());
        }
        // Values are slices of the body's buffer.
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(value));
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) else {
            return Err(fault);
        };
        // A map holds up to 32,768 headers; `append` would panic on the next one.
        headers.try_append(name, value).map(drop).map_err(|_| fault)
    })?;
    let content_id = headers.get("content-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let head_of_part = Arc::new(PartHead { headers, content_id });
    let known = ParsedHead { text: &bytes[start..head.end], digits, head: head_of_part };
    Ok((known, head.content_length))
}

/// The method and target of `POST /table HTTP/1.1`. Some clients leave spaces in the target.
fn request_line(line: &[u8]) -> Option<(Method, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let (method, rest) = line.split_once(' ')?;
    let (target, version) = rest.trim_end().rsplit_once(' ')?;
    let target = target.trim();
    if target.is_empty() || !version.starts_with("HTTP/1.") {
        return None;
    }
    Some((Method::from_bytes(method.as_bytes()).ok()?, target))
}

/// The table that the first part of a batch names. The rest of the batch is not parsed.
pub(crate) fn table(body: &[u8]) -> Option<Cow<'_, str>> {
    let end = memmem::find(body, b" HTTP/1.1")?;
    let begin = memrchr(b'\n', &body[..end]).map_or(0, |at| at.saturating_add(1));
    let line = std::str::from_utf8(&body[begin..end]).ok()?;
    let (_, target) = line.split_once(' ')?;
    // Drops keys, which may contain any character, and options.
    let path = target.split(['(', '?']).next().unwrap_or(target);
    decode_path(path.rsplit('/').next()?).ok()
}
