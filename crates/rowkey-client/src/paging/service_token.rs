//! The continuation tokens of other libraries.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Token;
use crate::error::{Error, Result};

/// The place where a query of another library resumes, to be passed to the same query here:
/// [`Query::continuation`](crate::Query::continuation).
///
/// It parses the text forms in which these libraries return tokens:
///
/// | library | text |
/// |---|---|
/// | Azure.Data.Tables for .NET, `Page.ContinuationToken` | the two parts, separated by a space |
/// | `@azure/data-tables` for JavaScript, `continuationToken` | base64 of JSON with `nextPartitionKey` and `nextRowKey` |
/// | `azure-data-tables` for Python, `continuation_token` as JSON | JSON with `PartitionKey` and `RowKey` |
/// | `TableContinuationToken` of the older .NET libraries as JSON | JSON with `NextPartitionKey` and `NextRowKey` |
///
/// The parts are the service's: the response headers `x-ms-continuation-NextPartitionKey` and
/// `x-ms-continuation-NextRowKey`. None of these tokens identifies its query.
///
/// With serde it is text: it is written in the form of Azure.Data.Tables, and read in any of these
/// forms.
///
/// ```
/// use rowkey::table::ServiceToken;
///
/// let token: ServiceToken = "1!8!c2FsZXM- 1!16!aWRfMDAwMjIz".parse()?;
/// assert_eq!(token.next_partition_key, "1!8!c2FsZXM-");
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceToken {
    /// The value of `NextPartitionKey`.
    pub next_partition_key: String,
    /// The value of `NextRowKey`; `None` if the query resumes at the beginning of a partition.
    pub next_row_key: Option<String>,
}

/// The JSON fields of all libraries.
#[derive(Deserialize)]
struct Json {
    #[serde(alias = "nextPartitionKey", alias = "NextPartitionKey")]
    #[serde(rename = "PartitionKey")]
    next_partition_key: Option<String>,
    #[serde(alias = "nextRowKey", alias = "NextRowKey")]
    #[serde(rename = "RowKey")]
    next_row_key: Option<String>,
}

impl ServiceToken {
    pub(crate) fn into_wire(self) -> Token {
        Token { partition_key: self.next_partition_key, row_key: self.next_row_key }
    }

    /// Whether a header can contain both parts.
    fn is_valid(&self) -> bool {
        let is_part = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        !self.next_partition_key.is_empty()
            && is_part(&self.next_partition_key)
            && self.next_row_key.as_deref().is_none_or(is_part)
    }

    fn of_json(text: &[u8]) -> Option<Self> {
        let Json { next_partition_key, next_row_key } = serde_json::from_slice(text).ok()?;
        let next_row_key = next_row_key.filter(|part| !part.is_empty());
        Some(Self { next_partition_key: next_partition_key?, next_row_key })
    }

    fn of_text(text: &str) -> Option<Self> {
        if text.starts_with('{') {
            return Self::of_json(text.as_bytes());
        }
        if let Some((partition, row)) = text.split_once(' ') {
            let next_row_key = Some(row.to_owned()).filter(|row| !row.is_empty());
            return Some(Self { next_partition_key: partition.to_owned(), next_row_key });
        }
        STANDARD.decode(text).ok().and_then(|json| Self::of_json(&json))
    }
}

impl FromStr for ServiceToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let token = Self::of_text(text).filter(Self::is_valid);
        token.ok_or_else(|| {
            Error::invalid("the text is not a supported continuation token")
                .advise("give both parts as the service gave them in the headers of its answer")
        })
    }
}

/// Fails for parts that a response header cannot contain.
impl Serialize for ServiceToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_valid() {
            let what = "a part of the continuation token is empty or invalid in a header";
            return Err(serde::ser::Error::custom(what));
        }
        let row_key = self.next_row_key.as_deref().unwrap_or_default();
        serializer.collect_str(&format_args!("{} {row_key}", self.next_partition_key))
    }
}

impl<'de> Deserialize<'de> for ServiceToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for ServiceToken {
    /// Does not show the parts, which contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_tokens_of_other_libraries_parse() {
        // `next-pk next-rk` is in the tests of Azure.Data.Tables; the base64 is what
        // `encodeContinuationToken` of @azure/data-tables 13.3 makes of the same parts.
        for (text, row_key) in [
            ("next-pk next-rk", Some("next-rk")),
            ("next-pk ", None),
            (
                "eyJuZXh0UGFydGl0aW9uS2V5IjoibmV4dC1wayIsIm5leHRSb3dLZXkiOiJuZXh0LXJrIn0=",
                Some("next-rk"),
            ),
            ("eyJuZXh0UGFydGl0aW9uS2V5IjoibmV4dC1wayJ9", None),
            (r#"{"PartitionKey": "next-pk", "RowKey": "next-rk"}"#, Some("next-rk")),
            (r#"{"PartitionKey": "next-pk", "RowKey": null}"#, None),
            (
                r#"{"NextPartitionKey":"next-pk","NextRowKey":"next-rk","NextTableName":null,"TargetLocation":0}"#,
                Some("next-rk"),
            ),
        ] {
            let token: ServiceToken = text.parse().unwrap();
            assert_eq!(token.next_partition_key, "next-pk", "{text}");
            assert_eq!(token.next_row_key.as_deref(), row_key, "{text}");
            assert!(!format!("{token:?}").contains("next-pk"));
        }
    }

    #[test]
    fn a_token_round_trips_through_json() {
        for row_key in [Some("1!16!aWRfMDAwMjIz".to_owned()), None] {
            let next_partition_key = "1!8!c2FsZXM-".to_owned();
            let token = ServiceToken { next_partition_key, next_row_key: row_key };
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<ServiceToken>(&json).unwrap(), token);
        }
        for part in ["", "secret part", "secret\r\n"] {
            let token = ServiceToken { next_partition_key: part.into(), next_row_key: None };
            let error = serde_json::to_string(&token).unwrap_err().to_string();
            assert!(error.contains("continuation token") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn malformed_tokens_are_rejected_without_being_shown() {
        for text in [
            "",
            " ",
            "secret",
            "{}",
            r#"{"RowKey":"secret"}"#,
            "secret\r\nx: y z",
            "c2VjcmV0",
            " secret",
        ] {
            let error = text.parse::<ServiceToken>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{text}");
        }
    }
}
