//! The identities that get tokens from the server, with `--oauth issue`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rowkey_emulator::Identity;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::{Named, Sent};
use crate::problem::Problem;
use crate::schema;
use crate::shared::Shared;

/// The identities of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Identities {
    /// The address at which they get tokens; `null` if the server issues none.
    authority: Option<String>,
    /// Without their secrets.
    #[schema(value_type = Vec<schema::Identity>)]
    identities: Vec<Identity>,
}

/// The identities.
#[utoipa::path(get, path = "/v1/identities", tag = "identities", responses((status = 200, body = Identities)))]
pub(crate) async fn list(State(plane): State<Shared>) -> Json<Identities> {
    let authority = plane.server.authority().map(str::to_owned);
    Json(Identities { authority, identities: plane.server.identities() })
}

/// Adds an identity, or replaces the one with its id. Its roles have their effect at once, also for tokens that exist.
#[utoipa::path(
    post, path = "/v1/identities", tag = "identities", request_body = schema::NewIdentity,
    responses((status = 201, body = schema::Identity))
)]
pub(crate) async fn add(
    State(plane): State<Shared>,
    Sent(identity): Sent<Identity>,
) -> Result<Response, Problem> {
    if plane.server.add_identity(identity.clone()) {
        return Ok((StatusCode::CREATED, Json(identity)).into_response());
    }
    if plane.server.authority().is_some() {
        let detail = "another identity has this objectId, and tokens would not tell them apart";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    Err(no_tokens())
}

fn no_tokens() -> Problem {
    let detail = "the server issues no tokens: start it with --oauth issue";
    Problem::new(StatusCode::CONFLICT, detail)
}

/// Removes the identity with this client id or user name. Its tokens then permit nothing.
#[utoipa::path(
    delete, path = "/v1/identities/{id}", tag = "identities", params(("id" = String, Path)),
    responses((status = 204))
)]
pub(crate) async fn remove(
    State(plane): State<Shared>,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    if plane.server.remove_identity(&id) {
        return Ok(StatusCode::NO_CONTENT);
    }
    if plane.server.authority().is_none() {
        return Err(no_tokens());
    }
    Err(Problem::missing("identity with this id", "GET /v1/identities"))
}
