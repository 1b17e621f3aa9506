//! Whole blobs, their properties, copies and snapshots.

use bytes::Bytes;
use http::{HeaderValue, Method};
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{BlobType, ContentHeaders, Sums};

use super::parts::{BlobPath, Conditions, bare, blob, describe, parameter, set, sum, with_body};
use crate::service::wire::metadata::{self, MetadataError};
use crate::transport::Request;

const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A range of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte, counted from 0.
    pub(crate) first: u64,
    /// The last byte; `None`: the end.
    pub(crate) last: Option<u64>,
    /// The checksum of the range to return, if any; the range then has at most 4 MiB.
    pub(crate) sum: Option<RangeChecksum>,
}

/// The checksum of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeChecksum {
    /// In `x-ms-content-crc64`.
    Crc64,
    /// In `Content-MD5`.
    Md5,
}

/// The effect of Delete Blob on snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteSnapshots<'a> {
    /// Deletes the blob only if it has no snapshots.
    None,
    /// Deletes the blob and its snapshots.
    Include,
    /// Deletes the snapshots, not the blob.
    Only,
    /// Deletes only this snapshot.
    One(&'a str),
}

/// A copy within an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'a> {
    /// The encoded URL of the source; with a shared access signature unless the request is signed
    /// with the account's key.
    pub(crate) source: &'a str,
    /// The conditions on the source.
    pub(crate) source_conditions: &'a Conditions,
    /// Whether the service responds only after the copy is complete.
    pub(crate) sync: bool,
}

/// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob): a block blob in one
/// request.
pub(crate) fn put_block_blob<'a>(
    path: BlobPath<'_>,
    content: Bytes,
    description: &ContentHeaders,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    sums: &Sums,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = put(path, BlobType::Block, content, description, conditions);
    sum(&mut request.headers, sums);
    metadata::encode(&mut request.headers, metadata)?;
    Ok(request)
}

/// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob): an empty append blob.
pub(crate) fn put_append<'a>(
    path: BlobPath<'_>,
    description: &ContentHeaders,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = put(path, BlobType::Append, Bytes::new(), description, conditions);
    metadata::encode(&mut request.headers, metadata)?;
    Ok(request)
}

/// [Get Blob](https://learn.microsoft.com/rest/api/storageservices/get-blob), or a range of it.
pub(crate) fn get(
    path: BlobPath<'_>,
    snapshot: Option<&str>,
    range: Option<Range>,
    conditions: &Conditions,
) -> Request {
    let mut request = read(Method::GET, blob(path, ""), snapshot, conditions);
    if let Some(Range { first, last, sum }) = range {
        let last = last.map(|last| last.to_string()).unwrap_or_default();
        set(&mut request.headers, names::RANGE, Some(format!("bytes={first}-{last}")));
        match sum {
            Some(RangeChecksum::Crc64) => request.headers.insert(names::RANGE_GET_CRC64, TRUE),
            Some(RangeChecksum::Md5) => request.headers.insert(names::RANGE_GET_MD5, TRUE),
            None => None,
        };
    }
    request
}

/// [Get Blob Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-properties).
pub(crate) fn get_properties(
    path: BlobPath<'_>,
    snapshot: Option<&str>,
    conditions: &Conditions,
) -> Request {
    read(Method::HEAD, blob(path, ""), snapshot, conditions)
}

/// [Set Blob Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-properties):
/// replaces all content headers.
pub(crate) fn set_properties(
    path: BlobPath<'_>,
    description: &ContentHeaders,
    conditions: &Conditions,
) -> Request {
    let mut request = bare(Method::PUT, blob(path, "?comp=properties"));
    describe(&mut request.headers, description);
    conditions.write(&mut request.headers);
    request
}

/// [Set Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata):
/// replaces all of it.
pub(crate) fn set_metadata<'a>(
    path: BlobPath<'_>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    described(blob(path, "?comp=metadata"), metadata, conditions)
}

/// [Snapshot Blob](https://learn.microsoft.com/rest/api/storageservices/snapshot-blob). Without
/// metadata, the snapshot has that of the blob.
pub(crate) fn snapshot<'a>(
    path: BlobPath<'_>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    described(blob(path, "?comp=snapshot"), metadata, conditions)
}

/// [Delete Blob](https://learn.microsoft.com/rest/api/storageservices/delete-blob).
pub(crate) fn delete(
    path: BlobPath<'_>,
    snapshots: DeleteSnapshots<'_>,
    conditions: &Conditions,
) -> Request {
    let one = match snapshots {
        DeleteSnapshots::One(snapshot) => Some(snapshot),
        _ => None,
    };
    let mut request = read(Method::DELETE, blob(path, ""), one, conditions);
    let value = match snapshots {
        DeleteSnapshots::Include => HeaderValue::from_static("include"),
        DeleteSnapshots::Only => HeaderValue::from_static("only"),
        DeleteSnapshots::None | DeleteSnapshots::One(_) => return request,
    };
    request.headers.insert(names::DELETE_SNAPSHOTS, value);
    request
}

/// [Copy Blob](https://learn.microsoft.com/rest/api/storageservices/copy-blob). Without metadata, the copy
/// has that of the source.
pub(crate) fn copy<'a>(
    path: BlobPath<'_>,
    copy: &Copy<'_>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = described(blob(path, ""), metadata, conditions)?;
    let headers = &mut request.headers;
    set(headers, names::COPY_SOURCE, Some(copy.source.to_owned()));
    copy.source_conditions.write_for_source(headers);
    if copy.sync {
        headers.insert(names::REQUIRES_SYNC, TRUE);
    }
    Ok(request)
}

/// [Abort Copy Blob](https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob). Of the
/// conditions only the lease applies.
pub(crate) fn abort_copy(path: BlobPath<'_>, id: &str, conditions: &Conditions) -> Request {
    let mut target = blob(path, "?comp=copy");
    parameter(&mut target, "copyid", Some(id));
    let mut request = bare(Method::PUT, target);
    request.headers.insert(names::COPY_ACTION, HeaderValue::from_static("abort"));
    set(&mut request.headers, names::LEASE_ID, conditions.lease.map(|lease| lease.to_string()));
    request
}

fn put(
    path: BlobPath<'_>,
    kind: BlobType,
    content: Bytes,
    description: &ContentHeaders,
    conditions: &Conditions,
) -> Request {
    let mut request = with_body(Method::PUT, blob(path, ""), content);
    request.headers.insert(names::BLOB_TYPE, HeaderValue::from_static(kind.as_str()));
    describe(&mut request.headers, description);
    conditions.write(&mut request.headers);
    request
}

fn read(
    method: Method,
    mut target: String,
    snapshot: Option<&str>,
    conditions: &Conditions,
) -> Request {
    parameter(&mut target, "snapshot", snapshot);
    let mut request = bare(method, target);
    conditions.write(&mut request.headers);
    request
}

fn described<'a>(
    target: String,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    conditions: &Conditions,
) -> Result<Request, MetadataError> {
    let mut request = bare(Method::PUT, target);
    metadata::encode(&mut request.headers, metadata)?;
    conditions.write(&mut request.headers);
    Ok(request)
}
