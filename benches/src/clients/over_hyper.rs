//! Requests written by hand over hyper-util's client: a pool and nothing else.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::by_hand::{self, Hand, Parts};
use super::run::{Client, Result};
use crate::model::Reading;

#[derive(Debug)]
pub struct OverHyper {
    hand: Hand,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

impl OverHyper {
    pub fn new(hand: Hand) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { hand, pool: Pool::builder(TokioExecutor::new()).build(connector) }
    }

    async fn send(&self, parts: Parts) -> Result<Bytes> {
        let mut request = Request::builder()
            .method(parts.method)
            .uri(parts.url)
            .header("x-ms-date", parts.date)
            .header("x-ms-version", by_hand::VERSION)
            .header("x-ms-client-request-id", parts.id)
            .header(ACCEPT, by_hand::ACCEPT)
            .header("DataServiceVersion", "3.0")
            .header(AUTHORIZATION, parts.authorization);
        if !parts.body.is_empty() {
            request = request
                .header(CONTENT_TYPE, parts.content_type)
                .header("Prefer", "return-no-content");
        }
        let answer = self.pool.request(request.body(Full::new(parts.body.into()))?).await?;
        if !answer.status().is_success() {
            return Err("no success".into());
        }
        Ok(answer.into_body().collect().await?.to_bytes())
    }
}

impl Client for OverHyper {
    async fn get(&self, partition: &str, row: &str) -> Result<bool> {
        by_hand::entity(&self.send(self.hand.get(partition, row)).await?)
    }

    async fn insert(&self, reading: &Reading) -> Result<()> {
        self.send(self.hand.insert(reading)).await?;
        Ok(())
    }

    async fn transact(&self, readings: &[Reading]) -> Result<usize> {
        by_hand::etags(&self.send(self.hand.transact(readings)).await?)
    }

    async fn query(&self, partition: &str) -> Result<usize> {
        by_hand::page(&self.send(self.hand.query(partition)).await?)
    }
}
