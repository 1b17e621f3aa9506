//! Continuation tokens: text that can be stored, and resumed in another process.
//!
//! # Format
//!
//! base64url without padding of: the version, 1; flags; the fingerprint of the query, 8 bytes; the
//! part, 2 bytes; the length of the first of the service's two tokens, 2 bytes, and both tokens; a
//! checksum over all of that, 4 bytes. Numbers are little-endian.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fingerprint;
use crate::error::{Error, Result};
use crate::transport::Host;

/// A continuation token: the place where a query resumes.
///
/// Store it as text (`to_string` and `parse`, or serde) and pass it to the same query later, in
/// this process or another: [`Query::page`](crate::Query::page) and
/// [`Query::resume`](crate::Query::resume). The text consists of letters, digits, `-` and `_`, so
/// it can be used in a URL without encoding.
///
/// It is bound to the table, the range of keys and the filters of its query; every other query
/// refuses it. It is not bound to the properties that the query reads, so it stays valid when the
/// type gets a new field, nor to the number of entities that the query [takes](crate::Query::take).
/// It may contain keys, which base64 does not hide: protect it like the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Continuation {
    pub(crate) query: u64,
    /// The part of a query that was split into several requests.
    pub(crate) part: u16,
    /// The service's token; `None` at the beginning of a part.
    pub(crate) token: Option<Token>,
    /// Whether the secondary issued the token. A token is valid only at the endpoint that issued
    /// it.
    pub(crate) secondary: bool,
}

/// The continuation of a query of entities, as the service gives it. Opaque; must be sent back with the same
/// query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The value of `NextPartitionKey`.
    pub(crate) partition_key: String,
    /// The value of `NextRowKey`; the service may leave it out.
    pub(crate) row_key: Option<String>,
}

/// The first byte of a stored continuation.
const VERSION: u8 = 1;

// Flags.
const HAS_TOKEN: u8 = 1;
const HAS_ROW_KEY: u8 = 2;
const IS_SECONDARY: u8 = 4;

impl Continuation {
    /// The part of the query that it resumes, counted from 0. A query has several parts only when a
    /// long list is split, or when a range of values is several ranges of keys.
    pub fn part(&self) -> usize {
        self.part.into()
    }

    /// The place after a row in a list that is not a query of the service; `of` names the list.
    #[doc(hidden)]
    pub fn behind(of: &[&str], partition_key: &str, row_key: &str) -> Self {
        let token =
            Token { partition_key: partition_key.to_owned(), row_key: Some(row_key.to_owned()) };
        let query = fingerprint(of.iter().copied());
        Self { query, part: 0, token: Some(token), secondary: false }
    }

