//! Blob batches: several requests in one `multipart/mixed` body, and their responses.
//!
//! Each part of the request holds an HTTP request without a body. A `Content-ID` in the part's own
//! head tells which response belongs to it. Only `Content-ID` and the media type are read from a
//! part's head.
//!
//! Reference: [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch).

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

/// The most subrequests in a batch.
pub(crate) const MAX_SUBREQUESTS: usize = 256;
/// The most bytes in the body of a batch.
pub(crate) const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The most bytes in the `Content-ID` of a part.
const MAX_CONTENT_ID: usize = 64;

/// A request in a batch.
#[derive(Clone, Debug)]
pub(crate) struct Subrequest<'a> {
    /// The `Content-ID` of the part.
    pub(crate) content_id: &'a str,
    /// The method.
    pub(crate) method: Method,
    /// The address: a path and a query, exactly as sent.
    pub(crate) uri: Uri,
    /// The headers.
    pub(crate) headers: HeaderMap,
}

/// The error for a body that is not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidBatch {
    /// The position in the body, in bytes from its start.
    pub(crate) at: usize,
    /// The error at that position.
    pub(crate) problem: &'static str,
}

impl std::fmt::Display for InvalidBatch {
    /// Shows no part of the body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (at byte {})", self.problem, self.at)
    }
}

impl std::error::Error for InvalidBatch {}

/// Parses the subrequests of a batch, of which there is at least one. Stops after one more than the
/// maximum.
pub(crate) fn parse<'a>(
    body: &'a [u8],
    boundary: &str,
) -> Result<Vec<Subrequest<'a>>, InvalidBatch> {
    let mut lines = Lines { body, at: 0 };
    // Text before the first delimiter is ignored.
    let mut is_open = loop {
        if let Some(closes) = delimiter(lines.require()?, boundary) {
            break !closes;
        }
    };
    let mut subrequests = Vec::new();
    while is_open {
        let (subrequest, closes) = read_part(&mut lines, boundary)?;
        subrequests.push(subrequest);
        is_open = !closes && subrequests.len() <= MAX_SUBREQUESTS;
    }
    if subrequests.is_empty() {
        return Err(lines.invalid("the batch is empty"));
    }
    Ok(subrequests)
}

/// Parses a part and the delimiter after it; returns whether that delimiter closes the batch.
fn read_part<'a>(
    lines: &mut Lines<'a>,
    boundary: &str,
) -> Result<(Subrequest<'a>, bool), InvalidBatch> {
    let mut content_id = None;
    let mut is_http = false;
    while let Some((name, value)) = lines.header()? {
        if name.eq_ignore_ascii_case(b"content-id") {
            let id = std::str::from_utf8(value).ok();
            let is_token = |id: &&str| id.bytes().all(|b| b.is_ascii_graphic()) && !id.is_empty();
            content_id = id.filter(is_token).filter(|id| id.len() <= MAX_CONTENT_ID);
        } else if name.eq_ignore_ascii_case(b"content-type") {
            is_http = value.eq_ignore_ascii_case(b"application/http");
        }
    }
    if !is_http {
        return Err(lines.invalid("the part is not of type application/http"));
    }
    let content_id = content_id.ok_or_else(|| lines.invalid("the part has no Content-ID"))?;
    let line = lines.require()?;
    let (method, uri) = request_line(line)
        .ok_or_else(|| lines.invalid("the subrequest does not begin with a request line"))?;
    let mut headers = HeaderMap::new();
    while let Some((name, value)) = lines.header()? {
        let name = HeaderName::from_bytes(name).map_err(|_| lines.invalid(HEADER))?;
        let value = HeaderValue::from_bytes(value).map_err(|_| lines.invalid(HEADER))?;
        headers.try_append(name, value).map_err(|_| lines.invalid("there are too many headers"))?;
    }
    let closes = loop {
        let line = lines.require()?;
        match delimiter(line, boundary) {
            Some(closes) => break closes,
            None if line.is_empty() => {}
            None => return Err(lines.invalid("a subrequest has no body")),
        }
    };
    Ok((Subrequest { content_id, method, uri, headers }, closes))
}

