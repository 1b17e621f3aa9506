//! What clients ask before they sign in: the OpenID configuration, the keys, the aliases of the
//! authority, and whether a user signs in here.

use http::StatusCode;
use serde_json::json;

use super::answer::json;
use super::call::Call;
use super::tenant_id;
use crate::front::respond::HttpResponse;

/// The OpenID configuration of a tenant.
pub(super) fn configuration(call: &Call<'_>, tenant: &str) -> HttpResponse {
    let (authority, id) = (&call.authority, tenant_id(tenant));
    let document = json!({
        "issuer": format!("{authority}/{id}/v2.0"),
        "token_endpoint": format!("{authority}/{tenant}/oauth2/v2.0/token"),
        "jwks_uri": format!("{authority}/{tenant}/discovery/v2.0/keys"),
        // Required by clients, though neither is offered.
        "authorization_endpoint": format!("{authority}/{tenant}/oauth2/v2.0/authorize"),
        "device_authorization_endpoint": format!("{authority}/{tenant}/oauth2/v2.0/devicecode"),
        "token_endpoint_auth_methods_supported":
            ["client_secret_post", "client_secret_basic", "private_key_jwt"],
        "grant_types_supported": ["client_credentials", "password", "refresh_token"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "profile", "offline_access"],
        "claims_supported": ["aud", "iss", "iat", "nbf", "exp", "oid", "sub", "tid"],
        "cloud_instance_name": call.host(),
    });
    json(StatusCode::OK, &document)
}

/// The keys that tokens are signed with.
pub(super) fn keys(call: &Call<'_>) -> HttpResponse {
    json(StatusCode::OK, &json!({"keys": [call.issuer.key.jwk()]}))
}

/// The names of the authority. It has one.
pub(super) fn instance(call: &Call<'_>) -> HttpResponse {
    let (authority, host) = (&call.authority, call.host());
    let asked = call.get("authorization_endpoint").unwrap_or_default();
    let tenant = asked.split('/').nth(3).filter(|tenant| !tenant.is_empty()).unwrap_or("common");
    let document = json!({
        "tenant_discovery_endpoint":
            format!("{authority}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1",
        "metadata":
            [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
    });
    json(StatusCode::OK, &document)
}

/// Where a user signs in: here, and nowhere else.
pub(super) fn user_realm(user: &str) -> HttpResponse {
    let domain = user.rsplit(['@']).next().unwrap_or_default();
    let document = json!({
        "ver": "1.0",
        "account_type": "Managed",
        "domain_name": domain,
        "cloud_instance_name": "rowkey-server",
    });
    json(StatusCode::OK, &document)
}
