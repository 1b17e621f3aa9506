//! Request bodies: received in pieces, with their checksums computed on the way.

use std::io;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use hyper::body::{Body as _, Incoming};
use rowkey_wire::blob::Sums;
use rowkey_wire::blob::checksum::{self, Checksum, Crc64Sum, Md5Sum};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::front::request_body;
use crate::front::respond::RequestError;
use crate::store::blob::Content;

/// Bodies up to this many bytes are copied into their own memory. A slice of the connection's
/// buffer would keep the whole buffer, which is many times larger than a small blob.
const SMALL: usize = 64 * 1024;
/// The most bytes in the body of any request, because all of it is kept in memory.
pub(super) const MAX_BODY: u64 = 1024 * 1024 * 1024;
/// The most bytes in an XML document.
const MAX_DOCUMENT: u64 = 8 * 1024 * 1024;

/// A body, and the requested checksums of it.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) content: Content,
    pub(super) md5: Option<Md5Sum>,
    pub(super) crc64: Option<Crc64Sum>,
}

/// Reads a body of up to `max` bytes.
pub(super) async fn receive(
    body: &mut Incoming,
    headers: &HeaderMap,
    max: u64,
    mut checksum: Checksum,
) -> Result<Upload, RequestError> {
    if headers.contains_key(header::TRANSFER_ENCODING)
        && !headers.contains_key(header::CONTENT_LENGTH)
    {
        return Err(Rejection::new(ErrorCode::MISSING_CONTENT_LENGTH_HEADER).into());
    }
    let max = max.min(MAX_BODY);
    let expected = body.size_hint().exact().unwrap_or_default();
    if expected > max {
        return Err(too_large(max).into());
    }
    let mut small = BytesMut::new();
    let mut content = Content::default();
    let is_small = expected <= SMALL as u64;
    let mut length = 0;
    while let Some(piece) = next(body).await? {
        length += piece.len() as u64;
        if length > max {
            return Err(too_large(max).into());
        }
        checksum.update(&piece);
        if !is_small {
            content.push(piece);
        } else if length == expected && small.is_empty() {
            // The usual case: the body is one piece.
            content = Content::from(Bytes::copy_from_slice(&piece));
        } else {
            small.extend_from_slice(&piece);
        }
    }
    if !small.is_empty() {
        content = Content::from(small.freeze());
    }
    let (md5, crc64) = checksum.finish();
    Ok(Upload { content, md5, crc64 })
}

/// Reads a whole document.
pub(super) async fn receive_document(
    body: &mut Incoming,
    headers: &HeaderMap,
    checksum: Checksum,
) -> Result<(Bytes, Upload), RequestError> {
    let upload = receive(body, headers, MAX_DOCUMENT, checksum).await?;
    let first = upload.content.pieces().next().unwrap_or_default();
    let document = if first.len() as u64 == upload.content.len() {
        first
    } else {
        upload.content.pieces().flatten().collect()
    };
    Ok((document, upload))
}

/// Rejects a body that does not match its checksums.
pub(super) fn verify(sent: Sums, upload: &Upload) -> Result<(), Rejection> {
    verify_md5(sent.md5.as_ref().map(<[u8; 16]>::as_slice), upload)?;
    match (sent.crc64, upload.crc64) {
        (Some(sent), Some(found)) if sent != found => {
            Err(Rejection::new(ErrorCode::CRC64_MISMATCH)
                .detail("UserSpecifiedCrc", checksum::encode(&sent))
                .detail("ServerCalculatedCrc", checksum::encode(&found)))
        }
        _ => Ok(()),
    }
}

/// Rejects a body that does not match its MD5.
pub(super) fn verify_md5(sent: Option<&[u8]>, upload: &Upload) -> Result<(), Rejection> {
    match (sent, upload.md5) {
        (Some(sent), Some(found)) if sent != found => Err(Rejection::new(ErrorCode::MD5_MISMATCH)
            .detail("UserSpecifiedMd5", checksum::encode(sent))
            .detail("ServerCalculatedMd5", checksum::encode(&found))),
        _ => Ok(()),
    }
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, RequestError> {
    while let Some(frame) = request_body::frame(body).await {
        let frame = frame.map_err(io::Error::other)?;
        // Trailers are ignored.
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

fn too_large(max: u64) -> Rejection {
    Rejection::new(ErrorCode::REQUEST_BODY_TOO_LARGE).detail("MaxLimit", max.to_string())
}
