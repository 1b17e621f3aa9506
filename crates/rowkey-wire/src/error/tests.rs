//! Compares error bodies with recorded ones. Each names its test suite and test.

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

/// azure-storage-queue (Python), `test_queue.test_get_queue_acl_with_non_existing_queue` and
/// `test_queue_service_properties.test_retention_too_long`.
const PLAIN: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>QueueNotFound</Code><Message>The specified queue does not exist.\nRequestId:baed32a0-f003-0015-1e5b-8fc893000000\nTime:2019-10-30T19:51:19.1587481Z</Message></Error>";
const PLAIN_MESSAGE: &str = "The specified queue does not exist.\nRequestId:baed32a0-f003-0015-1e5b-8fc893000000\nTime:2019-10-30T19:51:19.1587481Z";
const PLAIN_DETAILS: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>InvalidXmlDocument</Code><Message>XML specified is not syntactically valid.\nRequestId:bfeb5e7f-0003-0022-5e5b-8f643c000000\nTime:2019-10-30T19:51:59.4332938Z</Message><LineNumber>0</LineNumber><LinePosition>0</LinePosition><Reason /></Error>";
const PLAIN_DETAILS_MESSAGE: &str = "XML specified is not syntactically valid.\nRequestId:bfeb5e7f-0003-0022-5e5b-8f643c000000\nTime:2019-10-30T19:51:59.4332938Z";

#[test]
fn every_shape_is_written_as_recorded() {
    let invalid_xml = ErrorCode::INVALID_XML_DOCUMENT;
    assert_eq!(render_json(&ErrorCode::INVALID_INPUT, JSON_MESSAGE), JSON);
    assert_eq!(render_xml(&invalid_xml, XML_MESSAGE), XML);
    let invalid_header = ErrorCode::INVALID_HEADER_VALUE;
    assert_eq!(render_xml_version(&invalid_header, XML_VERSION_MESSAGE), XML_VERSION);
    assert_eq!(render_xml_plain(&ErrorCode::new("QueueNotFound"), PLAIN_MESSAGE, &[]), PLAIN);
    let details = [("LineNumber", "0"), ("LinePosition", "0"), ("Reason", "")]
        .map(|(name, text)| (name, text.to_owned()));
    assert_eq!(render_xml_plain(&invalid_xml, PLAIN_DETAILS_MESSAGE, &details), PLAIN_DETAILS);
}

#[test]
fn json_is_escaped_as_the_service_escapes_it() {
    let body = render_json(&ErrorCode::INVALID_INPUT, "\"\\/'<&>\u{1}\r\n\té😀\u{7f}");
    assert!(body.contains(r#""value":"\"\\/'<&>\u0001\r\n\t\u00e9\ud83d\ude00"#), "{body}");
}

#[test]
fn xml_is_escaped() {
    for body in [
        render_xml(&ErrorCode::INVALID_INPUT, "in 'a<b&c'"),
        render_xml_version(&ErrorCode::INVALID_INPUT, "in 'a<b&c'"),
        render_xml_plain(&ErrorCode::INVALID_INPUT, "in 'a<b&c'", &[]),
    ] {
        assert!(body.contains("in 'a&lt;b&amp;c'"), "{body}");
    }
}

/// Status, code and message of recorded failures (azure-cosmosdb-table and azure-data-tables).
#[test]
fn rejections_say_what_the_service_says() {
    for (status, code, message) in [
        (409, "TableAlreadyExists", "The table specified already exists."),
        (404, "ResourceNotFound", "The specified resource does not exist."),
        (404, "TableNotFound", "The table specified does not exist."),
        (400, "InvalidResourceName", "The specifed resource name contains invalid characters."),
        (
            412,
            "UpdateConditionNotSatisfied",
            "The update condition specified in the request was not satisfied.",
        ),
        (409, "EntityAlreadyExists", "The specified entity already exists."),
        (400, "PropertyNameTooLong", "The property name exceeds the maximum allowed length (255)."),
        (
            400,
            "TooManyProperties",
            "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
        ),
        (403, "AuthorizationFailure", "This request is not authorized to perform this operation."),
        (
            403,
            "AuthenticationFailed",
            "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
        ),
        (400, "InvalidXmlDocument", "XML specified is not syntactically valid."),
        (415, "MediaTypeNotSupported", "None of the provided media types are supported"),
        (
            400,
            "PropertiesNeedValue",
            "The values are not specified for all properties in the entity.",
        ),
        (
            400,
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format.",
        ),
        (
            412,
            "ConditionNotMet",
            "The condition specified using HTTP conditional header(s) is not met.",
        ),
        (400, "OutOfRangeInput", "One of the request inputs is out of range."),
        (
            400,
            "InvalidQueryParameterValue",
            "Value for one of the query parameters specified in the request URI is invalid.",
        ),
    ] {
        let rejection = Rejection::new(ErrorCode::new(code));
        assert_eq!(
            (rejection.status.as_u16(), rejection.code.as_str(), rejection.message.as_ref()),
            (status, code, message)
        );
    }
}

#[test]
fn an_unknown_code_is_an_internal_error() {
    let rejection = Rejection::new(ErrorCode::new("NoSuchCode"));
    assert_eq!(rejection.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(rejection.message, Rejection::new(ErrorCode::INTERNAL_ERROR).message);
}

#[test]
fn another_message_keeps_the_status() {
    let rejection = Rejection::with_message(ErrorCode::INVALID_INPUT, "because");
    assert_eq!((rejection.status.as_u16(), rejection.message.as_ref()), (400, "because"));
}
