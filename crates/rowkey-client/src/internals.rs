//! Decoders of responses and encoders of bodies that send no request, for fuzz targets, robustness
//! tests and `cargo bench`. Not part of the stable API.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response};
use rowkey_entity::internals::{Row, decode as odata};
pub use rowkey_entity::internals::{fnv1a, not_of_a_store};
use rowkey_entity::{Entity, Projection, Stored};
use rowkey_wire::auth::Sas;
use rowkey_wire::blob::BlockSource;
pub use rowkey_wire::key::compare as compare_keys;
use rowkey_wire::multipart::BatchError;
use rowkey_wire::odata::Fields;
pub use rowkey_wire::shown;

use crate::address::Address;
pub use crate::backoff::doubled;
pub use crate::blob::batch::MAX_BLOBS;
use crate::credential::Authority;
use crate::endpoint::{Endpoint, Flavor};
use crate::error::{Error, Result};
use crate::options::connection::ConnectionOptions;
pub use crate::pace::{check_wait, impatient, patient};
use crate::service::wire::{delegation, metadata};
use crate::table::row::decode_body;
use crate::table::wire::page;
use crate::transport::batch as batches;
use crate::transport::error_body::ErrorBody;
use crate::transport::http::{Http, ReadMode, TransportError};
use crate::{blob, queue, table};

/// Whether queries of a table return rows in the order of their keys. In Azure Cosmos DB they have no order.
pub fn has_order(table: &table::handle::Table) -> bool {
    table.flavor() == Flavor::Storage
}

/// Whether the credential of a table is a signature for a range of keys: entities outside of it then seem not to exist.
pub fn is_of_key_range(table: &table::handle::Table) -> bool {
    let Authority::Sas(text) = table.pipeline().credential().settled() else { return false };
    Sas::from_query(&text)
        .is_some_and(|sas| sas.start_partition_key.is_some() || sas.end_partition_key.is_some())
}

/// Posts to a service of another protocol, such as a key vault, by connections of its own with the default options.
#[derive(Clone, Debug)]
pub struct Posts(Http);

impl Posts {
    /// For addresses with this scheme, host and port.
    pub fn new(address: &Address) -> Result<Self> {
        let base = format!("{}://{}", address.scheme(), address.authority());
        let endpoint = Endpoint::parse("the address", &base)?;
        Http::new(ConnectionOptions::default(), [&endpoint]).map(Self)
    }

    /// Sends one request once, and returns a response with any status.
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::post(url).body(body)?;
        *request.headers_mut() = headers;
        // A length of 0 is sent only if it is said.
        let length = request.body().len();
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
        let sent = tokio::time::timeout(limit, self.0.send(request, ReadMode::Whole)).await;
        let lost = |error: TransportError| error.source.unwrap_or_else(|| error.what.into());
        let answer = sent?.map_err(lost)?;
        let mut response = Response::new(answer.body.map_err(lost)?);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

/// The bodies of responses that [`read`] decodes.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    Blobs,
    Containers,
    DelegationKey,
    Entity,
    Error,
    Messages,
    /// A page of entities.
    Page,
    Queues,
    Statistics,
    /// A page of table names.
    Tables,
}

/// Returns whether `body` is `what`, and passes each entity in it to `see`.
pub fn read<'de>(what: Body, body: &'de [u8], mut see: impl FnMut(&Fields<'de>)) -> bool {
    match what {
        Body::Blobs => blob::wire::decode::blobs(body).is_ok(),
        Body::Containers => blob::wire::decode::containers(body).is_ok(),
        Body::DelegationKey => delegation::decode(body).is_ok(),
        Body::Entity => {
            let mut fields = Fields::default();
            let is_entity = odata::entity(body, &mut fields).is_ok();
            see(&fields);
            is_entity
        }
        Body::Error => ErrorBody::decode(body).is_some_and(|error| {
            let _ = error.batch_index();
            true
        }),
        Body::Messages => queue::wire::decode::messages(body).is_ok(),
        Body::Page => {
            let page = page::page(body, |fields| {
                see(fields);
                Ok::<_, Infallible>(())
            });
            page.is_ok()
        }
        Body::Queues => queue::wire::decode::list(body).is_ok(),
        Body::Statistics => rowkey_wire::xml::decode_stats(body).is_ok(),
        Body::Tables => page::tables(body).is_ok(),
    }
}

/// Passes `headers` to every decoder of headers. Returns whether they held a continuation and a
/// length of 1024.
pub fn headers(headers: &HeaderMap) -> bool {
    use blob::wire::decode as blobs;
    let (properties, _) = (blobs::properties(headers), blobs::container(headers));
    let _ = (blobs::written(headers), blobs::appended(headers));
    let _ = (blobs::lease_id(headers), blobs::lease_time(headers));
    let _ = (blobs::content_md5(headers), blobs::content_crc64(headers));
    let _ = queue::wire::decode::approximate_count(headers);
    let _ = (queue::wire::decode::updated(headers), table::wire::decode::next_table(headers));
    let _ = metadata::decode(headers);
    table::wire::decode::continuation(headers).is_some() && properties.length == 1024
}

/// Returns the bodies in the response to a batch. Reads their headers as well.
pub fn batch<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<&'a [u8]>, BatchError> {
    let _ = batches::failure(content_type, body);
    let _ = blob::wire::decode::batch(content_type, body);
    let parts = batches::decode_response(content_type, body)?;
    Ok(parts.iter().map(|part| (part.header("Location"), part.body).1).collect())
}

/// Encodes the body that commits blocks, whose ids are in base64.
pub fn block_list<'a>(blocks: impl IntoIterator<Item = (BlockSource, &'a str)>) -> String {
    blob::wire::encode::block_list(blocks)
}

/// Encodes the body of an insert.
pub fn encode<E: Entity>(entity: &E) -> Result<Vec<u8>> {
    Ok(Row::of(entity)?.body)
}

/// Decodes the response to a point get.
pub fn decode<P: Projection>(body: &[u8]) -> Result<Stored<P>> {
    decode_body(body, None)
}

/// Decodes the response to a query.
pub fn decode_page<P: Projection>(body: &[u8]) -> Result<Vec<Stored<P>>> {
    let mut entities = Vec::new();
    page::page(body, |fields| {
        entities.push(Stored::decode(fields).map_err(|error| error.to_string())?);
        Ok::<_, String>(())
    })
    .map_err(|error| Error::decode(format!("{error:?}")))?;
    Ok(entities)
}

/// Runs a future whose requests are sent because of the declaration `name`: meters list them under it.
pub fn declared<F: Future>(
    name: impl Into<Arc<str>>,
    future: F,
) -> impl Future<Output = F::Output> {
    crate::cost::declared(name.into(), future)
}

/// The bytes of the request that puts a message.
pub fn message_len(body: &queue::Body) -> u64 {
    queue::wire::encode::message(body.as_str()).len() as u64
}
