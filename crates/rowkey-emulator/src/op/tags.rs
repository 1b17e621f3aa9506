//! Blob index tags: up to ten names with values, in a header or in a document.
//!
//! Reference: [Set Blob Tags](https://learn.microsoft.com/rest/api/storageservices/set-blob-tags).

use percent_encoding::percent_decode_str;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::xml::{Element, Writer, XmlError};

use super::rejection::invalid_document;

/// The most tags of a blob.
const MAX_TAGS: usize = 10;
/// The most characters in a tag's name.
const MAX_KEY: usize = 128;
/// The most characters in a tag's value.
const MAX_VALUE: usize = 256;

/// The tags of a blob, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags(Box<[(Box<str>, Box<str>)]>);

impl Tags {
    /// Parses the value of `x-ms-tags`: `name=value&name=value`, percent-encoded.
    ///
    /// Rejects more than 10 tags, names that are empty, repeated or longer than 128 characters,
    /// values longer than 256, and characters that tags may not have.
    pub(crate) fn parse_header(text: &str) -> Result<Self, Rejection> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8().map(String::from).map_err(|_| invalid())
        };
        let pairs = text.split('&').map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
            Ok((decode(key)?, decode(value)?))
        });
        Self::new(pairs.collect::<Result<_, Rejection>>()?)
    }

    /// Parses the body of Set Blob Tags, with the limits of [`Tags::parse_header`].
    pub(crate) fn parse_document(body: &[u8]) -> Result<Self, Rejection> {
        Self::new(read_document(body).map_err(|error| invalid_document(&error, body))?)
    }

    /// Creates tags that were checked before and are sorted by name.
    #[cfg(feature = "durable")]
    pub(crate) fn restore(pairs: Vec<(Box<str>, Box<str>)>) -> Self {
        Self(pairs.into_boxed_slice())
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of the tag with this name.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Whether there are no tags.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The body of the response to Get Blob Tags.
    pub(crate) fn render(&self) -> String {
        let mut writer = Writer::response();
        write(&mut writer, self.iter());
        writer.finish()
    }

    /// Checks names, values and their number.
    pub(crate) fn new(mut pairs: Vec<(String, String)>) -> Result<Self, Rejection> {
        let permitted = |text: &str| {
            let is_permitted =
                |byte: u8| byte.is_ascii_alphanumeric() || b" +-./:=_".contains(&byte);
            text.bytes().all(is_permitted)
        };
        if pairs.len() > MAX_TAGS {
            return Err(Rejection::new(ErrorCode::TAGS_TOO_LARGE));
        }
        for (key, value) in &pairs {
            if key.is_empty() {
                return Err(Rejection::new(ErrorCode::EMPTY_TAG_NAME));
            }
            if !permitted(key) || !permitted(value) {
                return Err(invalid());
            }
            if key.len() > MAX_KEY || value.len() > MAX_VALUE {
                return Err(Rejection::new(ErrorCode::TAGS_TOO_LARGE));
            }
        }
        pairs.sort_unstable();
        if pairs.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Rejection::new(ErrorCode::DUPLICATE_TAG_NAMES));
        }
        let boxed = pairs.into_iter().map(|(key, value)| (key.into(), value.into()));
        Ok(Self(boxed.collect()))
    }
}

/// Writes `<Tags>` as in responses and listings.
pub(crate) fn write<'a>(writer: &mut Writer, tags: impl Iterator<Item = (&'a str, &'a str)>) {
    writer.start("Tags");
    writer.start("TagSet");
    for (key, value) in tags {
        writer.start("Tag");
        writer.leaf("Key", key);
        writer.leaf("Value", value);
        writer.end("Tag");
    }
    writer.end("TagSet");
    writer.end("Tags");
}

fn read_document(body: &[u8]) -> Result<Vec<(String, String)>, XmlError> {
    let root = Element::read_small(body, "Tags")?;
    root.holds_only("Tags", &["TagSet"])?;
    let set = root.require("TagSet")?;
    let read = |tag: &Element| {
        if tag.name != "Tag" {
            return Err(XmlError::Unexpected("TagSet"));
        }
        tag.holds_only("Tag", &["Key", "Value"])?;
        Ok((tag.require("Key")?.text.clone(), tag.require("Value")?.text.clone()))
    };
    set.children.iter().map(read).collect()
}

fn invalid() -> Rejection {
    Rejection::new(ErrorCode::INVALID_TAGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> ErrorCode {
        Tags::parse_header(text).unwrap_err().code
    }

    #[test]
    fn tags_in_a_header_and_in_xml_parse_alike() {
        // test_blob_tags.test_list_blobs_returns_tags, and characters that must be encoded
        let header =
            Tags::parse_header("tag2=second%20tag&tag1=first+tag&%2b-.%2F%3A%3D_=").unwrap();
        let pairs: Vec<_> = header.iter().collect();
        assert_eq!(pairs, [("+-./:=_", ""), ("tag1", "first tag"), ("tag2", "second tag")]);
        assert_eq!(Tags::parse_document(header.render().as_bytes()).unwrap(), header);
        assert_eq!(header.get("tag1"), Some("first tag"));
        assert_eq!(header.get("Tag1"), None);
        assert!(Tags::parse_header("").unwrap().is_empty());
        assert_eq!(Tags::parse_document(b"<Tags><TagSet /></Tags>").unwrap(), Tags::default());
    }

    #[test]
    fn each_exceeded_tag_limit_has_its_own_error() {
        let eleven: Vec<_> = (0..11).map(|n| format!("t{n}=v")).collect();
        assert!(Tags::parse_header(&eleven[..10].join("&")).is_ok());
        assert_eq!(refused(&eleven.join("&")), ErrorCode::TAGS_TOO_LARGE);
        let (key, value) = ("k".repeat(128), "v".repeat(256));
        assert!(Tags::parse_header(&format!("{key}={value}")).is_ok());
        assert_eq!(refused(&format!("{key}k=")), ErrorCode::TAGS_TOO_LARGE);
        assert_eq!(refused(&format!("k={value}v")), ErrorCode::TAGS_TOO_LARGE);
        assert_eq!(refused("=v"), ErrorCode::EMPTY_TAG_NAME);
        assert_eq!(refused("a=1&b=2&a=1"), ErrorCode::DUPLICATE_TAG_NAMES);
        for text in ["a", "a=%26", "a=%C3%A4", "a=%FF", "%09=a", "a=1&"] {
            assert_eq!(refused(text), ErrorCode::INVALID_TAGS, "{text}");
        }
    }

    #[test]
    fn malformed_tag_documents_are_rejected() {
        for body in [
            "",
            "<Tags/>",
            "<Tag/>",
            "<Tags><TagSet/><TagSet/></Tags>",
            "<Tags><TagSet><X/></TagSet></Tags>",
            "<Tags><TagSet><Tag><Key>a</Key></Tag></TagSet></Tags>",
        ] {
            let code = Tags::parse_document(body.as_bytes()).unwrap_err().code;
            assert_eq!(code, ErrorCode::INVALID_XML_DOCUMENT, "{body}");
        }
    }
}
