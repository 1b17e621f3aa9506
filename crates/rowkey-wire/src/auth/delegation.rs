//! User delegation keys: keys that a token holder signs with instead of the account key.
//!
//! Reference: [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key),
//! [user delegation SAS](https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas).

use std::fmt;

use zeroize::Zeroizing;

use crate::xml::{Element, Writer, XmlError};

/// A key, with its user and its validity. Signatures made with the key contain all of these fields
/// except the value, exactly as the service returned them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DelegationKey {
    /// The user.
    pub oid: String,
    /// The user's directory.
    pub tid: String,
    /// The start of the validity.
    pub start: String,
    /// The end of the validity.
    pub expiry: String,
    /// The service, `b`.
    pub service: String,
    /// The version that issued it.
    pub version: String,
    /// The key in base64.
    pub value: Zeroizing<String>,
}

/// The requested validity of a key, in the format of the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyInfo {
    /// The start of the validity.
    pub start: String,
    /// The end of the validity.
    pub expiry: String,
}

/// Parses the body of the request.
pub fn parse(body: &[u8]) -> Result<KeyInfo, XmlError> {
    let root = Element::read_small(body, "KeyInfo")?;
    let start = root.text_of("Start").unwrap_or_default().to_owned();
    Ok(KeyInfo { start, expiry: root.require("Expiry")?.text.clone() })
}

/// Renders the response.
pub fn render(key: &DelegationKey) -> String {
    let mut writer = Writer::response();
    writer.start("UserDelegationKey");
    for (name, text) in [
        ("SignedOid", &key.oid),
        ("SignedTid", &key.tid),
        ("SignedStart", &key.start),
        ("SignedExpiry", &key.expiry),
        ("SignedService", &key.service),
        ("SignedVersion", &key.version),
        ("Value", &*key.value),
    ] {
        writer.leaf(name, text);
    }
    writer.end("UserDelegationKey");
    writer.finish()
}

impl fmt::Debug for DelegationKey {
    /// Leaves out the value and the user.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegationKey")
            .field("start", &self.start)
            .field("expiry", &self.expiry)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_debug_shows_no_key() {
        let info = KeyInfo {
            start: "2026-01-01T00:00:00Z".to_owned(),
            expiry: "2026-01-02T00:00:00Z".to_owned(),
        };
        let body = "<?xml version='1.0' encoding='utf-8'?>\n<KeyInfo><Start>2026-01-01T00:00:00Z</Start>\
            <Expiry>2026-01-02T00:00:00Z</Expiry></KeyInfo>";
        assert_eq!(parse(body.as_bytes()), Ok(info));
        assert_eq!(parse(b"<KeyInfo/>"), Err(XmlError::Missing("Expiry")));
        let key = DelegationKey { value: "c2VjcmV0".to_owned().into(), ..DelegationKey::default() };
        assert!(render(&key).ends_with("<Value>c2VjcmV0</Value></UserDelegationKey>"));
        assert!(!format!("{key:?}").contains("c2VjcmV0"));
    }
}
