//! The continuation marker of a listing: opaque to clients, `2!length!base64` inside.
//!
//! Recorded: `2!68!MDAwMDA2IWJsb2JhMyEwMDAwMjghOTk5OS0xMi0zMVQyMzo1OTo1OS45OTk5OTk5WiE-` contains
//! `000006!bloba3!000028!9999-12-31T23:59:59.9999999Z!`: a name and a snapshot, each after its
//! length. The latest possible time identifies the blob itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

/// The entry at which a listing continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The name of a blob, or a prefix in a listing with a delimiter.
    pub(crate) name: String,
    /// The snapshot; `None` for the blob itself.
    pub(crate) snapshot: Option<DateTime>,
}

impl Marker {
    /// The text for `NextMarker`.
    pub(crate) fn encode(&self) -> String {
        let snapshot = self.snapshot.unwrap_or(DateTime::MAX).to_iso7();
        let Self { name, .. } = self;
        let plain = format!("{:06}!{name}!{:06}!{snapshot}!", name.len(), snapshot.len());
        let text = STANDARD.encode(plain).replace('=', "-").replace('+', "*").replace('/', "_");
        format!("2!{}!{text}", text.len())
    }

    /// Decodes the option `marker`.
    pub(crate) fn decode(text: &str) -> Result<Self, Rejection> {
        Self::read(text).ok_or_else(|| Rejection::new(ErrorCode::INVALID_MARKER))
    }

    fn read(text: &str) -> Option<Self> {
        let (length, text) = text.strip_prefix("2!")?.split_once('!')?;
        if length.parse() != Ok(text.len()) {
            return None;
        }
        let text = text.replace('-', "=").replace(['*', ' '], "+").replace('_', "/");
        let plain = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
        let (name, rest) = sized(&plain)?;
        let (snapshot, rest) = sized(rest)?;
        let snapshot: DateTime = snapshot.parse().ok()?;
        let snapshot = (snapshot != DateTime::MAX).then_some(snapshot);
        rest.is_empty().then(|| Self { name: name.to_owned(), snapshot })
    }
}

/// The text after a length, and the rest after it.
fn sized(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once('!')?;
    let length: usize = length.parse().ok()?;
    let value = rest.get(..length)?;
    Some((value, rest[length..].strip_prefix('!')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_match_recordings() {
        // test_storage_blob.test_list_blobs_with_maxresults_and_marker
        let text = "2!68!MDAwMDA2IWJsb2JhMyEwMDAwMjghOTk5OS0xMi0zMVQyMzo1OTo1OS45OTk5OTk5WiE-";
        let marker = Marker { name: "bloba3".into(), snapshot: None };
        assert_eq!(marker.encode(), text);
        assert_eq!(Marker::decode(text), Ok(marker));
    }

    #[test]
    fn markers_round_trip_for_snapshots_and_any_blob_name() {
        for name in ["a!b", "啊/齄", "??>>~~"] {
            let snapshot = "2019-10-25T18:13:14.4082805Z".parse().ok();
            let marker = Marker { name: name.into(), snapshot };
            assert_eq!(Marker::decode(&marker.encode()), Ok(marker));
        }
    }

    #[test]
    fn malformed_markers_are_rejected() {
        for text in ["", "bloba3", "2!3!abcd", "2!4!abcd", "2!4!!!!!", "1!0!", "2!8!OTk5OSFh"] {
            assert_eq!(Marker::decode(text).unwrap_err().code, ErrorCode::INVALID_MARKER, "{text}");
        }
    }
}
