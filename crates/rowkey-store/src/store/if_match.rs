//! Conditions on the version of an entity, and their form in HTTP: the headers `If-Match` and `If-None-Match`.

use std::fmt;

use rowkey_client::{ETag, Match};

use super::version::Version;

/// A condition on the version of a stored entity.
///
/// [`Store::replace_if`](crate::Store::replace_if), [`Store::delete_if`](crate::Store::delete_if),
/// [`Patch::if_version`](crate::Patch::if_version) and [`Transaction`](crate::Transaction) take a condition,
/// or a [`Version`], which is the condition that the entity has this version. A condition that is not met is
/// an error with [`ErrorKind::Conflict`](rowkey_client::ErrorKind::Conflict), and nothing is written.
///
/// [`of`](Self::of) reads it from the `If-Match` header of a request, by RFC 9110, sections
/// [8.8.3](https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3) and
/// [13.1.1](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1). A web service answers:
///
/// | what | status |
/// |---|---|
/// | the condition is met | 200, with the text of the new [`Version`] as `ETag` header |
/// | [`ErrorKind::Conflict`](rowkey_client::ErrorKind::Conflict) of the store: the condition is not met | 412 Precondition Failed |
/// | [`IfMatchError::Missing`]: no header | 428 Precondition Required |
/// | [`IfMatchError::Malformed`] | 400 Bad Request |
///
/// For `If-None-Match`, see [`Version::is_not_modified`].
///
/// ```
/// use rowkey::store::{IfMatch, IfMatchError, Version};
///
/// // With axum and other frameworks on the crate `http`: `IfMatch::of(headers.get_all(IF_MATCH))`.
/// let version: Version = "\"op-00000000000000ff\"".parse()?;
/// assert_eq!(IfMatch::of([version.to_string()]), Ok(IfMatch::from(&version)));
/// assert_eq!(IfMatch::of(["*"]), Ok(IfMatch::Any));
/// assert_eq!(IfMatch::of(["W/\"weak\", \"op-00000000000000ff\""]), Ok(IfMatch::from(version)));
///
/// let none: [&str; 0] = [];
/// assert_eq!(IfMatch::of(none), Err(IfMatchError::Missing));
/// assert_eq!(IfMatch::of(["no quotes"]).unwrap_err().status(), 400);
/// # Ok::<_, rowkey::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// The entity exists, in any version: `*`. A write is repeated while other writers come first.
    Any,
    /// The entity has one of these versions. Without versions, the condition is never met.
    OneOf(Vec<Version>),
}

impl IfMatch {
    /// Reads the condition from the values of all `If-Match` headers of a request.
    ///
    /// The comparison is strong, as RFC 9110 requires: a weak tag (`W/".."`) is valid and matches no
    /// version. The same is true of a tag that no store made. So the result may be a condition that is never
    /// met, and the request a 412.
    ///
    /// ```
    /// use rowkey::store::IfMatch;
    ///
    /// assert_eq!(IfMatch::of(["W/\"a\""]), Ok(IfMatch::OneOf(Vec::new())));
    /// ```
    pub fn of<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Result<Self, IfMatchError> {
        let (mut headers, mut any, mut tags) = (0, 0, 0);
        let mut versions = Vec::new();
        for value in values {
            headers += 1;
            let mut rest = value.as_ref();
            while let Some((member, after)) = next(rest)? {
                match member {
                    Member::Any => any += 1,
                    Member::Weak(_) => tags += 1,
                    Member::Strong(tag) => {
                        tags += 1;
                        let version = str::from_utf8(tag).ok().and_then(|tag| tag.parse().ok());
                        versions.extend(version.filter(|version| !versions.contains(version)));
                    }
                }
                rest = after;
            }
        }
        match (headers, any, tags) {
            (0, ..) => Err(IfMatchError::Missing),
            (_, 1, 0) => Ok(Self::Any),
            (_, 0, 1..) => Ok(Self::OneOf(versions)),
            _ => Err(IfMatchError::Malformed),
        }
    }

    /// Whether the comparison needs the properties of the head.
    pub(crate) fn has_digest(&self) -> bool {
        matches!(self, Self::OneOf(versions) if versions.iter().any(Version::has_digest))
    }

