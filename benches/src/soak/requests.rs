//! What the soak asks for. A shared access signature for everything signs each request, so that
//! writing one takes no time.

use std::fmt::Write as _;
use std::ops::Range;

use crate::model::Reading;
use crate::process::{SERVICES, Server, Service};
use crate::sign::{ACCOUNT, Signer};
use crate::small::{BLOB_LINE, BLOB_LINES, between};

/// The table that is only read, and its one partition of a page.
pub(crate) const STILL: &str = "still";
/// The table in which entities come and go.
pub(crate) const BUSY: &str = "busy";
/// Entities in a page, and in the partition that is read.
pub(crate) const PAGE: usize = 1_000;

/// Writes requests for one server.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    hosts: [String; SERVICES.len()],
    sas: String,
    /// An entity's properties, as they stand behind its keys.
    properties: String,
}

impl Requests {
    pub(crate) fn new(server: &Server) -> Self {
        let hosts = SERVICES.map(|service| server.host(service).to_owned());
        let json = String::from_utf8(Reading::numbered(7, PAGE).json()).unwrap_or_default();
        let at = json.find("\"Level\"").unwrap_or_default();
        Self { hosts, sas: Signer::new().account_sas(), properties: json[at..].to_owned() }
    }

    pub(crate) fn host(&self, service: Service) -> &str {
        &self.hosts[service as usize]
    }

    /// Creates the initial data.
    pub(crate) fn setup(&self) -> [(Service, Vec<u8>); 4] {
        let table = |name| format!("{{\"TableName\":\"{name}\"}}");
        [
            (Service::Table, self.table("POST", "Tables?", &table(STILL))),
            (Service::Table, self.table("POST", "Tables?", &table(BUSY))),
            (Service::Queue, self.write(Service::Queue, "PUT", "work?", "", b"")),
            (Service::Blob, self.write(Service::Blob, "PUT", "files?restype=container&", "", b"")),
        ]
    }

    pub(crate) fn insert(&self, partition: &str, row: &str) -> Vec<u8> {
        self.table("POST", &format!("{BUSY}?"), &self.entity(partition, row))
    }

    pub(crate) fn get(&self, table: &str, partition: &str, row: &str) -> Vec<u8> {
        self.table("GET", &format!("{}?", place(table, partition, row)), "")
    }

    pub(crate) fn merge(&self, partition: &str, row: &str, level: usize) -> Vec<u8> {
        let body = format!("{{\"Level\":{level}}}");
        self.table("PATCH", &format!("{}?", place(BUSY, partition, row)), &body)
    }

    pub(crate) fn delete(&self, partition: &str, row: &str) -> Vec<u8> {
        self.table("DELETE", &format!("{}?", place(BUSY, partition, row)), "")
    }

    /// The page that is always the same.
    pub(crate) fn page(&self) -> Vec<u8> {
        self.table("GET", &format!("{STILL}()?"), "")
    }

    /// A query that looks at all of it and finds one entity.
    pub(crate) fn scan(&self) -> Vec<u8> {
        let filter = format!("$filter=Site%20eq%20'last'%20or%20RowKey%20eq%20'{:07}'", PAGE - 1);
        self.table("GET", &format!("{STILL}()?{filter}&"), "")
    }

    /// A transaction that inserts rows of a partition.
    pub(crate) fn inserts(&self, table: &str, partition: &str, rows: Range<usize>) -> Vec<u8> {
        let parts = rows.map(|row| {
            let entity = self.entity(partition, &format!("{row:07}"));
            (format!("POST {} HTTP/1.1\r\n", self.address(table)), entity)
        });
        self.batch(parts)
    }

    /// One that deletes them again.
    pub(crate) fn deletes(&self, partition: &str, rows: Range<usize>) -> Vec<u8> {
        let parts = rows.map(|row| {
            let address = self.address(&place(BUSY, partition, &format!("{row:07}")));
            (format!("DELETE {address} HTTP/1.1\r\nIf-Match: *\r\n"), String::new())
        });
        self.batch(parts)
    }

    pub(crate) fn put_message(&self, text: &str) -> Vec<u8> {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        let headers = "Content-Type: application/xml\r\n";
        self.write(Service::Queue, "POST", "work/messages?", headers, body.as_bytes())
    }

    pub(crate) fn next_message(&self) -> Vec<u8> {
        self.write(Service::Queue, "GET", "work/messages?", "", b"")
    }

    /// Deletes the message that an answer has brought.
    pub(crate) fn delete_message(&self, answer: &str) -> Vec<u8> {
        let (id, receipt) = (between(answer, "MessageId"), between(answer, "PopReceipt"));
        let receipt = receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let target = format!("work/messages/{id}?popreceipt={receipt}&");
        self.write(Service::Queue, "DELETE", &target, "", b"")
    }

    pub(crate) fn put_blob(&self, name: &str) -> Vec<u8> {
        let headers = "Content-Type: application/octet-stream\r\nx-ms-blob-type: BlockBlob\r\n";
        let body = BLOB_LINE.repeat(BLOB_LINES);
        self.write(Service::Blob, "PUT", &format!("files/{name}?"), headers, body.as_bytes())
    }

    pub(crate) fn get_blob(&self, name: &str) -> Vec<u8> {
        self.write(Service::Blob, "GET", &format!("files/{name}?"), "", b"")
    }

    pub(crate) fn delete_blob(&self, name: &str) -> Vec<u8> {
        self.write(Service::Blob, "DELETE", &format!("files/{name}?"), "", b"")
    }

    fn entity(&self, partition: &str, row: &str) -> String {
        format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",{}", self.properties)
    }

    fn address(&self, resource: &str) -> String {
        format!("http://{}/{ACCOUNT}/{resource}", self.host(Service::Table))
    }

    fn batch(&self, parts: impl Iterator<Item = (String, String)>) -> Vec<u8> {
        let mut body =
            "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n".to_owned();
        for (head, json) in parts {
            let _ = write!(
                body,
                "--changeset_1\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n{head}Content-Type: application/json\r\n\
                 Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n\
                 Content-Length: {}\r\n\r\n{json}\r\n",
                json.len(),
            );
        }
        body.push_str("--changeset_1--\r\n--batch_1--\r\n");
        let headers = "Content-Type: multipart/mixed; boundary=batch_1\r\n";
        self.write(Service::Table, "POST", "$batch?", headers, body.as_bytes())
    }

    fn table(&self, method: &str, target: &str, json: &str) -> Vec<u8> {
        let headers = match method {
            "POST" => "Content-Type: application/json\r\nPrefer: return-no-content\r\n",
            "PATCH" => "Content-Type: application/json\r\nIf-Match: *\r\n",
            "DELETE" => "If-Match: *\r\n",
            _ => "",
        };
        self.write(Service::Table, method, target, headers, json.as_bytes())
    }

    /// A request for `target`, which ends where the signature follows.
    fn write(
        &self,
        service: Service,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> Vec<u8> {
        let length = if method == "GET" || method == "DELETE" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} /{ACCOUNT}/{target}{} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2019-02-02\r\n\
             Accept: application/json;odata=minimalmetadata\r\n{headers}{length}\r\n",
            self.sas,
            self.host(service),
        );
        [head.as_bytes(), body].concat()
    }
}

fn place(table: &str, partition: &str, row: &str) -> String {
    format!("{table}(PartitionKey='{partition}',RowKey='{row}')")
}
