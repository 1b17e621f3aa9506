//! Rejections, and the JSON in which a server sends them.

use std::borrow::Cow;
use std::fmt::Write;

use http::StatusCode;

use crate::code::ErrorCode;

/// The error for a rejected request, independent of the body's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code.
    pub code: ErrorCode,
    /// The human-readable message, without request id and time.
    pub message: Cow<'static, str>,
    /// Elements that the Queue and Blob services add to the body, such as `Reason`.
    pub details: Vec<(&'static str, String)>,
    /// The rule that rejected the request, for the server's log; empty if the code is sufficient.
    /// It never quotes the request.
    pub rule: &'static str,
    /// The string to sign that the server computed for a request that it rejected for its signature.
    pub string_to_sign: Option<Box<str>>,
}

impl Rejection {
    /// A rejection with the code's usual status and message.
    ///
    /// A code that this crate does not know gets 500 and the message of `InternalError`.
    pub fn new(code: ErrorCode) -> Self {
        let message = code.message();
        Self::with_message(code, message)
    }

    /// A rejection with the code's usual status and a different message.
    pub fn with_message(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let status = code.status().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            status,
            code,
            message: message.into(),
            details: Vec::new(),
            rule: "",
            string_to_sign: None,
        }
    }

    /// Sets the rule that rejected the request, for the server's log.
    #[must_use]
    pub fn because(mut self, rule: &'static str) -> Self {
        self.rule = rule;
        self
    }

    /// The rule that rejected the request, or else the message, unless that was made for the request and may quote it.
    pub fn reason(&self) -> &'static str {
        match self.message {
            Cow::Borrowed(text) if self.rule.is_empty() => text,
            _ => self.rule,
        }
    }

    /// Sets the string to sign that does not have the signature of the request.
    #[must_use]
    pub fn unsigned(mut self, string_to_sign: &str) -> Self {
        self.string_to_sign = Some(string_to_sign.into());
        self
    }

    /// Adds an element to the error body of the Queue and Blob services.
    #[must_use]
    pub fn detail(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.details.push((name, text.into()));
        self
    }
}

/// Renders OData errors in JSON. The caller has appended `\nRequestId:…\nTime:…` to the message.
pub fn render_json(code: &ErrorCode, message: &str) -> String {
    let mut out = String::with_capacity(message.len().saturating_add(96));
    out.push_str(r#"{"odata.error":{"code":""#);
    push_json(code.as_str(), &mut out);
    out.push_str(r#"","message":{"lang":"en-US","value":""#);
    push_json(message, &mut out);
    out.push_str(r#""}}}"#);
    out
}

/// Appends text with the service's JSON escapes: non-ASCII characters as UTF-16 units in lower-case
/// hexadecimal.
fn push_json(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
