//! Parses requests into [`Op`]s, or into the errors that the service would return.

use std::borrow::Cow;

use http::{HeaderMap, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::filter::{self, Filter};
use rowkey_wire::headers;
use rowkey_wire::limits::{MAX_COMPARISONS, MAX_PAGE};
use rowkey_wire::odata::{Fields, Metadata, Scalar};

use super::token;
use crate::op::entity::{self, Keys, Strictness};
use crate::op::names::check_table_name;
use crate::op::table::{
    Address, Change, ChangeKind, Condition, EntityQuery, Op, Prefer, Select, TableQuery, Target,
};
use crate::wire::options::Options;

/// The first version with user delegation keys, and signatures made with them.
pub(crate) const DELEGATION_KEYS: &str = "2025-07-05";
/// The first version in which a write without a condition creates the entity if it does not exist.
const UPSERTS: &str = "2011-08-18";
/// The most names in `$select`.
const MAX_SELECT: usize = 252;

/// Rejects OData options that Table storage does not support.
fn check(options: &Options<'_>) -> Result<(), Rejection> {
    for (name, _) in options.iter() {
        if matches!(
            name,
            "$orderby" | "$skip" | "$count" | "$inlinecount" | "$expand" | "$search" | "$apply"
        ) {
            return Err(not_implemented(format!(
                "The requested operation is not implemented on the specified resource: the \
                 query option {name} is not supported by Table storage."
            )));
        }
    }
    Ok(())
}

/// The resource named by the query and by the decoded path below the account's endpoint.
pub(crate) fn target<'a>(path: &'a str, options: &Options<'_>) -> Result<Target<'a>, Rejection> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if let Some(comp) = options.get("comp") {
        let service = path.is_empty() && options.get("restype") == Some("service");
        return match comp {
            "acl" if !path.is_empty() => {
                check_table_name(path)?;
                Ok(Target::Acl(path))
            }
            "properties" if service => Ok(Target::Properties),
            "stats" if service => Ok(Target::Stats),
            "userdelegationkey" if service => Ok(Target::DelegationKey),
            // Below a path neither exists: the official libraries' tests read this code and its
            // text when an account's URL ends with a table's name.
            "properties" | "stats" if !path.is_empty() => {
                Err(Rejection::new(ErrorCode::INVALID_QUERY_PARAMETER_VALUE))
            }
            _ => Err(unknown_comp()),
        };
    }
    let (name, arguments) = match path.split_once('(') {
        None => (path, None),
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(invalid_uri)?)),
    };
    let arguments = arguments.map(str::trim).filter(|arguments| !arguments.is_empty());
    if name.is_empty() {
        return Err(invalid_uri());
    }
    if name.eq_ignore_ascii_case("$batch") {
        return Ok(Target::Batch);
    }
    if name.eq_ignore_ascii_case("Tables") {
        return match arguments {
            None => Ok(Target::Tables),
            Some(quoted) => {
                let quoted = quoted.strip_prefix("TableName=").unwrap_or(quoted);
                let (table, rest) = quoted_text(quoted).ok_or_else(invalid_uri)?;
                if rest.is_empty() { Ok(Target::Table(table)) } else { Err(invalid_uri()) }
            }
        };
    }
    // A path with more segments below the table, as when an endpoint already names a table, is
    // about the table unless it names an entity (recorded).
    let (table, below) = name.split_once('/').map_or((name, None), |(t, rest)| (t, Some(rest)));
    check_table_name(table)?;
    match (arguments, below) {
        (None, _) => Ok(Target::Entities(table)),
        (Some(arguments), None) => address(table, arguments).map(Target::Entity),
        (Some(_), Some(_)) => Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            "The number of keys specified in the URI does not match number of key properties for \
             the resource.",
        )),
    }
}

/// The effective method: for a POST, the one in `X-HTTP-Method` if present.
pub(crate) fn method(method: &Method, headers: &HeaderMap) -> Result<Method, Rejection> {
    let mut tunnelled = headers.get_all(headers::HTTP_METHOD).iter();
    let Some(value) = tunnelled.next() else { return Ok(method.clone()) };
    if tunnelled.next().is_some() {
        return Err(Rejection::new(ErrorCode::X_METHOD_INCORRECT_COUNT));
    }
    if method != Method::POST {
        return Err(Rejection::new(ErrorCode::X_METHOD_NOT_USING_POST));
    }
    match value.as_bytes() {
        b"DELETE" => Ok(Method::DELETE),
        b"MERGE" | b"PATCH" => Ok(Method::PATCH),
        b"PUT" => Ok(Method::PUT),
        _ => Err(Rejection::new(ErrorCode::X_METHOD_INCORRECT_VALUE)),
    }
}

