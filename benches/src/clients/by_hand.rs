//! Code shared by both hand-written clients: URLs, signatures, bodies.

use std::fmt::Write as _;

use super::run::{Result, TABLE, WRITTEN};
use crate::model::{Page, Read, Reading};
use crate::requests::{batch, inserts};
use crate::sign::{ACCOUNT, Signer, date};

/// Version of the protocol.
pub const VERSION: &str = "2019-02-02";
pub const ACCEPT: &str = "application/json;odata=minimalmetadata";

/// Makes the parts of requests.
#[derive(Debug)]
pub struct Hand {
    base: String,
    signer: Signer,
}

/// The parts of a request.
#[derive(Debug)]
pub struct Parts {
    pub method: &'static str,
    pub url: String,
    pub content_type: &'static str,
    pub date: String,
    pub authorization: String,
    pub id: String,
    pub body: Vec<u8>,
}

impl Hand {
    pub fn new(host: &str) -> Self {
        Self { base: format!("http://{host}"), signer: Signer::new() }
    }

    pub fn get(&self, partition: &str, row: &str) -> Parts {
        let path = format!("/{ACCOUNT}/{TABLE}(PartitionKey='{partition}',RowKey='{row}')");
        self.parts("GET", &path, "", "", Vec::new())
    }

    pub fn insert(&self, reading: &Reading) -> Parts {
        let path = format!("/{ACCOUNT}/{WRITTEN}");
        self.parts("POST", &path, "", "application/json", reading.json())
    }

    pub fn transact(&self, readings: &[Reading]) -> Parts {
        let body = batch(&format!("{}/{ACCOUNT}/{WRITTEN}", self.base), readings);
        let content_type = "multipart/mixed; boundary=batch_1";
        self.parts("POST", &format!("/{ACCOUNT}/$batch"), "", content_type, body.into_bytes())
    }

    pub fn query(&self, partition: &str) -> Parts {
        self.query_from(partition, None)
    }

    /// A page of a whole table.
    pub fn page(&self, table: &str, next: Option<&(String, String)>) -> Parts {
        let query = next.map_or_else(String::new, |(partition_key, row_key)| {
            format!("?NextPartitionKey={partition_key}&NextRowKey={row_key}")
        });
        self.parts("GET", &format!("/{ACCOUNT}/{table}()"), &query, "", Vec::new())
    }

    /// A transaction that inserts or replaces entities of one partition, whose keys need no escapes.
    pub fn store(&self, table: &str, entities: &[Vec<u8>]) -> Parts {
        let body = inserts(&format!("{}/{ACCOUNT}/{table}", self.base), entities);
        let content_type = "multipart/mixed; boundary=batch_1";
        self.parts("POST", &format!("/{ACCOUNT}/$batch"), "", content_type, body.into_bytes())
    }

    /// A query with a continuation token, which needs no escapes here.
    pub fn query_from(&self, partition: &str, next: Option<&(String, String)>) -> Parts {
        let mut query = format!("?$filter=PartitionKey%20eq%20'{partition}'");
        if let Some((partition_key, row_key)) = next {
            let _ = write!(query, "&NextPartitionKey={partition_key}&NextRowKey={row_key}");
        }
        self.parts("GET", &format!("/{ACCOUNT}/{TABLE}()"), &query, "", Vec::new())
    }

    fn parts(
        &self,
        method: &'static str,
        path: &str,
        query: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Parts {
        let date = date();
        let authorization = self.signer.authorization(method, content_type, &date, path);
        let id = uuid::Uuid::new_v4().to_string();
        let url = format!("{}{path}{query}", self.base);
        Parts { method, url, content_type, date, authorization, id, body }
    }
}

pub fn entity(body: &[u8]) -> Result<bool> {
    let read: Read = serde_json::from_slice(body)?;
    Ok(!read.row_key.is_empty())
}

pub fn page(body: &[u8]) -> Result<usize> {
    let page: Page = serde_json::from_slice(body)?;
    Ok(page.value.iter().filter(|read| !read.row_key.is_empty()).count())
}

/// The ETags of a transaction's answer.
pub fn etags(body: &[u8]) -> Result<usize> {
    let body = std::str::from_utf8(body)?;
    if body.contains("\r\nHTTP/1.1 4") {
        return Err("the transaction failed".into());
    }
    let etags = body.lines().filter_map(|line| line.strip_prefix("ETag: "));
    Ok(etags.map(str::to_owned).collect::<Vec<_>>().len())
}
