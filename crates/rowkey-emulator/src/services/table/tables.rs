//! Operations on tables: create, delete, get, list.

use http::StatusCode;
use http::header;
use rowkey_wire::headers;

use super::call::Call;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::op::table::{Prefer, TableQuery};
use crate::wire::table::{location, render, token};

/// A deleted table with at least this many entities is freed on another thread.
const LARGE: usize = 10_000;

/// Create Table.
pub(super) fn create(
    call: &Call<'_>,
    name: &str,
    prefer: Option<Prefer>,
) -> Result<HttpResponse, Failure> {
    call.change(|store| store.create_table(name, call.context.now).map(drop))
        .map_err(Failure::data)?;
    let location = respond::value(location::table_location(&call.route.endpoint, name));
    let mut answer = if prefer == Some(Prefer::NoContent) {
        let mut answer = respond::data_empty(StatusCode::NO_CONTENT);
        answer.headers_mut().insert(respond::DATA_SERVICE_ID, location.clone());
        answer
    } else {
        let level = call.format.level;
        respond::data(StatusCode::CREATED, level, render::table(level, call.origin(), name))
    };
    answer.headers_mut().insert(header::LOCATION, location);
    respond::apply_prefer(&mut answer, prefer);
    Ok(answer)
}

/// Delete Table.
pub(super) fn delete(call: &Call<'_>, name: &str) -> Result<HttpResponse, Failure> {
    let table = call.change(|store| store.delete_table(name, call.context.now));
    let table = table.map_err(Failure::data)?;
    if table.rows() > LARGE {
        // Freeing a million rows takes long; no request waits for it.
        tokio::task::spawn_blocking(move || drop(table));
    }
    Ok(respond::data_empty(StatusCode::NO_CONTENT))
}

/// Get Table.
pub(super) fn get(call: &Call<'_>, name: &str) -> Result<HttpResponse, Failure> {
    let level = call.format.level;
    let store = call.account.store();
    let table = store.find_table(name).map_err(Failure::data)?;
    Ok(respond::data(StatusCode::OK, level, render::table(level, call.origin(), table.name())))
}

/// Query Tables.
pub(super) fn query(call: &Call<'_>, query: &TableQuery) -> HttpResponse {
    let level = call.format.level;
    let cut = call.cut(query.next.is_some());
    let store = call.account.store();
    let (page, next) = store.tables(query, cut);
    let names = page.iter().map(|table| table.name());
    let mut answer =
        respond::data(StatusCode::OK, level, render::tables(level, call.origin(), names));
    if let Some(table) = next {
        let token = respond::value(token::encode_table(table.name(), table.created()));
        answer.headers_mut().insert(headers::NEXT_TABLE_NAME, token);
    }
    answer
}
