//! Entity tags, and the `If-Match` condition of a write.

use std::fmt;

use crate::edm::{DateTime, Iso};

/// An entity tag: opaque text that changes with every write of the entity. With serde it is its
/// text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(Box<str>);

impl ETag {
    /// Creates a tag from its text, as in an `ETag` header or an `odata.etag` property.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, `W/"datetime'2017-11-10T02%3A46%3A53.636692Z'"`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Timestamp in the tag, if it has the service's format.
    pub fn timestamp(&self) -> Option<DateTime> {
        let text = self.0.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
        text.replace("%3A", ":").parse().ok()
    }

    /// The tag that the service derives from an entity's Timestamp.
    pub fn from_timestamp(timestamp: DateTime) -> Self {
        let mut text = Vec::with_capacity(ETAG_LEN);
        write_etag(&mut text, b"\"", &timestamp.iso());
        Self(String::from_utf8(text).unwrap_or_default().into())
    }
}

/// The longest text of a tag.
pub const ETAG_LEN: usize = "W/\"datetime'2017-11-10T02%3A46%3A53.6366921Z'\"".len();

/// Appends `W/"datetime'…'"`: the instant with `:` as `%3A`. `quote` is how a `"` is written at
/// this place.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "a tag has at most 46 bytes")]
pub fn write_etag<const N: usize>(out: &mut Vec<u8>, quote: &[u8; N], timestamp: &Iso) {
    let (text, length) = timestamp.percent_encoded();
    out.reserve(ETAG_LEN + 2 * N);
    out.extend_from_slice(b"W/");
    out.extend_from_slice(quote);
    out.extend_from_slice(b"datetime'");
    // Append a fixed length, which is fastest, then truncate to the actual end.
    let end = out.len() + length;
    out.extend_from_slice(&text);
    out.truncate(end);
    out.push(b'\'');
    out.extend_from_slice(quote);
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The condition of a replace, merge or delete on the stored entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Unconditional: the last writer wins (`If-Match: *`). The entity must exist.
    Any,
    /// The entity must still have this tag; otherwise the write fails with 412.
    ETag(ETag),
}

impl Match {
    /// The value of the `If-Match` header.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "*",
            Self::ETag(tag) => tag.as_str(),
        }
    }
}

impl From<ETag> for Match {
    fn from(tag: ETag) -> Self {
        Self::ETag(tag)
    }
}

impl From<&ETag> for Match {
    fn from(tag: &ETag) -> Self {
        Self::ETag(tag.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_timestamp_as_recorded() {
        // table-storage--cosmosdb-python: Timestamp and odata.etag of one entity.
        let timestamp = "2017-11-10T02:46:53.636692Z".parse().unwrap();
        let tag = ETag::from_timestamp(timestamp);
        assert_eq!(tag.as_str(), "W/\"datetime'2017-11-10T02%3A46%3A53.636692Z'\"");
        assert_eq!(tag.timestamp(), Some(timestamp));
        assert_eq!(ETag::new("W/\"other\"").timestamp(), None);
    }
}
