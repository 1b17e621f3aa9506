//! Operations that write the content of a blob: Put Blob, Put Block, Put Block List, Append Block.

use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Incoming;
use rowkey_wire::blob::checksum::{self, Checksum, Crc64Sum, Md5Sum};
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{AppendLimits, BlobType, Sums};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_BLOCKS;
use rowkey_wire::xml::XmlError;

use super::call::{Call, Names, TRUE, versioned};
use super::upload::{self, MAX_BODY, Upload};
use crate::front::respond::{self, HttpResponse, RequestError};
use crate::op::blob::{Description, Guard, Put};
use crate::op::rejection::invalid_document;
use crate::store::blob::Container;
use crate::wire::blob::block_list;

/// The first version with CRC64.
const CRC64: &str = "2019-02-02";
/// The first version with blocks of 4000 MiB, and blobs of 5000 MiB put at once.
const LARGE_BLOCKS: &str = "2019-12-12";
/// The first version with blocks of 100 MiB, and blobs of 256 MiB put at once.
const MEDIUM_BLOCKS: &str = "2016-05-31";
/// The first version with appended blocks of 100 MiB.
const LARGE_APPENDS: &str = "2022-11-02";
const MIB: u64 = 1024 * 1024;

pub(super) const CONTENT_MD5: http::HeaderName = http::HeaderName::from_static("content-md5");

/// Put Blob.
pub(super) async fn put(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    put: Put,
    guard: Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let Put { kind, mut description, sums } = put;
    let headers = &call.request.headers;
    let has_crc64 = call.version >= CRC64;
    let (max, checksum) = match kind {
        BlobType::Append => (0, Checksum::default()),
        BlobType::Block => {
            let max = match call.version {
                version if version >= LARGE_BLOCKS => MAX_BODY,
                version if version >= MEDIUM_BLOCKS => 256 * MIB,
                _ => 64 * MIB,
            };
            (max, Checksum::new(true, has_crc64 || sums.crc64.is_some()))
        }
    };
    let upload = upload::receive(body, headers, max, checksum).await?;
    upload::verify(sums, &upload)?;
    upload::verify_md5(description.headers.md5.as_deref(), &upload)?;
    let Upload { content, md5, crc64 } = upload;
    description.headers.md5 = md5.map(Into::into).or(description.headers.md5);
    let version = call.change_container(container, |container, version| {
        check_overwrite(call, container, blob)?;
        container.put(blob, kind, content, description, &guard, version)?;
        Ok(version)
    })?;
    let mut answer = versioned(StatusCode::CREATED, version);
    write_sums(answer.headers_mut(), md5, crc64.filter(|_| has_crc64));
    Ok(answer)
}

/// Put Block.
pub(super) async fn put_block(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    id: &str,
    sums: Sums,
    guard: Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let max = match call.version {
        version if version >= LARGE_BLOCKS => 4000 * MIB,
        version if version >= MEDIUM_BLOCKS => 100 * MIB,
        _ => 4 * MIB,
    };
    let Upload { content, md5, crc64 } = receive_block(call, sums, max, body).await?;
    let now = call.context.now;
    call.change_container(container, |container, _| {
        container.put_block(blob, id, content, &guard, now)?;
        Ok(())
    })?;
    let mut answer = respond::empty(StatusCode::CREATED);
    write_sums(answer.headers_mut(), md5, crc64);
    Ok(answer)
}

/// Put Block List.
pub(super) async fn put_block_list(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    description: Description,
    sums: Sums,
    guard: Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let has_crc64 = call.version >= CRC64;
    let checksum =
        Checksum::new(!has_crc64 || sums.md5.is_some(), has_crc64 || sums.crc64.is_some());
    let (document, upload) = call.read_document(body, checksum).await?;
    upload::verify(sums, &upload)?;
    let list = block_list::parse(&document).map_err(|error| match error {
        XmlError::TooMany { limit: MAX_BLOCKS, .. } => {
            Rejection::new(ErrorCode::BLOCK_LIST_TOO_LONG)
        }
        other => invalid_document(&other, &document),
    })?;
    let version = call.change_container(container, |container, version| {
        check_overwrite(call, container, blob)?;
        container.put_block_list(blob, &list, description, &guard, version)?;
        Ok(version)
    })?;
    let mut answer = versioned(StatusCode::CREATED, version);
    // Recorded: unlike for blocks, the response has this checksum even if the client sent the other
    // one.
    let md5 = upload.md5.filter(|_| !has_crc64);
    write_sums(answer.headers_mut(), md5, upload.crc64);
    Ok(answer)
}

/// Append Block.
pub(super) async fn append(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    limits: AppendLimits,
    sums: Sums,
    guard: Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let max = if call.version >= LARGE_APPENDS { 100 * MIB } else { 4 * MIB };
    let Upload { content, md5, crc64 } = receive_block(call, sums, max, body).await?;
    let (appended, version) = call.change_container(container, |container, version| {
        let appended = container.append(blob, &content, &limits, &guard, version)?;
        Ok((appended, version))
    })?;
    let mut answer = versioned(StatusCode::CREATED, version);
    let headers = answer.headers_mut();
    headers.insert(names::APPEND_OFFSET, HeaderValue::from(appended.offset));
    headers.insert(names::COMMITTED_BLOCKS, HeaderValue::from(appended.blocks));
    write_sums(headers, md5, crc64);
    Ok(answer)
}

/// Rejects overwriting a blob if the caller may only create blobs.
pub(super) fn check_overwrite(
    call: &Call<'_>,
    container: &Container,
    blob: &str,
) -> Result<(), Rejection> {
    if call.access.has("w") || container.blob(blob, None).is_err() {
        return Ok(());
    }
    Err(Rejection::new(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH))
}

/// Reads a block. The checksum in the response is the MD5 if the client sent it or the version has
/// no other.
async fn receive_block(
    call: &Call<'_>,
    sums: Sums,
    max: u64,
    body: &mut Incoming,
) -> Result<Upload, RequestError> {
    let crc64 = sums.md5.is_none() && call.version >= CRC64 || sums.crc64.is_some();
    let checksum = Checksum::new(!crc64, crc64);
    let upload = upload::receive(body, &call.request.headers, max, checksum).await?;
    upload::verify(sums, &upload)?;
    if upload.content.len() == 0 { Err(empty_block().into()) } else { Ok(upload) }
}

fn write_sums(headers: &mut HeaderMap, md5: Option<Md5Sum>, crc64: Option<Crc64Sum>) {
    if let Some(md5) = md5 {
        headers.insert(CONTENT_MD5, respond::value(checksum::encode(&md5)));
    }
    if let Some(crc64) = crc64 {
        headers.insert(names::CONTENT_CRC64, respond::value(checksum::encode(&crc64)));
    }
    headers.insert(names::REQUEST_SERVER_ENCRYPTED, TRUE);
}

fn empty_block() -> Rejection {
    Rejection::new(ErrorCode::INVALID_HEADER_VALUE)
        .detail("HeaderName", "Content-Length")
        .detail("HeaderValue", "0")
}
