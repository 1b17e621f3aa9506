//! Entity tags of containers and blobs, `"0x8D9C0DFD1829915"`, and the conditions on them.

use std::fmt;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::tag_filter::TagFilter;
use super::tags::Tags;

/// The value of an ETag: a number that grows with every change. In the service it is an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    /// The text without quotes, as in listings of blobs.
    pub(crate) fn unquoted(self) -> String {
        let mut text = String::with_capacity(18);
        self.write(&mut text);
        text
    }

    /// The text with quotes, as in headers.
    pub(crate) fn quoted(self) -> String {
        let mut text = String::with_capacity(20);
        text.push('"');
        self.write(&mut text);
        text.push('"');
        text
    }

    fn write(self, out: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        out.push_str("0x");
        let digits = self.0.checked_ilog(16).unwrap_or(0);
        for place in (0..=digits).rev() {
            let digit = (self.0 >> place.saturating_mul(4)) & 0xF;
            out.push(char::from(DIGITS[usize::try_from(digit).unwrap_or_default()]));
        }
    }

    /// Parses an ETag with or without quotes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        // `from_str_radix` would also accept a sign.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.quoted())
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Any existing version: `*`.
    Any,
    /// One ETag.
    Tag(Tag),
    /// A value that the service never issues.
    Unknown,
}

impl Match {
    /// Parses the value of a header.
    pub(crate) fn parse(text: &str) -> Self {
        match text.trim() {
            "*" => Self::Any,
            other => Tag::parse(other).map_or(Self::Unknown, Self::Tag),
        }
    }

    fn holds(self, current: Tag) -> bool {
        match self {
            Self::Any => true,
            Self::Tag(tag) => tag == current,
            Self::Unknown => false,
        }
    }
}

/// The conditions of a request. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// `If-Match`
    pub(crate) matches: Option<Match>,
    /// `If-None-Match`
    pub(crate) none_match: Option<Match>,
    /// `If-Modified-Since`
    pub(crate) modified_since: Option<i64>,
    /// `If-Unmodified-Since`
    pub(crate) unmodified_since: Option<i64>,
    /// `x-ms-if-tags`
    pub(crate) tags: Option<Box<TagFilter>>,
}

/// The result of evaluating the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All are met.
    Met,
    /// `If-Match`, `If-Unmodified-Since` or `x-ms-if-tags` is not met.
    Failed,
    /// `If-None-Match` or `If-Modified-Since` is not met: the reader has the current version.
    Unchanged,
}

impl Conditions {
    /// No conditions.
    pub(crate) const NONE: Self = Self {
        matches: None,
        none_match: None,
        modified_since: None,
        unmodified_since: None,
        tags: None,
    };

    /// Evaluates the conditions against the current version. If an ETag is given, the time next to
    /// it is ignored.
    pub(crate) fn evaluate(&self, tag: Tag, modified: i64, tags: &Tags) -> Outcome {
        if self.tags.as_ref().is_some_and(|filter| !filter.matches(tags, "")) {
            return Outcome::Failed;
        }
        match (self.matches, self.unmodified_since) {
            (Some(matches), _) if !matches.holds(tag) => return Outcome::Failed,
            (None, Some(since)) if modified > since => return Outcome::Failed,
            _ => {}
        }
        match (self.none_match, self.modified_since) {
            (Some(none), _) if none.holds(tag) => Outcome::Unchanged,
            (None, Some(since)) if modified <= since => Outcome::Unchanged,
            _ => Outcome::Met,
        }
    }

    /// Rejects combinations that the service does not support.
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        if self.matches.is_some() && self.none_match.is_some() {
            return Err(Rejection::new(ErrorCode::MULTIPLE_CONDITION_HEADERS_NOT_SUPPORTED));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_have_the_recorded_format() {
        // test_append_blob.test_seal_append_blob
        let tag = Tag::parse("\"0x8D82ED021326975\"").unwrap();
        assert_eq!(tag.to_string(), "\"0x8D82ED021326975\"");
        assert_eq!(tag.unquoted(), "0x8D82ED021326975");
        assert_eq!(Tag::parse("0x8D82ED021326975"), Some(tag));
        for text in ["", "0x", "0x+1", "garbage", "\"0x1", "0x11111111111111111", "W/\"0x1\""] {
            assert_eq!(Tag::parse(text), None, "{text}");
        }
    }

    #[test]
    fn etag_conditions_take_precedence_over_time_conditions() {
        let (tag, other) = (Tag(7), Match::Tag(Tag(8)));
        let (same, any) = (Match::Tag(tag), Match::Any);
        let cases = [
            (Conditions::NONE, Outcome::Met),
            (Conditions { matches: Some(same), ..Conditions::NONE }, Outcome::Met),
            (Conditions { matches: Some(any), ..Conditions::NONE }, Outcome::Met),
            (Conditions { matches: Some(other), ..Conditions::NONE }, Outcome::Failed),
            (Conditions { matches: Some(Match::Unknown), ..Conditions::NONE }, Outcome::Failed),
            (Conditions { none_match: Some(same), ..Conditions::NONE }, Outcome::Unchanged),
            (Conditions { none_match: Some(any), ..Conditions::NONE }, Outcome::Unchanged),
            (Conditions { none_match: Some(other), ..Conditions::NONE }, Outcome::Met),
            (Conditions { modified_since: Some(99), ..Conditions::NONE }, Outcome::Met),
            (Conditions { modified_since: Some(100), ..Conditions::NONE }, Outcome::Unchanged),
            (Conditions { unmodified_since: Some(99), ..Conditions::NONE }, Outcome::Failed),
            (Conditions { unmodified_since: Some(100), ..Conditions::NONE }, Outcome::Met),
            (
                Conditions { matches: Some(same), unmodified_since: Some(0), ..Conditions::NONE },
                Outcome::Met,
            ),
            (
                Conditions {
                    none_match: Some(other),
                    modified_since: Some(200),
                    ..Conditions::NONE
                },
                Outcome::Met,
            ),
        ];
        for (conditions, outcome) in cases {
            assert_eq!(conditions.evaluate(tag, 100, &Tags::default()), outcome, "{conditions:?}");
        }
    }
}
