//! Metadata: the names and values that a queue, a container or a blob is described with, each in
//! a header `x-ms-meta-name`.
//!
//! Names of headers have no case here, so the services' own, which keep the case of these names,
//! are matched only in lower case.
//!
//! Reference: [Setting and retrieving properties and metadata](https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources).

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::code::ErrorCode;
use crate::error::Rejection;
use crate::limits::MAX_METADATA;

/// What the header of each pair begins with.
pub const PREFIX: &str = "x-ms-meta-";

/// Metadata as a server keeps it: headers, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Vec<(HeaderName, HeaderValue)>);

/// Why names and values cannot be metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataError {
    /// A name that is not an identifier: letters, digits and `_`, no digit first.
    Name,
    /// Names that differ only in case.
    Repeated,
    /// Names and values longer than 8 KiB together.
    TooLarge,
    /// A value with characters other than those of ASCII that can be seen, and spaces.
    Value,
}

impl Metadata {
    /// The metadata that a request sets (the server's half).
    pub fn parse(headers: &HeaderMap) -> Result<Self, Rejection> {
        let mut pairs: Vec<(HeaderName, HeaderValue)> = Vec::new();
        let mut length = 0;
        for header in headers.keys() {
            let Some(name) = header.as_str().strip_prefix(PREFIX) else { continue };
            if name.is_empty() {
                return Err(Rejection::new(ErrorCode::EMPTY_METADATA_KEY));
            }
            if !is_identifier(name) {
                return Err(Rejection::new(ErrorCode::INVALID_METADATA));
            }
            let value = joined(headers, header);
            length += name.len() + value.len();
            pairs.push((header.clone(), value));
        }
        if length > MAX_METADATA {
            return Err(Rejection::new(ErrorCode::METADATA_TOO_LARGE));
        }
        pairs.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        Ok(Self(pairs))
    }

    /// Adds the headers to an answer.
    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0 {
            headers.insert(name.clone(), value.clone());
        }
    }

    /// Names without what their headers begin with, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (&name.as_str()[PREFIX.len()..], text(value)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Adds metadata to a request (the client's half).
pub fn encode<'a>(
    headers: &mut HeaderMap,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), MetadataError> {
    let mut length = 0;
    for (name, value) in pairs {
        if !is_identifier(name) {
            return Err(MetadataError::Name);
        }
        length += name.len() + value.len();
        if length > MAX_METADATA {
            return Err(MetadataError::TooLarge);
        }
        let header: HeaderName =
            format!("{PREFIX}{name}").parse().map_err(|_| MetadataError::Name)?;
        let value = HeaderValue::from_str(value).map_err(|_| MetadataError::Value)?;
        if headers.insert(header, value).is_some() {
            return Err(MetadataError::Repeated);
        }
    }
    Ok(())
}

/// The metadata in the headers of an answer (the client's half). Names are in lower case.
pub fn decode(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(PREFIX)?, value)))
        .map(|(name, value)| (name.to_owned(), text(value)))
        .collect()
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => {
                "the name of metadata is letters, digits and underscores, and no digit first"
            }
            Self::Repeated => "two names of metadata differ at most in case",
            Self::TooLarge => "metadata is longer than 8 KiB",
            Self::Value => "the value of metadata is ASCII without control characters",
        })
    }
}

impl std::error::Error for MetadataError {}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Repeated headers are one, with commas between.
fn joined(headers: &HeaderMap, name: &HeaderName) -> HeaderValue {
    let mut values = headers.get_all(name).iter();
    let (Some(first), Some(second)) = (values.next(), values.next()) else {
        // A copy: headers share a buffer with the whole request, which would be kept as long.
        let value =
            headers.get(name).and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        return value.unwrap_or(HeaderValue::from_static(""));
    };
    let mut all = first.as_bytes().to_vec();
    for value in std::iter::once(second).chain(values) {
        all.push(b',');
        all.extend_from_slice(value.as_bytes());
    }
    HeaderValue::from_bytes(&all).unwrap_or(HeaderValue::from_static(""))
}

/// UTF-8, or else Latin-1, what header values were before.
fn text(value: &HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_with_the_prefix_are_metadata_and_others_are_not() {
        let sent = headers(&[
            ("x-ms-meta-hello", "world"),
            ("x-ms-version", "2018-03-28"),
            ("x-ms-meta-a_1", "x"),
            ("x-ms-meta-a_1", "y"),
        ]);
        let metadata = Metadata::parse(&sent).unwrap();
        let pairs: Vec<_> = metadata.iter().collect();
        assert_eq!(pairs, [("a_1", "x,y".to_owned()), ("hello", "world".to_owned())]);
        let mut answer = HeaderMap::new();
        metadata.write(&mut answer);
        assert_eq!(answer["x-ms-meta-hello"], "world");
        assert_eq!(answer.len(), 2);
    }

    #[test]
    fn names_are_identifiers_and_all_fits_into_8_kib() {
        let code = |sent: &HeaderMap| Metadata::parse(sent).unwrap_err().code;
        assert_eq!(code(&headers(&[("x-ms-meta-", "v")])), ErrorCode::EMPTY_METADATA_KEY);
        for name in ["x-ms-meta-1a", "x-ms-meta-a-b", "x-ms-meta-a.b"] {
            assert_eq!(code(&headers(&[(name, "v")])), ErrorCode::INVALID_METADATA, "{name}");
        }
        let mut large = HeaderMap::new();
        let value = HeaderValue::from_str(&"v".repeat(8191)).unwrap();
        large.insert("x-ms-meta-n", value.clone());
        assert!(Metadata::parse(&large).is_ok());
        large.insert("x-ms-meta-m", value);
        assert_eq!(code(&large), ErrorCode::METADATA_TOO_LARGE);
    }

    #[test]
    fn what_cannot_be_metadata_is_refused_before_it_is_sent() {
        let mut sent = HeaderMap::new();
        assert_eq!(encode(&mut sent, [("Hello", "world")]), Ok(()));
        assert_eq!(sent["x-ms-meta-hello"], "world");
        assert_eq!(decode(&sent), [("hello".to_owned(), "world".to_owned())]);
        let large = "v".repeat(8192);
        for (pairs, error) in [
            ([("a", "1"), ("A", "2")], MetadataError::Repeated),
            ([("a", "1"), ("b-c", "2")], MetadataError::Name),
            ([("a", "1"), ("b", "\n")], MetadataError::Value),
            ([("a", "1"), ("b", large.as_str())], MetadataError::TooLarge),
        ] {
            assert_eq!(encode(&mut HeaderMap::new(), pairs), Err(error));
        }
    }
}
