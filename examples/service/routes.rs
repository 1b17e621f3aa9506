//! The routes: each calls a store and returns its result.

use std::sync::Arc;

use crate::Service;
use crate::model::{Audit, Mail, Order, Revenue, User};
use crate::problem::Problem;
use axum::extract::{Path, Query, State};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router, body::Bytes};
use futures_util::stream;
use rowkey_store::{IfMatch, Versioned};
use rowkey_worker::outbox::Outbox;
use serde::{Deserialize, Serialize};
use serde_json::json;

type Answer = Result<Response, Problem>;
type App = State<Arc<Service>>;
type Tenant = Path<String>;
type One = Path<(String, u32)>;
type File = Path<(String, u32, String)>;

pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/{tenant}/users", post(add_user))
        .route("/{tenant}/users/{email}", get(find_user))
        .route("/{tenant}/orders", post(place).get(list))
        .route("/{tenant}/orders/import", post(import))
        .route("/{tenant}/orders/{id}", get(order).put(change).patch(price).delete(remove))
        .route("/{tenant}/orders/{id}/close", post(close))
        .route("/{tenant}/orders/{id}/audit", get(audit))
        .route("/{tenant}/orders/{id}/files/{name}", put(attach).get(attachment))
        .route("/{tenant}/revenue/{day}", get(revenue))
        .with_state(service)
}

async fn add_user(app: App, Path(tenant): Tenant, Json(user): Json<User>) -> Answer {
    let user = User { tenant, ..user };
    let version = app.users.insert(&user).await?.version;
    Ok((StatusCode::CREATED, shown(Versioned { entity: user, version })).into_response())
}

async fn find_user(app: App, Path((tenant, email)): Path<(String, String)>) -> Answer {
    Ok(shown(app.users.find(User::by_email(tenant, email)).await?.ok_or(StatusCode::NOT_FOUND)?))
}

/// The order, its audit row and its mail: all of them or none.
async fn place(app: App, Path(tenant): Tenant, Json(order): Json<Order>) -> Answer {
    let order = Order { tenant, ..order };
    let mail = Mail { tenant: order.tenant.clone(), order: order.id };
    app.orders.transaction().insert(&order).task(&mail).submit().await?;
    Ok((StatusCode::CREATED, Json(order)).into_response())
}

#[derive(Deserialize)]
struct List {
    customer: Option<u32>,
    courier: Option<String>,
    state: Option<String>,
    token: Option<String>,
}

/// A page of the orders of a customer, of a courier or of a state.
async fn list(app: App, Path(tenant): Tenant, Query(list): Query<List>) -> Answer {
    let query = match (list.customer, list.courier, list.state) {
        (Some(one), _, _) => app.orders.query(Order::by_customer_under_customer(tenant, one)),
        (_, Some(one), _) => app.orders.query(Order::by_courier_all(tenant, one)),
        (_, _, Some(one)) => app.orders.query(Order::by_state_under_state(tenant, one)),
        _ => return Err(StatusCode::BAD_REQUEST.into()),
    };
    let page = query.page(20, list.token.map(|token| token.parse()).transpose()?).await?;
    let orders: Vec<_> = page.entities.into_iter().map(|found| found.entity).collect();
    let next = page.continuation.map(|token| token.to_string());
    Ok(Json(json!({ "orders": orders, "next": next })).into_response())
}

/// Stores the order of each line, with all that belongs to it.
async fn import(app: App, Path(tenant): Tenant, lines: String) -> Answer {
    let order = |line| serde_json::from_str(line).map(|o| Order { tenant: tenant.clone(), ..o });
    let orders: Result<Vec<Order>, _> = lines.lines().map(order).collect();
    let orders = stream::iter(orders.map_err(|_| StatusCode::BAD_REQUEST)?);
    let report = app.orders.load(orders).run().await.map_err(rowkey::Error::from)?;
    let (stored, failed) = (report.total.right, report.total.failed);
    Ok(Json(json!({ "stored": stored, "failed": failed })).into_response())
}

async fn order(app: App, Path((tenant, id)): One) -> Answer {
    Ok(shown(app.orders.get(Order::key(tenant, id)).await?.ok_or(StatusCode::NOT_FOUND)?))
}

async fn change(app: App, path: One, headers: HeaderMap, Json(order): Json<Order>) -> Answer {
    let Path((tenant, id)) = path;
    let order = Order { tenant, id, ..order };
    let condition = IfMatch::of(headers.get_all(IF_MATCH))?;
    let version = app.orders.replace_if(&order, condition).await?.version;
    Ok(shown(Versioned { entity: order, version }))
}

#[derive(Deserialize)]
struct Price {
    cents: i64,
}

/// Changes one property, with the rows that depend on it.
async fn price(app: App, path: One, headers: HeaderMap, Json(price): Json<Price>) -> Answer {
    let Path((tenant, id)) = path;
    let condition = IfMatch::of(headers.get_all(IF_MATCH))?;
    let patch = app.orders.patch(Order::key(tenant, id)).set(Order::CENTS, price.cents);
    let version = patch.if_version(condition).send().await?;
    Ok((StatusCode::NO_CONTENT, [(ETAG, version.to_string())]).into_response())
}

async fn remove(app: App, Path((tenant, id)): One, headers: HeaderMap) -> Answer {
    let condition = IfMatch::of(headers.get_all(IF_MATCH))?;
    app.orders.delete_if(Order::key(tenant, id), condition).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A change that may refuse.
async fn close(app: App, Path((tenant, id)): One) -> Answer {
    let close = |order: &mut Order| match &*std::mem::replace(&mut order.state, "closed".into()) {
        "closed" => Err(StatusCode::CONFLICT),
        _ => Ok(()),
    };
    Ok(shown(app.orders.try_update(Order::key(tenant, id), close).await??))
}

async fn audit(app: App, Path((tenant, id)): One) -> Answer {
    let rows = app.orders.table().query(Audit::under_order(tenant, id)).all().await?;
    Ok(Json(rows.into_iter().map(|row| row.entity).collect::<Vec<_>>()).into_response())
}

async fn attach(app: App, Path((tenant, order, name)): File, bytes: Bytes) -> Answer {
    app.files.blob(&format!("{tenant}/{order}/{name}")).put(bytes).send().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn attachment(app: App, Path((tenant, order, name)): File) -> Answer {
    let file = app.files.blob(&format!("{tenant}/{order}/{name}")).get().await?;
    Ok(file.ok_or(StatusCode::NOT_FOUND)?.bytes.into_response())
}

async fn revenue(app: App, Path((tenant, day)): Path<(String, String)>) -> Answer {
    let found = app.revenue.get(Revenue::key(tenant, day)).await?;
    Ok(Json(found.ok_or(StatusCode::NOT_FOUND)?.entity).into_response())
}

/// An entity with its version as `ETag`.
fn shown<E: Serialize>(found: Versioned<E>) -> Response {
    ([(ETAG, found.version.to_string())], Json(found.entity)).into_response()
}
