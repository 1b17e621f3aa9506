//! Decoders of responses and encoders of bodies, for fuzz targets and robustness tests. Not part of
//! the stable API.

use std::convert::Infallible;

use http::HeaderMap;
use rowkey_wire::blob::BlockSource;
use rowkey_wire::multipart::BatchError;
use rowkey_wire::odata::Fields;

use crate::service::wire::error_body::ErrorBody;
use crate::service::wire::{metadata, stats};
use crate::table::wire::batch;
use crate::table::wire::odata::decode;
use crate::{blob, queue, table};

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

/// Returns whether `body` is a list of messages.
pub fn messages(body: &[u8]) -> bool {
    queue::wire::decode::messages(body).is_ok()
}

/// Returns whether `body` is a list of queues.
pub fn queues(body: &[u8]) -> bool {
    queue::wire::decode::list(body).is_ok()
}

/// Returns whether `body` is a list of containers.
pub fn containers(body: &[u8]) -> bool {
    blob::wire::decode::containers(body).is_ok()
}

/// Returns whether `body` is a list of blobs.
pub fn blobs(body: &[u8]) -> bool {
    blob::wire::decode::blobs(body).is_ok()
}

/// Returns the bodies in the response to a batch. Reads their headers as well.
pub fn batch<'a>(content_type: &str, body: &'a [u8]) -> Result<Vec<&'a [u8]>, BatchError> {
    let _ = batch::failure(content_type, body);
    let parts = batch::decode_response(content_type, body)?;
    Ok(parts.iter().map(|part| (part.header("Location"), part.body).1).collect())
}

/// Returns whether `body` is an entity, and reads it into `fields`.
pub fn entity<'de>(body: &'de [u8], fields: &mut Fields<'de>) -> bool {
    decode::entity(body, fields).is_ok()
}

/// Returns whether `body` is a page of entities, and passes each entity to `see`.
pub fn page<'de>(body: &'de [u8], mut see: impl FnMut(&Fields<'de>)) -> bool {
    let page = decode::page(body, |fields| {
        see(fields);
        Ok::<_, Infallible>(())
    });
    page.is_ok()
}

/// Returns whether `body` is a page of table names.
pub fn tables(body: &[u8]) -> bool {
    decode::tables(body).is_ok()
}

/// Encodes the body that commits blocks, whose ids are in base64.
pub fn block_list<'a>(blocks: impl IntoIterator<Item = (BlockSource, &'a str)>) -> String {
    blob::wire::encode::block_list(blocks)
}

/// Returns whether `body` is the body of an error response.
pub fn error(body: &[u8]) -> bool {
    ErrorBody::decode(body).is_some_and(|error| {
        let _ = error.batch_index();
        true
    })
}

/// Returns whether `body` is a document of replication statistics.
pub fn statistics(body: &[u8]) -> bool {
    stats::decode(body).is_ok()
}

/// Returns whether `body` is a user delegation key.
pub fn delegation_key(body: &[u8]) -> bool {
    blob::wire::delegation::decode(body).is_ok()
}
