//! Metadata headers: the names and values that describe a queue, a container or a blob, each in a header
//! `x-ms-meta-name`.
//!
//! Reference: [Setting and retrieving properties and metadata](https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources).

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use rowkey_wire::headers::{METADATA_PREFIX, decode_text};
use rowkey_wire::limits::MAX_METADATA;

use crate::error::Error;

/// Why metadata is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataError {
    /// A name is not an identifier: letters, digits and `_`, not starting with a digit.
    Name,
    /// Names differ only in case.
    Repeated,
    /// Names and values together are longer than 8 KiB.
    TooLarge,
    /// A value has characters other than printable ASCII.
    Value,
}

/// Adds metadata to a request.
pub(crate) fn encode<'a>(
    headers: &mut HeaderMap,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), MetadataError> {
    let mut length = 0_usize;
    for (name, value) in pairs {
        if !is_identifier(name) {
            return Err(MetadataError::Name);
        }
        length = length.saturating_add(name.len()).saturating_add(value.len());
        if length > MAX_METADATA {
            return Err(MetadataError::TooLarge);
        }
        let header: HeaderName =
            format!("{METADATA_PREFIX}{name}").parse().map_err(|_| MetadataError::Name)?;
        let value = HeaderValue::from_str(value).map_err(|_| MetadataError::Value)?;
        if headers.insert(header, value).is_some() {
            return Err(MetadataError::Repeated);
        }
    }
    Ok(())
}

/// The metadata in the headers of a response. Names are in lower case.
pub(crate) fn decode(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(METADATA_PREFIX)?, value)))
        .map(|(name, value)| (name.to_owned(), decode_text(value)))
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

/// The error of an operation whose metadata is invalid: nothing was sent.
#[cold]
pub(crate) fn metadata_error(error: MetadataError) -> Error {
    match error {
        MetadataError::TooLarge => Error::too_large(error.to_string()),
        _ => Error::invalid(error.to_string()),
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_metadata_is_rejected_before_sending() {
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
