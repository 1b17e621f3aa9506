//! The progress of many queries, as text that can be stored.

use std::fmt;
use std::str::FromStr;

use rowkey_client::{Continuation, Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The progress of each query of a [`Parallel`](super::Parallel), from
/// [`Results::checkpoint`](super::Results::checkpoint).
///
/// Entities already returned lie before it, all others after it. Its size grows with the number of queries
/// that are started but unfinished, and of those that failed.
///
/// Store it as text (`to_string` and `parse`, or serde). It contains keys, so protect it like the data. The
/// default is the beginning.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The number of queries taken from the list. Those that are not open are finished.
    pub(super) begun: usize,
    /// A hash of those queries.
    pub(super) digest: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) open: Vec<Open>,
    /// The remaining count of `take`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) finished: bool,
}

/// A query that was started and is not finished.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) query: usize,
    #[serde(flatten)]
    pub(super) position: QueryPosition,
}

/// The position in a query.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QueryPosition {
    /// The start of the current page; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) page: Option<Continuation>,
    /// The PartitionKey and RowKey of the last entity returned from that page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<(String, String)>,
}

impl Checkpoint {
    /// Returns whether nothing is left to read: every query is finished, or `take` is exhausted.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The queries that are started but not finished, including failed ones, as indexes into the given order.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        self.open.iter().map(|open| open.query)
    }
}

impl fmt::Display for Checkpoint {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Checkpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // The error does not reveal the text.
        serde_json::from_str(text)
            .map_err(|_| Error::refused(ErrorKind::Invalid, "invalid checkpoint"))
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("begun", &self.begun)
            .field("open", &self.open.len())
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_stored_by_this_version_must_stay_readable() {
        let text = r#"{"begun":3,"digest":18446744073709551615,"open":[{"query":1},
            {"query":2,"page":"AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg",
            "after":["p","secret"]}],"left":7}"#;
        let checkpoint: Checkpoint = text.parse().unwrap();
        assert_eq!(checkpoint.open().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((checkpoint.begun, checkpoint.left), (3, Some(7)));
        assert!(checkpoint.open[1].position.page.is_some() && !checkpoint.is_finished());
        assert_eq!(checkpoint.to_string().parse::<Checkpoint>().unwrap(), checkpoint);
        assert!(!format!("{checkpoint:?}").contains("secret"));
    }

    #[test]
    fn an_invalid_checkpoint_is_rejected_without_being_shown() {
        for text in ["", "secret", r#"{"begun":"secret"}"#] {
            let error = text.parse::<Checkpoint>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }
}
