//! The journal: the requests that the server received, listed and followed.

#![expect(unused_qualifications, reason = "the macro of the document repeats paths")]

use std::convert::Infallible;
use std::pin::pin;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::future::{Either, select};
use futures_util::stream::unfold;
use http::{HeaderMap, StatusCode};
use rowkey_emulator::{JournalEntry, Operation, Service};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::Asked;
use crate::problem::Problem;
use crate::schema;
use crate::shared::Shared;

/// Requests in the order in which they arrived.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Requests {
    /// The number of the last request that arrived, whether or not it is listed.
    received: u64,
    /// The requests that match; of more than `limit`, the last ones.
    #[schema(value_type = Vec<schema::JournalEntry>)]
    entries: Vec<JournalEntry>,
}

/// Which requests to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// An operation, such as `InsertEntity`.
    #[param(value_type = Option<schema::Operation>)]
    operation: Option<Operation>,
    /// A service.
    #[param(value_type = Option<schema::Service>)]
    service: Option<Service>,
    /// An account.
    account: Option<String>,
    /// A table, queue or container, with everything in it, or a blob, written `container/name`.
    about: Option<String>,
    /// Only requests with greater numbers.
    since: Option<u64>,
    /// Only requests that changed something, or only those that did not.
    committed: Option<bool>,
    /// Of a list: the most requests, the last ones. By default all that are kept, at most 10,000.
    limit: Option<usize>,
}

impl Filter {
    fn keeps(&self, entry: &JournalEntry) -> bool {
        self.operation.is_none_or(|operation| operation == entry.operation())
            && self.service.is_none_or(|service| service == entry.service())
            && self.account.as_deref().is_none_or(|account| account == entry.account())
            && self.about.as_deref().is_none_or(|name| entry.is_about(name))
            && self.since.is_none_or(|since| entry.number() > since)
            && self.committed.is_none_or(|committed| committed == entry.is_committed())
    }
}

/// The requests that the server received, at most the last 10,000.
#[utoipa::path(
    get, path = "/v1/journal", tag = "journal", params(Filter),
    responses((status = 200, body = Requests))
)]
pub(crate) async fn list(
    State(plane): State<Shared>,
    Asked(filter): Asked<Filter>,
) -> Json<Requests> {
    let journal = plane.server.journal();
    let received = plane.server.received();
    let mut entries: Vec<_> = journal.iter().filter(|entry| filter.keeps(entry)).cloned().collect();
    let most = filter.limit.unwrap_or(usize::MAX);
    entries.drain(..entries.len().saturating_sub(most));
    Json(Requests { received, entries })
}

/// Removes all requests from the journal. Their numbering continues.
#[utoipa::path(delete, path = "/v1/journal", tag = "journal", responses((status = 204)))]
pub(crate) async fn clear(State(plane): State<Shared>) -> StatusCode {
    plane.server.clear_journal();
    StatusCode::NO_CONTENT
}

/// Follows the requests as they end, as server-sent events: each is an event `request` whose data is a request as the
/// journal lists it. Its id, sent as `Last-Event-ID`, continues after it.
#[utoipa::path(
    get, path = "/v1/journal/events", tag = "journal", params(Filter, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn events(
    State(plane): State<Shared>,
    Asked(filter): Asked<Filter>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    if filter.limit.is_some() {
        return Err(Problem::invalid("limit is for the list: GET /v1/journal"));
    }
    let last = headers.get("last-event-id").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.parse::<u64>().ok());
        id.ok_or_else(|| Problem::invalid("Last-Event-ID is the id of an event: a number"))
    });
    let follower = plane.server.follow_journal(last.transpose()?);
    let ended = plane.ended.clone();
    let events = unfold((follower, filter, ended), |(mut follower, filter, mut ended)| async {
        loop {
            let entry = match select(pin!(follower.next()), pin!(ended.changed())).await {
                Either::Left((entry, _)) => entry?,
                Either::Right(_) => return None,
            };
            if filter.keeps(&entry) {
                let event = Event::default().event("request").id(follower.position().to_string());
                let event = event.json_data(&entry).ok()?;
                return Some((Ok(event), (follower, filter, ended)));
            }
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
