//! The pipeline: the loop over the attempts of an operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::SERVER;
use http::{HeaderMap, HeaderValue};
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use tokio::time::Instant;
use tracing::Instrument;

use super::batch;
use super::call::{Call, Host, Reply, Safety};
use super::failure::{Failure, outcome_of};
use super::hedging::{Raced, Sending};
use super::http::{ErrorText, Http, HttpResponse, ReadMode, TransportError, content_type};
use super::measure::{self, AttemptTimer, OperationTimer};
use super::metered;
use super::pacing::Pacing;
use super::policy::{Additions, Attempt, AttemptResult};
use super::report::AttemptReport;
use super::retry::{self, Jitter};
use super::sign::{Signed, Signer};
use super::slow::Timed;
use super::trace;
use crate::clock::Clock;
use crate::cost::{Meter, Meters};
use crate::credential::{Authority, Credential, Scope};
use crate::endpoint::{Endpoint, Endpoints, ServiceEndpoints};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::hot_partitions::tracker::Tracker;
use crate::options::ClientOptions;
use crate::pace::budget::Budget;
use crate::pace::governor::Governor;
use crate::pace::hedge::Hedging;
use crate::telemetry::{Hook, tally};
use crate::transport::Request;

/// Sends requests: signs and retries them, and reports whether the outcome of a failure is known.
///
/// Clones share connections and caches; [`with_options`](Self::with_options) returns one with other
/// options.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    http: Http,
    shared: Arc<Shared>,
    options: Arc<ClientOptions>,
    meters: Meters,
}

/// The state that all handles of an account share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoints: Endpoints,
    pub(crate) signer: Signer,
    /// The scope of tokens.
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) telemetry: Hook,
    pub(crate) hot: Tracker,
    pub(crate) additions: Additions,
    pub(crate) jitter: Arc<Jitter>,
    pub(crate) governor: Governor,
    pub(crate) retries: Budget,
    pub(crate) hedging: Hedging,
    /// Whether a response has shown that the table service is Azurite.
    pub(crate) azurite: AtomicBool,
}

impl Pipeline {
    pub(crate) fn new(http: Http, options: ClientOptions, shared: Shared) -> Self {
        let (shared, options) = (Arc::new(shared), Arc::new(options));
        Self { http, shared, options, meters: Meters::default() }
    }

    /// The same connections with other options.
    pub(crate) fn with_options(&self, options: ClientOptions) -> Self {
        Self { options: Arc::new(options), ..self.clone() }
    }

    /// The same connections with one more meter.
    pub(crate) fn with_meter(&self, meter: &Meter) -> Self {
        Self { meters: self.meters.with(meter), ..self.clone() }
    }

    /// The same pipeline with separate connections.
    pub(crate) fn with_own_connections(&self) -> Self {
        Self { http: self.http.another(), ..self.clone() }
    }

    pub(crate) fn telemetry(&self) -> &Hook {
        &self.shared.telemetry
    }

    pub(crate) fn hot(&self) -> &Tracker {
        &self.shared.hot
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.shared.endpoints
    }

    /// A unique text, for the boundaries of batches.
    pub(crate) fn unique_id(&self) -> String {
        self.guid().hyphenated().to_string()
    }

    /// A random GUID, for leases and uploads.
    pub(crate) fn guid(&self) -> uuid::Uuid {
        self.shared.jitter.guid()
    }

