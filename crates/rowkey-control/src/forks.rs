//! Forks: other servers with the same contents, each on its own ports.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::Named;
use crate::problem::Problem;
use crate::shared::{Forked, Inner, Options, Shared, spawn};

/// A server with the contents that this one had.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fork {
    /// Its number.
    id: u64,
    /// The address of its Blob service.
    blob: String,
    /// The address of its Queue service.
    queue: String,
    /// The address of its Table service.
    table: String,
    /// The connection string of its first account.
    connection_string: String,
    /// The address of its control plane, which takes the same token.
    control: String,
}

impl Fork {
    fn of(id: u64, fork: &dyn Forked, original: &Inner) -> Self {
        let server = fork.server();
        Self {
            id,
            blob: server.blob_endpoint().to_owned(),
            queue: server.queue_endpoint().to_owned(),
            table: server.table_endpoint().to_owned(),
            connection_string: original.connection_string(server),
            control: fork.url().to_owned(),
        }
    }
}

/// The forks that run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forks {
    forks: Vec<Fork>,
}

/// The forks.
#[utoipa::path(get, path = "/v1/forks", tag = "contents", responses((status = 200, body = Forks)))]
pub(crate) async fn list(State(plane): State<Shared>) -> Json<Forks> {
    let made = plane.made();
    let forks = made.forks.iter().map(|(id, fork)| Fork::of(*id, &**fork, &plane)).collect();
    Json(Forks { forks })
}

/// Starts another server, with its own ports and its own control plane, with the same contents and the same time.
/// From then on the two are independent. Faults, page cuts, the journal and snapshots are not copied; data of a fork is
/// in memory.
#[utoipa::path(
    post, path = "/v1/forks", tag = "contents",
    responses((status = 201, body = Fork, headers(("Location" = String))))
)]
pub(crate) async fn start(State(plane): State<Shared>) -> Result<Response, Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the fork cannot be started: {error}"),
        )
    };
    let server = plane.server.fork().await.map_err(failed)?;
    server.set_targets(plane.server.targets());
    let options = Options {
        host: plane.host.clone(),
        port: 0,
        token: plane.token.clone(),
        allowed_hosts: plane.hosts.clone(),
        show_keys: plane.show_keys,
    };
    let fork = (plane.start_fork)(server, options).await.map_err(failed)?;
    let id = plane.number();
    let shown = Fork::of(id, &*fork, &plane);
    // Weak, so that a fork does not keep its original.
    let (asked, original) = (fork.shutdown(), Arc::downgrade(&plane));
    plane.made().forks.insert(id, fork);
    spawn(async move {
        asked.notified().await;
        if let Some(original) = original.upgrade() {
            let ended = original.made().forks.remove(&id);
            let _ = tokio::task::spawn_blocking(move || drop(ended)).await;
        }
    });
    let location = format!("/v1/forks/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(shown)).into_response())
}

/// Ends a fork.
#[utoipa::path(
    delete, path = "/v1/forks/{id}", tag = "contents", params(("id" = u64, Path)),
    responses((status = 204))
)]
pub(crate) async fn end(
    State(plane): State<Shared>,
    Named(id): Named<u64>,
) -> Result<StatusCode, Problem> {
    let fork = plane.made().forks.remove(&id);
    let fork = fork.ok_or_else(|| Problem::missing(&format!("fork {id}"), "GET /v1/forks"))?;
    // Its threads are waited for, so not on the thread that serves requests.
    let _ = tokio::task::spawn_blocking(move || drop(fork)).await;
    Ok(StatusCode::NO_CONTENT)
}
