//! Read operations: Get Blob, its properties, metadata, tags and blocks.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use rowkey_wire::blob::BlobType;
use rowkey_wire::blob::checksum::{self, Checksum};
use rowkey_wire::blob::headers as names;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::odata::Metadata;

use super::call::{Call, Names, TRUE, write_version};
use super::write::CONTENT_MD5;
use crate::front::body::Body;
use crate::front::documents;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::op::blob::{BlockLists, Guard, Range, Read};
use crate::store::blob::{Blob, Kind};
use crate::wire::blob::block_list;
use crate::wire::blob::render::{TAGS, TIERS};
use crate::wire::table::parse::ResponseFormat;

const BYTES: HeaderValue = HeaderValue::from_static("bytes");
const BLOCK_BLOB: HeaderValue = HeaderValue::from_static(BlobType::Block.as_str());
const APPEND_BLOB: HeaderValue = HeaderValue::from_static(BlobType::Append.as_str());
/// The longest range for which a checksum is computed.
const MAX_SUMMED: u64 = 4 * 1024 * 1024;

/// Get Blob and Get Blob Properties.
pub(super) fn read(
    call: &Call<'_>,
    (container, name): Names<'_>,
    what: Read,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    let blob = blobs.container(container)?.read(name, what.snapshot, guard, call.context.now)?;
    if what.content {
        blob.check_online(call.context.now)?;
    }
    let length = blob.content.len();
    let (first, end) = match what.range {
        None => (0, length),
        Some(range) => match cut(range, length) {
            Some(cut) => cut,
            None => return Ok(out_of_range(call, length)),
        },
    };
    let body: Body =
        if what.content { blob.content.range(first, end).collect() } else { Body::default() };
    let sums = range_sums(&what, blob, first, end)?;
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    // Room for every blob without metadata, so that the map never grows.
    headers.reserve(24);
    describe(headers, call, blob, what.snapshot);
    if let Some(md5) = &blob.headers.md5 {
        let name = if what.range.is_some() { names::CONTENT_MD5 } else { CONTENT_MD5 };
        headers.insert(name, respond::value(checksum::encode(md5)));
    }
    if !blob.tags.is_empty() && call.version >= TAGS {
        headers.insert(names::TAG_COUNT, HeaderValue::from(blob.tags.iter().len()));
    }
    if !what.content && call.version >= TIERS {
        write_tier(headers, blob, call.context.now);
    }
    blob.metadata.write(&mut answer);
    drop(blobs);
    let headers = answer.headers_mut();
    if what.range.is_some() {
        let range = format!("bytes {first}-{}/{length}", end.saturating_sub(1));
        headers.insert(header::CONTENT_RANGE, respond::value(range));
        for (name, sum) in sums {
            headers.insert(name, respond::value(sum));
        }
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    } else if !what.content {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(answer)
}

/// Adds the access tier for Get Blob Properties; Get Blob does not return it.
fn write_tier(headers: &mut HeaderMap, blob: &Blob, now: DateTime) {
    let Some(view) = blob.tier(now) else { return };
    headers.insert(names::ACCESS_TIER, HeaderValue::from_static(view.tier.as_str()));
    match view.changed {
        None => headers.insert(names::ACCESS_TIER_INFERRED, TRUE),
        Some(changed) => headers.insert(names::ACCESS_TIER_CHANGE_TIME, respond::instant(changed)),
    };
    if let Some((target, priority)) = view.rehydrating {
        let status = HeaderValue::from_static(target.archive_status());
        headers.insert(names::ARCHIVE_STATUS, status);
        headers.insert(names::REHYDRATE_PRIORITY, HeaderValue::from_static(priority.as_str()));
    }
}

/// The common part of Get Blob Tags and Get Blob Metadata; `answer` builds the response from the
/// blob.
pub(super) fn part(
    call: &Call<'_>,
    (container, name): Names<'_>,
    snapshot: Option<DateTime>,
    guard: &Guard,
    answer: fn(&Blob) -> HttpResponse,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    blobs.container(container)?.read(name, snapshot, guard, call.context.now).map(answer)
}

/// Get Blob Tags.
pub(super) fn tags(blob: &Blob) -> HttpResponse {
    documents::document(blob.tags.render())
}

/// The error of Get Blob Tags in place of 304: its conditions are for writers that read tags first.
pub(super) fn not_met(rejection: Rejection) -> Rejection {
    match rejection.status {
        StatusCode::NOT_MODIFIED => Rejection::new(ErrorCode::CONDITION_NOT_MET),
        _ => rejection,
    }
}

/// Get Blob Metadata.
pub(super) fn metadata(blob: &Blob) -> HttpResponse {
    let mut answer = respond::empty(StatusCode::OK);
    write_version(answer.headers_mut(), blob.version);
    blob.metadata.write(&mut answer);
    answer
}

/// Get Block List.
pub(super) fn block_list(
    call: &Call<'_>,
    (container, name): Names<'_>,
    lists: BlockLists,
    snapshot: Option<DateTime>,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    let blobs = call.account.blobs();
    let container = blobs.container(container)?;
    let entry = container.entry(name);
    let staged = entry.into_iter().flat_map(|entry| entry.staged(now)).collect::<Vec<_>>();
    let blob = match container.read(name, snapshot, guard, now) {
        Ok(blob) => Some(blob),
        // Uncommitted blocks exist even though the blob does not.
        Err(rejection)
            if rejection.code == ErrorCode::BLOB_NOT_FOUND
                && snapshot.is_none()
                && !staged.is_empty() =>
        {
            None
        }
        Err(rejection) => return Err(rejection),
    };
    let committed: &[_] = match blob.map(|blob| &blob.kind) {
        Some(Kind::Block(blocks)) => blocks,
        Some(Kind::Append { .. }) => return Err(Rejection::new(ErrorCode::INVALID_BLOB_TYPE)),
        None => &[],
    };
    let committed = committed.iter().map(|(id, size)| (&**id, *size));
    let staged = staged.into_iter().map(|(id, content)| (id, content.len()));
    let mut answer = documents::document(block_list::render(
        (lists != BlockLists::Uncommitted).then_some(committed),
        (lists != BlockLists::Committed).then_some(staged),
    ));
    let headers = answer.headers_mut();
    let length = blob.map_or(0, |blob| blob.content.len());
    headers.insert(names::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(blob) = blob {
        write_version(headers, blob.version);
    }
    Ok(answer)
}

/// Adds the headers that every response about a blob has.
fn describe(headers: &mut HeaderMap, call: &Call<'_>, blob: &Blob, snapshot: Option<DateTime>) {
    write_version(headers, blob.version);
    headers.insert(header::ACCEPT_RANGES, BYTES);
    headers.insert(names::CREATION_TIME, respond::instant(blob.created));
    headers.insert(names::SERVER_ENCRYPTED, TRUE);
    let content = &blob.headers;
    for (name, value) in [
        (header::CONTENT_TYPE, &content.content_type),
        (header::CONTENT_ENCODING, &content.encoding),
        (header::CONTENT_LANGUAGE, &content.language),
        (header::CONTENT_DISPOSITION, &content.disposition),
        (header::CACHE_CONTROL, &content.cache_control),
    ] {
        if let Some(value) = value {
            headers.insert(name, value.clone());
        }
    }
    match blob.kind {
        Kind::Append { blocks, sealed } => {
            headers.insert(names::BLOB_TYPE, APPEND_BLOB);
            headers.insert(names::COMMITTED_BLOCKS, HeaderValue::from(blocks));
            if sealed {
                headers.insert(names::SEALED, TRUE);
            }
        }
        Kind::Block(_) => {
            headers.insert(names::BLOB_TYPE, BLOCK_BLOB);
        }
    }
    match snapshot {
        // Recorded: only this version repeats it.
        Some(snapshot) if call.version == "2018-11-09" => {
            headers.insert(names::SNAPSHOT, respond::value(snapshot.to_iso7()));
        }
        Some(_) => {}
        None => {
            let lease = blob.lease.view(call.context.now);
            headers.insert(names::LEASE_STATUS, HeaderValue::from_static(lease.status));
            headers.insert(names::LEASE_STATE, HeaderValue::from_static(lease.state));
            if let Some(duration) = lease.duration {
                headers.insert(names::LEASE_DURATION, HeaderValue::from_static(duration));
            }
        }
    }
    if let Some(copy) = &blob.copy {
        headers.insert(names::COPY_ID, respond::value(copy.id.clone()));
        headers.insert(names::COPY_SOURCE, respond::value(copy.source.clone()));
        headers.insert(names::COPY_STATUS, super::copy::SUCCESS);
        let progress = format!("{0}/{0}", copy.length);
        headers.insert(names::COPY_PROGRESS, respond::value(progress));
        headers.insert(names::COPY_COMPLETION_TIME, respond::instant(copy.completed));
    }
}

/// The first byte of a range, and its end (exclusive). `None` for a range that begins after the
/// last byte.
fn cut(range: Range, length: u64) -> Option<(u64, u64)> {
    let end = range.last.map_or(length, |last| last.saturating_add(1).min(length));
    (range.first < length).then_some((range.first, end))
}

/// The response to a range that begins after the last byte: an error with the blob's length.
fn out_of_range(call: &Call<'_>, length: u64) -> HttpResponse {
    let failure = Failure::front_end(Rejection::new(ErrorCode::INVALID_RANGE));
    let format = ResponseFormat { json: false, level: Metadata::None, atom: false };
    let mut answer = respond::failure(&failure, format, call.context);
    let range = respond::value(format!("bytes */{length}"));
    answer.headers_mut().insert(header::CONTENT_RANGE, range);
    answer
}

/// The checksums of a range, in their headers.
fn range_sums(
    what: &Read,
    blob: &Blob,
    first: u64,
    end: u64,
) -> Result<Vec<(http::HeaderName, String)>, Rejection> {
    if !what.range_md5 && !what.range_crc64 {
        return Ok(Vec::new());
    }
    if end - first > MAX_SUMMED {
        return Err(Rejection::new(ErrorCode::OUT_OF_RANGE_INPUT));
    }
    let mut checksum = Checksum::new(what.range_md5, what.range_crc64);
    blob.content.range(first, end).for_each(|piece| checksum.update(&piece));
    let (md5, crc64) = checksum.finish();
    let md5 = md5.map(|md5| (CONTENT_MD5, checksum::encode(&md5)));
    let crc64 = crc64.map(|crc64| (names::CONTENT_CRC64, checksum::encode(&crc64)));
    Ok(md5.into_iter().chain(crc64).collect())
}
