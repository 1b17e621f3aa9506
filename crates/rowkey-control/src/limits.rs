//! What the service limits: request rates, pages of results, and how far behind the secondary is.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rowkey_emulator::{Pages, Targets};
use rowkey_wire::edm::DateTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::Sent;
use crate::schema;
use crate::shared::Shared;

/// The request rates above which the server answers 503 `ServerBusy`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Throttling {
    /// `null` if the server does not throttle.
    #[schema(value_type = Option<schema::Targets>)]
    targets: Option<Targets>,
}

/// Whether the server throttles.
#[utoipa::path(get, path = "/v1/throttle", tag = "limits", responses((status = 200, body = Throttling)))]
pub(crate) async fn throttle(State(plane): State<Shared>) -> Json<Throttling> {
    Json(Throttling { targets: plane.server.targets() })
}

/// Sets the targets. What was used until now is forgotten.
#[utoipa::path(
    put, path = "/v1/throttle", tag = "limits", request_body = schema::Targets,
    responses((status = 200, body = Throttling))
)]
pub(crate) async fn set_throttle(
    State(plane): State<Shared>,
    Sent(targets): Sent<Targets>,
) -> Json<Throttling> {
    plane.server.set_targets(Some(targets));
    throttle(State(plane)).await
}

/// Ends throttling.
#[utoipa::path(delete, path = "/v1/throttle", tag = "limits", responses((status = 204)))]
pub(crate) async fn end_throttle(State(plane): State<Shared>) -> StatusCode {
    plane.server.set_targets(None);
    StatusCode::NO_CONTENT
}

/// How pages of results are cut.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cutting {
    /// `null` if pages are whole.
    #[schema(value_type = Option<schema::Pages>)]
    pages: Option<Pages>,
    /// The number of pages that were selected to end early.
    cuts: u64,
}

/// Whether pages are cut.
#[utoipa::path(get, path = "/v1/pages", tag = "limits", responses((status = 200, body = Cutting)))]
pub(crate) async fn pages(State(plane): State<Shared>) -> Json<Cutting> {
    let made = plane.made();
    let shown = made.pages.as_ref().map(|(pages, chaos)| (*pages, chaos.cuts()));
    let (pages, cuts) = shown.unzip();
    Json(Cutting { pages, cuts: cuts.unwrap_or_default() })
}

/// Cuts pages from now on. The same seed cuts the same sequence of requests at the same places.
#[utoipa::path(
    put, path = "/v1/pages", tag = "limits", request_body = schema::Pages,
    responses((status = 200, body = Cutting))
)]
pub(crate) async fn cut_pages(
    State(plane): State<Shared>,
    Sent(cut): Sent<Pages>,
) -> Json<Cutting> {
    let chaos = plane.server.chaos(cut);
    plane.made().pages = Some((cut, chaos));
    pages(State(plane)).await
}

/// Leaves pages whole.
#[utoipa::path(delete, path = "/v1/pages", tag = "limits", responses((status = 204)))]
pub(crate) async fn whole_pages(State(plane): State<Shared>) -> StatusCode {
    plane.made().pages = None;
    StatusCode::NO_CONTENT
}

/// Whether the secondary is behind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secondary {
    held_back: bool,
    /// The instant whose contents the secondary shows; absent if it shows the current ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<DateTime>,
}

/// Whether the secondary is behind.
#[utoipa::path(get, path = "/v1/secondary", tag = "limits", responses((status = 200, body = Secondary)))]
pub(crate) async fn secondary(State(plane): State<Shared>) -> Json<Secondary> {
    let since = plane.made().held_back.as_ref().map(|(since, _)| *since);
    Json(Secondary { held_back: since.is_some(), since })
}

/// Holds the secondary back: it shows the data as it is now, until this is removed.
#[utoipa::path(put, path = "/v1/secondary", tag = "limits", responses((status = 200, body = Secondary)))]
pub(crate) async fn hold_back(State(plane): State<Shared>) -> Json<Secondary> {
    // The end of an earlier one lets the secondary catch up, so it comes first.
    plane.made().held_back = None;
    let held_back = (plane.server.clock().now(), plane.server.hold_back_secondary());
    plane.made().held_back = Some(held_back);
    secondary(State(plane)).await
}

/// Lets the secondary catch up.
#[utoipa::path(delete, path = "/v1/secondary", tag = "limits", responses((status = 204)))]
pub(crate) async fn catch_up(State(plane): State<Shared>) -> StatusCode {
    plane.made().held_back = None;
    StatusCode::NO_CONTENT
}
