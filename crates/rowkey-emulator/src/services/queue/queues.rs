//! Operations on queues: create, delete, list, metadata, policies.

use http::{HeaderValue, StatusCode, header};
use rowkey_wire::auth::Service;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::APPROXIMATE_COUNT;
use rowkey_wire::limits::MAX_LISTING;

use super::call::Call;
use crate::front::documents;
use crate::front::respond::{self, HttpResponse, NO_CACHE};
use crate::op::metadata::Metadata;
use crate::op::queue::Listing;
use crate::store::queue::Queue;
use crate::store::queue::account::Created;
use crate::wire::queue::render;

/// A deleted queue with at least this many messages is freed on another thread.
const LARGE: usize = 10_000;

/// Create Queue.
pub(super) fn create(
    call: &Call<'_>,
    queue: &str,
    metadata: Metadata,
) -> Result<HttpResponse, Rejection> {
    let created = call.change(|queues| queues.create(queue, metadata, call.context.now))?;
    Ok(respond::empty(match created {
        Created::Existing => StatusCode::NO_CONTENT,
        Created::New => StatusCode::CREATED,
    }))
}

/// Delete Queue.
pub(super) fn delete(call: &Call<'_>, queue: &str) -> Result<HttpResponse, Rejection> {
    let deleted = call.change(|queues| queues.delete(queue, call.context.now))?;
    drop_apart(deleted);
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Frees a queue without delaying requests, even if it has a million messages.
pub(super) fn drop_apart(queue: Queue) {
    if queue.kept() > LARGE {
        tokio::task::spawn_blocking(move || drop(queue));
    }
}

/// List Queues.
pub(super) fn list(call: &Call<'_>, listing: &Listing) -> HttpResponse {
    let queues = call.account.queues();
    let room = call.room(listing.max.unwrap_or(MAX_LISTING), listing.marker.is_some());
    let (page, next) = queues.list(listing, room);
    let page = page.into_iter().map(|(name, queue)| (name, queue.metadata()));
    documents::document(render::list(&call.route.endpoint, &call.account.name, listing, page, next))
}

/// Get Queue Metadata.
pub(super) fn get_metadata(call: &Call<'_>, queue: &str) -> Result<HttpResponse, Rejection> {
    call.change(|queues| {
        let queue = queues.queue_mut(queue)?;
        let mut answer = respond::empty(StatusCode::OK);
        let headers = answer.headers_mut();
        headers.insert(APPROXIMATE_COUNT, HeaderValue::from(queue.count(call.context.now)));
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
        queue.metadata().write(&mut answer);
        Ok(answer)
    })
}

/// Set Queue Metadata.
pub(super) fn set_metadata(
    call: &Call<'_>,
    queue: &str,
    metadata: Metadata,
) -> Result<HttpResponse, Rejection> {
    call.change(|queues| {
        queues.queue_mut(queue)?.set_metadata(metadata);
        Ok::<_, Rejection>(())
    })?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Get Queue ACL.
pub(super) fn get_acl(call: &Call<'_>, queue: &str) -> Result<HttpResponse, Rejection> {
    Ok(documents::policies(Service::Queue, call.account.queues().queue(queue)?.policies()))
}

/// Set Queue ACL. It takes effect at once; the service takes up to 30 s.
pub(super) fn set_acl(call: &Call<'_>, queue: &str) -> Result<HttpResponse, Rejection> {
    call.change(|queues| {
        let queue = queues.queue_mut(queue)?;
        queue.set_policies(documents::read_policies(Service::Queue, call.body)?);
        Ok(respond::empty(StatusCode::NO_CONTENT))
    })
}
