//! Cross-origin resource sharing (CORS): what scripts of other origins may request and read.

use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::CorsRule;

use super::respond::{self, HttpResponse};
use super::route::{self, Route};
use crate::account::{self, Account};

/// Answers a preflight request: whether a script may send the request it announces. Preflights are
/// not authenticated.
pub(crate) fn preflight(
    accounts: &[Account],
    service: Service,
    route: &Route<'_>,
    request: &Parts,
) -> Result<HttpResponse, Rejection> {
    let origin = text(request, &header::ORIGIN);
    let method = text(request, &header::ACCESS_CONTROL_REQUEST_METHOD);
    let (Some(origin), Some(method)) = (origin, method) else {
        return Err(Rejection::with_message(
            ErrorCode::INVALID_HEADER_VALUE,
            "A required CORS header is not present: a preflight request has Origin and \
             Access-Control-Request-Method.",
        ));
    };
    let headers: Vec<&str> = text(request, &header::ACCESS_CONTROL_REQUEST_HEADERS)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let rules = rules(accounts, service, route.account);
    let rule = rules.iter().find(|rule| {
        allows_origin(rule, origin)
            && rule.allowed_methods.iter().any(|allowed| allowed == method)
            && headers.iter().all(|name| names(&rule.allowed_headers, name))
    });
    let rule = rule.ok_or_else(|| Rejection::new(ErrorCode::CORS_PREFLIGHT_FAILURE))?;
    let mut answer = respond::empty(StatusCode::OK);
    let out = answer.headers_mut();
    let any = rule.allowed_origins.iter().any(|allowed| allowed == "*");
    out.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        respond::value(if any { "*".to_owned() } else { origin.to_owned() }),
    );
    out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, respond::value(method.to_owned()));
    if !headers.is_empty() {
        out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, respond::value(headers.join(",")));
    }
    let age = rule.max_age_seconds.to_string();
    out.insert(header::ACCESS_CONTROL_MAX_AGE, respond::value(age));
    if !any {
        out.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

/// Adds the headers that let a script read the response to its request.
pub(crate) fn apply(
    accounts: &[Account],
    service: Service,
    request: &Parts,
    answer: &mut HttpResponse,
) {
    if request.method == http::Method::OPTIONS {
        return;
    }
    // Nearly all requests come from programs, not scripts, and return here.
    let Some(origin) = text(request, &header::ORIGIN) else { return };
    let Ok(route) = route::parse(request) else { return };
    let rules = rules(accounts, service, route.account);
    if rules.is_empty() {
        return;
    }
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Origin"));
    let method = request.method.as_str();
    let rule = rules.iter().find(|rule| {
        allows_origin(rule, origin) && rule.allowed_methods.iter().any(|allowed| allowed == method)
    });
    let Some(rule) = rule else { return };
    let any = rule.allowed_origins.iter().any(|allowed| allowed == "*");
    let exposed: Vec<&str> = ALWAYS_EXPOSED
        .iter()
        .copied()
        .chain(answer.headers().keys().map(HeaderName::as_str).filter(|name| {
            !ALWAYS_EXPOSED.iter().any(|known| known.eq_ignore_ascii_case(name))
                && names(&rule.exposed_headers, name)
        }))
        .collect();
    let exposed = exposed.join(",");
    let out = answer.headers_mut();
    out.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        respond::value(if any { "*".to_owned() } else { origin.to_owned() }),
    );
    out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, respond::value(exposed));
    if !any {
        out.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}

/// The headers that the service always exposes to scripts, in its order.
const ALWAYS_EXPOSED: [&str; 11] = [
    "x-ms-request-id",
    "x-ms-client-request-id",
    "Server",
    "x-ms-version",
    "X-Content-Type-Options",
    "Cache-Control",
    "ETag",
    "Content-Type",
    "Content-Length",
    "Date",
    "Transfer-Encoding",
];

fn rules(accounts: &[Account], service: Service, name: &str) -> Vec<CorsRule> {
    account::find(accounts, name).map(|account| account.cors(service)).unwrap_or_default()
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}

/// Whether a list of header names contains this one. A name in the list may end in `*`.
fn names(list: &[String], name: &str) -> bool {
    list.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => {
            name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
        }
        None => known.eq_ignore_ascii_case(name),
    })
}

fn text<'a>(request: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    request.headers.get(name).and_then(|value| value.to_str().ok())
}
