//! Tests against recorded error bodies; each names its suite and test.

use super::*;

/// azure-data-tables (Python), `test_table_entity.test_query_invalid_filter`.
const JSON: &str = r#"{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"Syntax error at position 7 in 'aaa bbb ccc'.\nRequestId:e7dd38a6-a002-0005-7346-5208ff000000\nTime:2021-05-26T15:48:27.7033000Z"}}}"#;
const JSON_MESSAGE: &str = "Syntax error at position 7 in 'aaa bbb ccc'.\nRequestId:e7dd38a6-a002-0005-7346-5208ff000000\nTime:2021-05-26T15:48:27.7033000Z";

/// azure-data-tables (Python), `test_table.test_set_table_acl_too_many_ids`.
const XML: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>InvalidXmlDocument</m:code><m:message xml:lang=\"en-US\">XML specified is not syntactically valid.\nRequestId:e4d09754-d002-00a6-300d-5c6d3a000000\nTime:2021-06-08T02:27:58.1749862Z</m:message></m:error>";
const XML_MESSAGE: &str = "XML specified is not syntactically valid.\nRequestId:e4d09754-d002-00a6-300d-5c6d3a000000\nTime:2021-06-08T02:27:58.1749862Z";

/// azure-data-tables (Python), `test_table_service_properties_async.test_set_cors`.
const XML_VERSION: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\r\n  <code>InvalidHeaderValue</code>\r\n  <message xml:lang=\"en-US\">The value for one of the HTTP headers is not in the correct format.\nRequestId:16266bd7-7002-006d-3835-6fffef000000\nTime:2020-08-10T16:44:51.9401828Z</message>\r\n</error>";
const XML_VERSION_MESSAGE: &str = "The value for one of the HTTP headers is not in the correct format.\nRequestId:16266bd7-7002-006d-3835-6fffef000000\nTime:2020-08-10T16:44:51.9401828Z";

/// azure-data-tables (Python), `test_table_entity.test_delete_entity_not_existing`: OData in Atom.
const ATOM: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><code>ResourceNotFound</code><message xml:lang=\"en-US\">The specified resource does not exist.\nRequestId:f4d3fb75-f002-0038-529d-5fbb6a000000\nTime:2020-07-21T20:25:23.5247131Z</message></error>";

/// azure-storage-queue (Python), `test_queue.test_get_queue_acl_with_non_existing_queue` and
/// `test_queue_service_properties.test_retention_too_long`.
const PLAIN: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>QueueNotFound</Code><Message>The specified queue does not exist.\nRequestId:baed32a0-f003-0015-1e5b-8fc893000000\nTime:2019-10-30T19:51:19.1587481Z</Message></Error>";
const PLAIN_MESSAGE: &str = "The specified queue does not exist.\nRequestId:baed32a0-f003-0015-1e5b-8fc893000000\nTime:2019-10-30T19:51:19.1587481Z";
const PLAIN_DETAILS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>InvalidXmlDocument</Code><Message>XML specified is not syntactically valid.\nRequestId:bfeb5e7f-0003-0022-5e5b-8f643c000000\nTime:2019-10-30T19:51:59.4332938Z</Message><LineNumber>0</LineNumber><LinePosition>0</LinePosition><Reason /></Error>";
const PLAIN_DETAILS_MESSAGE: &str = "XML specified is not syntactically valid.\nRequestId:bfeb5e7f-0003-0022-5e5b-8f643c000000\nTime:2019-10-30T19:51:59.4332938Z";

fn decode(text: &str) -> Option<(String, String)> {
    ErrorBody::decode(text.as_bytes()).map(|body| (body.code.as_str().to_owned(), body.message))
}

