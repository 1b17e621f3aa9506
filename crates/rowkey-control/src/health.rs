//! The server itself: its addresses, whether it is alive, its metrics, and its end.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rowkey_emulator::StoredTable;
use serde::Serialize;
use utoipa::ToSchema;

use crate::counts;
use crate::shared::Shared;

/// Whether the server is alive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
}

/// Whether the program runs. It needs no token.
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the services accept requests. It needs no token.
#[utoipa::path(get, path = "/ready", tag = "server", responses((status = 200, body = Health)))]
pub(crate) async fn ready() -> Json<Health> {
    // The control plane is started after the services.
    Json(Health { status: "ready" })
}

/// The server and its addresses.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    /// The version of the program.
    version: &'static str,
    /// The address of the Blob service for the first account.
    blob: String,
    /// The address of the Queue service.
    queue: String,
    /// The address of the Table service.
    table: String,
    /// The connection string of the first account, with its key if that is the published one or --show-keys is given.
    connection_string: String,
    /// The certificate of the server in PEM, if it speaks HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    /// The address at which identities get tokens, if the server issues them.
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    /// The accounts.
    accounts: Vec<Account>,
    /// The number of open connections.
    connections: usize,
}

/// An account of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Account {
    name: String,
    /// The address of its Blob service.
    blob: String,
    /// The address of its Queue service.
    queue: String,
    /// The address of its Table service.
    table: String,
}

/// The server and its addresses.
#[utoipa::path(get, path = "/v1/server", tag = "server", responses((status = 200, body = About)))]
pub(crate) async fn about(State(plane): State<Shared>) -> Json<About> {
    let server = &plane.server;
    let accounts = server.accounts().map(|name| {
        // All accounts have the same ports, and paths begin with their names.
        let of = |endpoint: &str| {
            let origin = endpoint.rsplit_once('/').map_or(endpoint, |(origin, _)| origin);
            format!("{origin}/{name}")
        };
        Account {
            name: name.to_owned(),
            blob: of(server.blob_endpoint()),
            queue: of(server.queue_endpoint()),
            table: of(server.table_endpoint()),
        }
    });
    Json(About {
        version: env!("CARGO_PKG_VERSION"),
        blob: server.blob_endpoint().to_owned(),
        queue: server.queue_endpoint().to_owned(),
        table: server.table_endpoint().to_owned(),
        connection_string: plane.connection_string(server),
        certificate: server.certificate().map(str::to_owned),
        authority: server.authority().map(str::to_owned),
        accounts: accounts.collect(),
        connections: server.connections(),
    })
}

/// The metrics of the server, in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses((status = 200, content_type = "text/plain", body = String))
)]
pub(crate) async fn metrics(State(plane): State<Shared>) -> Response {
    let mut out = String::new();
    counts::write(&plane.server.totals(), &mut out);
    let mut gauge = |name: &str, help: &str, value: f64| {
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
    };
    let server = &plane.server;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = |value: usize| value as f64;
    gauge("rowkey_server_connections", "Open connections.", count(server.connections()));
    let (mut tables, mut entities) = (0, 0);
    let snapshot = server.snapshot();
    for account in server.accounts().filter_map(|name| snapshot.account(name)) {
        tables += account.tables().count();
        entities += account.tables().map(StoredTable::len).sum::<usize>();
    }
    gauge("rowkey_server_tables", "Tables.", count(tables));
    gauge("rowkey_server_entities", "Entities in all tables.", count(entities));
    gauge("rowkey_server_faults", "Active faults.", count(plane.made().faults.len()));
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out).into_response()
}

/// Ends the program, after this response. Acknowledged changes are kept if the server has a location.
#[utoipa::path(post, path = "/v1/shutdown", tag = "server", responses((status = 202)))]
pub(crate) async fn shutdown(State(plane): State<Shared>) -> StatusCode {
    plane.shutdown.notify_one();
    StatusCode::ACCEPTED
}