    /// Sends `request` until it succeeds, must not be retried, or the time is up.
    ///
    /// Every status except 2xx is an error.
    pub(crate) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        self.perform(request, call, ReadMode::Whole).await
    }

    /// Like [`send`](Self::send), but the body of a success is read later, piece by piece. Each
    /// piece may take as long as an attempt.
    pub(crate) async fn open(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        self.perform(request, call, ReadMode::Head).await
    }

    /// The URL of `target` at the primary of the account of `from`, for a request that copies from
    /// it. Includes the shared access signature if `from` uses one. The signature is then sent to
    /// this account's endpoint, so plain http is refused as for its own.
    pub(crate) fn source(&self, from: &Self, service: Service, target: &str) -> Result<String> {
        let source = &endpoints_of(&from.shared.endpoints, service)?.primary;
        if let Authority::Sas(_) = from.credential().settled() {
            let here = &endpoints_of(&self.shared.endpoints, service)?.primary;
            here.check_secret("the shared access signature of the source")?;
        }
        Ok(from.shared.signer.address(source, target)?.to_string())
    }

    /// Refuses a target whose URL is too long.
    pub(crate) fn check_length(&self, service: Service, target: &str) -> Result<()> {
        let endpoint = &endpoints_of(&self.shared.endpoints, service)?.primary;
        self.shared.signer.address(endpoint, target).map(drop)
    }

    /// Boxed, so that it is compiled here, with all that it awaits, and not again in each program; and so
    /// that the futures of callers stay small.
    fn perform<'a>(
        &'a self,
        request: Request,
        call: Call<'a>,
        mode: ReadMode,
    ) -> BoxFuture<'a, Result<Reply>> {
        let perform = async move {
            let endpoints = endpoints_of(&self.shared.endpoints, request.service)
                .map_err(|error| error.of(call.operation, call.resource))?;
            let mut route = Route::new(endpoints, &self.options, &call)?;
            let span = trace::operation(&call, &request, route.endpoint(), &self.options);
            let mut timed = Timed::begin(self.options.slow, || self.clock().elapsed());
            let (hook, first) = (&self.shared.telemetry, route.endpoint());
            let timer = OperationTimer::begin(hook, &call, request.service, first);
            let run = self.run(&request, &call, &mut route, mode, (&span, &mut timed));
            let result = run.instrument(span.clone()).await;
            timer.end(route.endpoint(), &result);
            trace::finish(&span, &call, &result);
            timed.end(&call, &result, || self.clock().elapsed());
            result
        };
        perform.boxed()
    }

    async fn run(
        &self,
        request: &Request,
        call: &Call<'_>,
        route: &mut Route<'_>,
        mode: ReadMode,
        (span, timed): (&tracing::Span, &mut Timed),
    ) -> Result<Reply> {
        let retry = &self.options.retry;
        // Not from the account's clock: a step of the system time must not end an operation, and
        // sockets take real time even if the clock is a test's.
        let mut budget = self.options.timeout;
        let mut attempts = 0;
        let mut ambiguous = false;
        let mut renewed = false;
        let mut last_of_primary = None;
        let mut received = 0_u64;
        let mut begun = None;
        let mut pacing = Pacing::of(self);
        loop {
            attempts += 1;
            let permit = match pacing.as_mut() {
                None => None,
                Some(pacing) => pacing.admit(request, call, ambiguous, &mut budget).boxed().await?,
            };
            let started = Instant::now();
            let begun = *begun.get_or_insert(started);
            let authority = match self.settle(route.endpoint(), budget).await {
                Ok(authority) => authority,
                Err(error) if ambiguous => return Err(error.with_outcome(Outcome::Unknown)),
                Err(error) => return Err(error),
            };
            let mut attempt = Attempt::new(call, &request.method, attempts, route.at_secondary());
            let signed = self.sign(route.endpoint(), (request, call), &authority, &mut attempt);
            let signed = match signed {
                Ok(signed) => signed,
                Err(error) if ambiguous => return Err(error.with_outcome(Outcome::Unknown)),
                Err(error) => return Err(error.of(call.operation, call.resource)),
            };
            trace::attempt(span, &signed);
            timed.attempt(&signed.id);
            let limit = budget.min(self.options.attempt_timeout);
            let sent = signed.request.body().len() as u64;
            let (hook, endpoint) = (&self.shared.telemetry, route.endpoint());
            let sending = Sending { request, call, mode, limit, number: attempts };
            let result = match route.second(&self.options, &sending) {
                None => self.attempt(signed, &sending, endpoint).await,
                Some(second) => {
                    let race = self.race(signed, sending, [endpoint, second], &mut attempt);
                    let raced = race.boxed().await;
                    attempts += u32::from(raced.is_second);
                    route.is_answered_by(&raced);
                    raced.result
                }
            };
            let ended = Instant::now();
            let elapsed = ended - started;
            let answer = result.as_ref().ok();
            let report = AttemptReport {
                call,
                status: answer.map(|answer| answer.status),
                received: answer.map_or(0, HttpResponse::length),
                elapsed,
            };
            self.observe(&report, &attempt);
            tally::answered(report.received, || {
                (answer.and_then(HttpResponse::request_id), Some(attempt.client_request_id()))
            });
            received += report.received;
            budget = budget.saturating_sub(elapsed);
            let failed = match result {
                Ok(HttpResponse { status, headers, body: Ok(body), rest })
                    if status.is_success() =>
                {
                    let failure =
                        call.batch.and_then(|_| batch::failure(content_type(&headers), &body));
                    if let Some(part) = failure {
                        let (status, body) = (part.status, part.body);
                        let mut failed =
                            self.refusal(call, status, &headers, body, attempts, ambiguous);
                        // The service omits the index for a batch of one operation.
                        if call.batch == Some(1) {
                            failed.error = failed.error.at_operation(Some(0));
                        }
                        failed
                    } else {
                        let secondary = route.at_secondary();
                        let rest = rest.map(|rest| rest.with_limit(self.options.attempt_timeout));
                        if let Some(permit) = permit {
                            permit.answered();
                        }
                        self.shared.retries.succeeded(attempts);
                        return Ok(Reply {
                            status,
                            headers,
                            body,
                            rest,
                            attempts,
                            ambiguous,
                            secondary,
                            client_id: attempt.into_id(),
                            elapsed: ended - begun,
                            sent: sent.saturating_mul(attempts.into()),
                            received,
                        });
                    }
                }
                Ok(answer) => self.refused(call, answer, attempts, ambiguous),
                Err(broken) => FailedAttempt::broken(call, broken, attempts, ambiguous),
            };
            ambiguous |= failed.outcome == Outcome::Unknown && call.safety != Safety::Read;
            measure::failed(hook, endpoint, &failed.error);
            if let Some(permit) = permit {
                self.release(permit, &failed);
            }

            // Without those that the pace repeats.
            let counted = attempts - pacing.as_ref().map_or(0, Pacing::repeated);

            // A key may have been rotated or a token revoked since the attempt began.
            if !renewed
                && counted < retry.max_attempts
                && is_about_credential(&failed.error)
                && self.credential().has_newer(&self.shared.scope, &authority)
            {
                renewed = true;
                trace::retry(call, &failed.error, attempts, Duration::ZERO);
                measure::retried(hook, endpoint, &failed.error, Duration::ZERO);
                continue;
            }

            // The primary may have something that the secondary does not have yet.
            let stale = route.leave_stale_secondary(failed.error.details().status);
            let repeat = stale
                || (failed.transient && retry::may_repeat(failed.outcome, call.safety, retry));
            if !repeat {
                return Err(failed.error);
            }
            // The pace waits before the next attempt.
            if let Some(pacing) = pacing.as_mut().filter(|pacing| pacing.is_patient(&failed)) {
                pacing.keep(failed.error, attempts);
                route.next();
                budget = self.options.timeout;
                continue;
            }
            let wait = failed
                .wait
                .unwrap_or_else(|| retry::backoff(retry, counted, self.shared.jitter.fraction()));
            if counted >= retry.max_attempts || wait >= budget {
                let error = last_of_primary.filter(|_| stale).unwrap_or(failed.error);
                return Err(if counted >= retry.max_attempts {
                    error
                } else {
                    error.advise("allow a longer `timeout`, or try again later")
                });
            }
            let needs_budget = !stale && !pacing.as_ref().is_some_and(Pacing::is_background);
            if needs_budget && !self.shared.retries.take() {
                measure::withheld(hook, endpoint, &failed.error);
                return Err(failed.error.advise(
                    "the account's retry budget is used up; try again when the service has recovered",
                ));
            }
            trace::retry(call, &failed.error, attempts, wait);
            measure::retried(hook, endpoint, &failed.error, wait);
            if !route.at_secondary() && !stale {
                last_of_primary = Some(failed.error);
            }
            route.next();
            self.shared.clock.sleep(wait).await;
            budget = budget.saturating_sub(wait);
        }
    }

    /// Passes what an attempt used to all that count.
    pub(super) fn observe(&self, report: &AttemptReport<'_>, attempt: &Attempt<'_>) {
        let AttemptReport { status, elapsed, .. } = *report;
        let result = AttemptResult { status: status.map(|status| status.as_u16()), elapsed };
        self.shared.additions.after(attempt, result);
        self.shared.hot.add(|| report.touch(self.clock()));
    }

    pub(super) fn governor(&self) -> &Governor {
        &self.shared.governor
    }

    pub(super) fn hedging(&self) -> &Hedging {
        &self.shared.hedging
    }

    /// A random number from 0 to 1.
    pub(super) fn fraction(&self) -> f64 {
        self.shared.jitter.fraction()
    }

    /// The authorization of an attempt that begins now.
    pub(super) async fn settle(&self, endpoint: &Endpoint, limit: Duration) -> Result<Authority> {
        let clock = &*self.shared.clock;
        self.credential().settle(&self.shared.scope, endpoint, clock, limit).await
    }

    /// Reports how many rows or messages the response to a read has.
    pub(crate) fn returned(&self, service: Service, call: &Call<'_>, reply: &Reply, number: usize) {
        let Ok(endpoints) = endpoints_of(&self.shared.endpoints, service) else { return };
        let secondary = endpoints.secondary.as_ref().filter(|_| reply.secondary);
        let endpoint = secondary.unwrap_or(&endpoints.primary);
        measure::returned(&self.shared.telemetry, service, call, endpoint, number);
    }

    pub(crate) fn credential(&self) -> &Credential {
        self.shared.signer.credential()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// Waits for a random part of `longest`, so that callers that conflicted once do not conflict
    /// again.
    pub(crate) async fn pause(&self, longest: Duration) {
        self.shared.clock.sleep(longest.mul_f64(self.shared.jitter.fraction())).await;
    }

    /// The service version that requests to this service send now.
    pub(crate) fn version(&self, service: Service) -> HeaderValue {
        super::sign::version(service, &self.credential().settled())
    }

    pub(super) fn sign(
        &self,
        endpoint: &Endpoint,
        (request, call): (&Request, &Call<'_>),
        authority: &Authority,
        attempt: &mut Attempt<'_>,
    ) -> Result<Signed> {
        let Shared { signer, additions, .. } = &*self.shared;
        let whole = call.parts.map(|parts| signer.compose(endpoint, request, parts, authority));
        let whole = whole.transpose()?;
        let request = whole.as_ref().unwrap_or(request);
        signer.sign(endpoint, request, authority, additions, attempt)
    }

    /// Sends one request, which everything counts that counts requests.
    pub(super) async fn attempt(
        &self,
        signed: Signed,
        sending: &Sending<'_>,
        endpoint: &Endpoint,
    ) -> std::result::Result<HttpResponse, TransportError> {
        let Sending { request, call, mode, limit, .. } = *sending;
        let hook = &self.shared.telemetry;
        let sent = signed.request.body().len() as u64;
        tally::sent(sent);
        let counting = metered::begin(&self.meters, hook, call, &signed.request);
        let timer = AttemptTimer::begin(hook, &request.method, endpoint, sent);
        let sent = self.http.send(signed.request, mode);
        let mut result = match tokio::time::timeout(limit, sent).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::timeout()),
        };
        timer.end(&result);
        if let Some(counting) = counting {
            metered::end(counting, call, &mut result);
        }
        let server = result.as_ref().ok().and_then(|answer| answer.headers.get(SERVER));
        if server.is_some_and(|server| server.as_bytes().starts_with(b"Azurite-Table")) {
            self.shared.azurite.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Whether the table service is Azurite; unknown, so `false`, before the first response.
    pub(crate) fn is_azurite(&self) -> bool {
        self.shared.azurite.load(Ordering::Relaxed)
    }

    /// An unsuccessful response, or a truncated success.
    #[cold]
    fn refused(
        &self,
        call: &Call<'_>,
        answer: HttpResponse,
        attempts: u32,
        ambiguous: bool,
    ) -> FailedAttempt {
        let HttpResponse { status, headers, body, .. } = answer;
        let body = match body {
            Err(broken) if status.is_success() => {
                return FailedAttempt::broken(call, broken, attempts, ambiguous);
            }
            // The status alone is sufficient.
            body => body.unwrap_or_default(),
        };
        self.refusal(call, status.as_u16(), &headers, &body, attempts, ambiguous)
    }

    /// An unsuccessful response, or that of a failed batch.
    #[cold]
    fn refusal(
        &self,
        call: &Call<'_>,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
        attempts: u32,
        ambiguous: bool,
    ) -> FailedAttempt {
        let ErrorText { code, message, operation } = ErrorText::of(headers, body);
        let outcome = outcome_of(status, code.as_ref());
        let now = self.shared.clock.now();
        let request_id = headers.get(rowkey_wire::headers::REQUEST_ID);
        let failure = Failure {
            status,
            code,
            message,
            request_id: request_id.and_then(|id| id.to_str().ok()),
            attempts,
            ambiguous,
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

/// Whether authentication failed, as opposed to authorization.
#[cold]
fn is_about_credential(error: &Error) -> bool {
    let codes = [ErrorCode::AUTHENTICATION_FAILED, ErrorCode::INVALID_AUTHENTICATION_INFO];
    error.details().status == Some(401) || error.code().is_some_and(|code| codes.contains(code))
}

fn endpoints_of(endpoints: &Endpoints, service: Service) -> Result<&ServiceEndpoints> {
    endpoints.of(service).ok_or_else(|| {
        let (what, part) = match service {
            Service::Blob => ("no blob endpoint configured", "blob"),
            Service::Queue => ("no queue endpoint configured", "queue"),
            Service::Table => ("no table endpoint configured", "table"),
        };
        Error::invalid(what).advise(format!("give the {part} endpoint"))
    })
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

impl FailedAttempt {
    #[cold]
    fn broken(call: &Call<'_>, broken: TransportError, attempts: u32, ambiguous: bool) -> Self {
        let TransportError { what, outcome, kind, source, class: _ } = broken;
        let unknown = ambiguous && call.safety != Safety::Read;
        let shown = if unknown { Outcome::Unknown } else { outcome };
        let mut error = Error::transport(call, kind, what, shown, attempts);
        if let Some(source) = source {
            error = error.with_source(source);
        }
        Self { error, outcome, transient: kind == ErrorKind::Unavailable, wait: None }
    }
}

/// The endpoint of the next attempt.
pub(super) struct Route<'a> {
    primary: &'a Endpoint,
    /// The endpoint with which attempts may alternate, until it turns out to be behind.
    secondary: Option<&'a Endpoint>,
    at_secondary: bool,
}

impl<'a> Route<'a> {
    fn new(
        endpoints: &'a ServiceEndpoints,
        options: &ClientOptions,
        call: &Call<'_>,
    ) -> Result<Self> {
        let secondary = endpoints.secondary.as_ref();
        let primary = &endpoints.primary;
        match call.host {
            Host::Any if options.read_from_secondary && call.safety == Safety::Read => {
                Ok(Self { primary, secondary, at_secondary: false })
            }
            Host::Any | Host::Primary => Ok(Self { primary, secondary: None, at_secondary: false }),
            // Only the secondary is used, so attempts do not alternate.
            Host::Secondary => match secondary {
                Some(primary) => Ok(Self { primary, secondary: None, at_secondary: true }),
                None => Err(Error::invalid("the account has no secondary endpoint")
                    .of(call.operation, call.resource)),
            },
        }
    }

    fn endpoint(&self) -> &'a Endpoint {
        match self.secondary {
            Some(secondary) if self.at_secondary => secondary,
            _ => self.primary,
        }
    }

    fn at_secondary(&self) -> bool {
        self.at_secondary
    }

    fn next(&mut self) {
        if self.secondary.is_some() {
            self.at_secondary = !self.at_secondary;
        }
    }

    /// The endpoint of a second request for the read, if the options want one.
    fn second(&self, options: &ClientOptions, sending: &Sending<'_>) -> Option<&'a Endpoint> {
        let hedge = options.hedge.as_ref()?;
        if !sending.may_be_hedged() {
            return None;
        }
        Some(match self.secondary {
            Some(secondary) if hedge.at_secondary && !self.at_secondary => secondary,
            _ => self.endpoint(),
        })
    }

    /// Records from which endpoint the result of a race came.
    fn is_answered_by(&mut self, raced: &Raced) {
        self.at_secondary |= raced.is_other && raced.is_second;
    }

    /// Stops using the secondary for this operation if it reports that something is missing or has
    /// another version: it may only be behind.
    fn leave_stale_secondary(&mut self, status: Option<u16>) -> bool {
        let stale =
            self.at_secondary && self.secondary.is_some() && matches!(status, Some(404 | 412));
        if stale {
            self.secondary = None;
            self.at_secondary = false;
        }
        stale
    }
}
