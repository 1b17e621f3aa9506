//! Entity group transactions: several changes in one request, applied together or not at all.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::IsoWriter;
use rowkey_wire::error::{self, Rejection};
use rowkey_wire::etag::write_etag;
use rowkey_wire::limits::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
use rowkey_wire::multipart::ResponseWriter;
use rowkey_wire::odata::{Fields, Metadata};

use super::call::Call;
use super::entity::{self, View};
use super::page;
use super::permit;
use crate::control::hub::NotCommitted;
use crate::front::respond::{self, Failure, HttpResponse};
use crate::front::{head, route};
use crate::op::entity as odata;
use crate::op::table::{Change, ChangeKind, Op, Prefer};
use crate::services::authorized::Authorized;
use crate::store::table::Written;
use crate::wire::options;
use crate::wire::options::Options;
use crate::wire::table::batch::{BatchRequest, PartHead, PartRequest, parse_request};
use crate::wire::table::location::write_entity_location;
use crate::wire::table::parse;

const NOSNIFF: (&str, &str) = ("X-Content-Type-Options", "nosniff");
const NO_CACHE: (&str, &str) = ("Cache-Control", "no-cache");
const CONTINUATION: [&str; 2] =
    ["x-ms-continuation-NextPartitionKey", "x-ms-continuation-NextRowKey"];

/// The approximate length of the response to one change.
const ANSWER_LEN: usize = 640;

/// The failure of a transaction: the index of the part, and the error.
type Failed = (usize, Rejection);

/// Perform Entity Group Transaction.
pub(super) async fn perform(call: &Call<'_>) -> Result<HttpResponse, Failure> {
    if call.body.len() > MAX_BATCH_BYTES {
        return Err(Failure::front_end(Rejection::new(ErrorCode::REQUEST_BODY_TOO_LARGE)));
    }
    let content_type = call.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let request = parse_request(content_type, call.body).map_err(|error| {
        let message = format!("One of the request inputs is not valid: {error}.");
        Failure::front_end(Rejection::with_message(ErrorCode::INVALID_INPUT, message))
    })?;
    let ((kind, body), committed) = match request {
        BatchRequest::Changes(parts) => changes(call, &parts)?,
        BatchRequest::Query(part) => (query(call, &part).await, false),
    };
    let mut answer = respond::with_body(StatusCode::ACCEPTED, body);
    if !committed {
        answer.extensions_mut().insert(NotCommitted);
    }
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, respond::value(kind));
    headers.insert(header::CACHE_CONTROL, respond::NO_CACHE);
    Ok(answer)
}

/// The response to a changeset: one part for each change, or one part with the error. The flag
/// tells whether the changes were made.
fn changes(call: &Call<'_>, parts: &[PartRequest<'_>]) -> Result<((String, Bytes), bool), Failure> {
    let ids = [call.state.ids.next(), call.state.ids.next()];
    let [batch_id, changeset_id] = ids.each_ref().map(|id| id.to_str().unwrap_or_default());
    let mut writer = ResponseWriter::new(batch_id, changeset_id);
    let result = apply(call, parts, &mut writer);
    if let Err((_, rejection)) = &result
        && rejection.code == ErrorCode::SERVER_BUSY
    {
        // Not recorded for a transaction, but the whole request has to be repeated.
        return Err(Failure::data(rejection.clone()));
    }
    let committed = result.is_ok();
    if let Err((index, rejection)) = result {
        // The error of a single change is not numbered, unless its table does not exist.
        let numbered = parts.len() > 1 || rejection.code == ErrorCode::TABLE_NOT_FOUND;
        let number = numbered.then_some(index);
        // Without the responses to the changes before it, which were undone.
        writer = ResponseWriter::new(batch_id, changeset_id);
        fail(call, parts.get(index), number, &rejection, &mut writer);
    }
    Ok((writer.finish(), committed))
}

