//! The position of a reader in a log.

use std::fmt;
use std::str::FromStr;

use rowkey_client::edm::DateTime;
use rowkey_client::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How far a [`Tail`](super::Tail) has read: all entries before this position were returned.
///
/// Serialized as text (`to_string` and `parse`, or serde) of about 40 characters, sometimes plus a RowKey, at
/// any length of the log. It is bound to the partition that it came from. It may contain a key, so protect it
/// like the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// A hash of the table, the partition and the literal prefix of the rows.
    pub(super) log: u64,
    /// All earlier ticks have been read.
    pub(super) ticks: i64,
    /// The last row read of this tick. Set only within a tick that has more entries than a batch.
    pub(super) after: Option<String>,
}

impl fmt::Display for Position {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.log, self.ticks)?;
        match &self.after {
            Some(row_key) => write!(f, ".{row_key}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, '.');
        let log = parts.next().and_then(|log| u64::from_str_radix(log, 16).ok());
        let ticks = parts.next().and_then(|ticks| ticks.parse().ok());
        let after = parts.next().map(str::to_owned);
        match (log, ticks) {
            (Some(log), Some(ticks))
                if (DateTime::MIN.ticks()..=DateTime::MAX.ticks()).contains(&ticks) =>
            {
                Ok(Self { log, ticks, after })
            }
            _ => {
                let what = "invalid log position";
                Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("pass the text of a position of this log, unchanged"))
            }
        }
    }
}
