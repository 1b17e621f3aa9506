//! Error bodies, in every format of the services.
//!
//! | format | used for |
//! |---|---|
//! | JSON `odata.error` | tables and entities; authentication, if `Accept` names JSON |
//! | XML `m:error` | ACL, properties, statistics; authentication otherwise |
//! | XML `error` | an invalid `x-ms-version` |
//! | XML `Error` | Queue and Blob |

// Decoders read untrusted numbers, dates and lengths: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use rowkey_wire::code::ErrorCode;
use rowkey_wire::xml::Element;
use serde::Deserialize;

/// The service's error code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// The code, such as `EntityAlreadyExists`.
    pub(crate) code: ErrorCode,
    /// The text for people, with the request id and the time on separate lines. It may quote the
    /// request.
    pub(crate) message: String,
}

impl ErrorBody {
    /// Decodes the body of a failed request, or of a failed part of a batch response.
    ///
    /// `None` if it has none of the service's formats: it is empty, truncated, or a proxy's page.
    pub(crate) fn decode(body: &[u8]) -> Option<Self> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
        match body.first()? {
            b'{' => decode_json(body),
            b'<' => decode_xml(body),
            _ => None,
        }
    }

    /// The index of the failed operation of a batch, counted from 0. The message begins with it:
    /// `1:The specified entity already exists.`
    pub(crate) fn batch_index(&self) -> Option<usize> {
        let (index, _) = self.message.split_once(':')?;
        // `parse` would also take a sign.
        index.bytes().all(|b| b.is_ascii_digit()).then(|| index.parse().ok())?
    }
}

#[derive(Deserialize)]
struct JsonBody {
    #[serde(rename = "odata.error", alias = "error")]
    error: JsonError,
}

#[derive(Deserialize)]
struct JsonError {
    code: String,
    #[serde(default)]
    message: JsonMessage,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonMessage {
    /// With a language, as from the service.
    Tagged { value: String },
    /// Plain text, as from proxies and newer OData.
    Plain(String),
}

impl Default for JsonMessage {
    fn default() -> Self {
        Self::Plain(String::new())
    }
}

fn decode_json(body: &[u8]) -> Option<ErrorBody> {
    let JsonBody { error } = serde_json::from_slice(body).ok()?;
    let (JsonMessage::Tagged { value: message } | JsonMessage::Plain(message)) = error.message;
    Some(ErrorBody { code: ErrorCode::new(error.code), message })
}

fn decode_xml(body: &[u8]) -> Option<ErrorBody> {
    let root = Element::read(body).ok()?;
    let (code, message) = match root.name.as_str() {
        "error" => ("code", "message"),
        "Error" => ("Code", "Message"),
        _ => return None,
    };
    Some(ErrorBody {
        code: ErrorCode::new(root.text_of(code)?.to_owned()),
        message: root.text_of(message).unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests;
