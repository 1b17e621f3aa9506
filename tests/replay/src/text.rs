//! Small readers of what recordings hold: URLs, times, error codes, continuation tokens.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;

use crate::exchange::Headers;

/// Compiles a pattern that is part of the program.
macro_rules! pattern {
    ($($(#[$meta:meta])* $visibility:vis $name:ident = $text:expr;)+) => {
        $($(#[$meta])* $visibility static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($text).expect("the pattern is valid"));)+
    };
}
pub(crate) use pattern;

pattern! {
    /// The request line of a part of a batch.
    pub(crate) BATCH_LINE = r"(?m)^(POST|PUT|MERGE|PATCH|DELETE|GET) (.+?)( HTTP/1\.1\r?)$";
    /// A time as XML and JSON have it.
    pub(crate) STAMP = r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$";
    /// A time as headers have it.
    pub(crate) RFC1123 = r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$";
    /// A host of the live service.
    pub(crate) HOST = r"https?://[A-Za-z0-9_.*-]+\.(?:table|queue|blob)\.[A-Za-z0-9.*-]+(?::\d+)?";
    ERROR_CODE = r#"(?i)<(?:m:)?code>([^<]*)<|"odata\.error":\s*\{\s*"code":\s*"([^"]*)""#;
    DAY = r"^\d{4}-\d\d-\d\d$";
}

/// Percent-encodes all but unreserved characters and those of `safe`.
pub(crate) fn quote(text: &str, safe: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for byte in text.bytes() {
        let keep = byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || safe.as_bytes().contains(&byte);
        if keep {
            quoted.push(char::from(byte));
        } else {
            let _ = write!(quoted, "%{byte:02X}");
        }
    }
    quoted
}

/// Resolves percent-encoding.
pub(crate) fn unquote(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Resolves percent-encoding, and `+` for a space, as in values of queries.
pub(crate) fn unquote_plus(text: &str) -> String {
    unquote(&text.replace('+', " "))
}

/// The path of a target, a URL or a part of either.
pub(crate) fn path(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
        }
        _ => target,
    }
}

/// The query of a target.
pub(crate) fn query(target: &str) -> &str {
    let target = target.split('#').next().unwrap_or_default();
    target.split_once('?').map_or("", |(_, query)| query)
}

/// Names and values of a query, still encoded.
pub(crate) fn query_items(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|item| !item.is_empty())
        .map(|item| item.split_once('=').unwrap_or((item, "")))
}

/// The table that a decoded or encoded path names.
pub(crate) fn table_of(path: &str) -> String {
    let path = unquote(path);
    path.trim_start_matches('/').split(['(', '/', '?']).next().unwrap_or_default().to_owned()
}

/// The error code of an answer.
pub(crate) fn error_code(headers: &Headers, body: &[u8]) -> Option<String> {
    if let Some(code) = headers.get("x-ms-error-code").filter(|code| !code.is_empty()) {
        return Some(code.clone());
    }
    let body = String::from_utf8_lossy(body);
    let found = ERROR_CODE.captures(&body)?;
    let code = found.get(1).or_else(|| found.get(2))?.as_str();
    Some(code.to_owned()).filter(|code| !code.is_empty())
}

/// A header's time, in seconds since 1970.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    let found = chrono::DateTime::parse_from_rfc2822(text).ok();
    found.map(|time| time.timestamp())
}

/// A time as headers have it.
pub(crate) fn format_http_date(seconds: i64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    httpdate::fmt_http_date(time)
}

/// A time of XML and JSON with all seven digits of its fraction; other texts as they are.
pub(crate) fn canonical_stamp(stamp: &str) -> String {
    let stamp = if DAY.is_match(stamp) { format!("{stamp}T00:00:00Z") } else { stamp.to_owned() };
    let Some(found) = STAMP.captures(&stamp) else { return stamp };
    let fraction = found.get(3).map_or(".", |it| it.as_str());
    format!("{}T{}{fraction:0<8}Z", &found[1], &found[2])
}

/// A time of XML and JSON, moved by seconds, in the form that it had.
pub(crate) fn shifted(stamp: &str, seconds: i64) -> Option<String> {
    let found = STAMP.captures(stamp)?;
    if !("1990".."2040").contains(&stamp.get(..4)?) {
        return None;
    }
    let time =
        chrono::DateTime::parse_from_rfc3339(&format!("{}T{}Z", &found[1], &found[2])).ok()?;
    let moved = time.checked_add_signed(chrono::TimeDelta::seconds(seconds))?;
    let fraction = found.get(3).map_or("", |it| it.as_str());
    Some(format!("{}{fraction}Z", moved.format("%Y-%m-%dT%H:%M:%S")))
}

/// The table, queue or container in a continuation token.
pub(crate) fn named_by(token: &str) -> String {
    let Some((_, last)) = token.rsplit_once('!') else {
        return token.rsplit('/').next().unwrap_or_default().to_owned();
    };
    let bytes = STANDARD.decode(last.replace('-', "=")).unwrap_or_default();
    let name = bytes.split(|byte| *byte == 1).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "requests are signed with the time of the machine")]
pub(crate) fn now() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_compared_as_instants() {
        assert_eq!(canonical_stamp("2020-01-02"), "2020-01-02T00:00:00.0000000Z");
        assert_eq!(canonical_stamp("2020-01-02T03:04:05.5Z"), "2020-01-02T03:04:05.5000000Z");
        assert_eq!(canonical_stamp("soon"), "soon");
        assert_eq!(
            shifted("2020-01-02T03:04:05.50Z", 60).as_deref(),
            Some("2020-01-02T03:05:05.50Z")
        );
        assert_eq!(shifted("9999-12-31T23:59:59Z", 60), None);
    }

    #[test]
    fn error_codes_are_read_from_headers_json_and_xml() {
        let none = Headers::new();
        let code = |body: &str| error_code(&none, body.as_bytes());
        assert_eq!(code("<Error><Code>QueueNotFound</Code>").as_deref(), Some("QueueNotFound"));
        assert_eq!(
            code(r#"{"odata.error":{"code":"TableNotFound","#).as_deref(),
            Some("TableNotFound")
        );
        assert_eq!(code("nothing"), None);
    }

    #[test]
    fn paths_and_tokens() {
        assert_eq!(
            path("https://a.table.core.windows.net/t(PartitionKey='a')?x"),
            "/t(PartitionKey='a')"
        );
        assert_eq!(quote("/a b'é", "/'"), "/a%20b'%C3%A9");
        assert_eq!(named_by("/account/name"), "name");
    }
}
