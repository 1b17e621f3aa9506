//! Requests signed with an account key, by Shared Key or Shared Key Lite.

use std::borrow::Cow;
use std::cell::RefCell;

use http::header::{self, HeaderValue};
use http::request::Parts;
use rowkey_wire::auth::{Scheme, Service, Unsigned, string_to_sign};
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::{MS_DATE, VERSION};

use super::{Caller, failed};
use crate::account::Account;
use crate::clock::unix_seconds;

/// The largest difference, in seconds, between a request's date and the clock.
const MAX_CLOCK_SKEW_SECONDS: i64 = 15 * 60;

/// The first version that signs an empty line instead of a length of 0.
const NO_ZERO: &[u8] = b"2015-02-21";

/// Verifies a signature and the date that it covers.
pub(super) fn verify(
    account: &Account,
    caller: Caller<'_>,
    request: &Parts,
    scheme: Scheme,
    name: &str,
    signature: &str,
) -> Result<(), Rejection> {
    if name != account.name {
        return Err(failed(
            "the Authorization header names another account",
            "The Authorization header does not name the account that the request is for.",
        ));
    }
    check_date(caller, request)?;
    let path = request.uri.path();
    let content_length = content_length(request);
    let text_for = |path: &str| {
        let unsigned = Unsigned {
            method: request.method.as_str(),
            path,
            query: request.uri.query(),
            headers: &request.headers,
            content_length: content_length.unwrap_or_default(),
        };
        string_to_sign(caller.service, scheme, &account.name, &unsigned)
    };
    let signs = |text: &str| {
        let signed = |text: &str| account.keys.iter().any(|key| key.verify(text, signature));
        signed(text)
            || content_length == Some(0)
                && scheme == Scheme::SharedKey
                && caller.service != Service::Table
                // A request without a version is treated as one of the oldest.
                && request.headers.get(VERSION).is_none_or(|version| version.as_bytes() < NO_ZERO)
                && signed(&with_zero(text))
    };
    let text = text_for(path);
    if signs(&text) || caller.secondary && secondary_paths(path).any(|path| signs(&text_for(&path)))
    {
        return Ok(());
    }
    let detail = format!(
        "The MAC signature found in the HTTP request '{signature}' is not the same as any computed \
         signature. Server used following string to sign: '{text}'."
    );
    Err(caller.not_signed(&text, "the Shared Key signature does not match", detail))
}

/// The paths that libraries sign instead of a path that names the secondary: the primary's path,
/// or, if they put the secondary's name in front (`/acc-secondary/acc/table`), the path without it.
fn secondary_paths(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let below = path.get(1..).and_then(|path| path.find('/')).map(|at| &path[at + 1..]);
    [Some(Cow::Owned(path.replacen("-secondary", "", 1))), below.map(Cow::Borrowed)]
        .into_iter()
        .flatten()
}

/// The length of the body according to the request.
fn content_length(request: &Parts) -> Option<u64> {
    request.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The string to sign with a length of 0 in the fourth line, `Content-Length`.
fn with_zero(text: &str) -> String {
    let mut lines: Vec<&str> = text.splitn(5, '\n').collect();
    if let Some(length) = lines.get_mut(3) {
        *length = "0";
    }
    lines.join("\n")
}

/// A signed request is valid for 15 minutes.
fn check_date(caller: Caller<'_>, request: &Parts) -> Result<(), Rejection> {
    let headers = &request.headers;
    let date = headers.get(MS_DATE).or_else(|| headers.get(header::DATE));
    match date.and_then(seconds) {
        Some(date) if (date - unix_seconds(caller.now)).abs() <= MAX_CLOCK_SKEW_SECONDS => Ok(()),
        Some(_) => Err(failed(
            "the request's date is more than 15 minutes from the server's clock",
            format!(
                "The date of the request is more than 15 minutes from the server's clock, which \
                 shows {}.",
                caller.now.to_http()
            ),
        )),
        None => Err(failed(
            "the request's date is missing or not a date",
            "The Date header in the request is incorrect. A signed request needs the header \
             x-ms-date or Date, such as Fri, 10 Nov 2017 02:44:50 GMT.",
        )),
    }
}

/// The second in a date. Cached, because all requests within a second have the same date.
fn seconds(date: &HeaderValue) -> Option<i64> {
    thread_local! {
        static LAST: RefCell<(HeaderValue, i64)> =
            const { RefCell::new((HeaderValue::from_static(""), 0)) };
    }
    LAST.with_borrow_mut(|(last, seconds)| {
        if date != last {
            let read = httpdate::parse_http_date(date.to_str().ok()?).ok()?;
            let since = read.duration_since(std::time::UNIX_EPOCH).ok()?;
            *seconds = i64::try_from(since.as_secs()).ok()?;
            // A copy: the value is a slice of the whole request head.
            *last = HeaderValue::from_bytes(date.as_bytes()).ok()?;
        }
        Some(*seconds)
    })
}
