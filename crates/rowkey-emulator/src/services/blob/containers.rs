//! Containers, and listings of containers and blobs.

use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Incoming;
use rowkey_wire::auth::Service;
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::blob::headers as names;
use rowkey_wire::blob::{LeaseAction, PublicAccess};
use rowkey_wire::error::Rejection;

use super::call::{Call, versioned, write_version};
use super::change::leased_answer;
use crate::front::documents;
use crate::front::respond::{self, HttpResponse, RequestError};
use crate::op::blob::{FindByTags, Guard, ListBlobs, ListContainers};
use crate::op::condition::Conditions;
use crate::op::metadata::Metadata;
use crate::store::blob::Container;
use crate::store::blob::list::{Listed, MAX_PAGE};
use crate::wire::blob::render::{self, BlobView, ContainerView, CopyView, Item};

const FALSE: HeaderValue = HeaderValue::from_static("false");
const SKU: HeaderValue = HeaderValue::from_static("Standard_RAGRS");
const KIND: HeaderValue = HeaderValue::from_static("StorageV2");
/// A deleted container with at least this many names is freed on another thread.
const LARGE: usize = 10_000;

/// Create Container.
pub(super) fn create(
    call: &Call<'_>,
    name: &str,
    access: Option<PublicAccess>,
    metadata: Metadata,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    let version = call.change(|blobs| blobs.create(name, access, metadata, now))?;
    Ok(versioned(StatusCode::CREATED, version))
}