/// Applies the changes and writes their responses.
fn apply(
    call: &Call<'_>,
    parts: &[PartRequest<'_>],
    writer: &mut ResponseWriter,
) -> Result<(), Failed> {
    if parts.len() > MAX_BATCH_OPERATIONS {
        let message = "The batch request operation exceeds the maximum 100 changes per change set.";
        let rejection = Rejection::with_message(ErrorCode::INVALID_INPUT, message);
        return Err((MAX_BATCH_OPERATIONS - 1, rejection));
    }
    // Each of these borrows from the one before: addresses, bodies, changes.
    let addresses = each(parts, |part| Address::of(part, call.route.prefix))?;
    let mut checked: Option<&Arc<PartHead>> = None;
    let bodies = each(parts, |part| {
        if checked.is_none_or(|checked| !Arc::ptr_eq(checked, &part.head)) {
            head::check_repeated(&part.head.headers)?;
            parse::check_json_type(&part.head.headers)?;
            checked = Some(&part.head);
        }
        if part.body.is_empty() { Ok(Fields::default()) } else { odata::fields(part.body) }
    })?;
    let mut changes = Vec::with_capacity(parts.len());
    for (index, ((part, address), fields)) in parts.iter().zip(&addresses).zip(&bodies).enumerate()
    {
        changes.push(understand(call, part, address, fields).map_err(|failed| (index, failed))?);
    }
    if let Some(first) = changes.first() {
        call.take_entities(&first.address, changes.len()).map_err(|rejection| (0, rejection))?;
    }
    writer.reserve(changes.len() * ANSWER_LEN);
    let mut answers = PartResponses {
        call,
        writer,
        level: None,
        instants: IsoWriter::default(),
        tag: Vec::new(),
        location: String::new(),
    };
    let mut made = parts.iter();
    let see = |written: &Written<'_>| {
        if let Some(part) = made.next() {
            answers.succeed(part, written);
        }
    };
    let applied = call.change(|store| store.transact(&changes, call.context.now, see));
    applied.map_err(|failed| (failed.index, failed.rejection))
}

/// Applies a function to every part; an error tells which part failed.
fn each<'a, T>(
    parts: &'a [PartRequest<'a>],
    mut with: impl FnMut(&'a PartRequest<'a>) -> Result<T, Rejection>,
) -> Result<Vec<T>, Failed> {
    parts
        .iter()
        .enumerate()
        .map(|(index, part)| with(part).map_err(|rejection| (index, rejection)))
        .collect()
}

/// The decoded address of a part.
struct Address<'a> {
    path: Cow<'a, str>,
    options: Options<'a>,
}

impl<'a> Address<'a> {
    fn of(part: &PartRequest<'a>, prefix: &str) -> Result<Self, Rejection> {
        let (path, query) = route::inner(part.target, prefix)?;
        Ok(Self { path: options::decode_path(path)?, options: Options::parse(query)? })
    }
}

fn understand<'a>(
    call: &Call<'_>,
    part: &PartRequest<'_>,
    address: &'a Address<'_>,
    fields: &'a Fields<'_>,
) -> Result<Change<'a>, Rejection> {
    let target = parse::target(&address.path, &address.options)?;
    let method = parse::method(&part.method, &part.head.headers)?;
    let options = &address.options;
    let op =
        parse::op(&method, target, options, &part.head.headers, fields, call.state.rules.strict)?;
    parse::check_version(&op, call.context.version())?;
    permit::check(call.access, &op)?;
    match op {
        Op::Change(change) => Ok(change),
        _ => Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            "One of the request inputs is not valid: a change set holds changes of entities only.",
        )),
    }
}

/// Writes the responses to changes that were made.
struct PartResponses<'a> {
    call: &'a Call<'a>,
    writer: &'a mut ResponseWriter,
    /// The metadata level that the previous head asked for.
    level: Option<(&'a Arc<PartHead>, Metadata)>,
    instants: IsoWriter,
    // Buffers, reused for every response.
    tag: Vec<u8>,
    location: String,
}

impl<'a> PartResponses<'a> {
    fn succeed(&mut self, part: &'a PartRequest<'_>, written: &Written<'_>) {
        let level = self.level(part);
        let Self { call, writer, instants, tag, location, .. } = self;
        let Written { change, table, timestamp, entity } = *written;
        tag.clear();
        write_etag(tag, b"\"", &instants.iso(timestamp));
        let tag = std::str::from_utf8(tag).unwrap_or_default();
        let mut headers: Vec<(&str, &str)> = Vec::with_capacity(9);
        headers.extend(content_id(part));
        let ChangeKind::Insert(_, prefer) = change.kind else {
            headers.extend([NOSNIFF, NO_CACHE, ("DataServiceVersion", "1.0;")]);
            if !matches!(change.kind, ChangeKind::Delete(_)) {
                headers.push(("ETag", tag));
            }
            writer.part(204, "No Content", &headers, b"");
            return;
        };
        location.clear();
        write_entity_location(location, &call.route.endpoint, table, &change.address);
        let applied = prefer.map(|prefer| ("Preference-Applied", prefer.as_str()));
        let version = ("DataServiceVersion", "3.0;");
        if prefer == Some(Prefer::NoContent) {
            headers.extend([NOSNIFF, NO_CACHE]);
            headers.extend(applied);
            headers.extend([version, ("Location", location), ("DataServiceId", location)]);
            headers.push(("ETag", tag));
            writer.part(204, "No Content", &headers, b"");
        } else {
            headers.extend([version, ("Content-Type", level.content_type()), NOSNIFF, NO_CACHE]);
            headers.extend(applied);
            headers.extend([("Location", location.as_str()), ("ETag", tag)]);
            let keys = (&*change.address.partition_key, &*change.address.row_key);
            let view = View { origin: call.origin(), level, table, select: None };
            let content = entity.map(|(_, row)| view.single(keys, row));
            writer.part(201, "Created", &headers, &content.unwrap_or_default());
        }
    }

