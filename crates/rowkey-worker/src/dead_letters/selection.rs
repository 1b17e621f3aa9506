//! The selection of dead letters for a call, and the causes of dead letters.

use std::fmt;
use std::time::Duration;

use rowkey_client::ErrorKind;

/// The maximum number of characters of a cause's name.
const MAX_NAME: usize = 256;

/// Why a task became a dead letter.
///
/// Stored as its name (`to_string`); an error is stored under the name of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The last attempt failed with an error of this kind.
    Error(ErrorKind),
    /// Another program put it into the queue `<queue>-poison`.
    Foreign,
    /// The handler panicked.
    Panic,
    /// The handler returned [`Done::Poison`](crate::worker::Done::Poison).
    Rejected,
    /// The handler took longer than its time limit.
    TimeLimit,
    /// The task is older than the inbox accepts: [`Done::TooOld`](crate::worker::Done::TooOld).
    TooOld,
    /// Attempts ended without a known result, including one in which the task was tried alone.
    UnknownEnd,
    /// The message or its claim cannot be read as a task.
    Unreadable,
    /// A cause that this version does not know, by the first 256 characters of its name.
    Other(String),
}

/// The error kinds, for parsing their names.
const KINDS: [ErrorKind; 13] = [
    ErrorKind::AlreadyExists,
    ErrorKind::Auth,
    ErrorKind::Conflict,
    ErrorKind::Damaged,
    ErrorKind::Decode,
    ErrorKind::Invalid,
    ErrorKind::Leased,
    ErrorKind::NotFound,
    ErrorKind::NotModified,
    ErrorKind::Throttled,
    ErrorKind::TooLarge,
    ErrorKind::Unavailable,
    ErrorKind::Unexpected,
];

/// The causes that are not errors.
const OTHERS: [Cause; 7] = [
    Cause::Foreign,
    Cause::Panic,
    Cause::Rejected,
    Cause::TimeLimit,
    Cause::TooOld,
    Cause::UnknownEnd,
    Cause::Unreadable,
];

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(kind) => write!(f, "{kind:?}"),
            Self::Other(name) => f.write_str(name),
            unit => write!(f, "{unit:?}"),
        }
    }
}

impl From<&str> for Cause {
    fn from(name: &str) -> Self {
        let kinds = KINDS.into_iter().map(Self::Error);
        let known = kinds.chain(OTHERS).find(|cause| cause.to_string() == name);
        known.unwrap_or_else(|| Self::Other(name.chars().take(MAX_NAME).collect()))
    }
}

/// A selection of dead letters of one queue: [all](Self::all) or [one](Self::of), narrowed by conditions.
///
/// ```
/// use rowkey::ErrorKind;
/// use rowkey::worker::dead_letters::{Cause, Selection};
/// use std::time::Duration;
///
/// // What failed because something was not there, in the last day, and was redriven twice at most.
/// let worth_it = Selection::all()
///     .cause(Cause::Error(ErrorKind::NotFound))
///     .newer_than(Duration::from_secs(24 * 3600))
///     .redriven_less_than(3);
///
/// // What waits for more than an hour because a mailbox is full.
/// let full = Selection::all()
///     .kind("send-welcome")
///     .reason_contains("mailbox is full")
///     .older_than(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct Selection {
    pub(super) id: Option<String>,
    pub(super) causes: Vec<Cause>,
    pub(super) kind: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) older: Option<Duration>,
    pub(super) newer: Option<Duration>,
    pub(super) redriven_less_than: Option<u32>,
}

impl Selection {
    /// Selects all dead letters of the queue.
    pub fn all() -> Self {
        Self {
            id: None,
            causes: Vec::new(),
            kind: None,
            reason: None,
            older: None,
            newer: None,
            redriven_less_than: None,
        }
    }

    /// Selects the dead letter of the task with this id. Costs two point reads.
    pub fn of(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..Self::all() }
    }

    /// Only with this cause. Called several times, any of the causes matches. Evaluated by the service.
    #[must_use = "use the returned selection"]
    pub fn cause(mut self, cause: Cause) -> Self {
        self.causes.push(cause);
        self
    }

    /// Only tasks of this [kind](crate::Task::KIND), because a queue may hold messages of other kinds.
    /// Evaluated by the service.
    #[must_use = "use the returned selection"]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only with this text in the reason; case-sensitive. Evaluated by this program, so every other condition
    /// is cheaper.
    #[must_use = "use the returned selection"]
    pub fn reason_contains(mut self, text: impl Into<String>) -> Self {
        self.reason = Some(text.into());
        self
    }

    /// Only dead letters older than this. Limits the range of keys to read.
    #[must_use = "use the returned selection"]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older = Some(age);
        self
    }

    /// Only dead letters younger than this. Limits the range of keys to read.
    #[must_use = "use the returned selection"]
    pub fn newer_than(mut self, age: Duration) -> Self {
        self.newer = Some(age);
        self
    }

    /// Only tasks redriven fewer than `times` times: the limit for scheduled redrives. Evaluated by the
    /// service.
    #[must_use = "use the returned selection"]
    pub fn redriven_less_than(mut self, times: u32) -> Self {
        self.redriven_less_than = Some(times);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_unique_name_that_round_trips() {
        let all: Vec<_> = KINDS.into_iter().map(Cause::Error).chain(OTHERS).collect();
        for cause in &all {
            assert_eq!(Cause::from(&*cause.to_string()), *cause);
        }
        let mut names: Vec<_> = all.iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KINDS.len() + OTHERS.len());
        assert_eq!(Cause::from("Later"), Cause::Other("Later".to_owned()));
    }
}
