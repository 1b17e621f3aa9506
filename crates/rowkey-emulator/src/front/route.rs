//! Finds the account that a request is for, and the rest of its path.
//!
//! The account is the first segment of the path (`/devstoreaccount1/table`), as in emulators, or
//! part of the host (`account.table.localhost:10002`), as in Azure. The suffix `-secondary` names
//! the account's secondary, a read-only copy in a second region. Python's libraries put the
//! secondary's name in front of the existing path (`/account-secondary/account/table`).
//!
//! A host names an account if its first label is an account of this server
//! (`account.localhost:10002`), or if its second label is a service. In a cluster, however, such a
//! host can name the server itself (`emulator.table.svc`): if the path begins with an account, the
//! path decides.

use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri, header};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::account::{self, Account};
use crate::tls::Https;

const SECONDARY: &str = "-secondary";

/// The endpoint that a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    /// The account's name, without `-secondary`.
    pub(crate) account: &'a str,
    /// Whether the secondary is addressed.
    pub(crate) secondary: bool,
    /// The part of the path that names the account: empty, or `/account`.
    pub(crate) prefix: &'a str,
    /// The path below the account, still encoded.
    pub(crate) path: &'a str,
    /// The account's address as the client wrote it, without a slash at the end.
    pub(crate) endpoint: String,
}

impl Route<'_> {
    /// Rejects requests that do not fit this endpoint: writes to the secondary, and statistics of
    /// the primary.
    pub(crate) fn check(&self, method: &Method, is_stats: bool) -> Result<(), Rejection> {
        if self.secondary && method != Method::GET && method != Method::HEAD {
            return Err(Rejection::with_message(
                ErrorCode::INSUFFICIENT_ACCOUNT_PERMISSIONS,
                "Write operations are not allowed.",
            ));
        }
        if !self.secondary && is_stats {
            return Err(Rejection::new(ErrorCode::INVALID_QUERY_PARAMETER_VALUE)
                .detail("QueryParameterName", "comp")
                .detail("QueryParameterValue", "stats")
                .detail("Reason", ""));
        }
        Ok(())
    }
}

/// Parses the endpoint that a request is for.
pub(crate) fn parse(request: &Parts) -> Result<Route<'_>, Rejection> {
    let (host, account, prefix, path) = split(request)?;
    let mut endpoint = String::with_capacity(8 + host.len() + prefix.len());
    let is_https = request.extensions.get::<Https>().is_some();
    endpoint.push_str(if is_https { "https://" } else { "http://" });
    endpoint.push_str(host);
    endpoint.push_str(prefix);
    let (account, secondary) =
        account.strip_suffix(SECONDARY).map_or((account, false), |account| (account, true));
    Ok(Route { account, secondary, prefix, path, endpoint })
}

/// The account that a request is for, and the path below it.
pub(crate) fn account_and_path(request: &Parts) -> Option<(&str, &str)> {
    let (_, account, _, path) = split(request).ok()?;
    Some((account.strip_suffix(SECONDARY).unwrap_or(account), path))
}

/// Where the account is named, if the pattern of the host is misleading. Stored in the extensions
/// of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlStyle {
    Host,
    Path,
}

/// Decides where a request names its account, using the accounts that exist. `product_style` tells
/// whether a host may name one.
pub(crate) fn settle<B>(accounts: &[Account], product_style: bool, request: &mut Request<B>) {
    if let Some(style) = style(accounts, product_style, request.uri(), request.headers()) {
        request.extensions_mut().insert(style);
    }
}