/// Whether the body of such a request is JSON.
pub(crate) fn has_json(method: &Method, target: &Target<'_>) -> bool {
    match target {
        Target::Tables | Target::Entities(_) => method == Method::POST,
        Target::Entity(_) => method == Method::PUT || is_merge(method),
        _ => false,
    }
}

/// Rejects a body whose content type is not JSON.
pub(crate) fn check_json_type(headers: &HeaderMap) -> Result<(), Rejection> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = value.to_str().unwrap_or_default();
    if kind.is_empty() || kind.starts_with("application/json") {
        Ok(())
    } else if kind.contains("atom") {
        Err(Rejection::new(ErrorCode::ATOM_FORMAT_NOT_SUPPORTED))
    } else {
        Err(Rejection::new(ErrorCode::MEDIA_TYPE_NOT_SUPPORTED))
    }
}

/// Parses a whole request. `fields` is its JSON body; empty if it has none (see [`has_json`]).
pub(crate) fn op<'a>(
    method: &Method,
    target: Target<'a>,
    options: &Options<'_>,
    headers: &HeaderMap,
    fields: &'a Fields<'_>,
    strict: Strictness,
) -> Result<Op<'a>, Rejection> {
    check(options)?;
    match (method, target) {
        (&Method::POST, Target::Batch) => Ok(Op::Batch),
        (&Method::GET, Target::Acl(table)) => Ok(Op::GetAcl(table)),
        (&Method::PUT, Target::Acl(table)) => Ok(Op::SetAcl(table)),
        (&Method::GET, Target::Properties) => Ok(Op::GetProperties),
        (&Method::PUT, Target::Properties) => Ok(Op::SetProperties),
        (&Method::GET, Target::Stats) => Ok(Op::GetStats),
        (&Method::POST, Target::DelegationKey) => Ok(Op::GetUserDelegationKey),
        (&Method::GET, Target::Tables) => table_query(options, strict).map(Op::QueryTables),
        (&Method::POST, Target::Tables) => {
            let name = match fields.get("TableName").map(|field| &field.scalar) {
                Some(Scalar::Text(name)) => name.as_ref(),
                _ => return Err(entity::malformed_body()),
            };
            Ok(Op::CreateTable { name, prefer: prefer(headers) })
        }
        (&Method::GET, Target::Table(name)) => Ok(Op::GetTable(name)),
        (&Method::DELETE, Target::Table(name)) => Ok(Op::DeleteTable(name)),
        (&Method::GET, Target::Entities(table)) => {
            entity_query(options, strict).map(|query| Op::QueryEntities(table, query))
        }
        (&Method::POST, Target::Entities(table)) => {
            insert(table, fields, prefer(headers), strict).map(Op::Change)
        }
        (&Method::GET, Target::Entity(address)) => Ok(Op::GetEntity(address, select(options)?)),
        (&Method::DELETE, Target::Entity(address)) => {
            let condition = condition(method, headers)?;
            let condition = condition.ok_or_else(|| missing_condition("a delete"))?;
            Ok(Op::Change(Change { address, kind: ChangeKind::Delete(condition) }))
        }
        (&Method::PUT, Target::Entity(address)) => {
            let condition = condition(method, headers)?;
            // Keys in the body are passed over, even if they contradict those in the address (recorded).
            let entity = entity::entity(fields, Keys::Address, strict)?;
            Ok(Op::Change(Change { address, kind: ChangeKind::Replace(entity, condition) }))
        }
        (method, Target::Entity(address)) if is_merge(method) => {
            let condition = condition(method, headers)?;
            let entity = entity::entity(fields, Keys::Address, strict)?;
            Ok(Op::Change(Change { address, kind: ChangeKind::Merge(entity, condition) }))
        }
        _ => Err(Rejection::new(ErrorCode::METHOD_NOT_ALLOWED)),
    }
}

/// Rejects an operation that a version does not have.
pub(crate) fn check_version(op: &Op<'_>, version: &str) -> Result<(), Rejection> {
    match op {
        Op::Change(Change {
            kind: ChangeKind::Merge(_, None) | ChangeKind::Replace(_, None),
            ..
        }) if version < UPSERTS => {
            Err(missing_condition("an update or merge before version 2011-08-18"))
        }
        Op::GetUserDelegationKey if version < DELEGATION_KEYS => Err(unknown_comp()),
        _ => Ok(()),
    }
}

/// The requested response format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseFormat {
    /// Whether JSON is accepted. Otherwise errors are XML.
    pub(crate) json: bool,
    /// The metadata level.
    pub(crate) level: Metadata,
    /// Whether Atom is requested, which the service no longer supports.
    pub(crate) atom: bool,
}

