//! Requests written by hand over reqwest.

use reqwest::Response;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};

use super::by_hand::{self, Hand, Parts};
use super::run::{Client, Result};
use crate::model::{Page, Read, Reading};

#[derive(Debug)]
pub struct OverReqwest {
    hand: Hand,
    client: reqwest::Client,
}

impl OverReqwest {
    pub fn new(hand: Hand) -> Result<Self> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { hand, client })
    }

    /// Reads a partition, page by page: how many entities there are, and the sum of `weigh`.
    pub async fn scan(
        &self,
        partition: &str,
        weigh: impl Fn(&Read) -> u64,
    ) -> Result<(usize, u64)> {
        let (mut count, mut weight, mut next) = (0, 0, None);
        loop {
            let answer = self.send(self.hand.query_from(partition, next.as_ref())).await?;
            next = following(&answer);
            let page: Page = serde_json::from_slice(&answer.bytes().await?)?;
            count += page.value.len();
            weight += page.value.iter().map(&weigh).sum::<u64>();
            if next.is_none() {
                return Ok((count, weight));
            }
        }
    }

    /// A page of a whole table, and where the next one begins.
    pub async fn page(
        &self,
        table: &str,
        next: Option<&(String, String)>,
    ) -> Result<(bytes::Bytes, Option<(String, String)>)> {
        let answer = self.send(self.hand.page(table, next)).await?;
        let next = following(&answer);
        Ok((answer.bytes().await?, next))
    }

    /// Stores entities, which are JSON, by one transaction.
    pub async fn store(&self, table: &str, entities: &[Vec<u8>]) -> Result<bytes::Bytes> {
        let answer = self.send(self.hand.store(table, entities)).await?;
        Ok(answer.bytes().await?)
    }

    async fn send(&self, parts: Parts) -> Result<Response> {
        let mut request = match parts.method {
            "GET" => self.client.get(parts.url),
            _ => self.client.post(parts.url),
        };
        request = request
            .header("x-ms-date", parts.date)
            .header("x-ms-version", by_hand::VERSION)
            .header("x-ms-client-request-id", parts.id)
            .header(ACCEPT, by_hand::ACCEPT)
            .header("DataServiceVersion", "3.0")
            .header(AUTHORIZATION, parts.authorization);
        if !parts.body.is_empty() {
            request = request
                .header(CONTENT_TYPE, parts.content_type)
                .header("Prefer", "return-no-content")
                .body(parts.body);
        }
        Ok(request.send().await?.error_for_status()?)
    }
}

/// The continuation token of an answer.
fn following(answer: &Response) -> Option<(String, String)> {
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let partition_key = header("x-ms-continuation-NextPartitionKey").map(str::to_owned);
    let row_key = header("x-ms-continuation-NextRowKey").map(str::to_owned);
    partition_key.zip(row_key)
}

impl Client for OverReqwest {
    async fn get(&self, partition: &str, row: &str) -> Result<bool> {
        let answer = self.send(self.hand.get(partition, row)).await?;
        by_hand::entity(&answer.bytes().await?)
    }

    async fn insert(&self, reading: &Reading) -> Result<()> {
        let answer = self.send(self.hand.insert(reading)).await?;
        let etag = answer.headers().get("etag").ok_or("no ETag")?.to_str()?.to_owned();
        answer.bytes().await?;
        if etag.is_empty() { Err("an empty ETag".into()) } else { Ok(()) }
    }

    async fn transact(&self, readings: &[Reading]) -> Result<usize> {
        let answer = self.send(self.hand.transact(readings)).await?;
        by_hand::etags(&answer.bytes().await?)
    }

    async fn query(&self, partition: &str) -> Result<usize> {
        let answer = self.send(self.hand.query(partition)).await?;
        by_hand::page(&answer.bytes().await?)
    }
}
