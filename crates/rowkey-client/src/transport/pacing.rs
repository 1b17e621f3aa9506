//! When an attempt may be sent, and what its result says about the rate.

use std::time::Duration;

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;

use super::Request;
use super::attempts::FailedAttempt;
use super::call::Call;
use super::pipeline::Pipeline;
use crate::error::{Error, ErrorKind, Outcome};
use crate::pace::Pace;
use crate::pace::governor::Late;
use crate::pace::limiter::Failure;
use crate::pace::permit::{Asking, Failed, Permit};

/// The pace of an operation, and the repetitions that it made.
pub(super) struct Pacing<'a> {
    pipeline: &'a Pipeline,
    /// `None` if the operation is only counted, because others have a pace.
    pace: Option<Pace>,
    repeated: u32,
}

/// The error of an operation whose next attempt was not sent in time: that of its last attempt, if there was one.
#[cold]
pub(super) fn not_sent(late: Late, call: &Call<'_>, last: Option<Error>) -> Error {
    let error = last.unwrap_or_else(|| {
        let what = "the request was not sent in time";
        Error::refused(ErrorKind::Unavailable, what).of(call.operation, call.resource)
    });
    late.marks(error)
}

impl<'a> Pacing<'a> {
    /// The pace of the operation that begins; `None` if it has none and need not be counted.
    pub(super) fn of(pipeline: &'a Pipeline) -> Option<Self> {
        let pace = Pace::of(pipeline.options().pace.as_ref());
        let is_counted = pace.is_some() || pipeline.governor().is_active();
        is_counted.then_some(Self { pipeline, pace, repeated: 0 })
    }

    /// Waits until the next attempt may be sent. What a foreground request waits is taken from its `budget`.
    pub(super) async fn admit(
        &mut self,
        request: &Request,
        call: &Call<'a>,
        budget: &mut Duration,
    ) -> Result<Option<Permit<'a>>, Late> {
        let asking = asking(request.service, call);
        let governor = self.pipeline.governor();
        let Some(pace) = &self.pace else { return Ok(governor.note(asking)) };
        let permit = governor.admit(pace, asking, *budget).await?;
        if !pace.is_background() {
            *budget = budget.saturating_sub(permit.waited);
        }
        Ok(Some(permit))
    }

    pub(super) fn is_background(&self) -> bool {
        self.pace.as_ref().is_some_and(Pace::is_background)
    }

    /// Whether a failed attempt is repeated however often it fails: the request certainly changed nothing.
    pub(super) fn is_patient(&self, failed: &FailedAttempt) -> bool {
        self.is_background() && failed.transient && failed.outcome != Outcome::Unknown
    }

    /// Counts an attempt that is repeated.
    pub(super) fn repeat(&mut self, error: &Error, attempt: u32) {
        tracing::debug!(
            target: "rowkey",
            attempt,
            kind = ?error.kind(),
            "back-pressure: the request is sent again"
        );
        self.repeated += 1;
    }

    /// The number of attempts that were repeated and do not count as retries.
    pub(super) fn repeated(&self) -> u32 {
        self.repeated
    }
}

impl Pipeline {
    /// Tells the limiters how an attempt failed.
    #[cold]
    pub(super) fn release(&self, permit: Permit<'_>, failed: &FailedAttempt) {
        if !failed.transient {
            return permit.answered();
        }
        let error = &failed.error;
        let is_timeout = error.code() == Some(&ErrorCode::OPERATION_TIMED_OUT);
        let is_throttled = error.kind() == ErrorKind::Throttled || is_timeout;
        let message = error.details().service_message.as_deref();
        permit.failed(Failed {
            failure: if is_throttled { Failure::Throttled } else { Failure::Unanswered },
            asked: failed.wait,
            // Azure: "Operations per second is over the account limit."
            names_account: message.is_some_and(|text| text.contains("account limit")),
            fraction: self.fraction(),
        });
    }

    /// Counts the entities of a page that was read.
    pub(crate) fn count_read(&self, call: &Call<'_>, entities: u64) {
        let pace = Pace::of(self.options().pace.as_ref());
        if pace.is_some() || self.governor().is_active() {
            let asking = asking(Service::Table, call);
            self.governor().count(pace.as_ref(), asking, entities);
        }
    }
}

pub(super) fn asking<'a>(service: Service, call: &Call<'a>) -> Asking<'a> {
    Asking { load: call.load, service, resource: call.resource }
}
