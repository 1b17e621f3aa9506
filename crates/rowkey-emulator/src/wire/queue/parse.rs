//! Parses requests into [`Op`]s, or into the errors that the service would return.

use http::{HeaderMap, Method};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::{MAX_LISTING, MAX_MESSAGE, MAX_MESSAGES, MAX_VISIBILITY_SECONDS};
use rowkey_wire::queue::{self, NameError};
use rowkey_wire::xml::{Element, XmlError};

use super::receipt;
use crate::op::metadata::Metadata;
use crate::op::queue::{Handle, Listing, Op, Target};
use crate::op::rejection::invalid_document;
use crate::wire::options::Options;

/// The default visibility timeout of a received message, in seconds.
const VISIBILITY: u32 = 30;
/// The first version with user delegation keys, and signatures made with them.
pub(crate) const DELEGATION_KEYS: &str = "2025-07-05";
/// The first version with messages of 64 KiB, longer invisibility, Update Message, and delays of new messages.
const UPDATES: &str = "2011-08-18";
/// The longest message before that version.
const MAX_OLD_MESSAGE: usize = 8 * 1024;
/// The longest invisibility before that version, in seconds.
const MAX_OLD_VISIBILITY: u32 = 2 * 60 * 60;
/// The first version in which messages may live longer than 7 days.
const LONG_LIVES: &str = "2017-07-29";

/// The resource named by the query and by the decoded path below the account's endpoint.
pub(crate) fn target<'a>(path: &'a str, options: &Options<'_>) -> Result<Target<'a>, Rejection> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let comp = options.get("comp");
    if path.is_empty() {
        let service = options.get("restype") == Some("service");
        return match comp {
            Some("list") => Ok(Target::Queues),
            Some("properties") if service => Ok(Target::Properties),
            Some("stats") if service => Ok(Target::Stats),
            Some("userdelegationkey") if service => Ok(Target::DelegationKey),
            Some(comp) => Err(invalid_value("comp", comp, "")),
            None => Err(Rejection::new(ErrorCode::INVALID_URI)),
        };
    }
    let (queue, rest) = match path.split_once('/') {
        Some((queue, rest)) => (queue, Some(rest)),
        None => (path, None),
    };
    check_name(queue)?;
    match (rest, comp) {
        (None, None) => Ok(Target::Queue(queue)),
        (None, Some("acl")) => Ok(Target::Acl(queue)),
        (None, Some("metadata")) => Ok(Target::Metadata(queue)),
        (None, Some(comp)) => Err(invalid_value("comp", comp, "")),
        (Some("messages"), _) => Ok(Target::Messages(queue)),
        (Some(rest), _) => match rest.strip_prefix("messages/") {
            Some(id) if !id.contains('/') => Ok(Target::Message(queue, id)),
            _ => Err(Rejection::new(ErrorCode::INVALID_URI)),
        },
    }
}

