//! The errors that the services have in common.

use std::borrow::Cow;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::XmlError;

/// The error for a body that is not the expected XML document.
pub(crate) fn invalid_document(error: &XmlError, body: &[u8]) -> Rejection {
    let (line, position) = error.position().map_or((0, 0), |at| {
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
        _ => Cow::Borrowed(error.reason()),
    };
    Rejection::new(ErrorCode::INVALID_XML_DOCUMENT)
        .detail("LineNumber", line.to_string())
        .detail("LinePosition", position.to_string())
        .detail("Reason", reason)
}
