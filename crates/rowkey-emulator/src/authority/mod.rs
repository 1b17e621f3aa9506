//! The authority: the addresses at which clients get tokens, as Microsoft Entra ID has them.
//!
//! - [`discovery`]: the OpenID configuration, the keys, and what MSAL asks before it signs in
//! - [`grants`]: the token endpoint
//! - [`managed`]: managed identities, as virtual machines and App Service offer them
//! - [`mod@answer`]: responses in JSON, and the errors of Microsoft Entra ID
//! - [`call`]: one request to the authority

mod answer;
mod call;
mod discovery;
mod grants;
mod managed;

use std::net::IpAddr;

use answer::Refusal;
use bytes::Bytes;
use call::Call;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use tracing::debug;

use crate::front::auth::tenant;
use crate::front::head;
use crate::front::respond::HttpResponse;
use crate::identity::DEVELOPMENT_TENANT_ID;
use crate::state::State;

/// The longest body of a request. An assertion is a few KiB long.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// Answers a request to the authority. `body` is `None` if it is longer than [`MAX_BODY`].
pub(crate) fn answer(
    state: &State,
    address: IpAddr,
    request: &Parts,
    body: Option<&Bytes>,
) -> HttpResponse {
    let answer = respond(state, address, request, body)
        .unwrap_or_else(|refusal| refusal.answer(&state.ids.next(), state.now()));
    // Without the query and the body, which may hold secrets.
    let (method, path, status) = (&request.method, request.uri.path(), answer.status().as_u16());
    debug!(%method, path, status, "a request to the authority is answered");
    answer
}

fn respond(
    state: &State,
    address: IpAddr,
    request: &Parts,
    body: Option<&Bytes>,
) -> Result<HttpResponse, Refusal> {
    let missing = || Refusal::new(StatusCode::NOT_FOUND, "not_found", "There is no such address.");
    let issuer = state.issuer.as_deref().ok_or_else(missing)?;
    if head::check_repeated(&request.headers).is_err() {
        let why = "A header is repeated that must have one value.";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", why));
    }
    if state.hosts.check(request).is_err() {
        let why = "The request comes from a page of another origin.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "access_denied", why));
    }
    let too_long =
        || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", "The body is too long.");
    let body = body.ok_or_else(too_long)?;
    let call = Call::new(issuer, state.now(), request, body);
    let path: Vec<&str> = request.uri.path().trim_matches('/').split('/').collect();
    match (&request.method, &*path) {
        (&Method::GET, ["metadata", "identity", "oauth2", "token"]) => {
            managed::imds(&call, address)
        }
        (&Method::GET, ["msi", "token"]) => managed::app_service(&call, address),
        (&Method::GET, [_, "discovery", "instance"]) => Ok(discovery::instance(&call)),
        (&Method::GET, [_, "userrealm", user]) => Ok(discovery::user_realm(user)),
        (
            &Method::GET,
            [tenant, "v2.0", ".well-known", "openid-configuration"]
            | [tenant, ".well-known", "openid-configuration"],
        ) => Ok(discovery::configuration(&call, tenant)),
        (&Method::GET, [_, "discovery", "v2.0", "keys"] | [_, "discovery", "keys"]) => {
            Ok(discovery::keys(&call))
        }
        (&Method::POST, [tenant, "oauth2", "v2.0", "token"]) => grants::token(&call, tenant),
        _ => Err(missing()),
    }
}

/// The tenant of tokens that are asked for in the name of this one: the names that stand for the
/// tenant of the user, and domains, are the development tenant.
fn tenant_id(name: &str) -> &str {
    if uuid::Uuid::try_parse(name).is_ok() { name } else { DEVELOPMENT_TENANT_ID }
}

/// Names this authority in the challenge of a 401, with the tenant of the token that was sent.
pub(crate) fn challenge(state: &State, request: &Parts, answer: &mut HttpResponse) {
    let Some(issuer) = &state.issuer else { return };
    let Some(challenge) = answer.headers_mut().get_mut(WWW_AUTHENTICATE) else { return };
    let tenant = request.headers.get(AUTHORIZATION).and_then(tenant);
    let tenant = tenant.as_deref().map_or(DEVELOPMENT_TENANT_ID, tenant_id);
    let authority = issuer.address();
    let text = format!(
        "Bearer authorization_uri={authority}/{tenant}/oauth2/authorize \
         resource_id=https://storage.azure.com"
    );
    if let Ok(value) = HeaderValue::from_str(&text) {
        *challenge = value;
    }
}