/// Parses everything in a request except its body. `version` is the requested version.
pub(crate) fn op<'a>(
    method: &Method,
    target: Target<'a>,
    options: &Options<'_>,
    headers: &HeaderMap,
    version: &str,
) -> Result<Op<'a>, Rejection> {
    let reads = method == Method::GET || method == Method::HEAD;
    match (method, target) {
        (_, Target::Queues) if reads => listing(options).map(Op::List),
        (_, Target::Properties) if reads => Ok(Op::GetProperties),
        (&Method::PUT, Target::Properties) => Ok(Op::SetProperties),
        (_, Target::Stats) if reads => Ok(Op::GetStats),
        (_, Target::DelegationKey) if version < DELEGATION_KEYS => {
            Err(invalid_value("comp", "userdelegationkey", ""))
        }
        (&Method::POST, Target::DelegationKey) => Ok(Op::GetUserDelegationKey),
        (&Method::PUT, Target::Queue(queue)) => {
            Metadata::parse(headers).map(|metadata| Op::Create(queue, metadata))
        }
        (&Method::DELETE, Target::Queue(queue)) => Ok(Op::Delete(queue)),
        (_, Target::Metadata(queue)) if reads => Ok(Op::GetMetadata(queue)),
        (&Method::PUT, Target::Metadata(queue)) => {
            Metadata::parse(headers).map(|metadata| Op::SetMetadata(queue, metadata))
        }
        (_, Target::Acl(queue)) if reads => Ok(Op::GetAcl(queue)),
        (&Method::PUT, Target::Acl(queue)) => Ok(Op::SetAcl(queue)),
        (&Method::GET, Target::Messages(queue)) => {
            let count = number(options, "numofmessages", Some(1), 1, MAX_MESSAGES)?;
            if options.get("peekonly").is_some_and(|peek| peek.eq_ignore_ascii_case("true")) {
                return Ok(Op::Peek { queue, count });
            }
            let visibility = visibility(options, Some(VISIBILITY), 1, version)?;
            Ok(Op::Get { queue, count, visibility })
        }
        (&Method::POST, Target::Messages(queue)) => put(queue, options, version),
        (&Method::DELETE, Target::Messages(queue)) => Ok(Op::Clear(queue)),
        (&Method::PUT, Target::Message(queue, id)) if version >= UPDATES => {
            let handle = handle(queue, id, options)?;
            Ok(Op::Update { handle, visibility: visibility(options, None, 0, version)? })
        }
        (&Method::DELETE, Target::Message(queue, id)) => {
            handle(queue, id, options).map(Op::DeleteMessage)
        }
        _ => Err(Rejection::new(ErrorCode::UNSUPPORTED_HTTP_VERB)),
    }
}

/// The unescaped text in the body of Put Message and Update Message.
pub(crate) fn message(body: &[u8], version: &str) -> Result<String, Rejection> {
    let text = match plain_message(body) {
        Some(text) => text.to_owned(),
        None => escaped_message(body)?,
    };
    let max = if version >= UPDATES { MAX_MESSAGE } else { MAX_OLD_MESSAGE };
    if text.len() > max {
        return Err(
            Rejection::new(ErrorCode::REQUEST_BODY_TOO_LARGE).detail("MaxLimit", max.to_string())
        );
    }
    Ok(text)
}

/// The text of a body in the form that libraries write, if it needs no unescaping or checks.
fn plain_message(body: &[u8]) -> Option<&str> {
    let mut rest = body.trim_ascii();
    if rest.starts_with(b"<?xml ") {
        let end = rest.windows(2).position(|pair| pair == b"?>")?;
        rest = rest.split_at(end).1[2..].trim_ascii_start();
    }
    let text = rest
        .strip_prefix(b"<QueueMessage><MessageText>")?
        .strip_suffix(b"</MessageText></QueueMessage>")?;
    let plain = |byte: &u8| matches!(byte, b' '..=b'~' if !matches!(byte, b'&' | b'<' | b'>'));
    if !text.iter().all(plain) {
        return None;
    }
    std::str::from_utf8(text).ok()
}

/// The text of any other body.
fn escaped_message(body: &[u8]) -> Result<String, Rejection> {
    let root = Element::read_small(body, "QueueMessage");
    let mut root = root.map_err(|error| invalid_document(&error, body))?;
    match root.children.iter_mut().find(|child| child.name == "MessageText") {
        Some(element) if element.children.is_empty() => Ok(std::mem::take(&mut element.text)),
        Some(_) => Err(invalid_document(&XmlError::Unexpected("MessageText"), body)),
        None => Err(Rejection::new(ErrorCode::MISSING_REQUIRED_XML_NODE)
            .detail("XmlNodeName", "MessageText")),
    }
}

