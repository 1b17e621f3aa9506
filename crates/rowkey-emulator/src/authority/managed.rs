//! Managed identities: the endpoint that a virtual machine has (IMDS), and the one of App Service.
//!
//! They give a token to every process of the machine, without a secret, and so only to requests
//! from this machine.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::answer::{Refusal, json};
use super::call::Call;
use crate::clock::unix_seconds;
use crate::front::respond::HttpResponse;
use crate::identity::issuer::LIFETIME;
use crate::identity::{DEVELOPMENT_TENANT_ID, Grant, Identity, IdentityKind};

/// `GET /metadata/identity/oauth2/token`, the Instance Metadata Service.
pub(super) fn imds(call: &Call<'_>, address: IpAddr) -> Result<HttpResponse, Refusal> {
    let header = call.headers.get("metadata").map(HeaderValue::as_bytes);
    if !header.is_some_and(|value| value.eq_ignore_ascii_case(b"true")) {
        return Err(invalid("Required metadata header not specified"));
    }
    let mut document = token(call, address)?;
    document["expires_in"] = LIFETIME.to_string().into();
    document["ext_expires_in"] = LIFETIME.to_string().into();
    document["not_before"] = unix_seconds(call.now).to_string().into();
    Ok(json(StatusCode::OK, &document))
}

/// `GET /msi/token`, the `IDENTITY_ENDPOINT` of App Service. Any `IDENTITY_HEADER` is accepted.
pub(super) fn app_service(call: &Call<'_>, address: IpAddr) -> Result<HttpResponse, Refusal> {
    let header = call.headers.get("x-identity-header");
    if header.is_none_or(HeaderValue::is_empty) {
        let message = "The header X-IDENTITY-HEADER with the value of IDENTITY_HEADER is missing.";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
    }
    Ok(json(StatusCode::OK, &token(call, address)?))
}

fn token(call: &Call<'_>, address: IpAddr) -> Result<Value, Refusal> {
    if !address.to_canonical().is_loopback() {
        let message = "Managed identities are those of this machine.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "access_denied", message));
    }
    let resource =
        call.get("resource").ok_or_else(|| invalid("The parameter resource is missing"))?;
    // Clients that have only a scope cut off its end, and some keep the slash.
    let resource = resource.strip_suffix("/.default").unwrap_or(resource);
    let identity = identity(call).ok_or_else(|| invalid("Identity not found"))?;
    let grant = Grant {
        identity: &identity,
        client_id: identity.id(),
        tenant: DEVELOPMENT_TENANT_ID,
        authority: &call.authority,
        resource,
        now: call.now,
    };
    let token = call.issuer.access_token(&grant).ok_or_else(Refusal::unsigned)?;
    Ok(json!({
        "access_token": token,
        "client_id": identity.id(),
        "expires_on": (unix_seconds(call.now) + LIFETIME).to_string(),
        "resource": resource,
        "token_type": "Bearer",
    }))
}

/// The managed identity that a request names by its client id, object id or resource id; the first
/// one if it names none.
fn identity(call: &Call<'_>) -> Option<Arc<Identity>> {
    let identities = &call.issuer.identities;
    let named = |names: &[&str]| names.iter().find_map(|name| call.get(name));
    let found = if let Some(id) = named(&["client_id", "clientid"]) {
        identities.find(id)
    } else if let Some(id) = named(&["object_id", "principal_id"]) {
        identities.with_object_id(id)
    } else if let Some(id) = named(&["mi_res_id", "msi_res_id"]) {
        // …/providers/Microsoft.ManagedIdentity/userAssignedIdentities/NAME
        identities.find(id.rsplit('/').next().unwrap_or(id))
    } else {
        identities.managed()
    };
    found.filter(|found| found.kind() == IdentityKind::ManagedIdentity)
}

fn invalid(message: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", message)
}
