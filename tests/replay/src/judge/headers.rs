//! Headers: requested values, values that are sent back later, and all others.

use std::collections::BTreeSet;

use regex::Regex;

use super::{Judge, Level, TABLE_ETAG, media};
use crate::exchange::{Headers, Service};
use crate::json::Json;
use crate::text::{self, RFC1123, pattern};

pattern! {
    BLOB_ETAG = r#"^("0x[0-9A-F]+"|0x[0-9A-F]+)$"#;
    SOMETHING = r"(?s).";
    REQUEST_ID = r"^[0-9a-fA-F-]{36}$";
}

/// Headers with requested values.
const PAYLOAD: [&str; 11] = [
    "x-ms-approximate-messages-count",
    "x-ms-blob-type",
    "x-ms-lease-status",
    "x-ms-lease-state",
    "x-ms-lease-duration",
    "content-range",
    "x-ms-blob-append-offset",
    "x-ms-blob-committed-block-count",
    "x-ms-blob-content-length",
    "x-ms-copy-status",
    "x-ms-blob-public-access",
];
/// Headers that carry it where a blob is read.
const BLOB_PAYLOAD: [&str; 8] = [
    "x-ms-blob-content-md5",
    "content-md5",
    "content-type",
    "content-length",
    "content-encoding",
    "content-language",
    "content-disposition",
    "cache-control",
];
/// Headers whose values are sent back later; whether they are there is compared.
const GIVEN: [&str; 7] = [
    "x-ms-snapshot",
    "x-ms-lease-id",
    "x-ms-popreceipt",
    "x-ms-copy-id",
    TOKENS[0],
    TOKENS[1],
    TOKENS[2],
];
const TOKENS: [&str; 3] = [
    "x-ms-continuation-nextpartitionkey",
    "x-ms-continuation-nextrowkey",
    "x-ms-continuation-nexttablename",
];
const EXACT: [&str; 8] = [
    "content-type",
    "preference-applied",
    "dataserviceid",
    "location",
    "x-ms-version",
    "accept-ranges",
    "x-ms-content-crc64",
    "content-md5",
];
/// Headers that must not be there where none was recorded.
const BOTH_WAYS: [&str; 4] = ["etag", "preference-applied", "dataserviceid", "location"];

impl Judge<'_> {
    pub(super) fn headers(&mut self, sent: &Headers) {
        let (exchange, live) = (self.exchange, &self.live.headers);
        let recorded = &exchange.answer_headers;
        let own = recorded.keys().chain(live.keys()).filter(|name| name.starts_with("x-ms-meta-"));
        let own: BTreeSet<&str> = own.map(String::as_str).collect();
        let mut payload: Vec<&str> = PAYLOAD.into_iter().chain(own).collect();
        if matches!(exchange.op(), "GetBlob" | "GetBlobProperties") && exchange.ok() {
            let head = exchange.method == "HEAD";
            payload
                .extend(BLOB_PAYLOAD.into_iter().filter(|name| head || *name != "content-length"));
        }
        for name in payload {
            let (was, is) = (recorded.get(name), live.get(name));
            if was.is_some() && was != is || name.starts_with("x-ms-meta-") && was.is_none() {
                self.header(Level::Body, name);
            }
        }
        if let Some(was) = recorded.get("x-ms-lease-time") {
            let seconds = |text: Option<&String>| text.and_then(|it| it.parse::<i64>().ok());
            let near = seconds(Some(was)).zip(seconds(live.get("x-ms-lease-time")));
            if near.is_none_or(|(was, is)| (was - is).abs() > 2) {
                self.header(Level::Body, "x-ms-lease-time");
            }
        }
        for name in GIVEN {
            if TOKENS.contains(&name) && self.cut_is_free() {
                continue;
            }
            match (recorded.get(name), live.get(name)) {
                (Some(was), Some(is)) => self.session.learn(was, is, &self.place),
                (None, None) => {}
                _ => self.header(Level::Body, name),
            }
        }
        self.etag();
        for name in EXACT {
            let is = live.get(name).map_or("", String::as_str);
            if let Some(was) = recorded.get(name)
                && media(&self.expected(was)) != media(&self.neutral(is))
            {
                self.header(Level::Exact, name);
            }
        }
        for name in BOTH_WAYS {
            if live.contains_key(name) && !recorded.contains_key(name) {
                self.header(Level::Exact, name);
            }
        }
        let shapes: [(&str, &Regex); 8] = [
            ("last-modified", &RFC1123),
            ("x-ms-time-next-visible", &RFC1123),
            ("x-ms-creation-time", &RFC1123),
            ("x-ms-error-code", &SOMETHING),
            ("x-ms-request-id", &REQUEST_ID),
            ("www-authenticate", &SOMETHING),
            ("x-ms-server-encrypted", &SOMETHING),
            ("x-ms-request-server-encrypted", &SOMETHING),
        ];
        for (name, shape) in shapes {
            if recorded.contains_key(name) && !shape.is_match(live.get(name).map_or("", |it| it)) {
                self.header(Level::Exact, name);
            }
        }
        if let Some((was, is)) = recorded.get("last-modified").zip(live.get("last-modified")) {
            self.session.learn(was, is, &self.place);
        }
        self.request_id(sent);
    }

    fn request_id(&mut self, sent: &Headers) {
        let name = "x-ms-client-request-id";
        let Some(own) = sent.get(name).filter(|it| !it.is_empty()) else { return };
        let (recorded, live) =
            (self.exchange.answer_headers.get(name), self.live.headers.get(name));
        let version = self.exchange.version();
        if recorded.is_some() && live != Some(own)
            || recorded.is_none() && live.is_some() && version > "2009" && version < "2019-02-02"
        {
            self.header(Level::Exact, name);
        }
    }

    fn etag(&mut self) {
        let Some(was) = self.exchange.answer_headers.get("etag") else { return };
        let is = self.live.headers.get("etag");
        let found = is.map_or("", String::as_str);
        let shape = match self.exchange.service {
            Service::Table => &TABLE_ETAG,
            Service::Queue => &SOMETHING,
            Service::Blob => &BLOB_ETAG,
        };
        if !shape.is_match(found) || was.contains('"') != found.contains('"') {
            self.header(Level::Exact, "etag");
        }
        let Some(is) = is else { return };
        if let Some((before, live)) = self.session.etags.get(&self.place)
            && (before == was) != (live == is)
        {
            let must = if before == was { "stay" } else { "change" };
            self.note(Level::Exact, format!("header etag: must {must}, now {is}"));
        }
        self.session.etags.insert(self.place.clone(), (was.clone(), is.clone()));
        self.session.learn(was, is, &self.place);
        self.session.learn(was.trim_matches('"'), is.trim_matches('"'), &self.place);
    }

    /// Whether the recorded page ended where no other server needs to end it: at a boundary inside the
    /// service, or before a table of another test.
    fn cut_is_free(&self) -> bool {
        let headers = &self.exchange.answer_headers;
        if self.exchange.op() == "QueryTables"
            && let Some(token) = headers.get(TOKENS[2])
        {
            return !self.session.names.contains_key(&text::named_by(token));
        }
        let query = matches!(self.exchange.op(), "QueryEntities" | "QueryTables");
        if !query || !TOKENS.iter().any(|name| headers.contains_key(*name)) {
            return false;
        }
        let Ok(page) = Json::read(&self.exchange.answer_text()) else { return false };
        let rows = if let Some(Json::List(rows)) = page.get("value") { rows.len() } else { 0 };
        let top = self.exchange.query.get("$top").and_then(|top| top.parse().ok()).unwrap_or(1000);
        rows != top
    }
}