/// Parses `$format`, or `Accept` if there is no `$format`. JSON without a level means minimal
/// metadata.
pub(crate) fn response_format(options: &Options<'_>, headers: &HeaderMap) -> ResponseFormat {
    let text = options
        .get("$format")
        .or_else(|| headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()))
        .unwrap_or_default();
    // Values that libraries send, before the search in any other value.
    for level in [Metadata::Minimal, Metadata::None, Metadata::Full] {
        if text == accept(level) {
            return ResponseFormat { json: true, level, atom: false };
        }
    }
    let json = text == "json" || text.contains("application/json");
    let level = if text.contains("nometadata") {
        Metadata::None
    } else if text.contains("fullmetadata") {
        Metadata::Full
    } else {
        Metadata::Minimal
    };
    ResponseFormat { json, level, atom: !json && text.contains("atom") }
}

/// The value of `Accept` that requests this level.
const fn accept(level: Metadata) -> &'static str {
    match level {
        Metadata::Full => "application/json;odata=fullmetadata",
        Metadata::Minimal => "application/json;odata=minimalmetadata",
        Metadata::None => "application/json;odata=nometadata",
    }
}

fn is_merge(method: &Method) -> bool {
    method == Method::PATCH || method.as_str() == "MERGE"
}

/// `PartitionKey='…',RowKey='…'`, in either order, with spaces after the comma.
fn address<'a>(table: &'a str, arguments: &'a str) -> Result<Address<'a>, Rejection> {
    // The form that every library writes.
    if let Some(rest) = arguments.strip_prefix("PartitionKey=")
        && let Some((partition_key, rest)) = quoted_text(rest)
        && let Some(rest) = rest.strip_prefix(",RowKey=")
        && let Some((row_key, "")) = quoted_text(rest)
    {
        return checked(table, partition_key, row_key);
    }
    let (mut partition_key, mut row_key) = (None, None);
    let mut rest = arguments;
    loop {
        let (name, value) = rest.split_once('=').ok_or_else(invalid_uri)?;
        let (text, after) = quoted_text(value.trim_start()).ok_or_else(invalid_uri)?;
        let slot = match name.trim() {
            "PartitionKey" => &mut partition_key,
            "RowKey" => &mut row_key,
            _ => return Err(invalid_uri()),
        };
        if slot.replace(text).is_some() {
            return Err(invalid_uri());
        }
        let after = after.trim_start();
        if after.is_empty() {
            break;
        }
        rest = after.strip_prefix(',').ok_or_else(invalid_uri)?;
    }
    match (partition_key, row_key) {
        (Some(partition_key), Some(row_key)) => checked(table, partition_key, row_key),
        _ => Err(invalid_uri()),
    }
}

fn checked<'a>(
    table: &'a str,
    partition_key: Cow<'a, str>,
    row_key: Cow<'a, str>,
) -> Result<Address<'a>, Rejection> {
    entity::check_key(&partition_key)?;
    entity::check_key(&row_key)?;
    Ok(Address { table, partition_key, row_key })
}

/// The text between quotes at the start of `text`, with doubled inner quotes, and the rest after
/// it.
fn quoted_text(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('\'')?;
    let mut doubled = false;
    let mut bytes = inner.bytes().enumerate();
    loop {
        let (at, _) = bytes.find(|(_, byte)| *byte == b'\'')?;
        let (value, behind) = inner.split_at(at);
        let behind = behind.strip_prefix('\'')?;
        if behind.starts_with('\'') {
            doubled = true;
            bytes.next();
            continue;
        }
        let value =
            if doubled { Cow::Owned(value.replace("''", "'")) } else { Cow::Borrowed(value) };
        return Some((value, behind));
    }
}

fn insert<'a>(
    table: &'a str,
    fields: &'a Fields<'_>,
    prefer: Option<Prefer>,
    strict: Strictness,
) -> Result<Change<'a>, Rejection> {
    let entity = entity::entity(fields, Keys::Body, strict)?;
    let (Some(partition_key), Some(row_key)) = (entity.partition_key, entity.row_key) else {
        return Err(Rejection::new(ErrorCode::PROPERTIES_NEED_VALUE));
    };
    let address = Address { table, partition_key: partition_key.into(), row_key: row_key.into() };
    Ok(Change { address, kind: ChangeKind::Insert(entity, prefer) })
}

/// The `Prefer` header of an insert.
pub(crate) fn prefer(headers: &HeaderMap) -> Option<Prefer> {
    match headers.get(headers::PREFER)?.as_bytes() {
        b"return-content" => Some(Prefer::Content),
        b"return-no-content" => Some(Prefer::NoContent),
        _ => None,
    }
}

