//! Metadata and headers from text, as requests would have sent them.

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_wire::headers::METADATA_PREFIX;

use crate::op::metadata::{Metadata, Spelling};

/// Metadata from names and values, of which `value_of` makes headers; an error says what is wrong with it.
pub(super) fn metadata<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    value_of: fn(&str) -> Option<HeaderValue>,
) -> Result<Metadata, String> {
    let (mut headers, mut head) = (HeaderMap::new(), String::new());
    for (name, value) in pairs {
        let header = format!("{METADATA_PREFIX}{name}");
        let wrong = || format!("`{name}` is not the name of metadata, or has an invalid value");
        let lower = HeaderName::try_from(header.to_ascii_lowercase()).map_err(|_| wrong())?;
        if headers.insert(lower, value_of(value).ok_or_else(wrong)?).is_some() {
            return Err(format!("`{name}` is there twice, with or without upper case"));
        }
        head.push_str(&header);
        head.push_str(":\n");
    }
    let parsed = Metadata::parse(&headers);
    let mut metadata = parsed.map_err(|rejection| rejection.message.into_owned())?;
    metadata.spell(&Spelling::of_head(head.as_bytes()));
    Ok(metadata)
}

/// The value of a header that a client sends in UTF-8.
pub(super) fn utf8(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

/// The value of a header that Node.js received: it reads each byte as a character.
#[cfg(feature = "durable")]
pub(super) fn received(text: &str) -> Option<HeaderValue> {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    HeaderValue::from_bytes(bytes.as_deref().unwrap_or(text.as_bytes())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_keeps_its_spelling_and_its_text() {
        let pairs = [("Team", "blue"), ("n", "größe"), ("m", "日本")];
        let metadata = metadata(pairs, utf8).unwrap();
        let found: Vec<_> = metadata.iter().collect();
        let expected = [("m", "日本"), ("n", "größe"), ("Team", "blue")];
        assert_eq!(found, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn what_no_request_could_send_is_refused() {
        for pairs in [[("a-b", "x")], [("", "x")], [("a", "x\ny")], [("1", "x")]] {
            assert!(metadata(pairs, utf8).is_err(), "{pairs:?}");
        }
        assert!(metadata([("a", "x"), ("A", "x")], utf8).unwrap_err().contains("twice"));
    }
}