fn style(
    accounts: &[Account],
    product_style: bool,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<UrlStyle> {
    let host = host(uri, headers)?;
    let (label, _) = host.split_once('.')?;
    // Nearly all requests return here: 127.0.0.1 is not an account.
    if label.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_known = |name: &str| {
        account::find(accounts, name.strip_suffix(SECONDARY).unwrap_or(name)).is_some()
    };
    let first_segment = || uri.path().split('/').nth(1).unwrap_or_default();
    match (is_known(label), host_account(host).is_some()) {
        (_, true) if !product_style => Some(UrlStyle::Path),
        (false, true) if is_known(first_segment()) => Some(UrlStyle::Path),
        (true, false) if product_style => Some(UrlStyle::Host),
        _ => None,
    }
}

/// The host that a request names, with its port.
pub(crate) fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.authority()
        .map(http::uri::Authority::as_str)
        .or_else(|| headers.get(header::HOST).and_then(|host| host.to_str().ok()))
        .filter(|host| !host.is_empty())
}

/// The host, the account with its suffix, the part of the path that names it, and the rest of the
/// path.
fn split(request: &Parts) -> Result<(&str, &str, &str, &str), Rejection> {
    let host = host(&request.uri, &request.headers)
        .ok_or_else(|| Rejection::new(ErrorCode::HOST_INFORMATION_NOT_PRESENT))?;
    let path = request.uri.path();
    let named = match request.extensions.get::<UrlStyle>() {
        Some(UrlStyle::Host) => host.split('.').next(),
        Some(UrlStyle::Path) => None,
        None => host_account(host),
    };
    if let Some(account) = named {
        Ok((host, account, "", path))
    } else {
        let segment = path.strip_prefix('/').unwrap_or(path);
        let end = segment.find('/').unwrap_or(segment.len());
        let account = &segment[..end];
        let mut split = path.len() - segment.len() + end;
        if let Some(primary) = account.strip_suffix(SECONDARY)
            && let Some(rest) = path[split..].strip_prefix('/')
            && let Some(rest) = rest.strip_prefix(primary)
            && rest.strip_prefix(SECONDARY).unwrap_or(rest).starts_with('/')
        {
            split = path.len() - rest.strip_prefix(SECONDARY).unwrap_or(rest).len();
        }
        Ok((host, account, &path[..split], &path[split..]))
    }
}

/// The account in a host such as `account.table.core.windows.net`.
fn host_account(host: &str) -> Option<&str> {
    let (account, rest) = host.split_once('.')?;
    matches!(rest.split_once('.')?.0, "blob" | "queue" | "table").then_some(account)
}

/// The path and query of an address inside a batch, below the account. The account must be the one
/// that the batch was sent to. The address may be absolute.
pub(crate) fn inner<'a>(target: &'a str, prefix: &str) -> Result<(&'a str, &'a str), Rejection> {
    let local = match target.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/').unwrap_or(rest.len())..],
        None => target,
    };
    let (path, query) = local.split_once('?').unwrap_or((local, ""));
    let below = path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    // Some clients leave out the account of path-style addresses in batches.
    let path = below.unwrap_or(path);
    if path.is_empty() {
        return Err(Rejection::new(ErrorCode::INVALID_URI));
    }
    Ok((path, query))
}

#[cfg(test)]
mod tests {
    use crate::op::entity::Strictness;
    use http::Request;

    use super::*;
    use crate::account::Rules;
    use crate::store::Names;

