//! The client's half of a batch request: operations as they are added, written once.

#![expect(clippy::arithmetic_side_effects, reason = "lengths of what is in memory")]

use std::io::Write as _;

use bytes::Bytes;

/// Writes the body of a batch request with one changeset.
///
/// Every operation is appended to one buffer, in the shape that the official Python library sends.
/// The limits of the service ([`limits`](rowkey_wire::limits)) are the caller's to keep.
#[derive(Debug)]
pub(crate) struct BatchWriter {
    id: String,
    body: Vec<u8>,
    /// How many operations have been added.
    pub(super) operations: usize,
}

impl BatchWriter {
    /// An empty batch. `id` makes its boundaries, `batch_{id}` and `changeset_{id}`, so it must not
    /// appear in what is sent: a random UUID.
    pub(crate) fn new(id: &str) -> Self {
        let mut body = Vec::with_capacity(1024);
        // Writing to a `Vec` cannot fail, here and below.
        let _ = write!(
            body,
            "--batch_{id}\r\nContent-Type: multipart/mixed; boundary=changeset_{id}\r\n\r\n"
        );
        Self { id: id.to_owned(), body, operations: 0 }
    }

    /// Makes room for this many bytes of operations at once.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    /// Appends an operation.
    ///
    /// `target` is the absolute address of the table or entity. `Content-Length` is added behind
    /// `headers` when there is a body. Line breaks in a target or header are written as spaces, so that
    /// no value can add a header or an operation of its own.
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

    /// How many bytes [`operation`](Self::operation) appends in a batch whose id has `id` bytes, with
    /// a target of `target` bytes, from the eleventh operation on; each of the first ten is one byte
    /// shorter.
    pub(crate) fn operation_len(
        id: usize,
        method: &str,
        target: usize,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> usize {
        let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let body = body.map_or(0, |body| {
            // A number of bytes has as many digits as its logarithm says.
            let digits = body.len().checked_ilog10().map_or(1, |log| log as usize + 1);
            "Content-Length: \r\n".len() + digits + body.len()
        });
        OPERATION + id + method.len() + target + headers + body
    }

    /// What a batch whose id has `id` bytes takes besides its operations.
    pub(crate) const fn envelope_len(id: usize) -> usize {
        OPENING + CLOSING + 4 * id
    }

    /// The length in bytes that the finished body has if nothing more is added.
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

    /// The request line and the headers of an operation.
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

/// A batch of one point query, which has no changeset: its `Content-Type` and its body.
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

/// What [`BatchWriter::new`] begins with, without the two ids.
const OPENING: usize =
    "--batch_\r\nContent-Type: multipart/mixed; boundary=changeset_\r\n\r\n".len();

/// What an operation takes besides the id, method, target, headers and body: a number of two
/// digits, a request line, and the line ends around the body.
const OPERATION: usize = "--changeset_\r\nContent-Type: application/http\r\n\
    Content-Transfer-Encoding: binary\r\nContent-ID: 99\r\n\r\n\
     \x20 HTTP/1.1\r\n\r\n\r\n"
    .len();

/// What [`BatchWriter::finish`] adds, without the two ids.
const CLOSING: usize = "--changeset_--\r\n\r\n--batch_--\r\n".len();
