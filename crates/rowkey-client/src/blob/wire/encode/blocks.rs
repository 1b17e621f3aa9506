//! Blocks, block lists, and appends.

use bytes::Bytes;
use http::Method;
use rowkey_wire::blob::BlockSource;
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{AppendLimits, ContentHeaders, Sums};
use rowkey_wire::xml::Writer;

use super::parts::{
    BlobPath, Conditions, blob, describe, document, parameter, set, sum, with_body,
};
use crate::service::wire::metadata::{self, MetadataError};
use crate::transport::Request;

/// [Put Block](https://learn.microsoft.com/rest/api/storageservices/put-block). `id` is the base64 of at most
/// 64 bytes, with the same length for all blocks of a blob. Of the conditions, only the lease counts.
pub(crate) fn put_block(
    path: BlobPath<'_>,
    id: &str,
    block: Bytes,
    sums: &Sums,
    conditions: &Conditions,
) -> Request {
    let mut target = blob(path, "?comp=block");
    parameter(&mut target, "blockid", Some(id));
    let mut request = with_body(Method::PUT, target, block);
    sum(&mut request.headers, sums);
    let lease = conditions.lease.map(|lease| lease.to_string());
    set(&mut request.headers, names::LEASE_ID, lease);
    request
}

/// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list): replaces
/// the blob with these blocks. Ids are base64.
pub(crate) fn put_block_list<'a, 'b>(
    path: BlobPath<'_>,
    blocks: impl IntoIterator<Item = (BlockSource, &'b str)>,
    content: &ContentHeaders,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = document(blob(path, "?comp=blocklist"), block_list(blocks));
    metadata::encode(&mut request.headers, metadata)?;
    describe(&mut request.headers, content);
    conditions.write(&mut request.headers);
    Ok(request)
}

/// [Append Block](https://learn.microsoft.com/rest/api/storageservices/append-block).
pub(crate) fn append_block(
    path: BlobPath<'_>,
    block: Bytes,
    limits: &AppendLimits,
    sums: &Sums,
    conditions: &Conditions,
) -> Request {
    let mut request = with_body(Method::PUT, blob(path, "?comp=appendblock"), block);
    sum(&mut request.headers, sums);
    limit(&mut request, limits);
    conditions.write(&mut request.headers);
    request
}

fn limit(request: &mut Request, limits: &AppendLimits) {
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    set(&mut request.headers, names::APPEND_POSITION, text(limits.position));
    set(&mut request.headers, names::MAX_SIZE, text(limits.max_size));
}

/// The body of Put Block List. Ids are base64.
pub(crate) fn block_list<'a>(blocks: impl IntoIterator<Item = (BlockSource, &'a str)>) -> String {
    let mut writer = Writer::request();
    writer.start("BlockList");
    for (source, id) in blocks {
        writer.leaf(source.element(), id);
    }
    writer.end("BlockList");
    writer.finish()
}