    /// The keys that were passed to [`behind`](Self::behind).
    #[doc(hidden)]
    pub fn place_in(&self, of: &[&str]) -> Result<(&str, &str)> {
        let token = self.token.as_ref().filter(|_| self.query == fingerprint(of.iter().copied()));
        token
            .and_then(|token| Some((&*token.partition_key, token.row_key.as_deref()?)))
            .ok_or_else(|| Error::invalid("the continuation token is not of this query"))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (partition_key, row_key) = match &self.token {
            Some(token) => (&*token.partition_key, token.row_key.as_deref()),
            None => ("", None),
        };
        let flags = [
            (self.token.is_some(), HAS_TOKEN),
            (row_key.is_some(), HAS_ROW_KEY),
            (self.secondary, IS_SECONDARY),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum();
        let mut bytes = vec![VERSION, flags];
        bytes.extend(self.query.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        // A longer token does not fit into a header, and would be refused when it is read.
        bytes.extend(u16::try_from(partition_key.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend(partition_key.bytes());
        bytes.extend(row_key.unwrap_or_default().bytes());
        bytes.extend(checksum(&bytes));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<4>()?;
        let (&[version, flags], rest) = bytes.split_first_chunk()?;
        let (query, rest) = rest.split_first_chunk()?;
        let (part, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let known = HAS_TOKEN | HAS_ROW_KEY | IS_SECONDARY;
        if version != VERSION || flags & !known != 0 || *sum != checksum(bytes) {
            return None;
        }
        let texts = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (partition_key, row_key) = (text(texts.0)?, text(texts.1)?);
        let token = match (flags & HAS_TOKEN != 0, flags & HAS_ROW_KEY != 0) {
            (true, true) => Some(Token { partition_key, row_key: Some(row_key) }),
            (true, false) if row_key.is_empty() => Some(Token { partition_key, row_key: None }),
            (false, false) if partition_key.is_empty() && row_key.is_empty() => None,
            _ => return None,
        };
        Some(Self {
            query: u64::from_le_bytes(*query),
            part: u16::from_le_bytes(*part),
            token,
            secondary: flags & IS_SECONDARY != 0,
        })
    }

    pub(crate) fn host(&self) -> Host {
        match (&self.token, self.secondary) {
            (None, _) => Host::Any,
            (Some(_), false) => Host::Primary,
            (Some(_), true) => Host::Secondary,
        }
    }
}

/// Detects text that was truncated or changed by accident. It is no protection against forgery,
/// which would gain nothing.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = fingerprint([bytes]).to_le_bytes();
    [a, b, c, d]
}

impl fmt::Display for Continuation {
    /// Writes the text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.to_bytes()))
    }
}

impl FromStr for Continuation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes.and_then(|bytes| Self::from_bytes(&bytes)).ok_or_else(|| {
            Error::invalid("invalid continuation token: it is cut, changed, or of another version")
                .advise("begin the query without one")
        })
    }
}

impl fmt::Debug for Continuation {
    /// Does not show the token, which may hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation")
            .field("query", &format_args!("{:016x}", self.query))
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

impl Serialize for Continuation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Continuation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<Continuation> {
        let token = |row_key: Option<&str>| Token {
            partition_key: "1!4!cGs-".into(),
            row_key: row_key.map(str::to_owned),
        };
        let tokens =
            [None, Some(token(None)), Some(token(Some("1!4!cms-"))), Some(token(Some("")))];
        tokens
            .into_iter()
            .flat_map(|token| [false, true].map(|secondary| (token.clone(), secondary)))
            .map(|(token, secondary)| Continuation { query: 5 << 60, part: 2, token, secondary })
            .collect()
    }

    #[test]
    fn tokens_round_trip_as_url_safe_text() {
        for token in tokens() {
            let text = token.to_string();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')));
            assert_eq!(text.parse::<Continuation>().unwrap(), token);
            assert!(!format!("{token:?}").contains("cGs-"));
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<Continuation>(&json).unwrap(), token);
        }
    }

    #[test]
    fn tokens_stored_by_this_version_must_stay_readable() {
        let token: Continuation = STORED.parse().unwrap();
        assert_eq!((token.query, token.part, token.secondary), (255, 3, true));
        let service = token.token.as_ref().unwrap();
        assert_eq!(service.partition_key, "1!4!cGs-");
        assert_eq!(service.row_key.as_deref(), Some("1!4!cms-"));
        assert_eq!(token.to_string(), STORED);
    }

    const STORED: &str = "AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg";

    #[test]
    fn truncated_or_altered_tokens_are_rejected_without_being_shown() {
        let refused = |text: &str| {
            let error = text.parse::<Continuation>().unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"));
            assert_eq!(error.kind(), crate::error::ErrorKind::Invalid);
        };
        for text in ["", "secret", "{}", r#"{"q":"00000000000000ff","pk":"secret"}"#, "AQ", "Ag"] {
            refused(text);
        }
        for token in tokens() {
            let text = token.to_string();
            for at in 0..text.len() {
                refused(&text[..at]);
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                refused(&String::from_utf8(changed).unwrap());
            }
            refused(&format!("{text}="));
            refused(&format!(" {text}"));
            let mut newer = token.to_bytes();
            newer[0] += 1;
            refused(&URL_SAFE_NO_PAD.encode(newer));
        }
    }
}
