//! Faults: injected, listed, released, removed. They outlive the request that made them.

#![expect(unused_qualifications, reason = "the macro of the document repeats paths")]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::future::select;
use http::StatusCode;
use http::header::LOCATION;
use rowkey_emulator::{Fault, Injected};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::{Asked, Named, Sent};
use crate::problem::Problem;
use crate::schema;
use crate::shared::{Kept, Shared};

/// How long a request waits for a fault, unless it says so.
const WAIT_MS: u64 = 10_000;
/// The longest that a request waits for a fault.
const MAX_WAIT_MS: u64 = 600_000;

/// A fault that was injected.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InjectedFault {
    /// Its number among the faults of the server, from 1.
    id: u64,
    #[schema(value_type = schema::Fault)]
    fault: Fault,
    /// The number of requests that met it.
    hits: u64,
    /// The number of requests that it holds now.
    held: u64,
}

impl InjectedFault {
    fn of(injected: &Injected) -> Self {
        let (id, fault) = (injected.id(), injected.fault().clone());
        Self { id, fault, hits: injected.hits(), held: injected.held() }
    }
}

/// The faults that are active.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Faults {
    /// In the order in which they were injected: the first that matches a request applies to it.
    faults: Vec<InjectedFault>,
}

/// The active faults.
#[utoipa::path(get, path = "/v1/faults", tag = "faults", responses((status = 200, body = Faults)))]
pub(crate) async fn list(State(plane): State<Shared>) -> Json<Faults> {
    let made = plane.made();
    let faults = made.faults.values().map(|kept| InjectedFault::of(&kept.injected)).collect();
    Json(Faults { faults })
}

/// Injects a fault.
#[utoipa::path(
    post, path = "/v1/faults", tag = "faults", request_body = schema::Fault,
    responses((status = 201, body = InjectedFault, headers(("Location" = String))))
)]
pub(crate) async fn inject(State(plane): State<Shared>, Sent(fault): Sent<Fault>) -> Response {
    let injected = plane.server.inject(fault);
    let shown = InjectedFault::of(&injected);
    plane.made().faults.insert(shown.id, Kept::new(injected));
    let location = format!("/v1/faults/{}", shown.id);
    (StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response()
}

/// Removes all faults. Requests that they hold are executed.
#[utoipa::path(delete, path = "/v1/faults", tag = "faults", responses((status = 204)))]
pub(crate) async fn clear(State(plane): State<Shared>) -> StatusCode {
    let faults = std::mem::take(&mut plane.made().faults);
    // Those that a request waits for are dropped only later.
    for kept in faults.values() {
        kept.remove(false);
    }
    StatusCode::NO_CONTENT
}

/// A fault.
#[utoipa::path(
    get, path = "/v1/faults/{id}", tag = "faults", params(("id" = u64, Path)),
    responses((status = 200, body = InjectedFault))
)]
pub(crate) async fn get(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
) -> Result<Json<InjectedFault>, Problem> {
    Ok(Json(InjectedFault::of(&find(&plane, id)?.injected)))
}

/// What becomes of the requests that a fault holds when it is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removal {
    /// Whether the connections of the requests that it holds are closed, instead of executing the requests.
    #[serde(default)]
    discard: bool,
}

/// Removes a fault.
#[utoipa::path(
    delete, path = "/v1/faults/{id}", tag = "faults", params(("id" = u64, Path), Removal),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
    Asked(removal): Asked<Removal>,
) -> Result<StatusCode, Problem> {
    let kept = plane.made().faults.remove(&id).ok_or_else(|| missing(id))?;
    kept.remove(removal.discard);
    Ok(StatusCode::NO_CONTENT)
}

/// Lets the requests that a fault holds continue. Later ones are not held.
#[utoipa::path(
    post, path = "/v1/faults/{id}/release", tag = "faults", params(("id" = u64, Path)),
    responses((status = 200, body = InjectedFault))
)]
pub(crate) async fn release(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
) -> Result<Json<InjectedFault>, Problem> {
    let kept = find(&plane, id)?;
    kept.injected.release();
    Ok(Json(InjectedFault::of(&kept.injected)))
}

/// What to wait for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Awaited {
    /// Until this number of requests has met the fault.
    hits: Option<u64>,
    /// Until the fault holds at least one request: 1.
    #[param(minimum = 1, maximum = 1)]
    held: Option<u64>,
    /// The longest time to wait, in milliseconds; at most 600,000.
    #[param(default = 10_000, maximum = 600_000)]
    timeout_ms: Option<u64>,
}

/// Waits until requests have met a fault, or are held by it. 408 if that does not happen in time, 409 if the fault is
/// removed meanwhile.
#[utoipa::path(
    get, path = "/v1/faults/{id}/wait", tag = "faults", params(("id" = u64, Path), Awaited),
    responses((status = 200, body = InjectedFault))
)]
pub(crate) async fn wait(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
    Asked(awaited): Asked<Awaited>,
) -> Result<Json<InjectedFault>, Problem> {
    let kept = find(&plane, id)?;
    let limit = awaited.timeout_ms.unwrap_or(WAIT_MS);
    if limit > MAX_WAIT_MS {
        return Err(Problem::invalid(format!("timeoutMs is at most {MAX_WAIT_MS}")));
    }
    let mut ended = plane.ended.clone();
    // The server may end meanwhile.
    drop(plane);
    let injected = &kept.injected;
    let met = async {
        match (awaited.hits, awaited.held) {
            (Some(hits), None) => injected.wait_until_hit(hits).await,
            (None, Some(1)) => injected.wait_until_held().await,
            _ => return Err(Problem::invalid("wait for hits=N or for held=1")),
        }
        Ok(Json(InjectedFault::of(injected)))
    };
    let mut removed = kept.removed.subscribe();
    let gone = async {
        // Senders that are dropped end it, too.
        select(pin!(removed.wait_for(|removed| *removed)), pin!(ended.changed())).await;
        let detail = format!("fault {id} was removed while this request waited for it");
        Err(Problem::new(StatusCode::CONFLICT, detail))
    };
    let waited = async { select(pin!(met), pin!(gone)).await.factor_first().0 };
    tokio::time::timeout(Duration::from_millis(limit), waited).await.unwrap_or_else(|_| {
        let detail = format!(
            "fault {id} has met {} requests in time; compare its operation and resource with those that \
             GET /v1/journal lists",
            injected.hits()
        );
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
    })
}

fn find(plane: &Shared, id: u64) -> Result<Arc<Kept>, Problem> {
    plane.made().faults.get(&id).cloned().ok_or_else(|| missing(id))
}

fn missing(id: u64) -> Problem {
    Problem::missing(&format!("fault {id}"), "GET /v1/faults")
}
