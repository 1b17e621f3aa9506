//! Finds the HTTP messages in a `multipart/mixed` body, and the head and body of each.
//!
//! One pass over the lines of the body. Lines end with CRLF, or with LF, which several clients
//! send. A body that stops before the end of its last message is an error, because messages may be
//! missing. Requests need not close the outermost level, see [`Ending`].

mod numbered;
mod render;

use crate::shown;
use std::fmt;
use std::ops::Range;

pub use numbered::{Numbered, numbered};
pub use render::ResponseWriter;

/// The error in a batch, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchError {
    /// The position in the body, in bytes from its start.
    pub at: usize,
    /// The error at that position.
    pub fault: BatchFault,
}

/// The kind of error in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchFault {
    /// A part is neither an HTTP message nor a changeset of them.
    ContentType,
    /// A header does not have the form `name: value`.
    Header,
    /// The `Content-Type` is not `multipart/mixed` or names no boundary.
    NoBoundary,
    /// The batch is empty, without even a changeset.
    NoPart,
    /// A changeset contains a query.
    QueryInChangeset,
    /// There is more than one changeset or query.
    SecondPart,
    /// A message does not start with a request line or a status line.
    StartLine,
    /// The body ends before its closing delimiter.
    Truncated,
    /// A write is outside a changeset.
    WriteOutsideChangeset,
}

impl BatchError {
    /// Creates an error at this byte of the body.
    pub const fn new(at: usize, fault: BatchFault) -> Self {
        Self { at, fault }
    }
}

impl fmt::Display for BatchError {
    /// Shows no part of the body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            BatchFault::ContentType => "the part is neither application/http nor multipart/mixed",
            BatchFault::Header => "the header is not `name: value`",
            BatchFault::NoBoundary => "the Content-Type is not multipart/mixed with a boundary",
            BatchFault::NoPart => "the batch is empty",
            BatchFault::QueryInChangeset => "a changeset may not contain a query",
            BatchFault::SecondPart => "a batch may have one changeset or one query, not more",
            BatchFault::StartLine => "the message does not begin with a request or status line",
            BatchFault::Truncated => "the body ends before its closing delimiter",
            BatchFault::WriteOutsideChangeset => "a write must stand in a changeset",
        };
        write!(f, "bad batch: {what} (at byte {})", self.at)
    }
}

impl std::error::Error for BatchError {}

/// A part on the outermost level.
#[derive(Clone, Debug)]
pub enum Part {
    /// A changeset.
    Changeset {
        /// Its position.
        at: usize,
        /// The range of each message in it.
        messages: Vec<Range<usize>>,
    },
    /// A single message.
    Message(Range<usize>),
}

/// How the outermost level may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With `--boundary--`. All responses do, and one that does not was truncated.
    Closed,
    /// With any text after a closed changeset. The service accepts such requests:
    /// `azure_data_tables` 0.21 for Rust ends all of its batches with `--boundary`.
    Open,
}

/// The parts of a body. There is at least one.
pub fn parts(content_type: &str, body: &[u8], ending: Ending) -> Result<Vec<Part>, BatchError> {
    let outer = boundary(content_type).ok_or(BatchError::new(0, BatchFault::NoBoundary))?;
    let mut reader = Reader::new(body, 0);
    let mut parts = Vec::new();
    let mut delimiter = reader.skip_to_delimiter(outer)?;
    while !delimiter.closes {
        let at = reader.at;
        if ending == Ending::Open && !parts.is_empty() && reader.only_space_follows() {
            break;
        }
        match reader.content_type()? {
            Content::Http => {
                let (message, next) = reader.message(outer, None)?;
                parts.push(Part::Message(message));
                delimiter = next;
            }
            Content::Multipart(inner) => {
                let messages = reader.changeset(outer, inner)?;
                parts.push(Part::Changeset { at, messages });
                delimiter = match reader.skip_to_delimiter(outer) {
                    Err(_) if ending == Ending::Open => break,
                    found => found?,
                };
            }
        }
    }
    if parts.is_empty() {
        return Err(BatchError::new(reader.at, BatchFault::NoPart));
    }
    Ok(parts)
}

/// The header lines of a message.
#[derive(Clone, Debug)]
pub struct Head {
    /// The range of the lines.
    pub headers: Range<usize>,
    /// The value of `Content-Length`, if it has one.
    pub content_length: Option<usize>,
    /// The start of the body, after the empty line.
    pub end: usize,
}

