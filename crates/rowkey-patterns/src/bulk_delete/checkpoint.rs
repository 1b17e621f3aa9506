//! How far a deletion is, as text that can be stored.

use std::fmt;
use std::str::FromStr;

use rowkey::{Continuation, Error};
use serde::{Deserialize, Serialize};

use crate::checkpoint;

/// How far a [`BulkDelete`](super::BulkDelete) is: what it has done, and where it goes on.
///
/// Store it as text (`to_string` and `parse`, or serde). It may contain keys, so treat it as you
/// treat the data. The default is the beginning.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// What was done until here, by all runs that led here.
    pub progress: Progress,
    pub(super) continuation: Option<Continuation>,
    pub(super) finished: bool,
    pub(super) dry_run: bool,
}

/// What a [`BulkDelete`](super::BulkDelete) has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// Entities that the query found: those that are counted below, or, in a dry run, would be.
    pub found: u64,
    /// Entities that were deleted. If the answer to a request was lost, it may have been somebody
    /// else who deleted some of them.
    pub deleted: u64,
    /// Entities that somebody else deleted after they were found.
    pub gone: u64,
    /// Entities that somebody changed after they were found: they stay.
    pub changed: u64,
    /// Pages that were read.
    pub pages: u64,
    /// Transactions that were sent, not counting repetitions by the client.
    pub transactions: u64,
}

impl Checkpoint {
    /// Whether nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.finished
    }
}

impl Progress {
    pub(super) fn add(&mut self, other: Self) {
        self.found += other.found;
        self.deleted += other.deleted;
        self.gone += other.gone;
        self.changed += other.changed;
        self.pages += other.pages;
        self.transactions += other.transactions;
    }
}

impl fmt::Display for Checkpoint {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        checkpoint::write(self, f)
    }
}

impl FromStr for Checkpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        checkpoint::parse(text)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("progress", &self.progress)
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rowkey::ErrorKind;

    use super::*;

    #[test]
    fn checkpoints_stored_by_this_version_must_stay_readable() {
        let text = r#"{"progress":{"found":7,"deleted":4,"gone":2,"changed":1,"pages":1,
            "transactions":3},"continuation":"AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg",
            "finished":false,"dry_run":false}"#;
        let checkpoint: Checkpoint = text.parse().unwrap();
        assert_eq!((checkpoint.progress.found, checkpoint.is_finished()), (7, false));
        assert_eq!(checkpoint.to_string().parse::<Checkpoint>().unwrap(), checkpoint);
    }

    #[test]
    fn other_text_is_refused_without_showing_it() {
        for text in ["", "secret", r#"{"progress":"secret"}"#] {
            let error = text.parse::<Checkpoint>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }
}
