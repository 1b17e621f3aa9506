//! The routes, each of which calls the store and returns its result, and errors as responses.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query};
use axum::http::header::{ALLOW, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::map_response;
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures_util::stream;
use rowkey::store::{IfMatch, IfMatchError, Versioned};
use rowkey::{BlobRef, Continuation, Error, ErrorDetails};
use serde::Deserialize;
use serde_json::json;

use crate::Service;
use crate::model::{Deliveries, Parcel, Scan, State};

type Answer = Result<Response, Problem>;
type App = axum::extract::State<Service>;
type One = Path<(String, u32)>;

pub(crate) fn router(service: Service) -> Router {
    Router::new()
        .route("/{tenant}/parcels", post(add).get(list))
        .route("/{tenant}/parcels/import", post(import))
        .route("/{tenant}/parcels/{id}", get(parcel).delete(remove))
        .route("/{tenant}/parcels/{id}/state", put(change))
        .route("/{tenant}/parcels/{id}/scans", post(scan).get(scans))
        .route("/{tenant}/parcels/{id}/photo", put(upload).get(download))
        .route("/{tenant}/parcels/{id}/photo/link", get(link))
        .route("/{tenant}/numbers/{number}", get(by_number))
        .route("/{tenant}/deliveries/{courier}", get(deliveries))
        .layer(map_response(as_problem))
        .with_state(service)
}

async fn add(app: App, Path(tenant): Path<String>, Json(parcel): Json<Parcel>) -> Answer {
    let parcel = Parcel { tenant, ..parcel };
    let version = app.parcels.insert(&parcel).await?.version;
    Ok((StatusCode::CREATED, [(ETAG, version.to_string())], Json(parcel)).into_response())
}

/// Stores the parcel of each line of JSON, with all that belongs to it.
async fn import(app: App, Path(tenant): Path<String>, lines: String) -> Answer {
    let parcel = |line| serde_json::from_str(line).map(|p| Parcel { tenant: tenant.clone(), ..p });
    let parcels: Result<Vec<Parcel>, _> = lines.lines().map(parcel).collect();
    let parcels = stream::iter(parcels.map_err(|_| StatusCode::BAD_REQUEST)?);
    let report = app.parcels.load(parcels).run().await.map_err(Error::from)?;
    Ok(Json(report.total).into_response())
}

async fn parcel(app: App, Path((tenant, id)): One, headers: HeaderMap) -> Answer {
    shown(app.parcels.get(Parcel::key(tenant, id)).await?, &headers)
}

async fn by_number(app: App, path: Path<(String, String)>, headers: HeaderMap) -> Answer {
    let Path((tenant, number)) = path;
    shown(app.parcels.find(Parcel::by_number(tenant, number)).await?, &headers)
}

/// A parcel with its version as `ETag`, or 304 if the client has this version.
fn shown(found: Option<Versioned<Parcel>>, headers: &HeaderMap) -> Answer {
    let Versioned { entity, version } = found.ok_or(StatusCode::NOT_FOUND)?;
    let etag = [(ETAG, version.to_string())];
    if version.is_not_modified(headers.get_all(IF_NONE_MATCH)) {
        return Ok((StatusCode::NOT_MODIFIED, etag).into_response());
    }
    Ok((etag, Json(entity)).into_response())
}

#[derive(Deserialize)]
struct List {
    courier: Option<String>,
    state: Option<State>,
    email: Option<String>,
    token: Option<Continuation>,
}

/// A page of the parcels of a courier, of a state or of a recipient, and the token of the next one.
async fn list(app: App, Path(tenant): Path<String>, Query(list): Query<List>) -> Answer {
    let query = match (list.courier, list.state, list.email) {
        (Some(one), _, _) => app.parcels.query(Parcel::by_courier_under_courier(tenant, one)),
        (_, Some(one), _) => app.parcels.query(Parcel::by_state_under_state(tenant, one)),
        (_, _, Some(one)) => app.parcels.query(Parcel::by_email_all(tenant, one)),
        _ => return Err(StatusCode::BAD_REQUEST.into()),
    };
    let page = query.page(20, list.token).await?;
    let items: Vec<_> = page.entities.into_iter().map(|found| found.entity).collect();
    Ok(Json(json!({ "items": items, "next": page.continuation })).into_response())
}

/// Changes the state under a version, with all that follows: lists, the scan, the view and the mail.
async fn change(app: App, path: One, headers: HeaderMap, Json(state): Json<State>) -> Answer {
    let Path((tenant, id)) = path;
    let condition = IfMatch::of(headers.get_all(IF_MATCH))?;
    let patch = app.parcels.patch(Parcel::key(tenant, id)).set(Parcel::STATE, state);
    let version = patch.if_version(condition).send().await?;
    Ok((StatusCode::NO_CONTENT, [(ETAG, version.to_string())]).into_response())
}

async fn remove(app: App, Path((tenant, id)): One, headers: HeaderMap) -> Answer {
    let condition = IfMatch::of(headers.get_all(IF_MATCH))?;
    app.parcels.delete_if(Parcel::key(tenant, id), condition).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A change that may refuse.
async fn scan(app: App, Path((tenant, id)): One, Json(place): Json<String>) -> Answer {
    let moved = |parcel: &mut Parcel| {
        if parcel.state == State::Delivered {
            return Err(StatusCode::CONFLICT);
        }
        (parcel.state, parcel.place) = (State::Moving, Some(place.clone()));
        Ok(())
    };
    let parcel = app.parcels.try_update(Parcel::key(tenant, id), moved).await??;
    shown(Some(parcel), &HeaderMap::new())
}

async fn scans(app: App, Path((tenant, id)): One, Query(list): Query<List>) -> Answer {
    let scans = app.parcels.table().query(Scan::under_parcel(tenant, id));
    let page = scans.page(20, list.token).await?;
    let items: Vec<_> = page.entities.into_iter().map(|row| row.entity).collect();
    Ok(Json(json!({ "items": items, "next": page.continuation })).into_response())
}

/// Streams the body into a blob and gives it to the parcel. The photo that the parcel had is deleted.
async fn upload(app: App, Path((tenant, id)): One, headers: HeaderMap, body: Body) -> Answer {
    let key = || Parcel::key(&tenant, id);
    app.parcels.get(key()).await?.ok_or(StatusCode::NOT_FOUND)?; // before the upload
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let upload = app.parcels.upload(key(), body.into_data_stream());
    let photo = upload.content_type(kind.unwrap_or("image/jpeg")).send().await?;
    app.parcels.update(key(), |parcel| parcel.photo = Some(photo.clone())).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn photo(app: &Service, (tenant, id): (String, u32)) -> Result<BlobRef, Problem> {
    let found = app.parcels.get(Parcel::key(tenant, id)).await?;
    Ok(found.and_then(|parcel| parcel.entity.photo).ok_or(StatusCode::NOT_FOUND)?)
}

async fn download(app: App, Path(one): One) -> Answer {
    let photo = photo(&app, one).await?;
    let kind = [(CONTENT_TYPE, photo.content_type().unwrap_or("image/jpeg").to_owned())];
    let content = app.parcels.download(&photo).open().await?;
    Ok((kind, Body::from_stream(content.stream())).into_response())
}

/// A link to the blob, which the client reads without this service.
async fn link(app: App, Path(one): One) -> Answer {
    let link = app.parcels.link(&photo(&app, one).await?, Duration::from_secs(15 * 60))?;
    Ok(Redirect::temporary(&link.url()).into_response())
}

async fn deliveries(app: App, Path((tenant, courier)): Path<(String, String)>) -> Answer {
    let found = app.deliveries.get(Deliveries::key(tenant, courier)).await?;
    Ok(Json(found.ok_or(StatusCode::NOT_FOUND)?.entity).into_response())
}

const PROBLEM: &str = "application/problem+json";

/// An error as in RFC 9457: its status, and what the store says about it.
pub(crate) struct Problem(u16, ErrorDetails);

impl From<StatusCode> for Problem {
    fn from(status: StatusCode) -> Self {
        Self(status.as_u16(), ErrorDetails::default())
    }
}

/// 428 for a change without `If-Match`, 400 for a malformed header.
impl From<IfMatchError> for Problem {
    fn from(error: IfMatchError) -> Self {
        Self(error.status(), ErrorDetails::default())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        eprintln!("{error}");
        Self(error.http_status(), error.details().clone())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(number, ErrorDetails { index, retry_after, .. }) = self;
        let status = StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // `index` is the declaration whose value is taken.
        let body = json!({ "status": number, "title": status.canonical_reason(), "index": index });
        let wait = (number == 503).then(|| retry_after.map_or(1, |wait| wait.as_secs().max(1)));
        let wait = AppendHeaders(wait.map(|seconds| (RETRY_AFTER, seconds)));
        (status, [(CONTENT_TYPE, PROBLEM)], wait, Json(body)).into_response()
    }
}

/// Errors of axum, such as one for an invalid parameter, as problems.
async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM);
    let is_right = status.as_u16() < 400 || is_problem;
    let allow = response.headers().get(ALLOW).cloned().map(|methods| (ALLOW, methods)); // of 405
    if is_right { response } else { (AppendHeaders(allow), Problem::from(status)).into_response() }
}