const HEADER: &str = "the header is not `name: value`";

fn request_line(line: &[u8]) -> Option<(Method, Uri)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    Some((Method::from_bytes(method.as_bytes()).ok()?, target.parse().ok()?))
}

/// Whether a line is `--boundary` (false) or `--boundary--` (true).
fn delimiter(line: &[u8], boundary: &str) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?.trim_ascii_end();
    match rest {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

/// The name and the value of a header.
type Header<'a> = (&'a [u8], &'a [u8]);

/// The lines of a body, which end with CRLF or with LF.
struct Lines<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line, without its end.
    fn require(&mut self) -> Result<&'a [u8], InvalidBatch> {
        let rest = &self.body[self.at..];
        if rest.is_empty() {
            return Err(self.invalid("the body ends before its closing delimiter"));
        }
        let (line, behind) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], rest.get(end.saturating_add(1)..).unwrap_or_default()),
            None => (rest, &rest[rest.len()..]),
        };
        self.at = self.body.len().saturating_sub(behind.len());
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next header; `None` at the empty line that ends a head.
    fn header(&mut self) -> Result<Option<Header<'a>>, InvalidBatch> {
        let line = self.require()?;
        if line.is_empty() {
            return Ok(None);
        }
        let colon = memchr::memchr(b':', line).ok_or_else(|| self.invalid(HEADER))?;
        let (name, value) = line.split_at(colon);
        Ok(Some((name, value.strip_prefix(b":").unwrap_or(value).trim_ascii())))
    }

    fn invalid(&self, problem: &'static str) -> InvalidBatch {
        InvalidBatch { at: self.at, problem }
    }
}

/// Writes the body of the response to a batch.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    boundary: String,
    body: String,
}

impl ResponseWriter {
    /// Starts a body, whose boundary contains `id`.
    pub(crate) fn new(id: &str) -> Self {
        Self { boundary: format!("batchresponse_{id}"), body: String::new() }
    }

    /// Adds a response. A response without `content_id` is about the whole batch, and is the only
    /// one.
    pub(crate) fn add(
        &mut self,
        content_id: Option<&str>,
        status: StatusCode,
        reason: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) {
        let out = &mut self.body;
        // Writing to a `String` cannot fail.
        let _ = write!(out, "--{}\r\nContent-Type: application/http\r\n", self.boundary);
        if let Some(id) = content_id {
            let _ = write!(out, "Content-ID: {id}\r\n");
        }
        let _ = write!(out, "\r\nHTTP/1.1 {} {reason}\r\n", status.as_u16());
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            let _ = write!(out, "{name}: {value}\r\n");
        }
        out.push_str("\r\n");
        if !body.is_empty() {
            out.push_str(&String::from_utf8_lossy(body));
            out.push_str("\r\n");
        }
    }

    /// The `Content-Type` of the response, and its body.
    pub(crate) fn finish(mut self) -> (String, String) {
        let _ = write!(self.body, "--{}--", self.boundary);
        (format!("multipart/mixed; boundary={}", self.boundary), self.body)
    }
}

#[cfg(test)]
mod tests {
    use rowkey_wire::multipart::boundary;

    use super::*;

    /// As `azure-storage-blob` for Python sends it.
    const PYTHON: &str = "--===1==\r\nContent-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n\
        DELETE /acc/c/a%20b? HTTP/1.1\r\nx-ms-date: Tue, 01 Oct 2019 19:15:49 GMT\r\n\
        Authorization: SharedKey acc:x=\r\n\r\n\r\n\
        --===1==\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\n\
        PUT /acc/c/b?comp=tier HTTP/1.1\r\nContent-Length: 0\r\nx-ms-access-tier: Cool\r\n\r\n\r\n\
        --===1==--\r\n";

