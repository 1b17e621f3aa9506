//! Renders a batch response exactly as the service does.
//!
//! Clients read these with parsers of varying tolerance, so every line break must be in its place.

use std::io::Write as _;

use bytes::Bytes;

/// Writes the body of a batch response, one part after the other.
#[derive(Debug)]
pub struct ResponseWriter {
    batch_id: String,
    /// `None` for the response to a query, which is in no changeset.
    changeset_id: Option<String>,
    body: Vec<u8>,
}

impl ResponseWriter {
    /// The response to a changeset. The ids, UUIDs, are used in the boundaries.
    pub fn new(batch_id: &str, changeset_id: &str) -> Self {
        let mut writer = Self::query(batch_id);
        writer.push(&[
            "--batchresponse_",
            batch_id,
            "\r\nContent-Type: multipart/mixed; boundary=changesetresponse_",
            changeset_id,
            "\r\n\r\n",
        ]);
        Self { changeset_id: Some(changeset_id.to_owned()), ..writer }
    }

    /// The response to a query in a batch, which is not in a changeset.
    pub fn query(batch_id: &str) -> Self {
        Self { batch_id: batch_id.to_owned(), changeset_id: None, body: Vec::with_capacity(1024) }
    }

    /// Reserves memory for this many bytes of parts.
    pub fn reserve(&mut self, bytes: usize) {
        self.body.reserve(bytes);
    }

    /// Appends a part. `headers` are written as given, in that order.
    pub fn part(&mut self, status: u16, reason: &str, headers: &[(&str, &str)], body: &[u8]) {
        self.delimiter("\r\n");
        self.push(&["Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"]);
        // Writing to a `Vec` cannot fail.
        let _ = write!(self.body, "HTTP/1.1 {status} {reason}\r\n");
        for (name, value) in headers {
            self.push(&[name, ": ", value, "\r\n"]);
        }
        self.push(&["\r\n"]);
        self.body.extend_from_slice(body);
        self.push(&["\r\n"]);
    }

    /// The `Content-Type` and the body of the response.
    pub fn finish(mut self) -> (String, Bytes) {
        if self.changeset_id.is_some() {
            self.delimiter("--\r\n");
            self.changeset_id = None;
        }
        self.delimiter("--\r\n");
        (format!("multipart/mixed; boundary=batchresponse_{}", self.batch_id), self.body.into())
    }

    /// Appends the delimiter of the innermost open level.
    fn delimiter(&mut self, end: &str) {
        let (kind, id) = match &self.changeset_id {
            Some(id) => ("--changesetresponse_", id),
            None => ("--batchresponse_", &self.batch_id),
        };
        for text in [kind, id, end] {
            self.body.extend_from_slice(text.as_bytes());
        }
    }

    fn push(&mut self, texts: &[&str]) {
        for text in texts {
            self.body.extend_from_slice(text.as_bytes());
        }
    }
}
