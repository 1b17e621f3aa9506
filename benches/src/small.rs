//! Requests to queues and blobs. A shared access signature in the query signs them: the receipt that
//! deletes a message is known only when the message was given out, and signing then would take the
//! load generator's time.

use std::rc::Rc;

use crate::load::{Operation, Step};
use crate::requests::Writer;
use crate::sign::ACCOUNT;

/// The 64-byte pattern of a blob, and the number of repetitions.
pub const BLOB_LINE: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDE\n";
pub const BLOB_LINES: usize = 64;

/// The size of a message, in bytes.
const MESSAGE: usize = 1 << 10;

impl Writer {
    pub fn create_queue(&self) -> Vec<u8> {
        self.signed("PUT", "work?", "", b"")
    }

    pub fn create_container(&self) -> Vec<u8> {
        self.signed("PUT", "files?restype=container&", "", b"")
    }

    /// Puts a message, gets the next one, and deletes the one that was got.
    pub fn through_the_queue(&self, number: usize) -> Operation {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessage><MessageText>{number:0MESSAGE$}\
             </MessageText></QueueMessage>"
        );
        let writer = self.clone();
        Operation(vec![
            Step::Ready(self.signed("POST", "work/messages?", XML, body.as_bytes())),
            Step::Ready(self.signed("GET", "work/messages?", "", b"")),
            Step::After(Rc::new(move |answer| {
                let answer = String::from_utf8_lossy(answer);
                let (id, receipt) = (between(&answer, "MessageId"), between(&answer, "PopReceipt"));
                let receipt = receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
                let target = format!("work/messages/{id}?popreceipt={receipt}&");
                writer.signed("DELETE", &target, "", b"")
            })),
        ])
    }

    /// Puts a block blob of 4 KiB and gets it.
    pub fn blob_and_back(&self, number: usize) -> Operation {
        let target = format!("files/{number:07}?");
        let headers = "Content-Type: application/octet-stream\r\nx-ms-blob-type: BlockBlob\r\n";
        let body = BLOB_LINE.repeat(BLOB_LINES);
        Operation(vec![
            Step::Ready(self.signed("PUT", &target, headers, body.as_bytes())),
            Step::Ready(self.signed("GET", &target, "", b"")),
        ])
    }

    /// A request for `target`, which ends where the signature follows.
    fn signed(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let Self { host, sas, .. } = self;
        let length = if method == "GET" || method == "DELETE" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} /{ACCOUNT}/{target}{sas} HTTP/1.1\r\nHost: {host}\r\n\
             x-ms-version: 2019-02-02\r\n{headers}{length}\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}

const XML: &str = "Content-Type: application/xml\r\n";

/// The text of the first element with this name.
pub(crate) fn between<'a>(xml: &'a str, name: &str) -> &'a str {
    let Some((_, rest)) = xml.split_once(&format!("<{name}>")) else { return "" };
    rest.split('<').next().unwrap_or_default()
}
