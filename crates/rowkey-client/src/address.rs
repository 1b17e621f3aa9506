//! Addresses that a program gives as text: endpoints, resources with a signature, keys in a vault.
//!
//! A general URL library brings the tables of Unicode for names in other scripts, in 25 crates
//! (docs/src/adr/0045-connections.md). Names of services are ASCII; others are given in their ASCII form, `xn--..`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An absolute http or https address in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether the scheme is https.
    pub secure: bool,
    /// The host in lower case; an IPv6 address is in brackets.
    pub host: String,
    /// The port, unless it is the scheme's default.
    pub port: Option<u16>,
    /// Whether there is a user name or a password, even an empty one.
    pub has_user: bool,
    /// The path as it was given, empty or with a leading slash.
    pub path: String,
    /// What follows the question mark.
    pub query: Option<String>,
    /// Whether there is a fragment.
    pub has_fragment: bool,
}

/// Why a text is not such an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not absolute, or its host or port is invalid.
    Malformed,
    /// It has another scheme.
    Scheme,
}

impl Address {
    /// Parses a text, without the white space around it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(Fault::Malformed)?;
        let secure = match &*scheme.to_ascii_lowercase() {
            "https" => true,
            "http" => false,
            other if is_scheme(other) => return Err(Fault::Scheme),
            _ => return Err(Fault::Malformed),
        };
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(a, b)| (a, Some(b)));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // Browsers, and some libraries, read `\` as `/`: for them the host is before it, and for others behind the `@`.
        if authority.contains('\\') {
            return Err(Fault::Malformed);
        }
        let (user, place) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, place)| (Some(user), place));
        let default = if secure { 443 } else { 80 };
        let (host, port) = host_and_port(place, default).ok_or(Fault::Malformed)?;
        if text.chars().any(char::is_control) {
            return Err(Fault::Malformed);
        }
        Ok(Self {
            secure,
            host,
            port: (port != default).then_some(port),
            has_user: user.is_some(),
            path: path.to_owned(),
            query: query.map(str::to_owned),
            has_fragment: fragment.is_some(),
        })
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// Host and port, as in the `Host` header.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// Whether the host is a name of several labels, and neither an IP address nor a single word.
    pub fn has_domain(&self) -> bool {
        self.host.contains('.') && self.host.parse::<Ipv4Addr>().is_err()
    }
}

/// Whether a host is this machine. An IPv6 address is in brackets.
pub(crate) fn is_loopback(host: &str) -> bool {
    const DOMAIN: &str = ".localhost";
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let end = host.len().saturating_sub(DOMAIN.len());
    host.eq_ignore_ascii_case(&DOMAIN[1..])
        || host.get(end..).is_some_and(|end| end.eq_ignore_ascii_case(DOMAIN))
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn host_and_port(text: &str, default: u16) -> Option<(String, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (ip, port) = rest.split_once(']')?;
        return Some((format!("[{}]", ip.parse::<Ipv6Addr>().ok()?), number(port, default)?));
    }
    let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_host = !host.is_empty() && host.len() <= 253 && host.bytes().all(is_part);
    is_host.then_some(())?;
    Some((host.to_ascii_lowercase(), number(port, default)?))
}

/// The port after a colon; with neither, the default.
fn number(text: &str, default: u16) -> Option<u16> {
    match text.strip_prefix(':') {
        Some("") => Some(default),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => text.is_empty().then_some(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_address() {
        for (text, authority, port, path, query) in [
            ("https://a.example", "a.example", 443, "", None),
            (" HTTPS://A.Example:443/B%20c/?x=1#y ", "a.example", 443, "/B%20c/", Some("x=1")),
            ("http://[0:0::1]:10002/acct", "[::1]:10002", 10002, "/acct", None),
            ("http://127.0.0.1?a?b", "127.0.0.1", 80, "", Some("a?b")),
            ("http://u:p@rowkey:8080/", "rowkey:8080", 8080, "/", None),
            ("http://@rowkey", "rowkey", 80, "", None),
            ("http://rowkey/a\\b", "rowkey", 80, "/a\\b", None),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((&*address.authority(), address.port()), (authority, port), "{text}");
            assert_eq!((&*address.path, address.query.as_deref()), (path, query), "{text}");
            assert_eq!(address.has_user, text.contains('@'), "{text}");
            assert_eq!(address.has_fragment, text.contains('#'), "{text}");
        }
    }

    #[test]
    fn what_is_no_http_address_is_refused() {
        for (text, fault) in [
            ("", Fault::Malformed),
            ("a.example/b", Fault::Malformed),
            ("https:/a.example", Fault::Malformed),
            ("ftp://a.example", Fault::Scheme),
            ("a b://c", Fault::Malformed),
            ("https://", Fault::Malformed),
            ("https:///path", Fault::Malformed),
            ("https://a example", Fault::Malformed),
            ("https://bücher.example", Fault::Malformed),
            ("https://a:99999", Fault::Malformed),
            ("https://a:+1", Fault::Malformed),
            ("https://[::1", Fault::Malformed),
            ("https://[a]", Fault::Malformed),
            ("https://[::1]a", Fault::Malformed),
            ("https://a/\r\nb", Fault::Malformed),
            ("https://a.example\\@b.example", Fault::Malformed),
            ("https://a.example\\b", Fault::Malformed),
            ("https://u:p\\q@a.example", Fault::Malformed),
        ] {
            assert_eq!(Address::parse(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn this_machine_has_many_names() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost", true),
            ("acct.localhost", true),
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("notlocalhost", false),
            ("localhost.example", false),
            ("10.0.0.1", false),
            ("[::2]", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn only_names_of_several_labels_are_domains() {
        for (text, expected) in
            [("a.example", true), ("127.0.0.1", false), ("rowkey", false), ("[::1]", false)]
        {
            let address = Address::parse(&format!("https://{text}")).unwrap();
            assert_eq!(address.has_domain(), expected, "{text}");
        }
    }
}
