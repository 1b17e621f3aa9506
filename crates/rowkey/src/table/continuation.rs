//! Where a query goes on: text that can be stored, and resumed in another process.

use std::fmt;
use std::str::FromStr;

use rowkey_wire::table::decode::Continuation as Token;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::transport::Host;

/// The place where a query goes on.
///
/// Store it as text (`to_string` and `parse`, or serde) and give it to the same query later, in
/// this process or another: [`Query::resume`](crate::Query::resume). It is bound to the table and
/// the filter it came from; another query refuses it. What a query reads of each entity does not
/// matter, so a token outlives a new field of the type. It may contain keys, so treat it as you
/// treat the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Continuation {
    pub(crate) query: u64,
    /// Which of the filters that a long list was split into.
    pub(crate) part: usize,
    /// The service's token; `None` at the beginning of a part.
    pub(crate) token: Option<Token>,
    /// Tokens are good only where they came from.
    pub(crate) secondary: bool,
    /// How many entities of a `take` are left.
    pub(crate) left: Option<u64>,
}

/// How a continuation is written.
#[derive(Serialize, Deserialize)]
struct Written {
    q: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    p: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pk: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rk: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    s: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(part: &usize) -> bool {
    *part == 0
}

impl Continuation {
    /// In which part of the query it lies, counted from 0. There are several only when a long list is
    /// split; key order is that of one part.
    pub fn part(&self) -> usize {
        self.part
    }

    pub(crate) fn host(&self) -> Host {
        match (&self.token, self.secondary) {
            (None, _) => Host::Any,
            (Some(_), false) => Host::Primary,
            (Some(_), true) => Host::Secondary,
        }
    }
}

impl fmt::Display for Continuation {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = Written {
            q: format!("{:016x}", self.query),
            p: self.part,
            pk: self.token.as_ref().map(|token| token.partition_key.clone()),
            rk: self.token.as_ref().and_then(|token| token.row_key.clone()),
            s: self.secondary,
            n: self.left,
        };
        f.write_str(&serde_json::to_string(&written).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Continuation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || Error::invalid("the text is not that of a continuation token");
        let written: Written = serde_json::from_str(text).map_err(|_| refused())?;
        let query = u64::from_str_radix(&written.q, 16).map_err(|_| refused())?;
        let token = match (written.pk, written.rk) {
            (Some(partition_key), row_key) => Some(Token { partition_key, row_key }),
            (None, None) => None,
            (None, Some(_)) => return Err(refused()),
        };
        Ok(Self { query, part: written.p, token, secondary: written.s, left: written.n })
    }
}

impl fmt::Debug for Continuation {
    /// Does not show the token, which may hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation")
            .field("query", &format_args!("{:016x}", self.query))
            .field("part", &self.part)
            .field("left", &self.left)
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

    #[test]
    fn a_token_survives_being_stored_as_text() {
        for (token, left) in [
            (None, None),
            (Some(Token { partition_key: "1!4!cGs-".into(), row_key: None }), Some(7)),
            (
                Some(Token { partition_key: "1!4!cGs-".into(), row_key: Some("1!4!cms-".into()) }),
                None,
            ),
        ] {
            let token = Continuation { query: 5, part: 2, token, secondary: true, left };
            assert_eq!(token.to_string().parse::<Continuation>().unwrap(), token);
            assert!(!format!("{token:?}").contains("cGs-"));
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<Continuation>(&json).unwrap(), token);
        }
    }

    #[test]
    fn tokens_stored_by_this_version_must_stay_readable() {
        let token: Continuation =
            r#"{"q":"00000000000000ff","pk":"1!4!cGs-","rk":"1!4!cms-","n":3}"#.parse().unwrap();
        assert_eq!((token.query, token.part, token.left), (255, 0, Some(3)));
    }

    #[test]
    fn other_text_is_refused_without_showing_it() {
        for text in ["", "secret", "{}", r#"{"q":"x"}"#, r#"{"q":"1","rk":"secret"}"#] {
            let error = text.parse::<Continuation>().unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }
}
