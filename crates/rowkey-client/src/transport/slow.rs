//! The log of slow calls: a warning for each operation that took longer than `ClientOptions::slow`.
//!
//! One event for an operation, at its end, with all its attempts and the waits between them. It shows no keys: the
//! client request id finds the request in the service's logs.

use std::time::Duration;

use http::HeaderValue;

use super::call::{Call, Reply};
use crate::error::Result;

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Timed {
    /// The time of the account's clock at which it began, with the longest time that is not slow; `None` if nothing
    /// is logged.
    begun: Option<(Duration, Duration)>,
    /// The client request id of the last attempt; of two requests for a slow read, of the one that was answered.
    id: Option<HeaderValue>,
}

impl Timed {
    /// Begins at `now`. Nothing is logged with a limit of [`Duration::MAX`].
    pub(crate) fn begin(limit: Duration, now: impl FnOnce() -> Duration) -> Self {
        Self { begun: (limit < Duration::MAX).then(|| (now(), limit)), id: None }
    }

    /// Notes the id of the attempt that is about to be sent, or of the one that was answered.
    pub(crate) fn attempt(&mut self, id: &HeaderValue) {
        if self.begun.is_some() {
            self.id = Some(id.clone());
        }
    }

    /// Ends at `now`, and writes the event if that is late.
    pub(crate) fn end(
        &self,
        call: &Call<'_>,
        result: &Result<Reply>,
        now: impl FnOnce() -> Duration,
    ) {
        let Some((begun, limit)) = self.begun else { return };
        let took = now().saturating_sub(begun);
        if took >= limit {
            self.report(call, result, took);
        }
    }

    #[cold]
    fn report(&self, call: &Call<'_>, result: &Result<Reply>, took: Duration) {
        let (attempts, status) = match result {
            Ok(reply) => (reply.attempts, Some(reply.status.as_u16())),
            Err(error) => (error.details().attempts, error.details().status),
        };
        tracing::warn!(
            target: "rowkey",
            operation = call.operation,
            resource = call.resource,
            attempts,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            status,
            client_request_id = self.id.as_ref().and_then(|id| id.to_str().ok()),
            "slow call"
        );
    }
}
