//! Decodes an entity from the body of a response.

use std::fmt;

use rowkey_wire::odata::{Fields, Scanner};

/// An invalid response body. Never shows the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// The line in the body, from 1; 0 if it is unknown.
    pub line: usize,
    /// The column in that line, from 1; 0 if it is unknown.
    pub column: usize,
    /// Whether the body ends too early.
    pub truncated: bool,
}

/// Reads the body of a point get, or of an insert whose response has content.
pub fn entity<'de>(body: &'de [u8], fields: &mut Fields<'de>) -> Result<(), BodyError> {
    let text = text(body)?;
    let mut scanner = Scanner::new(text);
    let whole = fields.read(&mut scanner).is_ok() && scanner.is_at_end();
    if whole { Ok(()) } else { Err(BodyError::at(text, scanner.place())) }
}

/// The body as text. Checked as a whole, which is several times faster than checking each string.
pub fn text(body: &[u8]) -> Result<&str, BodyError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    std::str::from_utf8(body).map_err(|error| BodyError {
        truncated: error.error_len().is_none(),
        ..BodyError::AT_UNKNOWN_POSITION
    })
}

/// The body as owned text, without a copy.
pub fn owned_text(body: Vec<u8>) -> Result<String, BodyError> {
    let mut text = String::from_utf8(body).map_err(|error| BodyError {
        truncated: error.utf8_error().error_len().is_none(),
        ..BodyError::AT_UNKNOWN_POSITION
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

impl BodyError {
    /// An error at an unknown position.
    pub const AT_UNKNOWN_POSITION: Self = Self { line: 0, column: 0, truncated: false };

    /// The error at this position, without the text, which may show contents.
    #[cold]
    #[doc(hidden)]
    pub fn at(text: &str, position: usize) -> Self {
        let before = &text.as_bytes()[..position];
        let line = memchr::memrchr(b'\n', before).map_or(0, |at| at.saturating_add(1));
        Self {
            line: memchr::memchr_iter(b'\n', before).count().saturating_add(1),
            column: position.saturating_sub(line).saturating_add(1),
            truncated: position >= text.len(),
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { truncated: true, .. } => f.write_str("the answer's body is cut off"),
            Self { line: 0, .. } => f.write_str("the JSON of the response lacks required parts"),
            Self { line, column, .. } => write!(
                f,
                "the answer's body is not the JSON it should be (line {line}, column {column})"
            ),
        }
    }
}

impl std::error::Error for BodyError {}
