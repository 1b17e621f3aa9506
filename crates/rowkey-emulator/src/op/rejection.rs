//! The errors that the services have in common.

use std::borrow::Cow;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::XmlError;

/// The error for a body that is not the expected XML document. The Queue and Blob services add the
/// details to the body; the Table service adds none.
pub(crate) fn invalid_document(error: &XmlError, body: &[u8]) -> Rejection {
    let at = match error {
        XmlError::Empty { at } | XmlError::RetentionDays { at } | XmlError::Syntax { at } => {
            Some(*at)
        }
        _ => None,
    };
    let (line, position) = at.map_or((0, 0), |at| {
        let before = &body[..usize::try_from(at).unwrap_or(usize::MAX).min(body.len())];
        let line = before.split(|byte| *byte == b'\n').count();
        let begin =
            before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end.saturating_add(1));
        (line, before.len().saturating_sub(begin).saturating_add(1))
    });
    let reason = match error {
        XmlError::Empty { .. } => Cow::Owned(format!(
            "Error parsing Xml content: 'None' is an invalid XmlNodeType. Line {line}, position \
             {position}."
        )),
        XmlError::RetentionDays { .. } => Cow::Borrowed(
            "Retention days must be greater than 0 and less than or equal to 365 days.",
        ),
        XmlError::Syntax { .. } => Cow::Borrowed("Error parsing Xml content"),
        _ => Cow::Borrowed(""),
    };
    Rejection::new(ErrorCode::INVALID_XML_DOCUMENT)
        .detail("LineNumber", line.to_string())
        .detail("LinePosition", position.to_string())
        .detail("Reason", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_service() {
        // Recorded from the Queue service, test_queue_service_properties.test_retention_too_long.
        let rejection = invalid_document(&XmlError::RetentionDays { at: 0 }, b"");
        let reason = "Retention days must be greater than 0 and less than or equal to 365 days.";
        assert_eq!(rejection.details[2], ("Reason", reason.to_owned()));
    }
}
