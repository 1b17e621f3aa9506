//! Messages, and the encoding of their text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Datelike as _, Utc};
use rowkey_wire::limits::MAX_MESSAGE;
use rowkey_wire::shown;
use rowkey_wire::xml;

use crate::error::{Error, Result};
use crate::queue::wire::decode;

/// The content of a message, encoded as text.
///
/// The service stores text. Sender and receiver must agree on the encoding:
///
/// | written by | read with |
/// |---|---|
/// | [`Body::text`]; the current libraries for .NET, Java, JavaScript, Python and Go | [`Message::text`] |
/// | [`Body::base64`]; Azure Functions, .NET up to version 11, libraries configured for base64 | [`Message::base64`] |
/// | [`Body::bytes`]; libraries configured for binary base64 | [`Message::bytes`] |
///
/// The encoded text has at most 64 KiB: with base64, 48 KiB of content.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(String);

impl Body {
    /// Stores text as it is. Control characters other than tab and line breaks cannot be sent.
    pub fn text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Stores text as the base64 of its UTF-8.
    pub fn base64(text: impl AsRef<str>) -> Self {
        Self::bytes(text.as_ref())
    }

    /// Stores bytes as base64.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// Returns the text that is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses text that the service would refuse, or that XML cannot contain.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.len() > MAX_MESSAGE {
            let what = format!(
                "the message is {} bytes long after encoding, and {MAX_MESSAGE} is the most",
                self.0.len()
            );
            return Err(Error::too_large(what).advise("put it into a blob, and its name here"));
        }
        if !xml::can_hold(&self.0) {
            let what = "the message has control characters, which XML cannot carry";
            return Err(Error::invalid(what).advise("send it as base64"));
        }
        Ok(())
    }
}

/// A message that this client received or put last, so that it can update and delete it.
///
/// This ends when another client receives the message after [`next_visible`](Self::next_visible).
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The message id, a GUID.
    pub id: String,
    /// The pop receipt, which updates and deletes need. Every receive and every update changes it.
    pub pop_receipt: String,
    /// How often it was received, including this time. A high count indicates a message that no
    /// worker can handle.
    pub dequeue_count: u32,
    /// When the message was put.
    pub inserted: DateTime<Utc>,
    /// When the message expires; `None`: never.
    pub expires: Option<DateTime<Utc>>,
    /// When the message becomes visible to others.
    pub next_visible: DateTime<Utc>,
    pub(crate) text: String,
}

/// A message that was peeked at. It stays visible, and cannot be updated or deleted.
#[derive(Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The message id, a GUID.
    pub id: String,
    /// How often it was received.
    pub dequeue_count: u32,
    /// When the message was put.
    pub inserted: DateTime<Utc>,
    /// When the message expires; `None`: never.
    pub expires: Option<DateTime<Utc>>,
    text: String,
}

macro_rules! readers {
    ($($message:ident)*) => {$(
        impl $message {
            /// Returns the text as it is.
            pub fn text(&self) -> &str {
                &self.text
            }

            /// Decodes text that was stored as base64: see [`Body::base64`].
            ///
            /// Fails with [`ErrorKind::Decode`](crate::ErrorKind::Decode) if it is not the base64
            /// of UTF-8.
            pub fn base64(&self) -> Result<String> {
                String::from_utf8(self.bytes()?)
                    .map_err(|_| Error::decode("the message is not base64 of UTF-8"))
            }

            /// Decodes bytes that were stored as base64: see [`Body::bytes`].
            ///
            /// Fails with [`ErrorKind::Decode`](crate::ErrorKind::Decode) if it is not base64.
            pub fn bytes(&self) -> Result<Vec<u8>> {
                STANDARD
                    .decode(self.text.trim_ascii())
                    .map_err(|_| Error::decode("the message is not base64"))
            }
        }
    )*};
}

readers! { Message Peeked }

impl Message {
    /// A message in a response. `text` is the text that was put, if the response does not repeat
    /// it.
    pub(crate) fn of(message: decode::Message, text: Option<&Body>) -> Option<Self> {
        let text = match text {
            Some(body) => body.0.clone(),
            None => message.text.unwrap_or_default(),
        };
        Some(Self {
            id: message.id,
            pop_receipt: message.pop_receipt?,
            dequeue_count: message.dequeue_count.unwrap_or(0),
            inserted: message.inserted,
            expires: end(message.expires),
            next_visible: message.next_visible?,
            text,
        })
    }
}

impl Peeked {
    pub(crate) fn of(message: decode::Message) -> Self {
        Self {
            id: message.id,
            dequeue_count: message.dequeue_count.unwrap_or(0),
            inserted: message.inserted,
            expires: end(message.expires),
            text: message.text.unwrap_or_default(),
        }
    }
}

/// The service uses its last day for "never".
fn end(expires: DateTime<Utc>) -> Option<DateTime<Utc>> {
    (expires.year() < 9999).then_some(expires)
}

impl fmt::Debug for Body {
    /// Shows the length, not the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("length", &self.0.len()).finish_non_exhaustive()
    }
}

shown! {
    /// Shows neither the text nor the receipt.
    Message: id, dequeue_count, inserted, expires, next_visible
}

shown! {
    /// Does not show the text.
    Peeked: id, dequeue_count, inserted, expires
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, Outcome};

    fn peeked(text: &str) -> Peeked {
        Peeked {
            id: "id".into(),
            dequeue_count: 0,
            inserted: DateTime::UNIX_EPOCH,
            expires: None,
            text: text.into(),
        }
    }

    #[test]
    fn bodies_match_those_of_official_libraries() {
        // `test_queue_encodings` of the Python library: text, text in base64, bytes in base64.
        assert_eq!(Body::text("<asdf>").as_str(), "<asdf>");
        assert_eq!(Body::base64("message1").as_str(), "bWVzc2FnZTE=");
        assert_eq!(Body::bytes([0xFF, 0xFE, 0]).as_str(), "//4A");
        assert_eq!(peeked("bWVzc2FnZTE=").base64().unwrap(), "message1");
        assert_eq!(peeked("//4A").bytes().unwrap(), [0xFF, 0xFE, 0]);
        assert_eq!(peeked("bWVzc2FnZTE=").text(), "bWVzc2FnZTE=");
    }

    #[test]
    fn invalid_base64_is_an_error_that_does_not_show_the_text() {
        for text in ["secret", "s e c r e t", "//4A"] {
            let error = peeked(text).base64().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert!(!format!("{:?} {:?}", peeked("secret"), Body::text("secret")).contains("secret"));
    }

    #[test]
    fn text_that_xml_cannot_represent_is_rejected() {
        assert!(Body::text("a\tb\r\n \u{E000}").check().is_ok());
        for text in ["\u{0}", "a\u{1F}", "\u{FFFF}"] {
            let error = Body::text(text).check().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
            assert!(Body::base64(text).check().is_ok());
        }
        assert!(Body::text("x".repeat(65_536)).check().is_ok());
        assert!(Body::bytes(vec![0; 49_152]).check().is_ok());
        for body in [Body::text("x".repeat(65_537)), Body::bytes(vec![0; 49_153])] {
            let error = body.check().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        }
    }
}