    fn error(body: &str) -> &'static str {
        parse(body.as_bytes(), "b").unwrap_err().problem
    }

    #[test]
    fn subrequests_of_official_clients_parse() {
        assert_eq!(boundary("multipart/mixed; boundary====1=="), Some("===1=="));
        assert_eq!(boundary("Multipart/Mixed; Boundary=\"b\""), Some("b"));
        for text in ["multipart/mixed", "multipart/mixed; boundary=", "text/plain; boundary=b"] {
            assert_eq!(boundary(text), None, "{text}");
        }
        // Line ends of LF only, text before the first delimiter, no line end after the last.
        let bare = PYTHON.replace("\r\n", "\n");
        let framed = format!("before\r\n{}", PYTHON.trim_end());
        for body in [PYTHON, &bare, &framed] {
            let parts = parse(body.as_bytes(), "===1==").unwrap();
            let [delete, tier] = parts.as_slice() else { panic!("{parts:?}") };
            assert_eq!((delete.content_id, &delete.method), ("0", &Method::DELETE));
            assert_eq!((delete.uri.path(), delete.uri.query()), ("/acc/c/a%20b", Some("")));
            assert_eq!(delete.headers["authorization"], "SharedKey acc:x=");
            assert_eq!((tier.content_id, tier.uri.query()), ("1", Some("comp=tier")));
            assert_eq!(tier.headers["x-ms-access-tier"], "Cool");
        }
    }

    #[test]
    fn malformed_batches_are_rejected() {
        let part = |id: &str, message: &str| {
            format!("--b\r\nContent-Type: application/http\r\n{id}\r\n{message}\r\n\r\n--b--\r\n")
        };
        let id = "Content-ID: 0\r\n";
        assert_eq!(error(""), "the body ends before its closing delimiter");
        assert_eq!(error("--b--\r\n"), "the batch is empty");
        assert_eq!(error("--b\r\n\r\n"), "the part is not of type application/http");
        let no_id = "the part has no Content-ID";
        assert_eq!(error(&part("", "DELETE /c/b HTTP/1.1")), no_id);
        assert_eq!(error(&part("Content-ID: a b\r\n", "DELETE /c/b HTTP/1.1")), no_id);
        let line = "the subrequest does not begin with a request line";
        for message in ["DELETE /c/b", "DELETE c/b HTTP/1.1", "DEL ETE /c/b HTTP/1.1", ""] {
            assert_eq!(error(&part(id, message)), line, "{message}");
        }
        assert_eq!(error(&part(id, "DELETE /c/b HTTP/1.1\r\nno header")), HEADER);
        let content = error(&part(id, "DELETE /c/b HTTP/1.1\r\n\r\ncontent"));
        assert_eq!(content, "a subrequest has no body");
        let cut = part(id, "DELETE /c/b HTTP/1.1").replace("--b--", "");
        assert_eq!(error(&cut), "the body ends before its closing delimiter");
    }

    #[test]
    fn parsing_stops_after_the_maximum_number_of_subrequests() {
        let part = "--b\r\nContent-Type: application/http\r\nContent-ID: 7\r\n\r\n\
                    DELETE /c/b HTTP/1.1\r\n\r\n";
        let body = format!("{}--b--", part.repeat(1000));
        assert_eq!(parse(body.as_bytes(), "b").unwrap().len(), MAX_SUBREQUESTS + 1);
        let body = format!("{}--b--", part.repeat(256));
        assert_eq!(parse(body.as_bytes(), "b").unwrap().len(), 256);
    }

    #[test]
    fn responses_match_recordings() {
        // test_container.test_delete_blobs_simple and test_standard_blob_tier_set_tier_api_batch
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-version", HeaderValue::from_static("2019-02-02"));
        let mut writer = ResponseWriter::new("1");
        writer.add(Some("0"), StatusCode::ACCEPTED, "Accepted", &headers, b"");
        let reason = "The specified blob does not exist.";
        writer.add(Some("1"), StatusCode::NOT_FOUND, reason, &headers, b"<Error/>");
        let (content_type, body) = writer.finish();
        assert_eq!(content_type, "multipart/mixed; boundary=batchresponse_1");
        assert_eq!(
            body,
            "--batchresponse_1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n\
             HTTP/1.1 202 Accepted\r\nx-ms-version: 2019-02-02\r\n\r\n\
             --batchresponse_1\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\n\
             HTTP/1.1 404 The specified blob does not exist.\r\nx-ms-version: 2019-02-02\r\n\r\n\
             <Error/>\r\n--batchresponse_1--"
        );
    }
}
