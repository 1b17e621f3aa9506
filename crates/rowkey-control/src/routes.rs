//! Which request goes where, and the OpenAPI document, which is made from the same list.

use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use axum::{Router, middleware};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use utoipa::OpenApi;
use utoipa::openapi::{Content, OpenApi as Document, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::shared::Shared;
use crate::{
    clock, contents, data, faults, forks, guard, health, identities, journal, limits, page, queues,
};

/// The document without its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "rowkey-server control plane",
        description = "Faults, clock, throttling, page cuts, journal, snapshots and more of a rowkey server. Requests \
                       to /v1/data/{service}/{account}/… reach the services themselves as the owner of the server."
    ),
    components(schemas(Problem, crate::schema::Fault, crate::schema::Operation, crate::schema::Service)),
    tags(
        (name = "server", description = "The server itself"),
        (name = "faults", description = "Requests that fail in a chosen way"),
        (name = "clock", description = "The time of the server"),
        (name = "limits", description = "Request rates, pages of results, the secondary"),
        (name = "journal", description = "The requests that the server received"),
        (name = "contents", description = "Snapshots, forks, resets, and all data as one file"),
        (name = "identities", description = "Who gets tokens from the server"),
        (name = "data", description = "What the services do not show"),
    )
)]
struct Api;

/// The OpenAPI document of the control plane.
///
/// ```
/// let document = serde_json::to_value(rowkey_control::openapi())?;
/// assert!(document["paths"]["/v1/clock/advance"]["post"].is_object());
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn openapi() -> Document {
    let (_, document) = documented().split_for_parts();
    with_problems(document)
}

/// The document, in which each operation has problems among its responses.
fn with_problems(mut document: Document) -> Document {
    // Each request can be refused, by its resource or before it reaches that.
    for path in document.paths.paths.values_mut() {
        let operations = [&mut path.get, &mut path.put, &mut path.post, &mut path.delete];
        for operation in operations.into_iter().flatten() {
            let content = Content::new(Some(Ref::from_schema_name("Problem")));
            let problem = ResponseBuilder::new()
                .description("The request is refused; the problem says why, and what to do.")
                .content("application/problem+json", content);
            let responses = &mut operation.responses.responses;
            responses.insert("default".to_owned(), RefOr::T(problem.build()));
        }
    }
    document
}

/// The requests that the document lists.
fn documented() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(health::about))
        .routes(routes!(health::shutdown))
        .routes(routes!(faults::list, faults::inject, faults::clear))
        .routes(routes!(faults::get, faults::delete))
        .routes(routes!(faults::release))
        .routes(routes!(faults::wait))
        .routes(routes!(clock::get))
        .routes(routes!(clock::advance))
        .routes(routes!(clock::freeze))
        .routes(routes!(clock::follow))
        .routes(routes!(limits::throttle, limits::set_throttle, limits::end_throttle))
        .routes(routes!(limits::pages, limits::cut_pages, limits::whole_pages))
        .routes(routes!(limits::secondary, limits::hold_back, limits::catch_up))
        .routes(routes!(journal::list, journal::clear))
        .routes(routes!(journal::events))
        .routes(routes!(contents::list, contents::take))
        .routes(routes!(contents::restore))
        .routes(routes!(contents::delete))
        .routes(routes!(contents::reset))
        .routes(routes!(contents::export, contents::import))
        .routes(routes!(contents::seed))
        .routes(routes!(identities::list, identities::add))
        .routes(routes!(identities::remove))
        .routes(routes!(forks::list, forks::start))
        .routes(routes!(forks::end))
        .routes(routes!(queues::messages))
}

/// All requests, with the checks that precede them.
pub(crate) fn router(plane: Shared) -> Router {
    let (router, document) = documented().split_for_parts();
    // As bytes: the document itself would be most of the memory of an idle control plane.
    let document = serde_json::to_vec(&with_problems(document)).map(Bytes::from);
    let document = document.unwrap_or_default();
    let router = router
        .route(
            "/openapi.json",
            get(|| async { ([(header::CONTENT_TYPE, "application/json")], document) }),
        )
        .route(&format!("{}{{*rest}}", data::PREFIX), any(data::pass))
        .merge(page::router())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        // A state, and a blob, are as large as they are.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::map_response(uncached))
        .layer(middleware::from_fn_with_state(plane.clone(), guard::check));
    router.with_state(plane)
}

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

async fn unknown(uri: Uri) -> Response {
    Problem::missing(&format!("resource {}", uri.path()), "GET /openapi.json").into_response()
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let detail =
        format!("{} does not take {method}; GET /openapi.json lists what it takes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}

/// What the control plane shows changes at any time, and belongs to this origin alone.
async fn uncached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let set = |name, value| (name, HeaderValue::from_static(value));
    for (name, value) in [
        set(header::CACHE_CONTROL, "no-store"),
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        set(header::X_FRAME_OPTIONS, "DENY"),
        set(header::REFERRER_POLICY, "no-referrer"),
        set(RESOURCE_POLICY, "same-origin"),
    ] {
        headers.entry(name).or_insert(value);
    }
    response
}
