//! The routes: each is a call of a store and its answer.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router, body::Bytes};
use futures_util::stream;
use rowkey_eventual::task::Outbox;
use rowkey_store::{Version, Versioned};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Service;
use crate::model::{Attachment, Audit, Mail, Order, Revenue, User};
use crate::problem::Problem;

type Answer = Result<Response, Problem>;
type App = State<Arc<Service>>;
type OfTenant = Path<String>;
type One = Path<(String, u32)>;
type File = Path<(String, u32, String)>;

pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/{tenant}/users", post(add_user).get(find_user))
        .route("/{tenant}/orders", post(place).get(list).delete(delete_all))
        .route("/{tenant}/orders/import", post(import))
        .route("/{tenant}/orders/{id}", get(order).put(change).delete(delete))
        .route("/{tenant}/orders/{id}/close", post(close))
        .route("/{tenant}/orders/{id}/audit", get(audit))
        .route("/{tenant}/orders/{id}/files/{name}", put(attach).get(attachment))
        .route("/{tenant}/revenue/{day}", get(revenue))
        .with_state(service)
}

/// What a query string may ask for.
#[derive(Deserialize)]
struct Search {
    email: Option<String>,
    customer: Option<u32>,
    courier: Option<String>,
    n: Option<u32>,
    token: Option<String>,
}

async fn add_user(app: App, Path(tenant): OfTenant, Json(user): Json<User>) -> Answer {
    let user = User { tenant, ..user };
    let version = app.users.insert(&user).await?.version;
    Ok(shown(StatusCode::CREATED, Versioned { entity: user, version }))
}

async fn find_user(app: App, Path(tenant): OfTenant, Query(by): Query<Search>) -> Answer {
    found(app.users.find(User::by_email(tenant, by.email.unwrap_or_default())).await?)
}

/// The order, its audit row and its mail: all of them or none.
async fn place(app: App, Path(tenant): OfTenant, Json(order): Json<Order>) -> Answer {
    let order = Order { tenant, ..order };
    let mail = Mail { tenant: order.tenant.clone(), user: order.customer, order: order.id };
    app.orders.transaction().insert(&order).task(&mail).submit().await?;
    found(app.orders.get(Order::key(&order.tenant, order.id)).await?)
        .map(|answer| (StatusCode::CREATED, answer).into_response())
}

/// A page of the orders of a customer or of a courier, or of those that are open.
async fn list(app: App, Path(tenant): OfTenant, Query(list): Query<Search>) -> Answer {
    let query = match (list.customer, list.courier) {
        (Some(user), _) => app.orders.query(Order::by_customer_under_customer(tenant, user)),
        (_, Some(courier)) => app.orders.query(Order::by_courier_all(tenant, courier)),
        _ => app.orders.query(Order::not_closed_all(tenant)),
    };
    let token = list.token.map(|token| token.parse()).transpose()?;
    let page = query.page(list.n.unwrap_or(20), token).await?;
    let orders: Vec<_> = page.entities.into_iter().map(|found| found.entity).collect();
    let next = page.continuation.map(|token| token.to_string());
    Ok(Json(json!({ "orders": orders, "next": next })).into_response())
}

async fn order(app: App, Path((tenant, id)): One) -> Answer {
    found(app.orders.get(Order::key(tenant, id)).await?)
}

async fn change(
    app: App,
    Path((tenant, id)): One,
    headers: HeaderMap,
    order: Json<Order>,
) -> Answer {
    let order = Order { tenant, id, ..order.0 };
    let version = app.orders.replace_if(&order, &if_match(&headers)?).await?.version;
    Ok(shown(StatusCode::OK, Versioned { entity: order, version }))
}

async fn delete(app: App, Path((tenant, id)): One, headers: HeaderMap) -> Answer {
    app.orders.delete_if(Order::key(tenant, id), &if_match(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A change that may refuse.
async fn close(app: App, Path((tenant, id)): One) -> Answer {
    let closed = app.orders.try_update(Order::key(tenant, id), |order| match order.closed {
        false => Ok(order.closed = true),
        true => Err(Problem::Refused(StatusCode::CONFLICT, "the order is closed")),
    });
    Ok(shown(StatusCode::OK, closed.await??))
}

async fn audit(app: App, Path((tenant, id)): One) -> Answer {
    let rows = app.orders.table().query(Audit::under_order(tenant, id)).all().await?;
    let rows: Vec<_> = rows.into_iter().map(|row| row.entity).collect();
    Ok(Json(rows).into_response())
}

async fn attach(app: App, Path((tenant, order, name)): File, bytes: Bytes) -> Answer {
    app.files.upsert(&Attachment { tenant, order, name, bytes: bytes.into() }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn attachment(app: App, Path((tenant, order, name)): File) -> Answer {
    let found = app.files.get(Attachment::key(tenant, order, name)).await?;
    Ok(found.ok_or(Problem::NOT_FOUND)?.entity.bytes.into_response())
}

async fn revenue(app: App, Path((tenant, day)): Path<(String, String)>) -> Answer {
    let found = app.revenue.get(Revenue::key(tenant, day)).await?;
    Ok(Json(found.ok_or(Problem::NOT_FOUND)?.entity).into_response())
}

/// Stores one order a line, with all that belongs to each; what cannot be stored is counted.
async fn import(app: App, Path(tenant): OfTenant, lines: String) -> Answer {
    let order = |line| serde_json::from_str(line).map(|o| Order { tenant: tenant.clone(), ..o });
    let orders: Result<Vec<Order>, _> = lines.lines().map(order).collect();
    let orders =
        orders.map_err(|_| Problem::Refused(StatusCode::BAD_REQUEST, "a line is no order"))?;
    let report = app.orders.load(stream::iter(orders)).run().await?;
    let (stored, all) = (report.total.right, report.is_clean());
    Ok(Json(json!({ "stored": stored, "all": all })).into_response())
}

/// Deletes all orders of a tenant with all that belongs to them.
async fn delete_all(app: App, Path(tenant): OfTenant) -> Answer {
    app.orders.delete_where(Order::partition(tenant)).run().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn found<E: Serialize>(found: Option<Versioned<E>>) -> Answer {
    Ok(shown(StatusCode::OK, found.ok_or(Problem::NOT_FOUND)?))
}

fn shown<E: Serialize>(status: StatusCode, found: Versioned<E>) -> Response {
    (status, [(ETAG, found.version.to_string())], Json(found.entity)).into_response()
}

/// The version under which a change is made; a change without one is refused.
fn if_match(headers: &HeaderMap) -> Result<Version, Problem> {
    let header = headers.get(IF_MATCH).and_then(|header| header.to_str().ok());
    let required = Problem::Refused(StatusCode::PRECONDITION_REQUIRED, "say If-Match");
    Ok(header.ok_or(required)?.parse()?)
}
