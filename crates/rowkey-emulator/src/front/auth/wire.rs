//! The server's half of the formats of authorization: the `Authorization` header, the addresses that
//! a shared access signature permits, and the documents of Get User Delegation Key.

// Decoders read untrusted input: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::fmt;
use std::net::IpAddr;

use rowkey_wire::auth::{DelegationKey, KeyInfo, Scheme};
use rowkey_wire::xml::{Element, Writer, XmlError};

/// A parsed `Authorization` header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorization<'a> {
    /// A token of Microsoft Entra ID.
    Bearer(&'a str),
    /// A signature with the account key.
    SharedKey {
        /// The scheme of the string to sign.
        scheme: Scheme,
        /// The account's name.
        account: &'a str,
        /// The signature in base64.
        signature: &'a str,
    },
}

/// Parses the value of an `Authorization` header; `None` if it is malformed, or neither Shared Key,
/// Shared Key Lite nor a bearer token.
pub(crate) fn parse_authorization(value: &str) -> Option<Authorization<'_>> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim_start();
    if rest.is_empty() {
        return None;
    }
    if scheme.eq_ignore_ascii_case("Bearer") {
        return Some(Authorization::Bearer(rest));
    }
    let scheme = [Scheme::SharedKey, Scheme::SharedKeyLite]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known.name()))?;
    let (account, signature) = rest.split_once(':')?;
    if account.is_empty() || signature.is_empty() {
        return None;
    }
    Some(Authorization::SharedKey { scheme, account, signature })
}

impl fmt::Debug for Authorization<'_> {
    /// Shows neither the token nor the signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bearer(_) => f.write_str("Bearer(..)"),
            Self::SharedKey { scheme, account, .. } => f
                .debug_struct("SharedKey")
                .field("scheme", scheme)
                .field("account", account)
                .finish_non_exhaustive(),
        }
    }
}

/// The addresses that `sip` permits: `168.1.5.65` or `168.1.5.60-168.1.5.70`, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpRange {
    first: IpAddr,
    last: IpAddr,
}

impl IpRange {
    /// Parses `sip`; `None` if it is neither an address nor a range of one kind of address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        (first.is_ipv4() == last.is_ipv4()).then_some(Self { first, last })
    }

    /// Whether `address` is in the range. An IPv4 address written as IPv6 counts as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }
}

/// Parses the request for a user delegation key.
pub(crate) fn parse_key_info(body: &[u8]) -> Result<KeyInfo, XmlError> {
    let root = Element::read_small(body, "KeyInfo")?;
    let text = |name| root.text_of(name).unwrap_or_default().to_owned();
    let expiry = root.require("Expiry")?.text.clone();
    Ok(KeyInfo { start: text("Start"), expiry, delegated_tid: text("DelegatedUserTid") })
}

/// Renders a user delegation key.
pub(crate) fn render_delegation_key(key: &DelegationKey) -> String {
    let mut writer = Writer::response();
    writer.start("UserDelegationKey");
    for (name, text) in [
        ("SignedOid", &key.oid),
        ("SignedTid", &key.tid),
        ("SignedStart", &key.start),
        ("SignedExpiry", &key.expiry),
        ("SignedService", &key.service),
        ("SignedVersion", &key.version),
        ("SignedDelegatedUserTid", &key.delegated_tid),
        ("Value", &*key.value),
    ] {
        if name != "SignedDelegatedUserTid" || !text.is_empty() {
            writer.leaf(name, text);
        }
    }
    writer.end("UserDelegationKey");
    writer.finish()
}

#[cfg(test)]
mod tests {
    use rowkey_wire::auth::authorization;

    use super::*;

    #[test]
    fn the_header_is_read_as_it_is_written() {
        assert_eq!(
            parse_authorization("SharedKey golangrocksonazure:NusX="),
            Some(Authorization::SharedKey {
                scheme: Scheme::SharedKey,
                account: "golangrocksonazure",
                signature: "NusX="
            })
        );
        let value = authorization(Scheme::SharedKeyLite, "devstoreaccount1", "AA+/=").concat();
        assert_eq!(value, "SharedKeyLite devstoreaccount1:AA+/=");
        assert!(matches!(
            parse_authorization(&value),
            Some(Authorization::SharedKey {
                scheme: Scheme::SharedKeyLite,
                signature: "AA+/=",
                ..
            })
        ));
        assert_eq!(parse_authorization("Bearer a.b.c"), Some(Authorization::Bearer("a.b.c")));
        for wrong in [
            "",
            "SharedKey",
            "SharedKey ",
            "SharedKey a",
            "SharedKey a:",
            "SharedKey :x",
            "Basic a:b",
        ] {
            assert_eq!(parse_authorization(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn debug_shows_no_signature_and_no_token() {
        let header = parse_authorization("SharedKey a:c2VjcmV0").unwrap();
        let token = parse_authorization("Bearer c2VjcmV0").unwrap();
        let shown = format!("{header:?} {token:?}");
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }

    #[test]
    fn address_ranges_include_their_ends() {
        let range = IpRange::parse("168.1.5.60-168.1.5.70").unwrap();
        for (address, inside) in [
            ("168.1.5.60", true),
            ("168.1.5.70", true),
            ("::ffff:168.1.5.65", true),
            ("168.1.5.59", false),
            ("168.1.5.71", false),
            ("::1", false),
        ] {
            assert_eq!(range.contains(address.parse().unwrap()), inside, "{address}");
        }
        let one = IpRange::parse("127.0.0.1").unwrap();
        assert!(one.contains("127.0.0.1".parse().unwrap()));
        assert!(!one.contains("127.0.0.2".parse().unwrap()));
        for wrong in ["", "1.2.3", "1.2.3.4-", "1.2.3.4-::1", "a-b"] {
            assert_eq!(IpRange::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_request_for_a_key_is_read_and_the_key_is_rendered() {
        let info = KeyInfo {
            start: "2026-01-01T00:00:00Z".to_owned(),
            expiry: "2026-01-02T00:00:00Z".to_owned(),
            ..KeyInfo::default()
        };
        let body = "<?xml version='1.0' encoding='utf-8'?>\n<KeyInfo><Start>2026-01-01T00:00:00Z</Start>\
            <Expiry>2026-01-02T00:00:00Z</Expiry></KeyInfo>";
        assert_eq!(parse_key_info(body.as_bytes()), Ok(info));
        assert_eq!(parse_key_info(b"<KeyInfo/>"), Err(XmlError::Missing("Expiry")));
        let key = DelegationKey { value: "c2VjcmV0".to_owned().into(), ..DelegationKey::default() };
        let document = render_delegation_key(&key);
        assert!(document.ends_with("<Value>c2VjcmV0</Value></UserDelegationKey>"));
        assert!(!format!("{key:?}").contains("c2VjcmV0"));
    }
}
