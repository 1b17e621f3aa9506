//! The host names of this server, and the check of requests that a web page sends to another name.
//!
//! A page can make a domain of its own resolve to this server's address (DNS rebinding). Its
//! scripts can then send requests here that the browser treats as same-origin. Such a request has
//! the page's domain in `Host`, which tells it apart from all others.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header;
use http::request::Parts;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::route;

/// The domain of Azure Storage hosts. Only Azure controls where names below it resolve.
const AZURE: &str = "core.windows.net";

/// The server's host names, besides IP addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(|name| name.trim_end_matches('.').to_lowercase()).collect())
    }

    /// Whether a `Host`, with or without a port, names this server. IP addresses do: a page cannot
    /// make them resolve elsewhere.
    fn contain(&self, host: &str) -> bool {
        let host = without_port(host);
        if host.starts_with('[') {
            return host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host.parse::<Ipv4Addr>().is_ok()
            || is_below(&host, "localhost")
            || is_below(&host, AZURE)
            || self.0.iter().any(|name| is_below(&host, name))
    }

    /// Rejects a request that names another host and comes from a page of another host.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), Rejection> {
        // Programs send no `Origin`; they may use any name of the server.
        let Some(origin) = request.headers.get(header::ORIGIN) else { return Ok(()) };
        let Some(host) = route::host(&request.uri, &request.headers) else { return Ok(()) };
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        if self.contain(host) || origin.is_some_and(|(_, host)| self.contain(host)) {
            return Ok(());
        }
        Err(Rejection::with_message(
            ErrorCode::AUTHORIZATION_FAILURE,
            "This request is not authorized to perform this operation: it comes from a page of \
             another origin and its Host is not a name of this server. Start the server on that \
             host name, or allow the name with ServerBuilder::allow_host.",
        )
        .because("a foreign Origin with a Host that is not a name of this server"))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a name is a domain or a subdomain of it, as an account's host is.
fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn answers(host: &str, origin: Option<&str>) -> bool {
        let mut request = Request::builder().uri("/a/t").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let hosts = Hosts::new(["0.0.0.0", "Azurite", "storage.test"]);
        hosts.check(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn only_the_servers_own_host_names_are_accepted() {
        for host in [
            "127.0.0.1:10002",
            "192.168.7.7",
            "[::1]:10002",
            "localhost",
            "LOCALHOST.:10002",
            "acc.table.localhost:10002",
            "acc.blob.core.windows.net",
            "azurite:10002",
            "acc.table.storage.test",
        ] {
            assert!(answers(host, Some("http://evil.example")), "{host}");
        }
        for host in [
            "evil.example:10002",
            "acc.table.evil.example",
            "notlocalhost",
            "azurite.evil",
            "127.0.0.1.evil.example",
            "core.windows.net.evil",
            "[evil]:1",
        ] {
            assert!(!answers(host, Some("http://evil.example")), "{host}");
            assert!(!answers(host, Some(&format!("http://{host}"))), "{host}");
            assert!(!answers(host, Some("null")), "{host}");
            assert!(answers(host, Some("http://localhost:3000")), "{host}");
            assert!(answers(host, None), "{host}");
        }
    }
}