    /// Whether a head with this ETag, mark and digest meets the condition.
    pub(crate) fn admits(&self, etag: &ETag, mark: Option<&str>, digest: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(versions) => versions.iter().any(|version| version.is(etag, mark, digest)),
        }
    }

    /// The condition as the service compares it; `None` if the entity has to be read.
    pub(crate) fn by_service(&self) -> Option<Match> {
        match self {
            Self::Any => Some(Match::Any),
            Self::OneOf(versions) => match &versions[..] {
                [version] => version.etag().map(Match::ETag),
                _ => None,
            },
        }
    }

    /// Whether no entity meets the condition.
    pub(crate) fn is_never_met(&self) -> bool {
        matches!(self, Self::OneOf(versions) if versions.is_empty())
    }
}

impl From<Version> for IfMatch {
    fn from(version: Version) -> Self {
        Self::OneOf(vec![version])
    }
}

impl From<&Version> for IfMatch {
    fn from(version: &Version) -> Self {
        version.clone().into()
    }
}

impl From<&Self> for IfMatch {
    fn from(condition: &Self) -> Self {
        condition.clone()
    }
}

impl Version {
    /// Whether the `If-None-Match` headers of a GET have this version or `*`, so that the client has the entity as it
    /// is: the answer is 304 Not Modified, with the `ETag` header and without a body.
    ///
    /// The comparison is weak, as RFC 9110, section
    /// [13.1.2](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2), requires: `W/"a"` is the version `"a"`. A
    /// malformed header, and a request without one, has no version.
    ///
    /// ```
    /// use rowkey::store::Version;
    ///
    /// // With axum and other frameworks on the crate `http`: `headers.get_all(IF_NONE_MATCH)`.
    /// let version: Version = "\"op-00000000000000ff\"".parse()?;
    /// assert!(version.is_not_modified(["\"other\", W/\"op-00000000000000ff\""]));
    /// assert!(!version.is_not_modified(["\"other\""]));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    pub fn is_not_modified<V: AsRef<[u8]>>(&self, values: impl IntoIterator<Item = V>) -> bool {
        let own = self.to_string();
        values.into_iter().any(|value| {
            let (mut rest, mut has) = (value.as_ref(), false);
            while let Ok(Some((member, after))) = next(rest) {
                has |= match member {
                    Member::Any => true,
                    Member::Strong(tag) | Member::Weak(tag) => tag == own.as_bytes(),
                };
                rest = after;
            }
            has && matches!(next(rest), Ok(None))
        })
    }
}

/// A member of the list in a header.
enum Member<'h> {
    Any,
    /// A weak tag: what follows `W/`.
    Weak(&'h [u8]),
    /// A strong tag with its quotes.
    Strong(&'h [u8]),
}

/// The first member of a list, and the rest of the list; `None` at the end. Members may be empty.
fn next(list: &[u8]) -> Result<Option<(Member<'_>, &[u8])>, IfMatchError> {
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
    let Some(start) = list.iter().position(|byte| !is_between(byte)) else { return Ok(None) };
    let list = &list[start..];
    let (member, rest) = if let Some(rest) = list.strip_prefix(b"*") {
        (Member::Any, rest)
    } else {
        let (is_weak, tag) = match list.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, list),
        };
        // The opaque part has visible characters and bytes from 0x80 on. Commas belong to it.
        let is_opaque = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7E | 0x80..);
        let opaque = tag.strip_prefix(b"\"").ok_or(IfMatchError::Malformed)?;
        let end = opaque.iter().position(|byte| !is_opaque(byte)).unwrap_or(opaque.len());
        let rest = opaque[end..].strip_prefix(b"\"").ok_or(IfMatchError::Malformed)?;
        let tag = &tag[..end + 2];
        (if is_weak { Member::Weak(tag) } else { Member::Strong(tag) }, rest)
    };
    let after = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    match after {
        None | Some(b',') => Ok(Some((member, rest))),
        Some(_) => Err(IfMatchError::Malformed),
    }
}

/// The reason why a request has no condition in its `If-Match` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IfMatchError {
    /// The request has no such header.
    Missing,
    /// A header is neither `*` nor a list of entity tags.
    Malformed,
}

impl IfMatchError {
    /// The status of the response: 428 (Precondition Required) for a missing header, 400 (Bad Request) for a
    /// malformed one.
    ///
    /// ```
    /// use rowkey::store::IfMatchError;
    ///
    /// assert_eq!(IfMatchError::Missing.status(), 428);
    /// ```
    pub const fn status(self) -> u16 {
        match self {
            Self::Missing => 428,
            Self::Malformed => 400,
        }
    }
}