    fn parts(host: &str, path: &str) -> Parts {
        Request::builder().uri(path).header("host", host).body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_account_is_in_the_path_or_in_the_host() {
        let request = parts("127.0.0.1:10002", "/devstoreaccount1/t()?$top=1");
        let found = parse(&request).unwrap();
        assert_eq!(
            (found.account, found.secondary, found.path),
            ("devstoreaccount1", false, "/t()")
        );
        assert_eq!(found.endpoint, "http://127.0.0.1:10002/devstoreaccount1");

        let request = parts("acc-secondary.table.localhost:1", "/Tables");
        let found = parse(&request).unwrap();
        assert_eq!((found.account, found.secondary, found.path), ("acc", true, "/Tables"));
        assert_eq!(found.endpoint, "http://acc-secondary.table.localhost:1");

        let request = parts("localhost", "/acc-secondary");
        let found = parse(&request).unwrap();
        assert_eq!((found.account, found.secondary, found.path), ("acc", true, ""));
        assert_eq!(found.prefix, "/acc-secondary");
    }

    /// The account and the rest of the path, on a server with the accounts `acc` and `other`.
    fn account_of(host: &str, path: &str, product_style: bool) -> (String, String) {
        let accounts = ["acc", "other"].map(|name| (name.to_owned(), vec!["YmFy".to_owned()]));
        let rules = Rules { strict: Strictness::Strict, names: Names::Blocked };
        let accounts = account::accounts(&accounts, rules, 0).unwrap();
        let mut request = Request::builder().uri(path).header("host", host).body(()).unwrap();
        settle(&accounts, product_style, &mut request);
        let parts = request.into_parts().0;
        let found = parse(&parts).unwrap();
        (found.account.to_owned(), found.path.to_owned())
    }

    #[test]
    fn a_host_selects_an_account_only_if_it_exists() {
        for (host, path, account, rest) in [
            // As in Azure and in Azurite.
            ("acc.table.localhost:1", "/things", "acc", "/things"),
            ("acc.localhost:1", "/things", "acc", "/things"),
            ("acc-secondary.localhost:1", "/things", "acc", "/things"),
            ("acc.azurite.test", "/other/b", "acc", "/other/b"),
            ("new.table.core.windows.net", "/things", "new", "/things"),
            // Hosts of the server itself.
            ("127.0.0.1:1", "/acc/things", "acc", "/things"),
            ("[::1]:1", "/acc/things", "acc", "/things"),
            ("localhost", "/acc/things", "acc", "/things"),
            ("emulator", "/acc/things", "acc", "/things"),
            ("emulator.default.svc", "/acc/things", "acc", "/things"),
            ("host.docker.internal:1", "/acc/things", "acc", "/things"),
            ("emulator.table.svc", "/acc-secondary/things", "acc", "/things"),
        ] {
            let expected = (account.to_owned(), rest.to_owned());
            assert_eq!(account_of(host, path, true), expected, "{host}{path}");
        }
        for host in ["acc.table.localhost:1", "acc.localhost", "127.0.0.1", "other.test"] {
            let expected = ("acc".to_owned(), "/things".to_owned());
            assert_eq!(account_of(host, "/acc/things", false), expected, "{host}");
        }
    }

    #[test]
    fn the_secondary_suffix_is_accepted_before_the_primary_path() {
        for (path, prefix, below) in [
            ("/acc-secondary/acc/?comp=stats", "/acc-secondary/acc", "/"),
            ("/acc-secondary/acc-secondary/t()", "/acc-secondary/acc-secondary", "/t()"),
            ("/acc-secondary/acc", "/acc-secondary", "/acc"),
            ("/acc-secondary/acc()", "/acc-secondary", "/acc()"),
            ("/acc-secondary/account/b", "/acc-secondary", "/account/b"),
            ("/acc/acc/b", "/acc", "/acc/b"),
        ] {
            let request = parts("localhost", path);
            let found = parse(&request).unwrap();
            assert_eq!((found.account, found.prefix, found.path), ("acc", prefix, below), "{path}");
        }
    }

    #[test]
    fn a_request_without_a_host_is_rejected() {
        let request = Request::builder().uri("/a/b").body(()).unwrap().into_parts().0;
        assert_eq!(parse(&request).unwrap_err().code, ErrorCode::HOST_INFORMATION_NOT_PRESENT);
    }

    #[test]
    fn batch_parts_accept_absolute_and_relative_urls() {
        for target in ["http://h:1/acc/t(1)?a=b", "/acc/t(1)?a=b", "/t(1)?a=b"] {
            assert_eq!(inner(target, "/acc").unwrap(), ("/t(1)", "a=b"), "{target}");
        }
        assert_eq!(inner("https://acc.table.core.windows.net/t", "").unwrap(), ("/t", ""));
        assert!(inner("http://h", "").is_err());
    }
}
