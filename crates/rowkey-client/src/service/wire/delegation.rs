//! User delegation keys: the documents of the request and of the response.
//!
//! Reference: [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key).

use rowkey_wire::auth::{DelegationKey, KeyInfo};
use rowkey_wire::xml::{Element, Writer, XmlError};

/// The body of the request.
pub(crate) fn encode(info: &KeyInfo) -> String {
    let mut writer = Writer::request();
    writer.start("KeyInfo");
    writer.leaf("Start", &info.start);
    writer.leaf("Expiry", &info.expiry);
    writer.end("KeyInfo");
    writer.finish()
}

/// The key in the response.
pub(crate) fn decode(body: &[u8]) -> Result<DelegationKey, XmlError> {
    let root = Element::read_root(body, "UserDelegationKey")?;
    let text = |name| root.require(name).map(|element| element.text.clone());
    Ok(DelegationKey {
        oid: text("SignedOid")?,
        tid: text("SignedTid")?,
        start: text("SignedStart")?,
        expiry: text("SignedExpiry")?,
        service: text("SignedService")?,
        version: text("SignedVersion")?,
        delegated_tid: root.text_of("SignedDelegatedUserTid").unwrap_or_default().to_owned(),
        value: text("Value")?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_documented_elements() {
        let info = KeyInfo {
            start: "2026-01-01T00:00:00Z".to_owned(),
            expiry: "2026-01-02T00:00:00Z".to_owned(),
            ..KeyInfo::default()
        };
        assert_eq!(
            encode(&info),
            "<?xml version='1.0' encoding='utf-8'?>\n<KeyInfo><Start>2026-01-01T00:00:00Z</Start>\
             <Expiry>2026-01-02T00:00:00Z</Expiry></KeyInfo>"
        );
        let body = "<UserDelegationKey><SignedOid>o</SignedOid><SignedTid>t</SignedTid>\
            <SignedStart>s</SignedStart><SignedExpiry>e</SignedExpiry><SignedService>b</SignedService>\
            <SignedVersion>v</SignedVersion><Value>c2VjcmV0</Value></UserDelegationKey>";
        let key = decode(body.as_bytes()).unwrap();
        let fields = [&key.oid, &key.tid, &key.start, &key.expiry, &key.service, &key.version];
        assert_eq!(fields, ["o", "t", "s", "e", "b", "v"]);
        assert_eq!(*key.value, "c2VjcmV0");
        let cut = body.replace("<Value>c2VjcmV0</Value>", "");
        assert_eq!(decode(cut.as_bytes()), Err(XmlError::Missing("Value")));
    }
}
