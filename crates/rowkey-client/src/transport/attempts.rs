//! The attempts of one operation: each is admitted, signed and sent, and its result decides what follows.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::HeaderMap;
use rowkey_wire::code::ErrorCode;
use tokio::time::Instant;
use tracing::Span;

use super::batch;
use super::call::{Call, Reply, Safety};
use super::failure::{Failure, outcome_of};
use super::hedging::{Sending, is_unsent};
use super::http::{ErrorText, HttpResponse, ReadMode, TransportError, content_type};
use super::measure;
use super::pacing::{Pacing, not_sent};
use super::pipeline::Pipeline;
use super::policy::Attempt;
use super::report::AttemptReport;
use super::retry;
use super::route::Route;
use super::slow::Timed;
use super::trace;
use crate::credential::Authority;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::pace::governor::Late;
use crate::pace::permit::Permit;
use crate::transport::Request;

/// An operation under way.
pub(super) struct Run<'a> {
    pipeline: &'a Pipeline,
    request: &'a Request,
    call: &'a Call<'a>,
    mode: ReadMode,
    span: &'a Span,
    timed: Timed,
    route: Route<'a>,
    pacing: Option<Pacing<'a>>,
    /// What is left of the time that the options allow. Not measured by the account's clock: a step of the
    /// system time must not end an operation, and sockets take real time even if the clock is a test's.
    budget: Duration,
    /// Requests that were sent, and the one that is about to be.
    attempts: u32,
    /// Those of them that were second requests of slow reads, and no retries.
    hedges: u32,
    /// Those of them that could not connect.
    unsent: u32,
    /// Whether the outcome of an earlier attempt is unknown.
    ambiguous: bool,
    /// Whether an attempt was repeated with a newer credential.
    renewed: bool,
    /// Whether the current attempt is a retry that the retry budget paid for.
    has_taken: bool,
    begun: Option<Instant>,
    sent: u64,
    received: u64,
    /// The error of the last attempt that is repeated. Without what a secondary lacks that is behind.
    last: Option<Error>,
}

/// An attempt that is over.
struct Made<'a> {
    result: Result<HttpResponse, TransportError>,
    attempt: Attempt<'a>,
    authority: Authority,
}

/// A successful response.
struct Success {
    response: HttpResponse,
    body: Bytes,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        (request, call): (&'a Request, &'a Call<'a>),
        route: Route<'a>,
        mode: ReadMode,
        span: &'a Span,
    ) -> Self {
        let options = pipeline.options();
        let timed = Timed::begin(options.slow, || pipeline.clock().elapsed());
        let pacing = Pacing::of(pipeline);
        Self {
            pipeline,
            request,
            call,
            mode,
            span,
            timed,
            route,
            pacing,
            budget: options.timeout,
            attempts: 0,
            hedges: 0,
            unsent: 0,
            ambiguous: false,
            renewed: false,
            has_taken: false,
            begun: None,
            sent: 0,
            received: 0,
            last: None,
        }
    }

