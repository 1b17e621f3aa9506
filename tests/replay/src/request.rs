//! Makes the live request of a recorded one.

use std::collections::BTreeMap;

use regex::{Captures, Regex};

use crate::client::{Sent, Transport};
use crate::exchange::{Auth, Exchange, Headers, Service};
use crate::operation::LISTINGS;
use crate::session::{Session, place};
use crate::sign;
use crate::text::{self, BATCH_LINE, HOST, RFC1123, pattern};

pattern! {
    DROPPED = r"^(authorization|date|x-ms-date|host|connection|accept-encoding|content-length|expect|user-agent|origin|referer|accept-language|transfer-encoding|x-ms-useragent|sec-.*)$";
    TABLE_LITERAL = r"(TableName\s+\w\w\s+)'([^']*)'";
    IF_MATCH = r"(?im)^(If-Match: )([^\r\n]+)";
    PART_LENGTH = r"(?i)^Content-Length: \d+$";
    POLICY_TIME = r"<(?:Start|Expiry)>([^<]+)<";
    YEAR = r"^\d{4}";
}

/// Parameters that carry a continuation token.
const TOKENS: [&str; 4] = ["NextPartitionKey", "NextRowKey", "NextTableName", "marker"];
const SAS: [&str; 17] = [
    "sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "sig", "si", "tn", "sr", "spk", "srk",
    "epk", "erk", "ses",
];
const DATED: [&str; 4] = [
    "if-modified-since",
    "if-unmodified-since",
    "x-ms-source-if-modified-since",
    "x-ms-source-if-unmodified-since",
];
/// Characters that stay as they are in a path and query.
const SAFE: &str = "%/:=&?~+!$,;'@()*[]|";

