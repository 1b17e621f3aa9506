//! Which requests are let in.
//!
//! The control plane can read and delete everything, so pages of other origins must not reach it: neither directly
//! (their requests have an `Origin`) nor through a name of their own that leads here (DNS rebinding; then the `Host` is
//! foreign). Where others than programs of this machine reach it, a token is required.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::{Method, StatusCode};
use subtle::ConstantTimeEq as _;

use crate::page;
use crate::problem::Problem;
use crate::shared::Shared;

/// From where a browser sends a request, and what for.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Lets a request through, or says why not.
pub(crate) async fn check(State(plane): State<Shared>, request: Request, next: Next) -> Response {
    let checked = check_host(&request, &plane.hosts).and_then(|()| match &plane.token {
        Some(token) if !is_open(request.uri().path()) => check_token(request.headers(), token),
        _ => Ok(()),
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Whether a path shows nothing of the server's contents: checks of its health have no token, and the page asks for it.
fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/ready") || page::has(path)
}

fn check_host(request: &Request, allowed: &[String]) -> Result<(), Problem> {
    let refused = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
    let Some(host) = single(request.headers(), &HOST) else {
        return refused("the request needs one Host header".to_owned());
    };
    let name = match host.parse::<http::uri::Authority>() {
        Ok(authority) if !host.contains('@') => authority.host().to_ascii_lowercase(),
        _ => return refused("the Host header is not a host".to_owned()),
    };
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    if !is_address && !is_local && !allowed.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
        return refused(format!(
            "the host {name} is not one of this server; start it with --allow-host {name} if it should be"
        ));
    }
    let is_own = match request.headers().get(ORIGIN) {
        Some(_) => {
            let origin = single(request.headers(), &ORIGIN);
            let origin = origin.and_then(|origin| origin.strip_prefix("http://"));
            origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
        }
        None => true,
    };
    if is_own && is_own_fetch(request) {
        return Ok(());
    }
    refused("pages of other origins may not use the control plane".to_owned())
}

/// Whether a request comes from the control plane's own page, or from no page at all. Images, scripts and links of
/// other pages have no `Origin`, but browsers say where they come from. Such a link may lead to the page itself.
fn is_own_fetch(request: &Request) -> bool {
    match request.headers().get(&FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => true,
        Some(_) => {
            let navigates =
                request.headers().get(&FETCH_MODE).is_some_and(|mode| mode == "navigate");
            request.method() == Method::GET && navigates && page::has(request.uri().path())
        }
    }
}

fn check_token(headers: &HeaderMap, token: &str) -> Result<(), Problem> {
    let given = single(headers, &AUTHORIZATION).and_then(|value| {
        let (scheme, given) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(given)
    });
    if given.is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into()) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        "the control plane needs its token: send the header Authorization: Bearer TOKEN, with the value of \
         --control-token or ROWKEY_CONTROL_TOKEN",
    ))
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(host: &str, origin: Option<&str>) -> Request {
        let mut request = Request::builder().uri("/v1/clock").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn hosts_of_this_machine_are_let_in() {
        for host in ["127.0.0.1:9", "localhost", "[::1]:9", "a.localhost:9", "Storage.test:9"] {
            check_host(&request(host, None), &["storage.test".to_owned()]).unwrap();
            check_host(
                &request(host, Some(&format!("http://{host}"))),
                &["storage.test".to_owned()],
            )
            .unwrap();
        }
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        for host in [
            "evil.test",
            "127.0.0.1.evil.test",
            "localhost.evil.test:9",
            "",
            "a b",
            "evil@127.0.0.1",
        ] {
            let problem = check_host(&request(host, None), &[]);
            assert!(problem.is_err(), "{host}");
        }
        let origins = [
            "http://evil.test",
            "null",
            "http://127.0.0.1:8",
            "file://",
            "",
            "https://127.0.0.1:9",
        ];
        for origin in origins {
            let problem = check_host(&request("127.0.0.1:9", Some(origin)), &[]);
            assert!(problem.is_err(), "{origin}");
        }
        let twice = Request::builder().header(HOST, "127.0.0.1").header(HOST, "127.0.0.1");
        assert!(check_host(&twice.body(Body::empty()).unwrap(), &[]).is_err());
    }

    #[test]
    fn images_and_scripts_of_other_pages_are_refused() {
        let fetch = |path: &str, site: &str, mode: &str| {
            let request = Request::builder().uri(path).header(HOST, "127.0.0.1:9");
            let request = request.header(&FETCH_SITE, site).header(&FETCH_MODE, mode);
            check_host(&request.body(Body::empty()).unwrap(), &[]).is_ok()
        };
        let data = "/v1/data/queue/a/q/messages";
        for (path, site, mode, is_let_in) in [
            (data, "same-origin", "cors", true),
            (data, "none", "navigate", true),
            (data, "cross-site", "no-cors", false),
            (data, "same-site", "no-cors", false),
            (data, "cross-site", "navigate", false),
            ("/", "cross-site", "navigate", true),
            ("/app.js", "cross-site", "no-cors", false),
        ] {
            assert_eq!(fetch(path, site, mode), is_let_in, "{path} {site} {mode}");
        }
    }

    #[test]
    fn a_token_is_compared_whole() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            check_token(&headers, "secret")
        };
        with("Bearer secret").unwrap();
        with("bearer secret").unwrap();
        for wrong in ["Bearer secre", "Bearer secret2", "Basic secret", "secret", "Bearer"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        assert!(check_token(&HeaderMap::new(), "secret").is_err());
    }
}