    fn level(&mut self, part: &'a PartRequest<'_>) -> Metadata {
        match self.level {
            Some((head, level)) if Arc::ptr_eq(head, &part.head) => level,
            _ => self.level.insert((&part.head, level_of(part))).1,
        }
    }
}

/// Writes the one part of a batch that failed. `number` is the prefix of its message.
fn fail(
    call: &Call<'_>,
    part: Option<&PartRequest<'_>>,
    number: Option<usize>,
    rejection: &Rejection,
    writer: &mut ResponseWriter,
) {
    let Rejection { status, code, message, .. } = rejection;
    let message = match number {
        Some(number) => respond::message(&format!("{number}:{message}"), call.context),
        None => respond::message(message, call.context),
    };
    let level = part.map_or(Metadata::Minimal, level_of);
    let mut headers: Vec<(&str, &str)> = Vec::with_capacity(6);
    headers.extend(part.and_then(content_id));
    headers.push(NOSNIFF);
    if *code != ErrorCode::TABLE_NOT_FOUND {
        headers.push(NO_CACHE);
    }
    let prefer = part.and_then(|part| parse::prefer(&part.head.headers));
    if *code != ErrorCode::TABLE_NOT_FOUND {
        headers.extend(prefer.map(|prefer| ("Preference-Applied", prefer.as_str())));
    }
    headers.push(("DataServiceVersion", "3.0;"));
    headers.push(("Content-Type", level.content_type()));
    let body = error::render_json(code, &message);
    let reason = status.canonical_reason().unwrap_or_default();
    writer.part(status.as_u16(), reason, &headers, body.as_bytes());
}

/// The response to a batch that is one query. Its errors are numbered.
async fn query(call: &Call<'_>, part: &PartRequest<'_>) -> (String, Bytes) {
    let batch_id = call.state.ids.next();
    let mut writer = ResponseWriter::query(batch_id.to_str().unwrap_or_default());
    match query_alone(call, part).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let body = body.into_bytes();
            let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
            let mut headers: Vec<(&str, &str)> = Vec::with_capacity(8);
            headers.extend(content_id(part));
            headers.extend([("DataServiceVersion", "3.0;")]);
            for name in ["Content-Type", "ETag", CONTINUATION[0], CONTINUATION[1]] {
                headers.extend(text(name).map(|value| (name, value)));
            }
            headers.extend([NOSNIFF, NO_CACHE]);
            writer.part(200, "OK", &headers, &body);
        }
        Err(failure) => fail(call, Some(part), Some(0), &failure.rejection, &mut writer),
    }
    writer.finish()
}

async fn query_alone(call: &Call<'_>, part: &PartRequest<'_>) -> Result<HttpResponse, Failure> {
    let Address { path, options } = Address::of(part, call.route.prefix).map_err(Failure::data)?;
    let target = parse::target(&path, &options).map_err(Failure::data)?;
    let fields = Fields::default();
    let op = parse::op(
        &Method::GET,
        target,
        &options,
        &part.head.headers,
        &fields,
        call.state.rules.strict,
    );
    let op = op.map_err(Failure::data)?;
    permit::check(call.access, &op).map_err(Failure::data)?;
    let format = parse::response_format(&options, &part.head.headers);
    let authorized = Authorized { headers: &part.head.headers, ..call.authorized };
    let call = Call { authorized, format, ..*call };
    match op {
        Op::GetEntity(address, select) => entity::get(&call, &address, select.as_ref()),
        Op::QueryEntities(table, query) => page::query(&call, table, query).await,
        _ => Err(Failure::data(Rejection::new(ErrorCode::NOT_IMPLEMENTED))),
    }
}

fn content_id<'a>(part: &'a PartRequest<'_>) -> Option<(&'a str, &'a str)> {
    part.head.content_id.as_deref().map(|id| ("Content-ID", id))
}

/// Each part has its own metadata level.
fn level_of(part: &PartRequest<'_>) -> Metadata {
    parse::response_format(&Options::default(), &part.head.headers).level
}
