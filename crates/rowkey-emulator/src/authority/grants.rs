//! The token endpoint: the grants `client_credentials`, `password` and `refresh_token`.
//!
//! An application authenticates by its secret, or by an assertion: a JSON Web Token by which a
//! workload identity or the holder of a certificate proves who it is. Only the form of an assertion
//! is checked, because its issuer's key is not known here.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::StatusCode;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::answer::{Refusal, json};
use super::call::Call;
use super::tenant_id;
use crate::front::respond::HttpResponse;
use crate::identity::issuer::LIFETIME;
use crate::identity::{Grant, Identity, IdentityKind};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Answers a request for a token.
pub(super) fn token(call: &Call<'_>, tenant: &str) -> Result<HttpResponse, Refusal> {
    let client = Client::of(call)?;
    let kind = call.get("grant_type").ok_or_else(|| missing("grant_type"))?;
    let identity = match kind {
        "client_credentials" => client.authenticate(call)?,
        "password" => {
            client.authenticate_if_known(call)?;
            user(call)?
        }
        "refresh_token" => {
            client.authenticate_if_known(call)?;
            let token = call.get("refresh_token").ok_or_else(|| missing("refresh_token"))?;
            call.issuer.refreshed(token, &client.id, call.now).ok_or_else(|| {
                let message = "The refresh token has expired, was issued to another application, \
                               or is not one of this server.";
                Refusal::aadsts("invalid_grant", 700_082, message)
            })?
        }
        other => {
            let message = format!("The app requested an unsupported grant type '{other}'.");
            return Err(Refusal::aadsts("unsupported_grant_type", 70003, message));
        }
    };
    let is_user = kind != "client_credentials";
    let scope = call.get("scope").ok_or_else(|| missing("scope"))?;
    let resource = resource(scope, is_user)?;
    let grant = Grant {
        identity: &identity,
        client_id: &client.id,
        tenant: tenant_id(tenant),
        authority: &call.authority,
        resource,
        now: call.now,
    };
    respond(call, &grant, scope, is_user)
}

fn respond(
    call: &Call<'_>,
    grant: &Grant<'_>,
    scope: &str,
    is_user: bool,
) -> Result<HttpResponse, Refusal> {
    let token = call.issuer.access_token(grant).ok_or_else(Refusal::unsigned)?;
    let mut document = json!({
        "token_type": "Bearer",
        "expires_in": LIFETIME,
        "ext_expires_in": LIFETIME,
        "access_token": token,
    });
    if is_user {
        let has = |name: &str| scope.split(' ').any(|scope| scope == name);
        document["scope"] = scope.into();
        if has("offline_access") {
            let token = call.issuer.refresh_token(grant).ok_or_else(Refusal::unsigned)?;
            document["refresh_token"] = token.into();
        }
        if has("openid") {
            let token = call.issuer.id_token(grant).ok_or_else(Refusal::unsigned)?;
            document["id_token"] = token.into();
        }
        // MSAL names an account in its cache by these two.
        let info = json!({"uid": grant.identity.object_id(), "utid": grant.tenant});
        document["client_info"] = Value::String(BASE64_URL_SAFE_NO_PAD.encode(info.to_string()));
    }
    Ok(json(StatusCode::OK, &document))
}

/// The application that sent a request.
struct Client {
    id: String,
    secret: Option<String>,
}

impl Client {
    /// The client id and the secret of a request, in its form or in its header.
    fn of(call: &Call<'_>) -> Result<Self, Refusal> {
        if let Some(id) = call.get("client_id") {
            let secret = call.get("client_secret").map(str::to_owned);
            return Ok(Self { id: id.to_owned(), secret });
        }
        let header = call.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = header
            .and_then(|value| value.strip_prefix("Basic "))
            .and_then(|value| BASE64_STANDARD.decode(value).ok())
            .and_then(|value| String::from_utf8(value).ok());
        let (id, secret) = text
            .as_deref()
            .and_then(|text| text.split_once(':'))
            .ok_or_else(|| missing("client_id"))?;
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Ok(Self { id: decode(id), secret: Some(decode(secret)) })
    }

    /// The application, if it has sent its secret or an assertion.
    fn authenticate(&self, call: &Call<'_>) -> Result<Arc<Identity>, Refusal> {
        let known = call.issuer.identities.find(&self.id);
        let known = known.filter(|known| known.kind() == IdentityKind::Application);
        let identity = known.ok_or_else(|| {
            let message = format!(
                "Application with identifier '{}' was not found. The server knows those of \
                 --oauth-identities or of ServerBuilder::identity.",
                self.id
            );
            Refusal::aadsts("unauthorized_client", 700_016, message)
        })?;
        if let Some(secret) = &self.secret {
            if identity.has_secret(secret) {
                return Ok(identity);
            }
            return Err(Refusal::client(
                7_000_215,
                "Invalid client secret provided. Ensure the secret being sent in the request is \
                 the client secret value, not the client secret ID.",
            ));
        }
        let Some(assertion) = call.get("client_assertion") else {
            return Err(Refusal::client(
                7_000_218,
                "The request body must contain the following parameter: 'client_assertion' or \
                 'client_secret'.",
            ));
        };
        if call.get("client_assertion_type") != Some(ASSERTION) || !is_token(assertion) {
            let message = "Client assertion is not a JSON Web Token of the type jwt-bearer.";
            return Err(Refusal::client(50027, message));
        }
        Ok(identity)
    }

    /// Authenticates an application that has sent a credential. Public ones have none, and need not
    /// be known.
    fn authenticate_if_known(&self, call: &Call<'_>) -> Result<(), Refusal> {
        if self.secret.is_none() && call.get("client_assertion").is_none() {
            return Ok(());
        }
        self.authenticate(call).map(drop)
    }
}

/// Whether a text has the form of a JSON Web Token: three parts, of which two are objects.
fn is_token(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_object = |part: &&str| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok();
        let value = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        value.is_some_and(|value| value.is_object())
    };
    parts.len() == 3 && parts[..2].iter().all(is_object)
}

/// The user of a request with a name and a password.
fn user(call: &Call<'_>) -> Result<Arc<Identity>, Refusal> {
    let name = call.get("username").ok_or_else(|| missing("username"))?;
    let password = call.get("password").ok_or_else(|| missing("password"))?;
    let known = call.issuer.identities.find(name);
    let user = known.filter(|known| known.kind() == IdentityKind::User).ok_or_else(|| {
        Refusal::aadsts("invalid_grant", 50034, "The user account does not exist in the directory.")
    })?;
    if user.has_secret(password) {
        return Ok(user);
    }
    let message = "Error validating credentials due to invalid username or password.";
    Err(Refusal::aadsts("invalid_grant", 50126, message))
}

/// The resource that a scope names.
fn resource(scope: &str, is_user: bool) -> Result<&str, Refusal> {
    let mut resources = scope.split(' ').filter_map(|scope| {
        let (resource, name) = scope.rsplit_once('/')?;
        (is_user || name == ".default").then_some(resource)
    });
    resources.next().filter(|resource| !resource.is_empty()).ok_or_else(|| {
        let message = format!(
            "The provided value for the input parameter 'scope' is not valid. The scope '{scope}' \
             does not name a resource, as https://storage.azure.com/.default does."
        );
        Refusal::aadsts("invalid_scope", 70011, message)
    })
}

fn missing(name: &str) -> Refusal {
    let message = format!("The request body must contain the following parameter: '{name}'.");
    Refusal::aadsts("invalid_request", 900_144, message)
}
