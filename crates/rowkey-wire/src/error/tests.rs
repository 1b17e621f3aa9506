//! Compares error bodies with recorded ones. Each names its test suite and test.

use super::*;

/// azure-data-tables (Python), `test_table_entity.test_query_invalid_filter`.
const JSON: &str = r#"{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"Syntax error at position 7 in 'aaa bbb ccc'.\nRequestId:e7dd38a6-a002-0005-7346-5208ff000000\nTime:2021-05-26T15:48:27.7033000Z"}}}"#;
const JSON_MESSAGE: &str = "Syntax error at position 7 in 'aaa bbb ccc'.\nRequestId:e7dd38a6-a002-0005-7346-5208ff000000\nTime:2021-05-26T15:48:27.7033000Z";

#[test]
fn json_is_written_as_recorded() {
    assert_eq!(render_json(&ErrorCode::INVALID_INPUT, JSON_MESSAGE), JSON);
}

#[test]
fn json_is_escaped_as_the_service_escapes_it() {
    let body = render_json(&ErrorCode::INVALID_INPUT, "\"\\/'<&>\u{1}\r\n\té😀\u{7f}");
    assert!(body.contains(r#""value":"\"\\/'<&>\u0001\r\n\t\u00e9\ud83d\ude00"#), "{body}");
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
