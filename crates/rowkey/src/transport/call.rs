//! What the pipeline must know about an operation, and what it gives back.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::http::Chunks;

/// An operation as the pipeline sees it: what to call it, and what may be repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The REST operation's name, `InsertEntity`.
    pub(crate) operation: &'static str,
    /// The table's, queue's or container's name, or nothing for operations on the account.
    pub(crate) resource: &'a str,
    /// What may be repeated after which failure.
    pub(crate) safety: Safety,
    /// Statuses that the caller turns into values. They are returned as errors, but not traced as
    /// ones.
    pub(crate) expected: &'static [u16],
    /// Where it may be sent.
    pub(crate) host: Host,
    /// How many operations it has, if it is a batch: their failure comes in a success.
    pub(crate) batch: Option<usize>,
}

/// What may be repeated after which failure. (What was not sent, and what the service refused
/// because it was busy, is always repeated.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Changes nothing: repeated after every transient failure, at the secondary if allowed.
    Read,
    /// Upserts, and replaces and deletes under an ETag: the second time changes nothing more, so
    /// they are repeated after an unknown outcome.
    Conditional,
    /// Inserts, and transactions with one: repeated after an unknown outcome only if the caller
    /// opted in.
    Insert,
    /// Messages put into queues, blocks appended anywhere: never repeated after an unknown outcome.
    Never,
}

/// Where a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The primary first; the secondary when the options allow it and the primary fails.
    Any,
    /// The primary alone: continuations of a page that came from there.
    Primary,
    /// The secondary alone: statistics, and continuations of a page that came from there.
    Secondary,
}

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// A 2xx status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, whole; nothing when only the head was asked for.
    pub(crate) body: Bytes,
    /// The body when only the head was asked for.
    pub(crate) rest: Option<Chunks>,
    /// How many attempts it took.
    pub(crate) attempts: u32,
    /// Whether the outcome of an earlier attempt is unknown.
    pub(crate) ambiguous: bool,
    /// Whether the secondary answered.
    pub(crate) secondary: bool,
}

impl<'a> Call<'a> {
    /// A call that no status is expected of but success.
    pub(crate) fn new(operation: &'static str, resource: &'a str, safety: Safety) -> Self {
        Self { operation, resource, safety, expected: &[], host: Host::Any, batch: None }
    }

    /// Names the statuses that the caller turns into values.
    pub(crate) fn expecting(mut self, statuses: &'static [u16]) -> Self {
        self.expected = statuses;
        self
    }

    /// Says that it is a batch of this number of operations.
    pub(crate) fn batch_of(mut self, operations: usize) -> Self {
        self.batch = Some(operations);
        self
    }

    /// Says where it may be sent.
    pub(crate) fn at(mut self, host: Host) -> Self {
        self.host = host;
        self
    }
}

impl Reply {
    /// The service's id of the request.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.headers.get(rowkey_wire::headers::REQUEST_ID)?.to_str().ok()
    }

    /// Where a continuation of this answer has to be sent.
    pub(crate) fn host(&self) -> Host {
        if self.secondary { Host::Secondary } else { Host::Primary }
    }
}
