//! The input and the output of the pipeline: the description of an operation, and the response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use rowkey_entity::Receipt;

use super::http::Chunks;
use super::parts::Parts;
use crate::cost;
use crate::pace::load::Load;

/// An operation as the pipeline sees it: its name, and when it may be retried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The REST operation's name, such as `InsertEntity`.
    pub(crate) operation: &'static str,
    /// The name of the table, queue or container; empty for operations on the account.
    pub(crate) resource: &'a str,
    /// When it may be retried.
    pub(crate) safety: Safety,
    /// Statuses that the caller turns into values. They are returned as errors, but not traced as
    /// errors.
    pub(crate) expected: &'static [u16],
    /// The endpoints to which it may be sent.
    pub(crate) host: Host,
    /// The number of operations, if it is a batch. A failed batch has a successful status.
    pub(crate) batch: Option<usize>,
    /// The requests in its body, each of which is authorized and answered separately.
    pub(crate) parts: Option<Parts<'a>>,
    /// What it counts for at the service's scalability targets.
    pub(crate) load: Load<'a>,
}

/// The failures after which an operation may be retried. (A request that was not sent, or that the
/// service refused because it was busy, is always retried.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Reads: retried after every transient failure, at the secondary if allowed.
    Read,
    /// Upserts, and replaces and deletes with an `ETag`: a second attempt changes nothing more, so
    /// they are retried after an unknown outcome.
    Conditional,
    /// Inserts, and transactions with an insert: retried after an unknown outcome only if the
    /// caller opted in.
    Insert,
    /// Messages put into queues, and blocks appended without a position: never retried after an
    /// unknown outcome.
    Never,
}

/// The endpoints to which a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The primary first; the secondary if the options allow it and the primary fails.
    Any,
    /// Only the primary: continuations of a page from there.
    Primary,
    /// Only the secondary: statistics, and continuations of a page from there.
    Secondary,
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct Reply {
    /// A 2xx status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The whole body; empty if only the head was requested.
    pub(crate) body: Bytes,
    /// The body to read, if only the head was requested.
    pub(crate) rest: Option<Chunks>,
    /// The number of attempts.
    pub(crate) attempts: u32,
    /// How many of them could not connect, so that nothing was sent.
    pub(crate) unsent: u32,
    /// Whether the outcome of an earlier attempt is unknown.
    pub(crate) ambiguous: bool,
    /// Whether the response came from the secondary.
    pub(crate) secondary: bool,
    /// The client's id of the last attempt.
    pub(crate) client_id: HeaderValue,
    /// From the beginning of the first attempt.
    pub(crate) elapsed: Duration,
    /// The bytes in the bodies of all attempts that were sent.
    pub(crate) sent: u64,
    /// The bytes in the bodies of all responses.
    pub(crate) received: u64,
}

impl<'a> Call<'a> {
    /// A call that expects no status except success.
    pub(crate) fn new(operation: &'static str, resource: &'a str, safety: Safety) -> Self {
        debug_assert!(cost::has_class(operation), "{operation} has no billing class");
        Self {
            operation,
            resource,
            safety,
            expected: &[],
            host: Host::Any,
            batch: None,
            parts: None,
            load: Load::Whole,
        }
    }

    /// Sets the statuses that the caller turns into values.
    pub(crate) fn expecting(mut self, statuses: &'static [u16]) -> Self {
        self.expected = statuses;
        self
    }

    /// Marks it as a batch of this number of operations.
    pub(crate) fn batch_of(mut self, operations: usize) -> Self {
        self.batch = Some(operations);
        self
    }

    /// Sets the requests in its body.
    pub(crate) fn with_parts(mut self, parts: Parts<'a>) -> Self {
        self.parts = Some(parts);
        self
    }

    /// Sets what it counts for at the service's scalability targets.
    pub(crate) fn counting(mut self, load: Load<'a>) -> Self {
        self.load = load;
        self
    }

    /// Counts entities of a partition.
    pub(crate) fn in_partition(self, key: &'a str, entities: usize) -> Self {
        let entities = u32::try_from(entities).unwrap_or(u32::MAX);
        self.counting(Load::Partition { key, entities, written: None })
    }

    /// Sets the RowKey that it writes in its partition, the last one of a transaction.
    pub(crate) fn writing(mut self, row_key: &'a str) -> Self {
        if let Load::Partition { written, .. } = &mut self.load {
            *written = Some(row_key);
        }
        self
    }

    /// Sets the endpoints to which it may be sent.
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

    /// What the operation used.
    pub(crate) fn receipt(&self) -> Receipt {
        let mut receipt = Receipt::default();
        receipt.sent(self.attempts.saturating_sub(self.unsent), self.sent);
        receipt.answered(self.request_id(), self.client_id.to_str().ok(), self.received);
        receipt.took(self.elapsed);
        receipt
    }

    /// Adds what an earlier operation used that this one repeats.
    #[cold]
    pub(crate) fn follows(&mut self, earlier: &Self) {
        self.attempts = self.attempts.saturating_add(earlier.attempts);
        self.unsent = self.unsent.saturating_add(earlier.unsent);
        self.sent = self.sent.saturating_add(earlier.sent);
        self.received = self.received.saturating_add(earlier.received);
        self.elapsed = self.elapsed.saturating_add(earlier.elapsed);
    }

    /// The endpoint for a continuation of this response.
    pub(crate) fn host(&self) -> Host {
        if self.secondary { Host::Secondary } else { Host::Primary }
    }
}
