//! The address of a proxy, parsed once: what cannot be used is refused where it is given.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::address::Address;

/// The address of a proxy over http or https, and the credentials for it.
#[derive(Clone)]
pub(crate) struct ProxyAddress(Intercept);

impl ProxyAddress {
    /// Parses `http://user:password@host:port`. Returns `None` for a text that is not such an address in all its parts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let address = Address::parse(text).ok()?;
        let is_root = address.path.len() <= 1 && address.query.is_none() && !address.has_fragment;
        // With two of them, readers of addresses disagree about where the password ends.
        let is_clear = text.bytes().filter(|byte| *byte == b'@').count() <= 1;
        if !is_root || !is_clear {
            return None;
        }
        // A matcher has no proxy, and reports no error, if the text has a character that is invalid in an address.
        let matcher = Matcher::builder().all(text).build();
        matcher.intercept(&Uri::from_static("http://localhost")).map(Self)
    }

    /// The address to connect to.
    pub(crate) fn uri(&self) -> &Uri {
        self.0.uri()
    }

    /// The value of `Proxy-Authorization`, if the address has credentials.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.0.basic_auth()
    }

    /// Whether the connection to the proxy has TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.uri().scheme() == Some(&http::uri::Scheme::HTTPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_used_as_it_is_written() {
        for (text, uri, authorization) in [
            ("http://proxy:3128", "http://proxy:3128/", None),
            (" HTTPS://Proxy:3128/ ", "https://Proxy:3128/", None),
            ("http://anna:s%40cret@proxy", "http://proxy/", Some("Basic YW5uYTpzQGNyZXQ=")),
            ("http://[::1]:3128", "http://[::1]:3128/", None),
        ] {
            let proxy = ProxyAddress::parse(text).unwrap();
            assert_eq!(proxy.uri(), uri, "{text}");
            assert_eq!(
                proxy.authorization().map(HeaderValue::as_bytes),
                authorization.map(str::as_bytes),
                "{text}"
            );
            assert_eq!(proxy.is_secure(), uri.starts_with("https"), "{text}");
        }
    }

    #[test]
    fn what_connections_would_ignore_is_no_address() {
        for text in [
            "proxy:3128",
            "http://proxy/path",
            "http://proxy?query",
            "http://proxy#part",
            "http://anna:1#2@proxy",
            "http://anna:a@b@proxy",
            "http://anna:a b@proxy",
            "http://anna:a^b@proxy",
            "http://anna:\"a\"@proxy",
            "http://anna:ä@proxy",
            "http://anna:a\\b@proxy",
            "http://anna:a/b@proxy",
            "socks5://proxy:1080",
        ] {
            assert!(ProxyAddress::parse(text).is_none(), "{text}");
        }
    }
}
