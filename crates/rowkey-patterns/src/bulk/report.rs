//! What was written, and what was not.

use std::fmt;

use rowkey::{Error, Key, Outcome};

/// What became of the entities of a stream.
#[must_use = "it says which entities were not written"]
pub struct Report<E> {
    /// The numbers. Those not written are `failed`, `unknown` and `skipped`.
    pub progress: Progress,
    /// Why, and which: in the order in which it was noticed.
    pub failures: Vec<Failure<E>>,
    /// Whether the stream was left before its end, because too much failed. What is in it from
    /// position [`Progress::read`] on was not read.
    pub stopped: bool,
}

/// Entities that were not written, for one reason.
pub struct Failure<E> {
    /// Where they were in the stream, counted from 0, and their keys. There are several when the
    /// transaction that failed cannot be taken apart: because the order of the partition would
    /// suffer, because its outcome is unknown, or because no entity is to blame.
    pub entities: Vec<(u64, Key<E>)>,
    /// How many more of the partition were not sent because of this: all that came later, read or not.
    /// Only [`PerPartitionOrdered`](super::PerPartitionOrdered) skips.
    pub skipped: u64,
    /// The reason. Its [`outcome`](Error::outcome) says whether the entities may have been written
    /// nevertheless; when there are several, its [`operation_index`](Error::operation_index) says
    /// which of them was refused.
    pub error: Error,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Entities that were read from the stream.
    pub read: u64,
    /// Entities that were written.
    pub written: u64,
    /// Entities that were not written.
    pub failed: u64,
    /// Entities that may have been written: the answer was lost.
    pub unknown: u64,
    /// Entities that were not sent because one before them in their partition was not written.
    pub skipped: u64,
    /// Transactions that were answered, or given up.
    pub transactions: u64,
}

impl<E> Report<E> {
    pub(super) fn new() -> Self {
        Self { progress: Progress::default(), failures: Vec::new(), stopped: false }
    }

    /// Whether the whole stream was read and all of it was written.
    pub fn is_complete(&self) -> bool {
        !self.stopped && self.failures.is_empty()
    }

    pub(super) fn fail(&mut self, failure: Failure<E>) {
        let count = failure.entities.len() as u64;
        match failure.error.outcome() {
            Outcome::NotSent | Outcome::Rejected => self.progress.failed += count,
            Outcome::Unknown => self.progress.unknown += count,
        }
        self.failures.push(failure);
    }

    pub(super) fn skip(&mut self, failure: usize, entities: u64) {
        self.progress.skipped += entities;
        if let Some(failure) = self.failures.get_mut(failure) {
            failure.skipped += entities;
        }
    }
}

impl Progress {
    /// Entities that were read and not written, as far as is known.
    pub fn missing(&self) -> u64 {
        self.failed + self.unknown + self.skipped
    }
}

impl<E> fmt::Debug for Report<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("progress", &self.progress)
            .field("failures", &self.failures)
            .field("stopped", &self.stopped)
            .finish()
    }
}

impl<E> fmt::Debug for Failure<E> {
    /// Shows where the entities were, and neither keys nor content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions: Vec<_> = self.entities.iter().map(|(position, _)| position).collect();
        f.debug_struct("Failure")
            .field("positions", &positions)
            .field("skipped", &self.skipped)
            .field("error", &self.error)
            .finish()
    }
}
