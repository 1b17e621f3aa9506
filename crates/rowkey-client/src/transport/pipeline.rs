//! The pipeline: the way of an operation from its request to its reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::SERVER;
use rowkey_wire::auth::Service;
use tracing::Instrument;

use super::attempts::Run;
use super::call::{Call, Reply};
use super::hedging::Sending;
use super::http::{Http, HttpResponse, ReadMode, TransportError};
use super::measure::{self, AttemptTimer, OperationTimer};
use super::metered;
use super::policy::{Additions, Attempt, AttemptResult};
use super::report::AttemptReport;
use super::retry::Jitter;
use super::route::Route;
use super::sign::{Signed, Signer};
use super::trace;
use crate::clock::Clock;
use crate::cost::{Meter, Meters};
use crate::credential::{Authority, Credential, Scope};
use crate::endpoint::{Endpoint, Endpoints, ServiceEndpoints};
use crate::error::{Error, Result};
use crate::hot_partitions::tracker::Tracker;
use crate::options::ClientOptions;
use crate::pace::budget::Budget;
use crate::pace::governor::Governor;
use crate::pace::hedge::Hedging;
use crate::telemetry::Hook;
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
            let route = Route::new(endpoints, &self.options, &call)?;
            let first = route.endpoint();
            let span = trace::operation(&call, &request, first, &self.options);
            let timer =
                OperationTimer::begin(&self.shared.telemetry, &call, request.service, first);
            let mut run = Run::new(self, (&request, &call), route, mode, &span);
            let result = run.complete().instrument(span.clone()).await;
            timer.end(run.endpoint(), &result);
            trace::finish(&span, &call, &result);
            run.end(&result);
            result
        };
        perform.boxed()
    }

    /// Passes what an attempt used to all that count.
    pub(super) fn observe(&self, report: &AttemptReport<'_>, attempt: &Attempt<'_>) {
        let AttemptReport { status, elapsed, .. } = *report;
        let result = AttemptResult { status: status.map(|status| status.as_u16()), elapsed };
        self.shared.additions.after(attempt, result);
        self.shared.hot.add(|| report.touch(self.clock()));
    }

    pub(super) fn retries(&self) -> &Budget {
        &self.shared.retries
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.shared.scope
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
        let counting = metered::begin(&self.meters, hook, call, &signed);
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
