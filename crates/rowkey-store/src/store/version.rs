//! Versions of entities, for conditional writes.

use std::fmt;
use std::str::FromStr;

use rowkey_client::{ETag, Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of an entity that was read or written.
///
/// It is the ETag of the entity's own row. For an entity that was read through an index, it is the mark of
/// the operation that wrote both rows, and a digest of the properties that were read. Both forms are
/// accepted wherever a version is; a mark costs one more read, which looks up the ETag.
///
/// A program that writes entities without a store, for example by a Merge, may leave the mark unchanged.
/// The digest detects this: the version no longer matches the entity, unless all its properties are the
/// same.
///
/// As text it is a strong HTTP entity tag, the value of the `ETag` header of a response. (The Table service marks
/// its tags as weak, though each write makes another one; weak tags could never match an `If-Match` header.)
/// [`IfMatch::of`](crate::IfMatch::of) reads versions from the `If-Match` header of a request.
///
/// ```
/// use rowkey::store::Version;
///
/// let version: Version = "\"op-00000000000000ff\"".parse()?;
/// assert_eq!(version.to_string(), "\"op-00000000000000ff\"");
/// assert!("W/\"op-00000000000000ff\"".parse::<Version>().is_err(), "a weak tag");
/// assert!("*".parse::<Version>().is_err());
/// # Ok::<_, rowkey::Error>(())
/// ```
///
/// With serde it is serialized as that text. A task that follows a write can carry the version of the
/// write, so that its handler changes no other version.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(Kind);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    /// The ETag of the head as a strong tag: without `W/`.
    Tag(String),
    /// The mark, and the digest of the properties if they were read.
    Mark(String, Option<u64>),
}

const MARK_HEAD: &str = "\"op-";

impl Version {
    pub(crate) fn of_head(etag: &ETag) -> Self {
        Self(Kind::Tag(strong(etag).to_owned()))
    }

    /// The version that an operation wrote, without the digest of its properties.
    pub(crate) fn of_mark(mark: &str) -> Self {
        Self(Kind::Mark(mark.to_owned(), None))
    }

    /// The version of a whole copy.
    pub(crate) fn of_copy(mark: &str, digest: u64) -> Self {
        Self(Kind::Mark(mark.to_owned(), Some(digest)))
    }

    /// The ETag of the head, which the service compares; `None` if the version is not the text of one. The service
    /// answers 400 to other texts.
    pub(crate) fn etag(&self) -> Option<ETag> {
        let Kind::Tag(tag) = &self.0 else { return None };
        let instant = tag.strip_prefix("\"datetime'")?.strip_suffix("'\"")?;
        let is_of_instant = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'%');
        instant.bytes().all(is_of_instant).then(|| ETag::new(format!("W/{tag}")))
    }

    /// Whether the comparison needs the properties of the head.
    pub(crate) fn has_digest(&self) -> bool {
        matches!(self.0, Kind::Mark(_, Some(_)))
    }

    /// Whether a head with this ETag, mark and digest has this version.
    pub(crate) fn is(&self, etag: &ETag, mark: Option<&str>, digest: Option<u64>) -> bool {
        match &self.0 {
            Kind::Tag(tag) => tag == strong(etag),
            Kind::Mark(own, expected) => {
                mark == Some(own) && (expected.is_none() || *expected == digest)
            }
        }
    }
}

/// An ETag of the service without the prefix that marks it as weak.
fn strong(etag: &ETag) -> &str {
    etag.as_str().strip_prefix("W/").unwrap_or_else(|| etag.as_str())
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let mark = text.strip_prefix(MARK_HEAD).and_then(|mark| mark.strip_suffix('"'));
        let is_number =
            |part: &str| part.len() == 16 && part.bytes().all(|b| b.is_ascii_hexdigit());
        let parts =
            mark.map(|mark| mark.split_once('-').map_or((mark, None), |(a, b)| (a, Some(b))));
        if let Some((mark, digest)) = parts
            && is_number(mark)
            && digest.is_none_or(is_number)
        {
            let digest = digest.and_then(|digest| u64::from_str_radix(digest, 16).ok());
            return Ok(Self(Kind::Mark(mark.to_owned(), digest)));
        }
        let is_tag = text.len() >= 2
            && text.starts_with('"')
            && text.ends_with('"')
            && !text[1..text.len() - 1].contains(['"', '\r', '\n']);
        if is_tag && mark.is_none() {
            return Ok(Self(Kind::Tag(text.to_owned())));
        }
        let what = "invalid entity version";
        Err(Error::refused(ErrorKind::Invalid, what)
            .advise("give one strong entity tag, in its quotes"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tag(tag) => f.write_str(tag),
            Kind::Mark(mark, None) => write!(f, "{MARK_HEAD}{mark}\""),
            Kind::Mark(mark, Some(digest)) => write!(f, "{MARK_HEAD}{mark}-{digest:016x}\""),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An entity and its version.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<E> {
    /// The entity.
    pub entity: E,
    /// The version that was read.
    pub version: Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_etag_is_rejected_without_being_quoted() {
        for text in [
            "",
            "*",
            "secret",
            "\"",
            "W/secret",
            "W/\"secret\"",
            "\"a\", \"secret\"",
            "\"op-secret\"",
            "\"a\r\n\"",
            "\"op-00000000000000ff-secret\"",
        ] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_version_matches_a_row_by_etag_or_by_mark() {
        let etag = ETag::new("W/\"1\"");
        let by_tag: Version = "\"1\"".parse().unwrap();
        let by_mark = Version::of_mark("00000000000000ff");
        let mark = Some("00000000000000ff");
        assert!(by_tag.is(&etag, None, None) && by_tag == Version::of_head(&etag));
        assert!(by_mark.is(&etag, mark, Some(7)) && !by_mark.is(&etag, None, Some(7)));
        assert!(!by_tag.is(&ETag::new("W/\"2\""), mark, None));
        let by_copy = Version::of_copy("00000000000000ff", 7);
        assert!(by_copy.is(&etag, mark, Some(7)) && !by_copy.is(&etag, mark, Some(8)));
        assert!(!by_copy.is(&etag, mark, None));
        assert_eq!(by_copy.to_string().parse::<Version>().unwrap(), by_copy);
        for version in [by_tag, by_mark, by_copy] {
            let json = serde_json::to_string(&version).unwrap();
            assert_eq!(serde_json::from_str::<Version>(&json).unwrap(), version);
        }
        let error = serde_json::from_str::<Version>("\"secret\"").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