impl fmt::Display for IfMatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => {
                "the request has no If-Match header: send the ETag that was read, or `*`"
            }
            Self::Malformed => {
                "invalid If-Match header: send `*`, or entity tags in quotes, separated by commas"
            }
        })
    }
}

impl std::error::Error for IfMatchError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"datetime'2026-11-22T10%3A00%3A00.0000000Z'\"";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_header_is_a_star_or_a_list_of_tags_also_in_several_lines() {
        assert_eq!(IfMatch::of(["*"]), Ok(IfMatch::Any));
        assert_eq!(IfMatch::of([" *\t"]), Ok(IfMatch::Any));
        let both = IfMatch::OneOf(vec![version(TAG), version("\"a,b\"")]);
        for header in [
            format!("{TAG}, \"a,b\""),
            format!("{TAG},\"a,b\""),
            format!(" , {TAG} ,\t, \"a,b\" ,"),
            format!("W/\"weak\", {TAG}, \"op-other\", \"a,b\", {TAG}"),
        ] {
            assert_eq!(IfMatch::of([&header]), Ok(both.clone()), "{header}");
        }
        assert_eq!(IfMatch::of([TAG, "", "\"a,b\""]), Ok(both));
    }

    #[test]
    fn weak_tags_and_tags_of_others_match_nothing() {
        let etag = ETag::new(format!("W/{TAG}"));
        let never = IfMatch::OneOf(Vec::new());
        for header in [&format!("W/{TAG}"), "\"op-other\"", "W/\"op-00000000000000ff\""] {
            let condition = IfMatch::of([header]).unwrap();
            assert_eq!(condition, never, "{header}");
            assert!(condition.is_never_met());
        }
        assert_eq!(IfMatch::of([b"\"\xFF\""]), Ok(never));
        // Valid for another resource, perhaps.
        for header in ["\"\"", "\"!#~\"", "\"é\""] {
            assert!(!IfMatch::of([header]).unwrap().admits(&etag, Some("00000000000000ff"), None));
        }
        assert!(IfMatch::of([TAG]).unwrap().admits(&etag, None, None));
        assert!(IfMatch::Any.admits(&etag, None, None));
        assert_eq!(IfMatch::of([TAG]).unwrap().by_service(), Some(Match::ETag(etag)));
        for header in ["\"a\"", "\"datetime'a\"", "\"datetime'é'\"", "\"op-00000000000000ff\""] {
            assert_eq!(IfMatch::of([header]).unwrap().by_service(), None, "{header}");
        }
    }

    #[test]
    fn a_version_is_compared_weakly_with_the_tags_of_if_none_match() {
        let version = version(TAG);
        for headers in [
            vec!["*".to_owned()],
            vec![TAG.to_owned()],
            vec![format!("W/{TAG}")],
            vec![format!("\"a\", W/{TAG} ,\"b\"")],
            vec!["\"a\"".to_owned(), TAG.to_owned()],
            vec!["no tag".to_owned(), TAG.to_owned()],
        ] {
            assert!(version.is_not_modified(&headers), "{headers:?}");
        }
        for headers in [
            vec![],
            vec![String::new()],
            vec!["\"a\", W/\"b\"".to_owned()],
            vec![TAG.to_lowercase()],
            vec![format!("{TAG} no tag")],
            vec![format!("{TAG}, no tag")],
            vec![TAG.trim_matches('"').to_owned()],
        ] {
            assert!(!version.is_not_modified(&headers), "{headers:?}");
        }
    }

    #[test]
    fn a_missing_header_differs_from_a_malformed_one() {
        let none: [&str; 0] = [];
        assert_eq!(IfMatch::of(none), Err(IfMatchError::Missing));
        let malformed = [
            "",
            ",",
            "a",
            "**",
            "*, *",
            "*, \"a\"",
            "\"a\", *",
            "\"a",
            "a\"",
            "\"a\"b\"",
            "\"a\" \"b\"",
            "\"a b\"",
            "\"a\tb\"",
            "\"a\u{7F}\"",
            "w/\"a\"",
            "W/ \"a\"",
            "W/",
            "'a'",
            "\"a\";\"b\"",
        ];
        for header in malformed {
            let error = IfMatch::of([header]).unwrap_err();
            assert_eq!((error, error.status()), (IfMatchError::Malformed, 400), "{header}");
        }
        assert_eq!(IfMatch::of(["*", "\"a\""]), Err(IfMatchError::Malformed));
        assert_eq!(IfMatch::of(["", ""]), Err(IfMatchError::Malformed));
    }
}
