//! The server's half of a batch response: the answers in the bytes that the service sends.
//!
//! Clients read these with parsers of very different patience, so no line break may move.

use std::io::Write as _;

use bytes::Bytes;

/// Writes the body of a batch response, one answer after the other.
#[derive(Debug)]
pub struct ResponseWriter {
    batch_id: String,
    /// None: the answer to a query, which is in no changeset.
    changeset_id: Option<String>,
    body: Vec<u8>,
}

impl ResponseWriter {
    /// The response to a changeset. The ids, UUIDs, make the boundaries.
    pub fn new(batch_id: &str, changeset_id: &str) -> Self {
        let mut body = Vec::with_capacity(1024);
        // Writing to a `Vec` cannot fail, here and below.
        let _ = write!(
            body,
            "--batchresponse_{batch_id}\r\n\
             Content-Type: multipart/mixed; boundary=changesetresponse_{changeset_id}\r\n\r\n"
        );
        Self { batch_id: batch_id.to_owned(), changeset_id: Some(changeset_id.to_owned()), body }
    }

    /// The response to a query in a batch, which is not in a changeset.
    pub fn query(batch_id: &str) -> Self {
        Self { batch_id: batch_id.to_owned(), changeset_id: None, body: Vec::with_capacity(1024) }
    }

    /// Appends an answer. `headers` are written as given, in that order.
    pub fn part(&mut self, status: u16, reason: &str, headers: &[(&str, &str)], body: &[u8]) {
        let out = &mut self.body;
        let _ = match &self.changeset_id {
            Some(id) => write!(out, "--changesetresponse_{id}\r\n"),
            None => write!(out, "--batchresponse_{}\r\n", self.batch_id),
        };
        let _ = write!(
            out,
            "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             HTTP/1.1 {status} {reason}\r\n"
        );
        for (name, value) in headers {
            let _ = write!(out, "{name}: {value}\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }

    /// The `Content-Type` and the body of the response.
    pub fn finish(mut self) -> (String, Bytes) {
        if let Some(id) = &self.changeset_id {
            let _ = write!(self.body, "--changesetresponse_{id}--\r\n");
        }
        let _ = write!(self.body, "--batchresponse_{}--\r\n", self.batch_id);
        (format!("multipart/mixed; boundary=batchresponse_{}", self.batch_id), self.body.into())
    }
}
