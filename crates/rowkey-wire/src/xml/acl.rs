//! Stored access policies: the body of Get and Set Table ACL (and Queue and Container ACL).
//!
//! Reference: [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl).

use super::element::{Element, Writer, XmlError};
use crate::edm::DateTime;
use crate::edm::size::utf16_len;
use crate::limits::{MAX_ACCESS_POLICIES, MAX_POLICY_ID};

/// A stored access policy: terms that a shared access signature can refer to by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedIdentifier {
    /// The policy's name, unique within the table, at most 64 characters.
    pub id: String,
    /// The start of the validity.
    pub start: Option<DateTime>,
    /// The end of the validity.
    pub expiry: Option<DateTime>,
    /// The permissions, such as `raud` (query, add, update, delete) for tables.
    pub permission: Option<String>,
}

/// Renders the body of a Set ACL request. Without identifiers, all policies are removed.
pub fn encode_acl(identifiers: &[SignedIdentifier]) -> String {
    write(Writer::request(), identifiers, |instant| instant.to_string())
}

/// Reads the policies from the body of a Get ACL response. Unknown elements are ignored.
pub fn decode_acl(body: &[u8]) -> Result<Vec<SignedIdentifier>, XmlError> {
    let root = Element::read_root(body, "SignedIdentifiers")?;
    let identifiers = root.children.iter().filter(|child| child.name == "SignedIdentifier");
    identifiers
        .map(|identifier| {
            let policy = identifier.child("AccessPolicy");
            let instant = |name| policy.map_or(Ok(None), |policy| parse_instant(policy, name));
            Ok(SignedIdentifier {
                id: identifier.require("Id")?.text.clone(),
                start: instant("Start")?,
                expiry: instant("Expiry")?,
                permission: policy.and_then(|policy| policy.text_of("Permission")).map(Into::into),
            })
        })
        .collect()
}

/// Reads the body of a Set ACL request as strictly as the service: at most 5 policies, with unique
/// ids of 1 to 64 characters. Fractions of a second are cut off after seven digits. An empty body
/// means no policies.
///
/// The letters allowed in `Permission` depend on the service, and are not checked.
pub fn parse_acl(body: &[u8]) -> Result<Vec<SignedIdentifier>, XmlError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let root = Element::read_small(body, "SignedIdentifiers")?;
    if root.children.len() > MAX_ACCESS_POLICIES {
        let limit = MAX_ACCESS_POLICIES;
        return Err(XmlError::TooMany { element: "SignedIdentifier", limit });
    }
    if !root.text.trim_ascii().is_empty() {
        return Err(XmlError::Unexpected("SignedIdentifiers"));
    }
    let mut identifiers: Vec<SignedIdentifier> = Vec::with_capacity(root.children.len());
    for element in &root.children {
        let identifier = parse_identifier(element)?;
        if identifiers.iter().any(|earlier| earlier.id == identifier.id) {
            return Err(XmlError::Repeated("Id"));
        }
        identifiers.push(identifier);
    }
    Ok(identifiers)
}

/// Renders the body of a Get ACL response, with seven digits of fraction and without empty
/// policies.
pub fn render_acl(identifiers: &[SignedIdentifier]) -> String {
    write(Writer::response(), identifiers, DateTime::to_iso7)
}

fn parse_identifier(element: &Element) -> Result<SignedIdentifier, XmlError> {
    if element.name != "SignedIdentifier" {
        return Err(XmlError::Unexpected("SignedIdentifiers"));
    }
    element.holds_only("SignedIdentifier", &["Id", "AccessPolicy"])?;
    let id = &element.require("Id")?.text;
    if id.is_empty() || utf16_len(id) > MAX_POLICY_ID {
        return Err(XmlError::Value("Id"));
    }
    let mut identifier = SignedIdentifier { id: id.clone(), ..SignedIdentifier::default() };
    if let Some(policy) = element.child("AccessPolicy") {
        policy.holds_only("AccessPolicy", &["Start", "Expiry", "Permission"])?;
        identifier.start = parse_instant(policy, "Start")?;
        identifier.expiry = parse_instant(policy, "Expiry")?;
        identifier.permission = policy.text_of("Permission").map(Into::into);
    }
    Ok(identifier)
}

fn parse_instant(policy: &Element, name: &'static str) -> Result<Option<DateTime>, XmlError> {
    let Some(text) = policy.text_of(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| XmlError::Value(name))
}

