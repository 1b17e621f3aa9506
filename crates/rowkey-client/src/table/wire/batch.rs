//! The client's encoding of entity group transactions: several operations in one `multipart/mixed` body.
//! Operations are written as they are added, only once. [`crate::transport::batch`] decodes the response.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of data in memory")]

use std::io::Write as _;

use bytes::Bytes;

/// Writes the body of a batch request with one changeset.
///
/// Every operation is appended to one buffer, in the format of the official Python library. The
/// caller checks the limits of the service ([`limits`](rowkey_wire::limits)).
#[derive(Debug)]
pub(crate) struct BatchWriter {
    id: String,
    body: Vec<u8>,
    /// The number of operations.
    operations: usize,
}

impl BatchWriter {
    /// Starts an empty batch. Its boundaries are `batch_{id}` and `changeset_{id}`, so `id` must
    /// not occur in the content: use a random UUID.
    pub(crate) fn new(id: &str) -> Self {
        let mut body = Vec::with_capacity(1024);
        // Writing to a `Vec` cannot fail, here and below.
        let _ = write!(
            body,
            "--batch_{id}\r\nContent-Type: multipart/mixed; boundary=changeset_{id}\r\n\r\n"
        );
        Self { id: id.to_owned(), body, operations: 0 }
    }

    /// Reserves space for this many bytes of operations.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    /// Appends an operation.
    ///
    /// `target` is the absolute URL of the table or entity. `Content-Length` is added after
    /// `headers` if there is a body. Line breaks in a target or header are written as spaces, so
    /// that no value can inject a header or an operation.
    pub(crate) fn operation(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) {
        self.body.extend_from_slice(b"--changeset_");
        self.body.extend_from_slice(self.id.as_bytes());
        self.body.extend_from_slice(
            b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n",
        );
        let _ = write!(self.body, "Content-ID: {}\r\n\r\n", self.operations);
        self.push_head(method, target, headers);
        if let Some(body) = body {
            let _ = write!(self.body, "Content-Length: {}\r\n\r\n", body.len());
            self.body.extend_from_slice(body);
        } else {
            self.body.extend_from_slice(b"\r\n");
        }
        self.body.extend_from_slice(b"\r\n");
        self.operations += 1;
    }

    /// The number of bytes that [`operation`](Self::operation) appends in a batch whose id has `id`
    /// bytes, with a target of `target` bytes, from the eleventh operation on; each of the first
    /// ten is one byte shorter.
    pub(crate) fn operation_len(
        id: usize,
        method: &str,
        target: usize,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> usize {
        let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let body = body.map_or(0, |body| {
            // The logarithm gives the number of digits.
            let digits = body.len().checked_ilog10().map_or(1, |log| log as usize + 1);
            "Content-Length: \r\n".len() + digits + body.len()
        });
        OPERATION + id + method.len() + target + headers + body
    }

    /// The size of a batch whose id has `id` bytes, without its operations.
    pub(crate) const fn envelope_len(id: usize) -> usize {
        OPENING + CLOSING + 4 * id
    }

    /// The size in bytes of the finished body if nothing more is added.
    pub(crate) const fn len(&self) -> usize {
        self.body.len() + CLOSING + 2 * self.id.len()
    }

    /// The `Content-Type` of the request.
    pub(crate) fn content_type(&self) -> String {
        format!("multipart/mixed; boundary=batch_{}", self.id)
    }

    /// The finished body.
    pub(crate) fn finish(mut self) -> Bytes {
        let id = &self.id;
        let _ = write!(self.body, "--changeset_{id}--\r\n\r\n--batch_{id}--\r\n");
        self.body.into()
    }

    /// Writes the request line and the headers of an operation.
    fn push_head(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        self.push_text(method);
        self.body.push(b' ');
        self.push_text(target);
        self.body.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in headers {
            self.push_text(name);
            self.body.extend_from_slice(b": ");
            self.push_text(value);
            self.body.extend_from_slice(b"\r\n");
        }
    }

    fn push_text(&mut self, text: &str) {
        let start = self.body.len();
        self.body.extend_from_slice(text.as_bytes());
        while let Some(at) = memchr::memchr2(b'\r', b'\n', &self.body[start..]) {
            self.body[start + at] = b' ';
        }
    }
}

/// Encodes a batch of one point query, which has no changeset: its `Content-Type` and its body.
///
/// `id` and `target` are as for [`BatchWriter`].
pub(crate) fn encode_query(id: &str, target: &str, headers: &[(&str, &str)]) -> (String, Bytes) {
    let mut out = BatchWriter { id: id.to_owned(), body: Vec::with_capacity(512), operations: 1 };
    let _ = write!(
        out.body,
        "--batch_{id}\r\nContent-Type: application/http\r\n\
         Content-Transfer-Encoding: binary\r\n\r\n"
    );
    out.push_head("GET", target, headers);
    let _ = write!(out.body, "\r\n\r\n--batch_{id}--\r\n");
    (out.content_type(), out.body.into())
}

/// The text that [`BatchWriter::new`] writes, without the two ids.
const OPENING: usize =
    "--batch_\r\nContent-Type: multipart/mixed; boundary=changeset_\r\n\r\n".len();

/// The text of an operation without the id, method, target, headers and body: a number of two
/// digits, a request line, and the line ends around the body.
const OPERATION: usize = "--changeset_\r\nContent-Type: application/http\r\n\
    Content-Transfer-Encoding: binary\r\nContent-ID: 99\r\n\r\n\
     \x20 HTTP/1.1\r\n\r\n\r\n"
    .len();

/// The text that [`BatchWriter::finish`] writes, without the two ids.
const CLOSING: usize = "--changeset_--\r\n\r\n--batch_--\r\n".len();

#[cfg(test)]
mod tests;