    /// The endpoint of the current attempt, or of the last one.
    pub(super) fn endpoint(&self) -> &'a Endpoint {
        self.route.endpoint()
    }

    /// Ends the operation: writes it to the log if it was slow.
    pub(super) fn end(&self, result: &Result<Reply>) {
        self.timed.end(self.call, result, || self.pipeline.clock().elapsed());
    }

    /// Sends attempts until one succeeds or none may follow.
    pub(super) async fn complete(&mut self) -> Result<Reply> {
        loop {
            self.attempts += 1;
            let permit = self.admit().await?;
            let Made { result, attempt, authority } = self.attempt().await?;
            let failed = match self.judge(result) {
                Ok(success) => {
                    if let Some(permit) = permit {
                        permit.answered();
                    }
                    self.pipeline.retries().answered(self.has_taken);
                    return Ok(self.reply(success, attempt));
                }
                Err(failed) => failed,
            };
            self.ambiguous |=
                failed.outcome == Outcome::Unknown && self.call.safety != Safety::Read;
            measure::failed(self.pipeline.telemetry(), self.endpoint(), &failed.error);
            if let Some(permit) = permit {
                self.pipeline.release(permit, &failed);
            }
            if !failed.transient && failed.error.details().status.is_some() {
                self.pipeline.retries().answered(self.has_taken);
            }
            let wait = self.follow(failed, &authority)?;
            if wait > Duration::ZERO {
                self.pipeline.clock().sleep(wait).await;
                self.budget = self.budget.saturating_sub(wait);
            }
        }
    }

    /// Waits until the attempt may be sent.
    async fn admit(&mut self) -> Result<Option<Permit<'a>>> {
        let Some(pacing) = self.pacing.as_mut() else { return Ok(None) };
        let admitted = pacing.admit(self.request, self.call, &mut self.budget).boxed().await;
        match admitted {
            Ok(permit) => Ok(permit),
            Err(late) => {
                let error = not_sent(late, self.call, self.last.take());
                Err(self.shown(error))
            }
        }
    }

    /// Sends the attempt, perhaps twice, and counts it.
    async fn attempt(&mut self) -> Result<Made<'a>> {
        let (pipeline, request, call) = (self.pipeline, self.request, self.call);
        let started = Instant::now();
        self.begun.get_or_insert(started);
        let endpoint = self.endpoint();
        let authority = pipeline.settle(endpoint, self.budget).await.map_err(|e| self.shown(e))?;
        let at_secondary = self.route.at_secondary();
        let mut attempt = Attempt::new(call, &request.method, self.attempts, at_secondary);
        let signed = pipeline
            .sign(endpoint, (request, call), &authority, &mut attempt)
            .map_err(|error| self.shown(error.of(call.operation, call.resource)))?;
        trace::attempt(self.span, &signed.id);
        self.timed.attempt(&signed.id);
        let limit = self.budget.min(pipeline.options().attempt_timeout);
        let body = signed.request.body().len() as u64;
        let sending = Sending { request, call, mode: self.mode, limit, number: self.attempts };
        let result = match self.route.second(pipeline.options(), &sending) {
            None => pipeline.attempt(signed, &sending, endpoint).await,
            Some(second) => {
                let race = pipeline.race(signed, sending, [endpoint, second], &mut attempt);
                let raced = race.boxed().await;
                if let Some(loser) = raced.loser {
                    // Reads have no body, so nothing is added to what was sent.
                    self.attempts += 1;
                    self.hedges += 1;
                    self.unsent += u32::from(loser.is_unsent);
                    self.received += loser.received;
                }
                self.route.is_answered_by(&raced);
                trace::attempt(self.span, attempt.id());
                self.timed.attempt(attempt.id());
                raced.result
            }
        };
        let elapsed = started.elapsed();
        let answer = result.as_ref().ok();
        let report = AttemptReport {
            call,
            status: answer.map(|answer| answer.status),
            received: answer.map_or(0, HttpResponse::length),
            elapsed,
        };
        pipeline.observe(&report, &attempt);
        if is_unsent(Some(&result)) {
            self.unsent += 1;
        } else {
            self.sent = self.sent.saturating_add(body);
        }
        self.received += report.received;
        self.budget = self.budget.saturating_sub(elapsed);
        Ok(Made { result, attempt, authority })
    }

    /// Separates successes from failures. A batch that was refused has a successful status.
    fn judge(
        &self,
        result: Result<HttpResponse, TransportError>,
    ) -> Result<Success, FailedAttempt> {
        let mut response = result.map_err(|broken| self.broken(broken))?;
        if !response.status.is_success() {
            return Err(self.refused(response));
        }
        let body = match std::mem::replace(&mut response.body, Ok(Bytes::new())) {
            Ok(body) => body,
            // Truncated.
            Err(broken) => return Err(self.broken(broken)),
        };
        let failure =
            self.call.batch.and_then(|_| batch::failure(content_type(&response.headers), &body));
        let Some(part) = failure else { return Ok(Success { response, body }) };
        let mut failed = self.refusal(part.status, &response.headers, part.body);
        // The service omits the index for a batch of one operation.
        if self.call.batch == Some(1) {
            failed.error = failed.error.at_operation(Some(0));
        }
        Err(failed)
    }

    fn reply(&self, Success { response, body }: Success, attempt: Attempt<'_>) -> Reply {
        let HttpResponse { status, headers, rest, .. } = response;
        let limit = self.pipeline.options().attempt_timeout;
        Reply {
            status,
            headers,
            body,
            rest: rest.map(|rest| rest.with_limit(limit)),
            attempts: self.attempts,
            unsent: self.unsent,
            ambiguous: self.ambiguous,
            secondary: self.route.at_secondary(),
            client_id: attempt.into_id(),
            elapsed: self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
            sent: self.sent,
            received: self.received,
        }
    }

    /// Decides what follows a failed attempt: the wait before the next one, or the error of the operation.
    #[cold]
    fn follow(&mut self, failed: FailedAttempt, authority: &Authority) -> Result<Duration> {
        let (pipeline, call, endpoint) = (self.pipeline, self.call, self.endpoint());
        let retry = &pipeline.options().retry;
        let hook = pipeline.telemetry();
        self.has_taken = false;
        // Neither those that the pace repeats nor hedges.
        let repeated = self.pacing.as_ref().map_or(0, Pacing::repeated);
        let counted = self.attempts - self.hedges - repeated;

        // A key may have been rotated or a token revoked since the attempt began.
        if !self.renewed
            && counted < retry.max_attempts
            && is_about_credential(&failed.error)
            && pipeline.credential().has_newer(pipeline.scope(), authority)
        {
            self.renewed = true;
            trace::retry(call, &failed.error, self.attempts, Duration::ZERO);
            measure::retried(hook, endpoint, &failed.error, Duration::ZERO);
            return Ok(Duration::ZERO);
        }

        // The primary may have something that the secondary does not have yet.
        let stale = self.route.leave_stale_secondary(failed.error.details().status);
        let repeat =
            stale || (failed.transient && retry::may_repeat(failed.outcome, call.safety, retry));
        if !repeat {
            return Err(failed.error);
        }
        // The pace waits before the next attempt.
        if let Some(pacing) = self.pacing.as_mut().filter(|pacing| pacing.is_patient(&failed)) {
            pacing.repeat(&failed.error, self.attempts);
            self.last = Some(failed.error);
            self.route.next();
            self.budget = pipeline.options().timeout;
            return Ok(Duration::ZERO);
        }
        let wait = failed.wait;
        let wait = wait.unwrap_or_else(|| retry::backoff(retry, counted, pipeline.fraction()));
        let is_last = counted >= retry.max_attempts;
        if is_last || wait >= self.budget {
            let error = self.last.take().filter(|_| stale).unwrap_or(failed.error);
            return Err(if is_last { error } else { Late::Timeout.marks(error) });
        }
        let needs_budget = !stale && !self.pacing.as_ref().is_some_and(Pacing::is_background);
        if needs_budget && !pipeline.retries().take() {
            measure::withheld(hook, endpoint, &failed.error);
            return Err(failed.error.advise(
                "the account's retry budget is used up; try again when the service has recovered",
            ));
        }
        self.has_taken = needs_budget;
        trace::retry(call, &failed.error, self.attempts, wait);
        measure::retried(hook, endpoint, &failed.error, wait);
        if !stale {
            self.last = Some(failed.error);
        }
        self.route.next();
        Ok(wait)
    }

    /// An error that ends the operation, which an earlier attempt may have applied.
    #[cold]
    fn shown(&self, error: Error) -> Error {
        if self.ambiguous { error.with_outcome(Outcome::Unknown) } else { error }
    }

    #[cold]
    fn broken(&self, broken: TransportError) -> FailedAttempt {
        let TransportError { what, outcome, kind, source, class: _ } = broken;
        let unknown = self.ambiguous && self.call.safety != Safety::Read;
        let shown = if unknown { Outcome::Unknown } else { outcome };
        let mut error = Error::transport(self.call, kind, what, shown, self.attempts);
        if let Some(source) = source {
            error = error.with_source(source);
        }
        FailedAttempt { error, outcome, transient: kind == ErrorKind::Unavailable, wait: None }
    }

    #[cold]
    fn refused(&self, answer: HttpResponse) -> FailedAttempt {
        // The status alone is sufficient.
        let body = answer.body.unwrap_or_default();
        self.refusal(answer.status.as_u16(), &answer.headers, &body)
    }

    /// An unsuccessful response, or that of a failed batch.
    #[cold]
    fn refusal(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> FailedAttempt {
        let call = self.call;
        let ErrorText { code, message, operation } = ErrorText::of(headers, body);
        let outcome = outcome_of(status, code.as_ref());
        let now = self.pipeline.clock().now();
        let request_id = headers.get(rowkey_wire::headers::REQUEST_ID);
        let failure = Failure {
            status,
            code,
            message,
            request_id: request_id.and_then(|id| id.to_str().ok()),
            attempts: self.attempts,
            ambiguous: self.ambiguous,
        };
        let wait = retry::retry_after(headers, now);
        let mut error = Error::from_response(call, failure).after(wait);
        if call.batch.is_some() {
            error = error.at_operation(operation);
        }
        if let Some(advice) = super::http::advice(status, headers, now) {
            error = error.advise(advice);
        }
        FailedAttempt { error, outcome, transient: retry::is_transient(status), wait }
    }
}

/// A failed attempt.
pub(super) struct FailedAttempt {
    /// The error to return unless the operation is retried.
    pub(super) error: Error,
    /// The outcome of this attempt alone.
    pub(super) outcome: Outcome,
    pub(super) transient: bool,
    /// The wait that the service asked for.
    pub(super) wait: Option<Duration>,
}

/// Whether authentication failed, as opposed to authorization.
#[cold]
fn is_about_credential(error: &Error) -> bool {
    let codes = [ErrorCode::AUTHENTICATION_FAILED, ErrorCode::INVALID_AUTHENTICATION_INFO];
    error.details().status == Some(401) || error.code().is_some_and(|code| codes.contains(code))
}