#[test]
fn every_recorded_error_format_decodes() {
    for (text, code, message) in [
        (JSON, "InvalidInput", JSON_MESSAGE),
        (XML, "InvalidXmlDocument", XML_MESSAGE),
        (XML_VERSION, "InvalidHeaderValue", XML_VERSION_MESSAGE),
        (PLAIN, "QueueNotFound", PLAIN_MESSAGE),
        (PLAIN_DETAILS, "InvalidXmlDocument", PLAIN_DETAILS_MESSAGE),
    ] {
        assert_eq!(decode(text), Some((code.to_owned(), message.to_owned())));
    }
    let atom = ErrorBody::decode(ATOM.as_bytes()).unwrap();
    assert_eq!(atom.code, ErrorCode::RESOURCE_NOT_FOUND);
    assert!(atom.message.starts_with("The specified resource does not exist.\nRequestId:"));
}

#[test]
fn other_bodies_are_not_decoded_as_service_errors() {
    for text in [
        "",
        "  ",
        "\u{feff}",
        "Service Unavailable",
        "<html><body><code>Oops</code></body></html>",
        "<error/>",
        "<Error><Code></Code></Error>",
        "<Error><Code>ServerBusy</Code>",
        "{}",
        "[]",
        "{\"odata.error\":{}}",
        "{\"odata.error\":null}",
        "{\"odata.error\":{\"code\":1}}",
    ] {
        assert_eq!(decode(text), None, "{text}");
    }
    assert_eq!(ErrorBody::decode(b"{\"\xFF"), None);
    assert_eq!(ErrorBody::decode(b"<\xFF>"), None);
}

#[test]
fn a_truncated_error_body_does_not_panic() {
    for text in [JSON, XML, XML_VERSION, ATOM, PLAIN, PLAIN_DETAILS] {
        for end in 0..text.len() {
            assert_eq!(ErrorBody::decode(&text.as_bytes()[..end]), None, "{end} of {text}");
        }
    }
}

#[test]
fn a_message_is_optional_and_may_be_plain() {
    for text in ["{\"odata.error\":{\"code\":\"X\"}}", "<Error><Code>X</Code></Error>"] {
        assert_eq!(decode(text), Some(("X".to_owned(), String::new())), "{text}");
    }
    let plain = "{\"error\":{\"code\":\"X\",\"message\":\"why\"}}";
    assert_eq!(decode(plain), Some(("X".to_owned(), "why".to_owned())));
}

#[test]
fn the_failed_operation_of_a_batch_is_in_the_message() {
    let index = |message: &str| {
        ErrorBody { code: ErrorCode::INVALID_INPUT, message: message.to_owned() }.batch_index()
    };
    // azure-data-tables (Python): duplicate rows, missing table, test_batch_too_many_ops.
    for (message, expected) in [
        ("1:The batch request contains multiple changes with same row key.", Some(1)),
        ("0:The table specified does not exist.\nRequestId:fcefd61c-9002", Some(0)),
        (
            "99:The batch request operation exceeds the maximum 100 changes per change set.",
            Some(99),
        ),
        ("The specified resource does not exist.\nRequestId:eba82537", None),
        ("", None),
        (":", None),
        ("+1:x", None),
        ("99999999999999999999999:x", None),
    ] {
        assert_eq!(index(message), expected, "{message}");
    }
}

#[test]
fn escapes_are_decoded() {
    let json = r#"{"odata.error":{"code":"X","message":{"lang":"en-US","value":"\"\\/'<&>\u0001\r\n\t\u00e9\ud83d\ude00\u007f"}}}"#;
    assert_eq!(decode(json), Some(("X".to_owned(), "\"\\/'<&>\u{1}\r\n\té😀\u{7f}".to_owned())));
    for xml in [XML, XML_VERSION, ATOM, PLAIN] {
        let escaped = xml.replacen("The specified", "in 'a&lt;b&amp;c'", 1);
        let escaped = escaped.replacen("XML specified", "in 'a&lt;b&amp;c'", 1);
        let escaped = escaped.replacen("The value", "in 'a&lt;b&amp;c'", 1);
        let (_, message) = decode(&escaped).unwrap();
        assert!(message.starts_with("in 'a<b&c'"), "{message}");
    }
}