fn write(
    mut writer: Writer,
    identifiers: &[SignedIdentifier],
    text: impl Fn(DateTime) -> String,
) -> String {
    if identifiers.is_empty() {
        writer.empty("SignedIdentifiers");
        return writer.finish();
    }
    writer.start("SignedIdentifiers");
    for SignedIdentifier { id, start, expiry, permission } in identifiers {
        writer.start("SignedIdentifier");
        writer.leaf("Id", id);
        if start.is_some() || expiry.is_some() || permission.is_some() {
            writer.start("AccessPolicy");
            for (name, instant) in [("Start", start), ("Expiry", expiry)] {
                if let Some(instant) = instant {
                    writer.leaf(name, &text(*instant));
                }
            }
            if let Some(permission) = permission {
                writer.leaf("Permission", permission);
            }
            writer.end("AccessPolicy");
        }
        writer.end("SignedIdentifier");
    }
    writer.end("SignedIdentifiers");
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// azure-data-tables (Python), `test_table.test_set_table_acl_with_signed_identifiers`.
    const REQUEST: &str = "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy><Start>2020-07-21T20:19:49Z</Start><Expiry>2020-07-21T21:24:49Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    const RESPONSE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy><Start>2020-07-21T20:19:49.0000000Z</Start><Expiry>2020-07-21T21:24:49.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";

    /// The same suite, `test_table.test_set_table_acl_with_empty_signed_identifier`.
    const PARTIAL_REQUEST: &str = "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers><SignedIdentifier><Id>null</Id></SignedIdentifier><SignedIdentifier><Id>empty</Id><AccessPolicy /></SignedIdentifier><SignedIdentifier><Id>partial</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>full</Id><AccessPolicy><Start>2021-06-08T02:10:09Z</Start><Expiry>2021-06-08T02:10:09Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    const PARTIAL_RESPONSE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers><SignedIdentifier><Id>null</Id></SignedIdentifier><SignedIdentifier><Id>empty</Id></SignedIdentifier><SignedIdentifier><Id>partial</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>full</Id><AccessPolicy><Start>2021-06-08T02:10:09.0000000Z</Start><Expiry>2021-06-08T02:10:09.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";

    fn identifier(id: &str, start: &str, expiry: &str, permission: &str) -> SignedIdentifier {
        SignedIdentifier {
            id: id.to_owned(),
            start: start.parse().ok(),
            expiry: expiry.parse().ok(),
            permission: Some(permission.to_owned()).filter(|text| !text.is_empty()),
        }
    }

    fn test_policy() -> SignedIdentifier {
        identifier("testid", "2020-07-21T20:19:49Z", "2020-07-21T21:24:49Z", "r")
    }

    fn partial_policies() -> Vec<SignedIdentifier> {
        vec![
            identifier("null", "", "", ""),
            identifier("empty", "", "", ""),
            identifier("partial", "", "", "r"),
            identifier("full", "2021-06-08T02:10:09Z", "2021-06-08T02:10:09Z", "r"),
        ]
    }

    #[test]
    fn the_client_writes_the_recorded_request() {
        assert_eq!(encode_acl(&[test_policy()]), REQUEST);
        // test_table.test_set_table_acl_with_empty_signed_identifiers of azure-cosmosdb-table.
        assert_eq!(
            encode_acl(&[]),
            "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers />"
        );
    }

    #[test]
    fn the_client_reads_the_recorded_responses() {
        assert_eq!(decode_acl(RESPONSE.as_bytes()), Ok(vec![test_policy()]));
        assert_eq!(decode_acl(PARTIAL_RESPONSE.as_bytes()), Ok(partial_policies()));
        let none = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers />";
        assert_eq!(decode_acl(none.as_bytes()), Ok(vec![]));
    }

    #[test]
    fn the_client_ignores_what_it_does_not_know() {
        let body = "<SignedIdentifiers><New/><SignedIdentifier><Id>a</Id><AccessPolicy><Start></Start><New>1</New></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
        assert_eq!(decode_acl(body.as_bytes()), Ok(vec![identifier("a", "", "", "")]));
        assert_eq!(decode_acl(b"<Other/>"), Err(XmlError::Missing("SignedIdentifiers")));
    }

    #[test]
    fn the_server_reads_the_recorded_requests() {
        assert_eq!(parse_acl(REQUEST.as_bytes()), Ok(vec![test_policy()]));
        assert_eq!(parse_acl(PARTIAL_REQUEST.as_bytes()), Ok(partial_policies()));
        assert_eq!(parse_acl(b""), Ok(vec![]));
        // azure-cosmosdb-table, test_table.test_set_table_acl_with_signed_identifiers: only days.
        let days = REQUEST.replace("2020-07-21T20:19:49Z", "2011-10-11");
        assert_eq!(
            parse_acl(days.as_bytes()).unwrap()[0].start,
            "2011-10-11T00:00:00Z".parse().ok()
        );
    }

    #[test]
    fn the_server_writes_the_recorded_responses() {
        assert_eq!(render_acl(&[test_policy()]), RESPONSE);
        assert_eq!(render_acl(&partial_policies()), PARTIAL_RESPONSE);
        // test_table.test_get_table_acl
        assert_eq!(
            render_acl(&[]),
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers />"
        );
    }

    #[test]
    fn the_server_refuses_what_the_service_refuses() {
        // test_table.test_set_table_acl_too_many_ids: 400 InvalidXmlDocument.
        let six = "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers><SignedIdentifier><Id>id0</Id></SignedIdentifier><SignedIdentifier><Id>id1</Id></SignedIdentifier><SignedIdentifier><Id>id2</Id></SignedIdentifier><SignedIdentifier><Id>id3</Id></SignedIdentifier><SignedIdentifier><Id>id4</Id></SignedIdentifier><SignedIdentifier><Id>id5</Id></SignedIdentifier></SignedIdentifiers>";
        let too_many = XmlError::TooMany { element: "SignedIdentifier", limit: 5 };
        assert_eq!(parse_acl(six.as_bytes()), Err(too_many));
        // aztables (Go), TestSetInvalidAccessPolicy: without an id, the response is the same. (Its
        // expiry has nine digits of fraction, which is not the error.)
        let without_id = "<SignedIdentifiers><SignedIdentifier><AccessPolicy>\
            <Expiry>2042-01-01T01:01:01.000000001Z</Expiry></AccessPolicy></SignedIdentifier>\
            </SignedIdentifiers>";
        assert_eq!(parse_acl(without_id.as_bytes()), Err(XmlError::Missing("Id")));
    }

    #[test]
    fn a_fraction_is_cut_off_at_seven_digits() {
        for fraction in ["123456789", "12345670000", "1234567"] {
            let body = REQUEST.replace("20:19:49Z", &format!("20:19:49.{fraction}Z"));
            let policies = parse_acl(body.as_bytes()).unwrap();
            assert_eq!(policies[0].start, "2020-07-21T20:19:49.1234567Z".parse().ok());
        }
    }

    #[test]
    fn the_server_refuses_what_the_documentation_forbids() {
        let one = |inside: &str| {
            let text = format!(
                "<SignedIdentifiers><SignedIdentifier>{inside}</SignedIdentifier></SignedIdentifiers>"
            );
            parse_acl(text.as_bytes())
        };
        assert!(one(&format!("<Id>{}</Id>", "x".repeat(64))).is_ok());
        for (inside, error) in [
            (format!("<Id>{}</Id>", "x".repeat(65)), XmlError::Value("Id")),
            ("<Id/>".into(), XmlError::Value("Id")),
            ("<AccessPolicy/>".into(), XmlError::Missing("Id")),
            ("<Id>a</Id><Id>b</Id>".into(), XmlError::Repeated("Id")),
            ("<Id>a</Id><Name/>".into(), XmlError::Unexpected("SignedIdentifier")),
            ("<Id>a</Id>text".into(), XmlError::Unexpected("SignedIdentifier")),
            (
                "<Id>a</Id><AccessPolicy><Expiry>soon</Expiry></AccessPolicy>".into(),
                XmlError::Value("Expiry"),
            ),
        ] {
            assert_eq!(one(&inside), Err(error), "{inside}");
        }
        let twice = PARTIAL_REQUEST.replace("partial", "full");
        assert_eq!(parse_acl(twice.as_bytes()), Err(XmlError::Repeated("Id")));
        assert!(matches!(parse_acl(b"  "), Err(XmlError::Syntax { .. })));
    }

    #[test]
    fn ids_are_escaped() {
        let policy = identifier("a<b>&c", "", "", "raud");
        assert!(encode_acl(std::slice::from_ref(&policy)).contains("<Id>a&lt;b&gt;&amp;c</Id>"));
        assert_eq!(
            parse_acl(encode_acl(std::slice::from_ref(&policy)).as_bytes()),
            Ok(vec![policy])
        );
    }
}
