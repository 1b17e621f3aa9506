//! The scopes of tokens for a vault: it never receives a token for a service other than its own.

use rowkey_client::address::Address;
use rowkey_client::{Error, ErrorKind, Result};

/// The services whose tokens are valid for all hosts below their own.
const SERVICES: [&str; 6] = [
    "vault.azure.net",
    "managedhsm.azure.net",
    "vault.azure.cn",
    "managedhsm.azure.cn",
    "vault.usgovcloudapi.net",
    "managedhsm.usgovcloudapi.net",
];

/// The scope of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope(pub(super) String);

impl Scope {
    /// The scope for a vault in one of Azure's clouds; `None` for any other host.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let service = SERVICES.iter().find(|service| is_below(host, service))?;
        Some(Self(format!("https://{service}/.default")))
    }
}

/// The scope in a challenge, as in `WWW-Authenticate`: `Bearer authorization="..",
/// resource="https://vault.azure.net"`. Refused unless the resource is an address of a host alone, and that is the host
/// of the vault or a parent domain: otherwise a host could name another service and receive a token for it. With more in
/// the address, it could name a service that its own reader finds there, and not this one.
pub(super) fn challenged(challenge: &str, host: &str) -> Result<Scope> {
    let refused = |what: &'static str| {
        Err(Error::refused(ErrorKind::Auth, what).advise("check the identifier of the key"))
    };
    let Some(parameters) = challenge.strip_prefix("Bearer ") else {
        return refused("the key vault does not name the resource for tokens");
    };
    let parameter = |name: &str| {
        parameters.split(',').find_map(|part| {
            let (key, value) = part.trim().split_once('=')?;
            (key == name).then(|| value.trim_matches('"'))
        })
    };
    let Some(resource) = parameter("resource").or_else(|| parameter("scope")) else {
        return refused("the key vault does not name the resource for tokens");
    };
    let named = resource.strip_suffix("/.default").unwrap_or(resource);
    let Some(named) = Address::parse(named).ok().filter(is_host_alone) else {
        return refused("the key vault names no host as the resource for tokens");
    };
    let domain = &*named.host;
    if host.eq_ignore_ascii_case(domain) || domain.contains('.') && is_below(host, domain) {
        return Ok(Scope(format!("{}://{}/.default", named.scheme(), named.authority())));
    }
    refused("the key vault requests a token for another service")
}

/// Returns whether an address has nothing beside its host and port.
fn is_host_alone(address: &Address) -> bool {
    let is_plain = !address.has_user && address.query.is_none() && !address.has_fragment;
    is_plain && address.path.trim_matches('/').is_empty()
}

/// Returns whether `host` is a subdomain of `service`.
fn is_below(host: &str, service: &str) -> bool {
    let (host, service) = (host.to_ascii_lowercase(), service.to_ascii_lowercase());
    host.strip_suffix(&*service).is_some_and(|name| name.len() > 1 && name.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cloud_has_its_token_scope() {
        for (host, service) in [
            ("contoso.vault.azure.net", Some("vault.azure.net")),
            ("Contoso.ManagedHSM.azure.net", Some("managedhsm.azure.net")),
            ("contoso.vault.azure.cn", Some("vault.azure.cn")),
            ("contoso.vault.usgovcloudapi.net", Some("vault.usgovcloudapi.net")),
            ("contoso.managedhsm.usgovcloudapi.net", Some("managedhsm.usgovcloudapi.net")),
            ("vault.azure.net", None),
            ("evilvault.azure.net", None),
            ("contoso.vault.azure.net.evil.com", None),
            ("contoso.vault.local", None),
        ] {
            let expected = service.map(|service| Scope(format!("https://{service}/.default")));
            assert_eq!(Scope::of_host(host), expected, "{host}");
        }
    }

    #[test]
    fn a_challenge_for_another_service_is_rejected() {
        let bearer = |rest: &str| format!("Bearer authorization=\"https://login/t\", {rest}");
        for (rest, host, scope) in [
            (
                "resource=\"https://vault.stack.local\"",
                "a.vault.stack.local",
                Some("https://vault.stack.local"),
            ),
            (
                "scope=\"https://vault.stack.local/.default\"",
                "a.vault.stack.local",
                Some("https://vault.stack.local"),
            ),
            ("resource=https://a.local/", "a.local", Some("https://a.local")),
            ("resource=\"https://vault.azure.net\"", "a.evil.com", None),
            ("resource=\"https://vault.azure.net\"", "avault.azure.net", None),
            ("resource=\"https://com\"", "a.evil.com", None),
            ("resource=\"evil\"", "a.evil.com", None),
            ("tenant=\"x\"", "a.evil.com", None),
            ("resource=\"https://A.Local\"", "a.local", Some("https://a.local")),
            ("resource=\"https://storage.azure.com\\@a.evil.com\"", "a.evil.com", None),
            ("resource=\"https://storage.azure.com@a.evil.com\"", "a.evil.com", None),
            ("resource=\"https://@a.evil.com\"", "a.evil.com", None),
            ("resource=\"https://a.local:8443/\"", "a.local", Some("https://a.local:8443")),
            ("resource=\"https://a.evil.com/x\"", "a.evil.com", None),
            ("resource=\"https://a.evil.com?x\"", "a.evil.com", None),
            ("resource=\"https://a.evil.com#x\"", "a.evil.com", None),
            ("resource=\"https://a.evil.com https://storage.azure.com\"", "a.evil.com", None),
        ] {
            let given = challenged(&bearer(rest), host);
            let expected = scope.map(|scope| Scope(format!("{scope}/.default")));
            assert_eq!(given.as_ref().ok(), expected.as_ref(), "{rest} {host}");
            assert!(given.is_ok_and(|_| true) || expected.is_none());
        }
        assert_eq!(challenged("Basic realm=x", "a").unwrap_err().kind(), ErrorKind::Auth);
    }
}