fn put<'a>(queue: &'a str, options: &Options<'_>, version: &str) -> Result<Op<'a>, Rejection> {
    let lifetime = if version >= LONG_LIVES {
        match options.get("messagettl") {
            Some("-1") => None,
            Some(text) => match text.parse::<i64>() {
                Ok(0 | i64::MIN..=-2) => {
                    return Err(invalid_value(
                        "messagettl",
                        text,
                        "messagettl must be a positive number of seconds, or -1",
                    ));
                }
                _ => Some(number(options, "messagettl", None, 1, i32::MAX.unsigned_abs())?),
            },
            None => Some(MAX_VISIBILITY_SECONDS),
        }
    } else {
        let week = MAX_VISIBILITY_SECONDS;
        Some(number(options, "messagettl", Some(week), 1, week)?)
    };
    if version < UPDATES && options.get("visibilitytimeout").is_some() {
        return Err(Rejection::new(ErrorCode::UNSUPPORTED_QUERY_PARAMETER)
            .detail("QueryParameterName", "visibilitytimeout"));
    }
    let visibility = visibility(options, Some(0), 0, version)?;
    if lifetime.is_some_and(|lifetime| lifetime <= visibility) {
        return Err(invalid_value(
            "visibilitytimeout",
            &visibility.to_string(),
            "messagettl must be greater than visibilitytimeout",
        ));
    }
    Ok(Op::Put { queue, lifetime, visibility })
}

fn visibility(
    options: &Options<'_>,
    default: Option<u32>,
    minimum: u32,
    version: &str,
) -> Result<u32, Rejection> {
    let max = if version >= UPDATES { MAX_VISIBILITY_SECONDS } else { MAX_OLD_VISIBILITY };
    number(options, "visibilitytimeout", default, minimum, max)
}

fn handle<'a>(queue: &'a str, id: &'a str, options: &Options<'_>) -> Result<Handle<'a>, Rejection> {
    let text = options.get("popreceipt").ok_or_else(|| missing("popreceipt"))?;
    let stamp = receipt::parse(text)
        .ok_or_else(|| invalid_value("popreceipt", text, "Invalid pop receipt format"))?;
    Ok(Handle { queue, id, stamp })
}

fn listing(options: &Options<'_>) -> Result<Listing, Rejection> {
    let text = |name| options.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let metadata = match options.get("include") {
        None | Some("") => false,
        Some(include) => {
            if let Some(other) = include.split(',').find(|part| *part != "metadata") {
                return Err(invalid_value("include", other, ""));
            }
            true
        }
    };
    let max = match options.get("maxresults") {
        Some(_) => Some(number(options, "maxresults", None, 1, MAX_LISTING)?),
        None => None,
    };
    Ok(Listing { prefix: text("prefix"), marker: text("marker"), max, metadata })
}

fn check_name(queue: &str) -> Result<(), Rejection> {
    match queue::check_name(queue) {
        Ok(()) => Ok(()),
        Err(NameError::Characters) => Err(Rejection::new(ErrorCode::INVALID_RESOURCE_NAME)),
        Err(NameError::Length) => Err(Rejection::with_message(
            ErrorCode::OUT_OF_RANGE_INPUT,
            "The specified resource name length is not within the permissible limits.",
        )),
    }
}

/// A whole number within bounds.
fn number(
    options: &Options<'_>,
    name: &'static str,
    default: Option<u32>,
    minimum: u32,
    maximum: u32,
) -> Result<u32, Rejection> {
    let Some(text) = options.get(name) else { return default.ok_or_else(|| missing(name)) };
    let Ok(number) = text.parse::<i64>() else {
        return Err(invalid_value(name, text, "not a whole number"));
    };
    match u32::try_from(number) {
        Ok(number) if (minimum..=maximum).contains(&number) => Ok(number),
        _ => Err(Rejection::new(ErrorCode::OUT_OF_RANGE_QUERY_PARAMETER_VALUE)
            .detail("QueryParameterName", name)
            .detail("QueryParameterValue", text)
            .detail("MinimumAllowed", minimum.to_string())
            .detail("MaximumAllowed", maximum.to_string())),
    }
}

fn invalid_value(name: &'static str, value: &str, reason: &'static str) -> Rejection {
    Rejection::new(ErrorCode::INVALID_QUERY_PARAMETER_VALUE)
        .detail("QueryParameterName", name)
        .detail("QueryParameterValue", value)
        .detail("Reason", reason)
}

fn missing(name: &'static str) -> Rejection {
    Rejection::new(ErrorCode::MISSING_REQUIRED_QUERY_PARAMETER).detail("QueryParameterName", name)
}