/// Delete Container.
pub(super) fn delete(
    call: &Call<'_>,
    name: &str,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let container = call.change(|blobs| blobs.delete(name, guard, call.context.now))?;
    if container.names() > LARGE {
        // Freeing a million blobs takes long; no request waits for it.
        tokio::task::spawn_blocking(move || drop(container));
    }
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// Get Container Properties.
pub(super) fn get_container_properties(
    call: &Call<'_>,
    name: &str,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    let blobs = call.account.blobs();
    let container = blobs.container(name)?;
    container.check_read(guard, now)?;
    let mut answer = versioned(StatusCode::OK, container.version);
    let headers = answer.headers_mut();
    let lease = container.lease.view(now);
    headers.insert(names::LEASE_STATUS, HeaderValue::from_static(lease.status));
    headers.insert(names::LEASE_STATE, HeaderValue::from_static(lease.state));
    if let Some(duration) = lease.duration {
        headers.insert(names::LEASE_DURATION, HeaderValue::from_static(duration));
    }
    write_access(headers, container);
    headers.insert(names::HAS_IMMUTABILITY_POLICY, FALSE);
    headers.insert(names::HAS_LEGAL_HOLD, FALSE);
    container.metadata.write(&mut answer);
    Ok(answer)
}

/// Get Container Metadata.
pub(super) fn get_metadata(
    call: &Call<'_>,
    name: &str,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    let container = blobs.container(name)?;
    container.check_read(guard, call.context.now)?;
    let mut answer = versioned(StatusCode::OK, container.version);
    container.metadata.write(&mut answer);
    Ok(answer)
}

/// Set Container Metadata.
pub(super) fn set_metadata(
    call: &Call<'_>,
    name: &str,
    metadata: Metadata,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    call.change_container(name, |container, version| {
        container.set_metadata(metadata, guard, version)?;
        Ok(versioned(StatusCode::OK, version))
    })
}

/// Get Container ACL.
pub(super) fn get_acl(
    call: &Call<'_>,
    name: &str,
    guard: &Guard,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    let container = blobs.container(name)?;
    container.check_read(guard, call.context.now)?;
    let mut answer = documents::policies(Service::Blob, &container.policies);
    write_version(answer.headers_mut(), container.version);
    write_access(answer.headers_mut(), container);
    Ok(answer)
}

/// Set Container ACL. It takes effect at once; the service takes up to 30 s.
pub(super) async fn set_acl(
    call: &Call<'_>,
    name: &str,
    access: Option<PublicAccess>,
    guard: &Guard,
    body: &mut Incoming,
) -> Result<HttpResponse, RequestError> {
    let (document, _) = call.read_document(body, Checksum::default()).await?;
    let policies = documents::read_policies(Service::Blob, &document)?;
    let version = call.change_container(name, |container, version| {
        container.set_acl(access, policies, guard, version)?;
        Ok(version)
    })?;
    Ok(versioned(StatusCode::OK, version))
}

/// Lease Container.
pub(super) fn lease(
    call: &Call<'_>,
    name: &str,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    call.change(|blobs| {
        let fresh = blobs.fresh_id(now);
        let (container, _) = blobs.container_mut(name, now)?;
        let leased = container.lease(action, conditions, fresh, now)?;
        Ok(leased_answer(leased, container.version))
    })
}

/// List Containers.
pub(super) fn list(call: &Call<'_>, options: &ListContainers) -> HttpResponse {
    let blobs = call.account.blobs();
    let (page, next) =
        blobs.list(options, room(call, options.max_results, !options.marker.is_empty()));
    let views = page.into_iter().map(|(name, container)| ContainerView {
        name,
        modified: container.version.modified,
        tag: container.version.tag,
        lease: container.lease.view(call.context.now),
        access: container.access,
        metadata: options.metadata.then_some(&container.metadata),
    });
    let (endpoint, account) = (&call.route.endpoint, &call.account.name);
    documents::document(render::containers(endpoint, account, options, views, next))
}

/// The number of entries on a page, given the requested maximum.
fn room(call: &Call<'_>, most: Option<u32>, resumes: bool) -> usize {
    call.room(most.unwrap_or(MAX_PAGE).min(MAX_PAGE), resumes)
}

/// List Blobs.
pub(super) fn list_blobs(
    call: &Call<'_>,
    name: &str,
    options: &ListBlobs,
) -> Result<HttpResponse, Rejection> {
    let now = call.context.now;
    let blobs = call.account.blobs();
    let room = room(call, options.max_results, options.marker.is_some());
    let (page, next) = blobs.container(name)?.list(options, room);
    let items = page.into_iter().map(|listed| match listed {
        Listed::Prefix(prefix) => Item::Prefix(prefix),
        Listed::Uncommitted(name) => Item::Uncommitted(name),
        Listed::Blob { name, snapshot, blob } => Item::Blob(BlobView {
            name,
            snapshot,
            created: blob.created,
            modified: blob.version.modified,
            tag: blob.version.tag,
            length: blob.content.len(),
            headers: &blob.headers,
            kind: blob.kind.blob_type(),
            lease: snapshot.is_none().then(|| blob.lease.view(now)),
            sealed: blob.kind.is_sealed(),
            tier: blob.tier(now),
            tags: &blob.tags,
            copy: blob.copy.as_deref().filter(|_| options.copy).map(|copy| CopyView {
                id: &copy.id,
                source: &copy.source,
                length: copy.length,
                completed: copy.completed,
            }),
            metadata: options.metadata.then_some(&blob.metadata),
        }),
    });
    let next = next.map(|marker| marker.encode());
    let (endpoint, version) = (&call.route.endpoint, call.version);
    let document = render::blobs(endpoint, name, options, version, items, next.as_deref());
    Ok(documents::document(document))
}

/// Find Blobs by Tags, over the account or in a container.
pub(super) fn find_by_tags(
    call: &Call<'_>,
    container: Option<&str>,
    options: &FindByTags,
) -> Result<HttpResponse, Rejection> {
    let blobs = call.account.blobs();
    if let Some(name) = container {
        blobs.container(name)?;
    }
    let (page, next) =
        blobs.find(container, options, room(call, options.max_results, options.marker.is_some()));
    let next = next.map(|marker| marker.encode());
    let (endpoint, version) = (&call.route.endpoint, call.version);
    let found = page.into_iter();
    let document = render::found(endpoint, container, options, version, found, next.as_deref());
    Ok(documents::document(document))
}

/// Get Account Information.
pub(super) fn account_information() -> HttpResponse {
    let mut answer = respond::empty(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(names::SKU_NAME, SKU);
    headers.insert(names::ACCOUNT_KIND, KIND);
    headers.insert(names::IS_HNS_ENABLED, FALSE);
    answer
}

fn write_access(headers: &mut HeaderMap, container: &Container) {
    if let Some(access) = container.access {
        headers.insert(names::PUBLIC_ACCESS, HeaderValue::from_static(access.as_str()));
    }
}