fn condition(method: &Method, headers: &HeaderMap) -> Result<Option<Condition>, Rejection> {
    let if_match = headers.get(header::IF_MATCH);
    if headers.contains_key(header::IF_NONE_MATCH) {
        let message = if if_match.is_some() {
            "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. \
             Please specify either one of the headers or none of them."
        } else if method == Method::DELETE {
            "If-None-Match HTTP header cannot be specified for DELETE operations."
        } else {
            "If-None-Match HTTP header cannot be specified for PUT operations."
        };
        return Err(Rejection::with_message(ErrorCode::INVALID_INPUT, message));
    }
    let Some(value) = if_match else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    match text {
        // An empty header counts as missing.
        "" => Ok(None),
        "*" => Ok(Some(Condition::Any)),
        _ => tag(text).map(Some).ok_or_else(|| {
            let shown: String = text.chars().take(100).collect();
            Rejection::with_message(
                ErrorCode::INVALID_INPUT,
                format!(
                    "The etag value '{shown}' specified in one of the request headers is not \
                     valid. Please make sure only one etag value is specified and is valid."
                ),
            )
        }),
    }
}

/// Parses an entity tag; `None` if it is malformed.
fn tag(text: &str) -> Option<Condition> {
    let opaque = text.strip_prefix("W/").unwrap_or(text);
    let inner = opaque.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('"') {
        return None;
    }
    let instant = inner
        .strip_prefix("datetime'")
        .and_then(|inner| inner.strip_suffix('\''))
        .filter(|_| opaque.len() != text.len())
        .and_then(|inner| percent_decode_str(inner).decode_utf8().ok())
        .and_then(|inner| inner.parse::<DateTime>().ok());
    Some(instant.map_or(Condition::Unknown, Condition::Tag))
}

fn entity_query(options: &Options<'_>, strict: Strictness) -> Result<EntityQuery, Rejection> {
    let next = match options.get("NextPartitionKey").filter(|token| !token.is_empty()) {
        None => None,
        Some(partition_key) => {
            let row_key = options.get("NextRowKey").filter(|token| !token.is_empty());
            let row_key = row_key.map(token::decode).transpose()?;
            Some((token::decode(partition_key)?, row_key.unwrap_or_default()))
        }
    };
    Ok(EntityQuery {
        filter: filter(options, strict)?,
        next,
        select: select(options)?,
        top: top(options)?,
    })
}

fn table_query(options: &Options<'_>, strict: Strictness) -> Result<TableQuery, Rejection> {
    let next = match options.get("NextTableName").filter(|token| !token.is_empty()) {
        None => None,
        Some(text) => Some(token::decode_table(text)?),
    };
    Ok(TableQuery { filter: filter(options, strict)?, next, top: top(options)? })
}

fn filter(options: &Options<'_>, strict: Strictness) -> Result<Option<Filter>, Rejection> {
    let Some(text) = options.get("$filter").filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let filter = filter::parse(text)
        .map_err(|error| Rejection::with_message(error.code(), error.message(text)))?;
    if strict == Strictness::Strict && filter.comparisons() > MAX_COMPARISONS {
        return Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            format!(
                "One of the request inputs is not valid: a filter makes at most \
                 {MAX_COMPARISONS} comparisons."
            ),
        ));
    }
    Ok(Some(filter))
}

fn select(options: &Options<'_>) -> Result<Option<Select>, Rejection> {
    let Some(text) = options.get("$select") else { return Ok(None) };
    let mut names: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.iter().any(|name| name == "*") {
        names.clear();
    }
    // Responses have them in this order, regardless of the request (recorded).
    names.sort_unstable();
    names.dedup();
    if names.len() > MAX_SELECT {
        return Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            format!("One of the request inputs is not valid: $select takes {MAX_SELECT} names."),
        ));
    }
    Ok(Some(Select { text: text.to_owned(), names }))
}

fn top(options: &Options<'_>) -> Result<Option<u32>, Rejection> {
    let Some(text) = options.get("$top").filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.parse() {
        Ok(top @ 1..=MAX_PAGE) => Ok(Some(top)),
        _ => Err(Rejection::with_message(
            ErrorCode::INVALID_INPUT,
            format!("One of the request inputs is not valid: $top is 1 to {MAX_PAGE}."),
        )),
    }
}

fn missing_condition(operation: &str) -> Rejection {
    let mut rejection = Rejection::with_message(
        ErrorCode::new("MissingRequiredHeader"),
        format!(
            "An HTTP header that is mandatory for this request is not specified: {operation} needs \
             If-Match, an entity tag or *."
        ),
    );
    rejection.status = StatusCode::BAD_REQUEST;
    rejection
}

fn unknown_comp() -> Rejection {
    not_implemented(
        "The requested operation is not implemented on the specified resource: the Table service \
         knows comp=acl, comp=properties and comp=stats, and since version 2025-07-05 \
         comp=userdelegationkey.",
    )
}

fn invalid_uri() -> Rejection {
    Rejection::with_message(ErrorCode::INVALID_INPUT, "Bad Request - Error in query syntax.")
}

fn not_implemented(message: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::with_message(ErrorCode::NOT_IMPLEMENTED, message)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