/// A header line: its name, its value without surrounding white space, and their positions.
#[derive(Clone)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The start of the line.
    pub at: usize,
    /// The range of the value. It is always within the line, even if it is empty.
    pub value_at: Range<usize>,
}

shown! {
    /// Shows neither the name nor the value.
    [] Header<'_>: at
}

/// The first line of a message, and the start of its header lines.
pub fn start_line(bytes: &[u8], extent: Range<usize>) -> Result<(Range<usize>, usize), BatchError> {
    let mut reader = Reader::new(&bytes[..extent.end], extent.start);
    loop {
        match reader.line() {
            // Some clients send an empty line between the part's head and the message.
            Some(line) if line.is_empty() => {}
            Some(line) => return Ok((line, reader.at)),
            None => return Err(BatchError::new(extent.start, BatchFault::StartLine)),
        }
    }
}

/// The header lines that start here. Passes each to `see`.
pub fn head<'a>(
    bytes: &'a [u8],
    range: Range<usize>,
    mut see: impl FnMut(Header<'a>) -> Result<(), BatchError>,
) -> Result<Head, BatchError> {
    let mut reader = Reader::new(&bytes[..range.end], range.start);
    let mut headers = range.start..range.start;
    let mut content_length = None;
    // The empty line may be missing at the end, because the delimiter includes its line break.
    while let Some(line) = reader.line() {
        if line.is_empty() {
            break;
        }
        headers.end = line.end;
        let header = header(bytes, line)?;
        if header.name.eq_ignore_ascii_case(b"Content-Length") {
            content_length = decimal(header.value);
        }
        see(header)?;
    }
    Ok(Head { headers, content_length, end: reader.at })
}

fn header(bytes: &[u8], line: Range<usize>) -> Result<Header<'_>, BatchError> {
    let (at, end) = (line.start, line.end);
    let fault = BatchError::new(at, BatchFault::Header);
    let line = &bytes[line];
    let Some(colon) = memchr::memchr(b':', line) else { return Err(fault) };
    let (name, rest) = line.split_at(colon);
    if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
        return Err(fault);
    }
    // The rest of the line after the white space, so that no range extends beyond the line.
    let rest = rest[1..].trim_ascii_start();
    let value = rest.trim_ascii_end();
    let start = end.saturating_sub(rest.len());
    Ok(Header { name, value, at, value_at: start..start.saturating_add(value.len()) })
}

/// A number of digits only; `None` also if it is too large for any body.
pub fn decimal(digits: &[u8]) -> Option<usize> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The body within `range`: as long as `Content-Length` states, if only line breaks follow.
/// Otherwise everything except the surrounding line breaks, which are not part of JSON, and which
/// some clients add before the body and others after it.
pub fn body(bytes: &[u8], range: Range<usize>, content_length: Option<usize>) -> Range<usize> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let body = &bytes[range.clone()];
    if let Some(len) = content_length
        && body.get(len..).is_some_and(|rest| rest.iter().all(is_break))
    {
        return range.start..range.start.saturating_add(len);
    }
    let start = body.iter().take_while(|byte| is_break(byte)).count();
    let end = body[start..].iter().rev().take_while(|byte| is_break(byte)).count();
    range.start.saturating_add(start)..range.end.saturating_sub(end)
}

/// The boundary in a `Content-Type` of `multipart/mixed`.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    (!value.is_empty()).then_some(value)
}

/// The content of a part, according to its head.
enum Content<'a> {
    Http,
    /// A changeset with this boundary.
    Multipart(&'a str),
}

/// A line that starts with `--` and a boundary.
struct Delimiter {
    /// Whether it is the closing one, `--boundary--`.
    closes: bool,
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    /// The last head of a part that was an HTTP message. Usually all heads are the same.
    http: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    fn new(body: &'a [u8], at: usize) -> Self {
        Self { body, at, http: None }
    }

