//! The contents of the server: snapshots, resets, and all of it as one file.

use std::io;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, StatusCode};
use rowkey_emulator::{Seed, SeedError, Service};
use rowkey_wire::edm::DateTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Named, Sent};
use crate::problem::Problem;
use crate::schema;
use crate::shared::Shared;

/// The contents of the server at an instant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Taken {
    /// Its number.
    id: u64,
    /// When it was taken, by the server's clock.
    #[schema(value_type = String, format = DateTime)]
    at: DateTime,
}

/// The snapshots that are kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshots {
    snapshots: Vec<Taken>,
}

/// The snapshots.
#[utoipa::path(get, path = "/v1/snapshots", tag = "contents", responses((status = 200, body = Snapshots)))]
pub(crate) async fn list(State(plane): State<Shared>) -> Json<Snapshots> {
    let made = plane.made();
    let snapshots = made.snapshots.iter().map(|(id, (at, _))| Taken { id: *id, at: *at }).collect();
    Json(Snapshots { snapshots })
}

/// Keeps the contents of the server as they are now, until the snapshot is removed.
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "contents",
    responses((status = 201, body = Taken, headers(("Location" = String))))
)]
pub(crate) async fn take(State(plane): State<Shared>) -> Response {
    let (at, snapshot) = (plane.server.clock().now(), plane.server.snapshot());
    let id = plane.number();
    plane.made().snapshots.insert(id, (at, snapshot));
    let location = format!("/v1/snapshots/{id}");
    (StatusCode::CREATED, [(LOCATION, location)], Json(Taken { id, at })).into_response()
}

/// Gives the server the contents of a snapshot. Clock, faults and journal do not change.
#[utoipa::path(
    post, path = "/v1/snapshots/{id}/restore", tag = "contents", params(("id" = u64, Path)),
    responses((status = 204))
)]
pub(crate) async fn restore(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
) -> Result<StatusCode, Problem> {
    let snapshot = plane.made().snapshots.get(&id).map(|(_, snapshot)| snapshot.clone());
    plane.server.restore(&snapshot.ok_or_else(|| missing(id))?);
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a snapshot.
#[utoipa::path(
    delete, path = "/v1/snapshots/{id}", tag = "contents", params(("id" = u64, Path)),
    responses((status = 204))
)]
pub(crate) async fn delete(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
) -> Result<StatusCode, Problem> {
    let removed = plane.made().snapshots.remove(&id);
    removed.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| missing(id))
}

fn missing(id: u64) -> Problem {
    Problem::missing(&format!("snapshot {id}"), "GET /v1/snapshots")
}

/// What to delete.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reset {
    /// The data of this account alone.
    account: Option<String>,
    /// The data of this service alone.
    #[schema(value_type = Option<schema::Service>)]
    service: Option<Service>,
}

/// Deletes everything: data, faults, page cuts and the journal, and lets the secondary catch up. Of an account or a
/// service it deletes the data alone. Requests that faults hold are not executed. Snapshots, forks, targets and the
/// clock stay.
#[utoipa::path(
    post, path = "/v1/reset", tag = "contents", request_body = Reset,
    responses((status = 204))
)]
pub(crate) async fn reset(
    State(plane): State<Shared>,
    Sent(Reset { account, service }): Sent<Reset>,
) -> Result<StatusCode, Problem> {
    if account.is_none() && service.is_none() {
        let (faults, pages, held_back) = {
            let mut made = plane.made();
            (std::mem::take(&mut made.faults), made.pages.take(), made.held_back.take())
        };
        // What they hold is not executed: it would write after the reset.
        for kept in faults.values() {
            kept.remove(true);
        }
        drop((pages, held_back));
        plane.server.reset();
        return Ok(StatusCode::NO_CONTENT);
    }
    if plane.server.reset_data(account.as_deref(), service) {
        return Ok(StatusCode::NO_CONTENT);
    }
    let account = account.unwrap_or_default();
    Err(Problem::missing(&format!("account {account}"), "GET /v1/server"))
}

/// Puts tables, queues and blobs into the server: all of the seed or, on an error, nothing of it. The body is what the
/// file of `--seed` has; blobs from files are refused.
#[utoipa::path(
    post, path = "/v1/seed", tag = "contents",
    request_body(content_type = "application/json", content = schema::Seed),
    responses((status = 200, body = schema::Seeded))
)]
pub(crate) async fn seed(
    State(plane): State<Shared>,
    body: Bytes,
) -> Result<Json<schema::Seeded>, Problem> {
    let text = std::str::from_utf8(&body).map_err(|_| Problem::invalid("the body is not UTF-8"))?;
    let refused = |error: SeedError| Problem::invalid(error.to_string());
    let seed = Seed::from_json(text).map_err(refused)?;
    let seeded = plane.server.seed(&seed).map_err(refused)?;
    Ok(Json(seeded.into()))
}

/// The whole contents as one file, which `PUT /v1/state` of any server of this version takes. It is not encrypted.
#[utoipa::path(
    get, path = "/v1/state", tag = "contents",
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>))
)]
pub(crate) async fn export(State(plane): State<Shared>) -> Response {
    let file = plane.server.export_state();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"state.rowkey\"")),
    ];
    (headers, file).into_response()
}

/// Replaces the whole contents by those of a file of `GET /v1/state`. Accounts that the file does not have are emptied;
/// a file that has other accounts than the server, or is damaged, changes nothing.
#[utoipa::path(
    put, path = "/v1/state", tag = "contents",
    request_body(content_type = "application/octet-stream", content = Vec<u8>),
    responses((status = 204))
)]
pub(crate) async fn import(
    State(plane): State<Shared>,
    file: Bytes,
) -> Result<StatusCode, Problem> {
    plane.server.import_state(&file).map_err(|error| {
        let status = match error.kind() {
            io::ErrorKind::NotFound => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, error.to_string())
    })?;
    Ok(StatusCode::NO_CONTENT)
}