fn replaced(pattern: &Regex, text: &str, with: impl Fn(&Captures<'_>) -> String) -> String {
    pattern.replace_all(text, with).into_owned()
}

/// The live request. `None` if it would follow a continuation token that the server never gave.
pub(crate) fn live(
    session: &mut Session,
    exchange: &Exchange,
    transport: &impl Transport,
    policies: bool,
) -> Option<Sent> {
    let target = target(session, exchange)?;
    let body = body(session, exchange, transport, policies);
    let mut headers = headers(session, exchange);
    if body != exchange.body && headers.contains_key("content-md5") {
        let digest = sign::md5(body.as_deref().unwrap_or_default());
        headers.insert("content-md5".to_owned(), digest);
    }
    Some(Sent {
        service: exchange.service,
        method: exchange.method.clone(),
        target,
        headers,
        body,
        auth: exchange.auth,
        secondary: exchange.secondary,
    })
}

fn target(session: &Session, exchange: &Exchange) -> Option<String> {
    let place = place(exchange);
    let recorded = text::path(&exchange.target);
    let mut path = if recorded.is_empty() { "/".to_owned() } else { recorded.to_owned() };
    if session.service == Service::Table {
        path = session.rename(&path);
    } else {
        let rest = path.get(1..).unwrap_or_default();
        let (head, tail) =
            rest.split_once('/').map_or((rest, None), |(head, tail)| (head, Some(tail)));
        let tail = tail.map(|tail| {
            if exchange.service != Service::Queue {
                return tail.to_owned();
            }
            let known =
                |part: &str| session.live(&text::unquote(part), "").map(|it| text::quote(&it, ""));
            tail.split('/')
                .map(|part| known(part).unwrap_or_else(|| part.to_owned()))
                .collect::<Vec<_>>()
                .join("/")
        });
        let head = text::unquote(head);
        path = format!(
            "/{}{}",
            session.name(&head),
            tail.map_or(String::new(), |tail| format!("/{tail}"))
        );
    }
    let mut query = Vec::new();
    for (name, value) in text::query_items(text::query(&exchange.target)) {
        let (plain, key) = (text::unquote_plus(value), text::unquote(name));
        let known = if plain.chars().count() > 5 { session.live(&plain, &place) } else { None };
        if TOKENS.contains(&key.as_str()) && !plain.is_empty() && known.is_none() {
            return None;
        }
        if exchange.auth != Auth::Sas
            && exchange.query.contains_key("sig")
            && SAS.contains(&key.as_str())
        {
            continue;
        }
        let item = |value: &str| format!("{name}={}", text::quote(value, ""));
        query.push(if let Some(known) = known {
            item(&known)
        } else if LISTINGS.contains(&exchange.op()) && key == "prefix" {
            item(&session.prefixed(&plain))
        } else if exchange.op() == "QueryTables" && key == "$filter" {
            let live = |it: &Captures<'_>| format!("{}'{}'", &it[1], session.prefixed(&it[2]));
            item(&replaced(&TABLE_LITERAL, &plain, live))
        } else {
            let whole = if value.is_empty() && !exchange.target.contains(&format!("{name}=")) {
                name.to_owned()
            } else {
                format!("{name}={value}")
            };
            session.rename(&whole)
        });
    }
    if exchange.auth == Auth::Sas {
        query = signed(exchange, &path, &query);
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Some(text::quote(&format!("{path}{query}"), SAFE))
}

/// The query with a shared access signature of now.
fn signed(exchange: &Exchange, path: &str, query: &[String]) -> Vec<String> {
    let now = text::now();
    let shift = exchange.when().map_or(0, |when| now - when);
    let mut names = Vec::new();
    let mut values = BTreeMap::new();
    for item in query {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, mut value) = (text::unquote(name), text::unquote_plus(value));
        if name == "st" || name == "se" {
            value = text::shifted(&value, shift).unwrap_or(value);
            if !YEAR.is_match(&value) {
                // The recorder hid the time.
                let at = if name == "st" { now - 3600 } else { now + 3600 };
                let at = chrono::DateTime::from_timestamp(at, 0).unwrap_or_default();
                value = at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
            }
        } else if name == "spr" && value == "https" {
            "https,http".clone_into(&mut value);
        }
        if !names.contains(&name) {
            names.push(name.clone());
        }
        values.insert(name, value);
    }
    let wrong_key = exchange.code().as_deref() == Some("AuthenticationFailed");
    if !names.iter().any(|name| name == "sig") {
        names.push("sig".to_owned());
    }
    values.insert("sig".to_owned(), sign::sas(&values, exchange.service, path, wrong_key));
    let item = |name: &String| {
        format!(
            "{}={}",
            text::quote(name, "$"),
            text::quote(values.get(name).map_or("", |it| it), "")
        )
    };
    names.iter().map(item).collect()
}

fn headers(session: &Session, exchange: &Exchange) -> Headers {
    let place = place(exchange);
    let kept = exchange.headers.iter().filter(|(name, _)| !DROPPED.is_match(name));
    let live = kept.map(|(name, value)| {
        let fixed = name.starts_with("x-ms-meta-")
            || matches!(name.as_str(), "content-type" | "accept" | "x-ms-version");
        let known = session.live(value, &place).filter(|_| value.len() > 5 && !fixed);
        let moved = || {
            let dated = DATED.contains(&name.as_str()) && RFC1123.is_match(value);
            let (when, then) = (text::http_date(value).filter(|_| dated)?, exchange.when()?);
            Some(text::format_http_date(when + text::now() - then))
        };
        (name.clone(), known.or_else(moved).unwrap_or_else(|| value.clone()))
    });
    live.collect()
}

fn body(
    session: &mut Session,
    exchange: &Exchange,
    transport: &impl Transport,
    policies: bool,
) -> Option<Vec<u8>> {
    let body = exchange.body.as_ref()?;
    if body.is_empty() || exchange.service != Service::Table && !exchange.op().ends_with("Acl") {
        return Some(body.clone());
    }
    let Ok(mut text) = String::from_utf8(body.clone()) else { return Some(body.clone()) };
    if exchange.op() == "Batch" {
        text = batch(session, &text, transport.endpoint(Service::Table));
    } else if session.service == Service::Table {
        text = session.rename(&text);
    }
    if policies && text.contains("SignedIdentifier") {
        let shift = exchange.when().map_or(0, |when| text::now() - when);
        let mut stamps: Vec<_> =
            POLICY_TIME.captures_iter(&text).map(|it| it[1].to_owned()).collect();
        stamps.sort();
        stamps.dedup();
        for stamp in stamps {
            if let Some(moved) = text::shifted(&stamp, shift) {
                text = text.replace(&stamp, &moved);
                session.learn(&text::canonical_stamp(&stamp), &text::canonical_stamp(&moved), "");
            }
        }
    }
    Some(text.into_bytes())
}

/// The body of a batch, with the URLs, `ETag`s and lengths of its parts.
fn batch(session: &Session, body: &str, endpoint: &str) -> String {
    let account = text::path(endpoint);
    let body = replaced(&BATCH_LINE, body, |line| {
        let url = match HOST.find(&line[2]).filter(|host| host.start() == 0) {
            Some(_) => HOST.replace_all(&line[2], regex::NoExpand(endpoint)).into_owned(),
            None => format!("{account}{}", &line[2]),
        };
        format!("{} {url}{}", &line[1], &line[3])
    });
    let body = session.rename(&body);
    let body = replaced(&IF_MATCH, &body, |it| {
        format!("{}{}", &it[1], session.live(&it[2], "").unwrap_or_else(|| it[2].to_owned()))
    });
    lengths(&body)
}

/// Corrects `Content-Length` of each part that has one.
fn lengths(body: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in body.split("\n--") {
        parts.push(corrected(part).unwrap_or_else(|| part.to_owned()));
    }
    parts.join("\n--")
}

fn corrected(part: &str) -> Option<String> {
    let mut at = 0;
    let mut line = None;
    for piece in part.split_inclusive('\n') {
        let text = piece.trim_end_matches(['\r', '\n']);
        if line.is_none() && PART_LENGTH.is_match(text) {
            line = Some((at, text.len()));
        }
        at += piece.len();
        if text.is_empty() && line.is_some() {
            break;
        }
    }
    let (start, length) = line?;
    let content = part.get(at..)?;
    // The line break before the next boundary belongs to the boundary.
    let size = content.strip_suffix('\r').unwrap_or(content).len();
    let name = part.get(start..start + "Content-Length: ".len())?;
    Some(format!("{}{name}{size}{}", part.get(..start)?, part.get(start + length..)?))
}

#[cfg(test)]
mod tests {
    use super::lengths;

    #[test]
    fn the_content_length_of_a_part_matches_its_renamed_body() {
        let body = "--b\r\nPOST x HTTP/1.1\r\nContent-Length: 1\r\nA: b\r\n\r\n{12345}\r\n--b--";
        assert!(lengths(body).contains("Content-Length: 7\r\nA: b\r\n\r\n{12345}"));
        assert_eq!(lengths("--b\r\nno length\r\n--b--"), "--b\r\nno length\r\n--b--");
    }
}
