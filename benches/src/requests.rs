//! Requests as bytes, signed beforehand, so that sending them costs next to nothing.

use std::fmt::Write as _;

use crate::model::{Place, Reading};
use crate::sign::{ACCOUNT, Signer, date};

/// How many entities a partition has, except in the table that is one partition.
pub const PER_PARTITION: usize = 1_000;

const BOUNDARY: &str = "multipart/mixed; boundary=batch_1";

/// Writes requests for one server.
#[derive(Clone, Debug)]
pub struct Writer {
    pub(crate) host: String,
    pub(crate) sas: String,
    signer: Signer,
}

impl Writer {
    /// For a server at `host`, with its port.
    pub fn new(host: String) -> Self {
        let signer = Signer::new();
        Self { host, sas: signer.account_sas(), signer }
    }

    pub fn create_table(&self, table: &str) -> Vec<u8> {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        self.write("POST", "/Tables", "application/json", body.as_bytes())
    }

    pub fn delete_table(&self, table: &str) -> Vec<u8> {
        self.write("DELETE", &format!("/Tables('{table}')"), "", b"")
    }

    pub fn insert(&self, table: &str, number: usize, per_partition: usize) -> Vec<u8> {
        let body = Reading::numbered(number, per_partition).json();
        self.write("POST", &format!("/{table}"), "application/json", &body)
    }

    pub fn get(&self, table: &str, number: usize, per_partition: usize) -> Vec<u8> {
        self.write("GET", &address(table, number, per_partition), "", b"")
    }

    /// Merges all ten properties into an entity, of which `level` is new.
    pub fn merge(&self, table: &str, number: usize, per_partition: usize, level: i32) -> Vec<u8> {
        let reading = Reading { level, ..Reading::numbered(number, per_partition) };
        let address = address(table, number, per_partition);
        self.write("PATCH", &address, "application/json", &reading.json())
    }

    pub fn delete(&self, table: &str, number: usize, per_partition: usize) -> Vec<u8> {
        self.write("DELETE", &address(table, number, per_partition), "", b"")
    }

    /// An entity group transaction of inserts.
    pub fn batch(&self, table: &str, numbers: std::ops::Range<usize>, per: usize) -> Vec<u8> {
        let readings: Vec<_> = numbers.map(|number| Reading::numbered(number, per)).collect();
        let address = format!("http://{}/{ACCOUNT}/{table}", self.host);
        let body = batch(&address, &readings);
        self.write("POST", "/$batch", BOUNDARY, body.as_bytes())
    }

    /// A whole partition: a page of 1,000.
    pub fn page(&self, table: &str, partition: usize) -> Vec<u8> {
        self.query(table, &format!("PartitionKey eq 'p{partition:05}'"))
    }

    /// 100 rows of a partition.
    pub fn range(&self, table: &str, partition: usize, from: usize) -> Vec<u8> {
        let to = from + 100;
        let filter = format!(
            "PartitionKey eq 'p{partition:05}' and RowKey ge '{from:07}' and RowKey lt '{to:07}'"
        );
        self.query(table, &filter)
    }

    /// One in a hundred of the first partition.
    pub fn filtered(&self, table: &str, level: usize) -> Vec<u8> {
        self.query(table, &format!("PartitionKey eq 'p00000' and Level eq {level}"))
    }

    /// All of a table that satisfies a filter, from a place on.
    pub fn everything(
        &self,
        table: &str,
        filter: Option<&str>,
        from: Option<(&str, &str)>,
    ) -> Vec<u8> {
        let mut target = format!("/{table}()?");
        if let Some(filter) = filter {
            let filter = filter.replace('+', "%2B").replace(' ', "%20");
            let _ = write!(target, "&$filter={filter}");
        }
        if let Some((partition, row)) = from {
            let _ = write!(target, "&NextPartitionKey={partition}&NextRowKey={row}");
        }
        self.write("GET", &target, "", b"")
    }

    fn query(&self, table: &str, filter: &str) -> Vec<u8> {
        let filter = filter.replace(' ', "%20");
        self.write("GET", &format!("/{table}()?$filter={filter}"), "", b"")
    }

    fn write(&self, method: &str, target: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
        let target = format!("/{ACCOUNT}{target}");
        let path = target.split('?').next().unwrap_or_default();
        let date = date();
        let authorization = self.signer.authorization(method, content_type, &date, path);
        let mut head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2019-02-02\r\nAuthorization: {authorization}\r\n\
             Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n",
            self.host,
        );
        if matches!(method, "PATCH" | "DELETE") {
            head.push_str("If-Match: *\r\n");
        }
        if !body.is_empty() {
            let length = body.len();
            let _ = write!(
                head,
                "Prefer: return-no-content\r\nContent-Type: {content_type}\r\n\
                 Content-Length: {length}\r\n"
            );
        }
        head.push_str("\r\n");
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        request
    }
}

fn address(table: &str, number: usize, per_partition: usize) -> String {
    let Place { partition, row } = Place::of(number, per_partition);
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

/// The body of a transaction that inserts `readings`, as it is written by hand; its boundary is
/// `batch_1`.
pub fn batch(address: &str, readings: &[Reading]) -> String {
    inserts(address, &readings.iter().map(Reading::json).collect::<Vec<_>>())
}

/// The body of a transaction that inserts entities, which are JSON.
pub fn inserts(address: &str, entities: &[Vec<u8>]) -> String {
    let mut body = String::with_capacity(entities.len() * 1_500);
    body.push_str("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n");
    for json in entities {
        let _ = write!(
            body,
            "--changeset_1\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\nPOST {address} HTTP/1.1\r\n\
             Accept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\n\
             Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\nContent-Length: {}\r\n\r\n{}\r\n",
            json.len(),
            std::str::from_utf8(json).unwrap_or_default(),
        );
    }
    body.push_str("--changeset_1--\r\n--batch_1--\r\n");
    body
}
