//! Operations that change a blob but not its content: headers, metadata, leases, snapshots,
//! deletion.

use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{AppendLimits, ContentHeaders, LeaseAction, Sums};
use rowkey_wire::error::Rejection;

use super::call::{Call, Names, TRUE, versioned};
use super::upload;
use crate::front::respond::{self, HttpResponse, RequestError};
use crate::op::blob::{Delete, Guard, SetTier};
use crate::op::condition::Conditions;
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;
use crate::store::blob::Version;
use crate::store::blob::lease::Leased;

/// Set Blob Properties.
pub(super) fn set_properties(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    headers: ContentHeaders,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    call.change_container(container, |container, version| {
        container.set_headers(blob, headers, guard, version)?;
        Ok(versioned(StatusCode::OK, version))
    })
}

/// Set Blob Metadata.
pub(super) fn set_metadata(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    metadata: Metadata,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    call.change_container(container, |container, version| {
        container.set_blob_metadata(blob, metadata, guard, version)?;
        let mut answer = versioned(StatusCode::OK, version);
        answer.headers_mut().insert(names::REQUEST_SERVER_ENCRYPTED, TRUE);
        Ok(answer)
    })
}

/// Set Blob Tier: completed at once, or started if the blob is archived.
pub(super) fn set_tier(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    asked: SetTier,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    call.change_container(container, |container, _| {
        let is_rehydrated = container.set_tier(blob, asked, guard, now)?;
        Ok(respond::empty(if is_rehydrated { StatusCode::ACCEPTED } else { StatusCode::OK }))
    })
}

/// Set Blob Tags.
pub(super) async fn set_tags(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    sums: Sums,
    guard: &Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let checksum = Checksum::new(sums.md5.is_some(), sums.crc64.is_some());
    let (document, upload) = call.read_document(body, checksum).await?;
    upload::verify(sums, &upload)?;
    let tags = Tags::parse_document(&document)?;
    let now = call.context.now;
    call.change_container(container, |container, _| container.set_tags(blob, tags, guard, now))?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Snapshot Blob.
pub(super) fn snapshot(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    metadata: Metadata,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    call.change_container(container, |container, version| {
        let (snapshot, version) = container.snapshot(blob, metadata, guard, version)?;
        let mut answer = versioned(StatusCode::CREATED, version);
        let headers = answer.headers_mut();
        headers.insert(names::SNAPSHOT, respond::value(snapshot.to_iso7()));
        headers.insert(names::REQUEST_SERVER_ENCRYPTED, TRUE);
        Ok(answer)
    })
}

/// Delete Blob.
pub(super) fn delete(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    what: Delete,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    call.change_container(container, |container, _| {
        container.delete(blob, what, guard, now)?;
        let mut answer = respond::empty(StatusCode::ACCEPTED);
        // This server has no soft delete.
        answer.headers_mut().insert(names::DELETE_TYPE_PERMANENT, TRUE);
        Ok(answer)
    })
}

/// Append Blob Seal.
pub(super) fn seal(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    limits: &AppendLimits,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    call.change_container(container, |container, version| {
        let version = container.seal(blob, limits, guard, version)?;
        let mut answer = versioned(StatusCode::OK, version);
        answer.headers_mut().insert(names::SEALED, TRUE);
        Ok(answer)
    })
}

/// Lease Blob.
pub(super) fn lease(
    call: &Call<'_>,
    (container, blob): Names<'_>,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    call.change(|blobs| {
        let fresh = blobs.fresh_id(now);
        let (container, _) = blobs.container_mut(container, now)?;
        let (leased, version) = container.lease_blob(blob, action, conditions, fresh, now)?;
        Ok(leased_answer(leased, version))
    })
}

/// The response to a lease operation.
pub(super) fn leased_answer(leased: Leased, version: Version) -> HttpResponse {
    let mut answer = versioned(StatusCode::OK, version);
    let headers = answer.headers_mut();
    let (status, id) = match leased {
        Leased::Acquired(id) => (StatusCode::CREATED, Some(id)),
        Leased::Changed(id) | Leased::Renewed(id) => (StatusCode::OK, Some(id)),
        Leased::Released => (StatusCode::OK, None),
        Leased::Broken(seconds) => {
            headers.insert(names::LEASE_TIME, HeaderValue::from(seconds));
            (StatusCode::ACCEPTED, None)
        }
    };
    if let Some(id) = id {
        headers.insert(names::LEASE_ID, respond::value(id.to_string()));
    }
    *answer.status_mut() = status;
    answer
}
