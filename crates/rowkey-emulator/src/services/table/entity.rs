//! Operations on one entity: get, insert, update, delete.

use http::StatusCode;
use http::header::{self, HeaderValue};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{DateTime, Iso};
use rowkey_wire::error::Rejection;
use rowkey_wire::etag::{ETAG_LEN, write_etag};
use rowkey_wire::odata::Metadata;
use rowkey_wire::odata::render::{self, Origin};

use super::call::Call;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::op::table::{Address, Change, ChangeKind, Prefer, Select};
use crate::store::Row;
use crate::store::table::Written;
use crate::wire::table::location::entity_location;

/// Get Entity.
pub(super) fn get(
    call: &Call<'_>,
    address: &Address<'_>,
    select: Option<&Select>,
) -> Result<HttpResponse, Failure> {
    let store = call.account.store();
    let table = store.table(address.table).map_err(Failure::data)?;
    let row = table
        .get(&address.partition_key, &address.row_key)
        .ok_or_else(|| Failure::data(Rejection::new(ErrorCode::RESOURCE_NOT_FOUND)))?;
    let view =
        View { origin: call.origin(), level: call.format.level, table: table.name(), select };
    let body = view.single((&address.partition_key, &address.row_key), row);
    let timestamp = row.timestamp();
    drop(store);
    let mut answer = respond::data(StatusCode::OK, call.format.level, body);
    answer.headers_mut().insert(header::ETAG, etag(timestamp));
    Ok(answer)
}

/// Insert, replace, merge and delete.
pub(super) fn change(call: &Call<'_>, change: &Change<'_>) -> Result<HttpResponse, Failure> {
    let Change { address, kind } = change;
    let level = call.format.level;
    let (mut timestamp, mut location, mut body) = (None, None, None);
    let see = |written: &Written<'_>| {
        let Some((_, row)) = written.entity else { return };
        timestamp = Some(written.timestamp);
        let ChangeKind::Insert(_, prefer) = kind else { return };
        location = Some(entity_location(&call.route.endpoint, written.table, address));
        if *prefer != Some(Prefer::NoContent) {
            let view = View { origin: call.origin(), level, table: written.table, select: None };
            body = Some(view.single((&address.partition_key, &address.row_key), row));
        }
    };
    call.change(|store| store.apply(change, call.context.now, see)).map_err(Failure::data)?;
    let mut answer = match body {
        Some(body) => respond::data(StatusCode::CREATED, level, body),
        None => respond::data_empty(StatusCode::NO_CONTENT),
    };
    let headers = answer.headers_mut();
    let location = location.map(respond::value);
    if let ChangeKind::Insert(_, Some(Prefer::NoContent)) = kind {
        headers.extend(location.clone().map(|location| (respond::DATA_SERVICE_ID, location)));
    }
    if let Some(timestamp) = timestamp {
        headers.insert(header::ETAG, etag(timestamp));
    }
    if let (ChangeKind::Insert(_, prefer), Some(location)) = (kind, location) {
        headers.insert(header::LOCATION, location);
        respond::apply_prefer(&mut answer, *prefer);
    }
    Ok(answer)
}

/// The ETag of an entity written at this instant.
pub(super) fn etag(timestamp: DateTime) -> HeaderValue {
    let mut text = Vec::with_capacity(ETAG_LEN);
    write_etag(&mut text, b"\"", &timestamp.iso());
    respond::value(text)
}

/// Options for rendering entities of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) origin: Origin<'a>,
    pub(super) level: Metadata,
    pub(super) table: &'a str,
    pub(super) select: Option<&'a Select>,
}

impl View<'_> {
    /// A document of one entity.
    pub(super) fn single(&self, keys: (&str, &str), row: &Row) -> Vec<u8> {
        let mut out = Vec::with_capacity(row.rendered_len() + 256);
        let select = self.select.map(|select| select.text.as_str());
        render::begin_entity(&mut out, self.level, self.origin, self.table, select);
        self.members(&mut out, keys, row, &row.timestamp().iso());
        out.push(b'}');
        out
    }

    /// Writes the members of an entity, after the opening brace. `timestamp` is the row's.
    pub(super) fn members(
        &self,
        out: &mut Vec<u8>,
        keys: (&str, &str),
        row: &Row,
        timestamp: &Iso,
    ) {
        render::entity_head(out, self.level, self.origin, self.table, keys, timestamp);
        match self.select {
            Some(select) if !select.names.is_empty() => {
                self.selected(out, keys, row, (select, timestamp));
            }
            _ => {
                out.extend_from_slice(b"\"PartitionKey\":");
                render::string(out, keys.0);
                out.extend_from_slice(b",\"RowKey\":");
                render::string(out, keys.1);
                out.push(b',');
                render::timestamp(out, self.level, timestamp);
                row.render(out, self.level);
            }
        }
    }

    /// Writes the selected properties: keys and Timestamp first, the others by name. Properties
    /// that the entity does not have are null.
    fn selected(
        &self,
        out: &mut Vec<u8>,
        keys: (&str, &str),
        row: &Row,
        (select, timestamp): (&Select, &Iso),
    ) {
        let has = |name: &str| select.names.iter().any(|selected| selected == name);
        let shape = row.shape();
        // All members come with a leading comma, so the trailing one of the head is removed.
        let after_head = out.pop_if(|last| *last == b',').is_some();
        let start = out.len();
        if has("PartitionKey") {
            out.extend_from_slice(b",\"PartitionKey\":");
            render::string(out, keys.0);
        }
        if has("RowKey") {
            out.extend_from_slice(b",\"RowKey\":");
            render::string(out, keys.1);
        }
        if has("Timestamp") {
            out.push(b',');
            render::timestamp(out, self.level, timestamp);
        }
        for name in &select.names {
            match shape.find(name) {
                Some(slot) => row.render_one(out, self.level, slot),
                None if matches!(name.as_str(), "PartitionKey" | "RowKey" | "Timestamp") => {}
                None => {
                    out.push(b',');
                    render::string(out, name);
                    out.extend_from_slice(b":null");
                }
            }
        }
        if !after_head && out.len() > start {
            out.remove(start);
        }
    }
}
