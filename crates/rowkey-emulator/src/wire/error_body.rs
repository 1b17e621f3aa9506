//! Renders the bodies of errors in XML.
//!
//! | format | used by the service for | function |
//! |---|---|---|
//! | JSON `odata.error` | tables and entities; authentication, if `Accept` names JSON | [`render_json`](rowkey_wire::error::render_json) |
//! | XML `m:error` | ACL, properties, statistics; authentication otherwise | [`render_xml`] |
//! | XML `error` | `x-ms-version` is not a version | [`render_xml_version`] |
//! | XML `Error` | Queue and Blob | [`render_xml_plain`] |
//!
//! The caller has appended `\nRequestId:…\nTime:…` to each message.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::xml::{Writer, push_escaped};

/// The namespace of OData's XML errors.
const METADATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// Renders the Table service's errors in XML.
pub(crate) fn render_xml(code: &ErrorCode, message: &str) -> String {
    let mut out = r#"<?xml version="1.0" encoding="utf-8"?><m:error xmlns:m=""#.to_owned();
    out.push_str(METADATA);
    out.push_str(r#""><m:code>"#);
    push_escaped(code.as_str(), &mut out);
    out.push_str(r#"</m:code><m:message xml:lang="en-US">"#);
    push_escaped(message, &mut out);
    out.push_str("</m:message></m:error>");
    out
}

/// Renders the Table service's error about `x-ms-version`: indented, with a byte order mark.
pub(crate) fn render_xml_version(code: &ErrorCode, message: &str) -> String {
    let mut out =
        "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\""
            .to_owned();
    out.push_str(METADATA);
    out.push_str("\">\r\n  <code>");
    push_escaped(code.as_str(), &mut out);
    out.push_str("</code>\r\n  <message xml:lang=\"en-US\">");
    push_escaped(message, &mut out);
    out.push_str("</message>\r\n</error>");
    out
}

/// Renders the Queue and Blob services' errors. `details` are elements that some codes add, such as
/// `Reason` or `QueryParameterName`.
pub(crate) fn render_xml_plain(
    code: &ErrorCode,
    message: &str,
    details: &[(&str, String)],
) -> String {
    let mut writer = Writer::response();
    writer.start("Error");
    writer.leaf("Code", code.as_str());
    writer.leaf("Message", message);
    for (name, text) in details {
        writer.leaf(name, text);
    }
    writer.end("Error");
    writer.finish()
}

#[cfg(test)]
mod tests {
    //! Compares error bodies with recorded ones. Each names its test suite and test.

    use super::*;

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
        assert_eq!(render_xml(&invalid_xml, XML_MESSAGE), XML);
        let invalid_header = ErrorCode::INVALID_HEADER_VALUE;
        assert_eq!(render_xml_version(&invalid_header, XML_VERSION_MESSAGE), XML_VERSION);
        assert_eq!(render_xml_plain(&ErrorCode::new("QueueNotFound"), PLAIN_MESSAGE, &[]), PLAIN);
        let details = [("LineNumber", "0"), ("LinePosition", "0"), ("Reason", "")]
            .map(|(name, text)| (name, text.to_owned()));
        assert_eq!(render_xml_plain(&invalid_xml, PLAIN_DETAILS_MESSAGE, &details), PLAIN_DETAILS);
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
}