    /// The next line without its line break; `None` at the end.
    fn line(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let rest = self.body.get(start..).filter(|rest| !rest.is_empty())?;
        let Some(len) = memchr::memchr(b'\n', rest) else {
            self.at = self.body.len();
            return Some(start..self.at);
        };
        self.at = start.saturating_add(len).saturating_add(1);
        let line = &rest[..len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(start..start.saturating_add(line.len()))
    }

    /// Skips everything up to and including the next delimiter line.
    fn skip_to_delimiter(&mut self, boundary: &str) -> Result<Delimiter, BatchError> {
        while let Some(line) = self.line() {
            if let Some(delimiter) = delimiter(&self.body[line], boundary) {
                return Ok(delimiter);
            }
        }
        Err(self.truncated())
    }

    /// Reads a part's head up to the empty line.
    fn content_type(&mut self) -> Result<Content<'a>, BatchError> {
        let at = self.at;
        if let Some(http) = self.http
            && self.body[at..].starts_with(http)
        {
            self.at = at.saturating_add(http.len());
            return Ok(Content::Http);
        }
        let mut content = None;
        loop {
            let line = self.line().ok_or_else(|| self.truncated())?;
            if line.is_empty() {
                break;
            }
            let Header { name, value, at: line_at, .. } = header(self.body, line)?;
            if !name.eq_ignore_ascii_case(b"Content-Type") {
                continue;
            }
            let value = std::str::from_utf8(value)
                .map_err(|_| BatchError::new(line_at, BatchFault::ContentType))?;
            let media_type = value.split(';').next().unwrap_or_default().trim();
            content = Some(if media_type.eq_ignore_ascii_case("application/http") {
                Content::Http
            } else if media_type.eq_ignore_ascii_case("multipart/mixed") {
                let inner = boundary(value);
                Content::Multipart(inner.ok_or(BatchError::new(line_at, BatchFault::NoBoundary))?)
            } else {
                return Err(BatchError::new(line_at, BatchFault::ContentType));
            });
        }
        if let Some(Content::Http) = content {
            self.http = Some(&self.body[at..self.at]);
        }
        content.ok_or(BatchError::new(at, BatchFault::ContentType))
    }

    /// Reads a changeset up to its closing delimiter.
    fn changeset(&mut self, outer: &str, inner: &str) -> Result<Vec<Range<usize>>, BatchError> {
        let mut messages = Vec::new();
        let mut next = loop {
            let line = self.line().ok_or_else(|| self.truncated())?;
            let line_at = line.start;
            let line = &self.body[line];
            if let Some(found) = delimiter(line, inner) {
                break found;
            }
            if delimiter(line, outer).is_some() {
                return Err(BatchError::new(line_at, BatchFault::Truncated));
            }
        };
        while !next.closes {
            let at = self.at;
            let Content::Http = self.content_type()? else {
                return Err(BatchError::new(at, BatchFault::ContentType));
            };
            let (message, found) = self.message(inner, Some(outer))?;
            messages.push(message);
            next = found;
        }
        Ok(messages)
    }

    /// Reads a message up to the next delimiter. If there is an outer level, its delimiter must not
    /// come first.
    fn message(
        &mut self,
        boundary: &str,
        above: Option<&str>,
    ) -> Result<(Range<usize>, Delimiter), BatchError> {
        let start = self.at;
        loop {
            let line = self.line().ok_or_else(|| self.truncated())?;
            let line_at = line.start;
            let line = &self.body[line];
            if let Some(found) = delimiter(line, boundary) {
                // The line break before a delimiter is part of the delimiter.
                let before = &self.body[start..line_at];
                let before = before.strip_suffix(b"\n").unwrap_or(before);
                let before = before.strip_suffix(b"\r").unwrap_or(before);
                return Ok((start..start.saturating_add(before.len()), found));
            }
            if above.is_some_and(|above| delimiter(line, above).is_some()) {
                return Err(BatchError::new(line_at, BatchFault::Truncated));
            }
        }
    }

    fn only_space_follows(&self) -> bool {
        self.body.get(self.at..).is_none_or(|rest| rest.trim_ascii().is_empty())
    }

    fn truncated(&self) -> BatchError {
        BatchError::new(self.body.len(), BatchFault::Truncated)
    }
}

/// Whether `line` is `--boundary` or `--boundary--`, optionally followed by white space.
fn delimiter(line: &[u8], boundary: &str) -> Option<Delimiter> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?.trim_ascii_end();
    match rest {
        b"" => Some(Delimiter { closes: false }),
        b"--" => Some(Delimiter { closes: true }),
        _ => None,
    }
}
