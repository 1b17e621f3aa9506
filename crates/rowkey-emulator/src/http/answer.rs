//! Answers an HTTP request: the steps that all requests have in common.

use std::io;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers;
use rowkey_wire::limits::MAX_BATCH_BYTES;
use tracing::{debug, error};

use super::redact::RedactedUri;
use crate::account::Receipts;
use crate::control::cut::{self, SentResponse};
use crate::control::hub;
use crate::durable::{self, Unavailable};
use crate::front::pace::Pace;
use crate::front::request_body::RequestBody;
use crate::front::respond::{
    self, Failure, HttpResponse, Layer, Owner, RequestError, ResponseContext,
};
use crate::front::{cors, head};
use crate::services::arrival::Arrival;
use crate::services::table::answer::Admitted;
use crate::services::{blob, queue, table};
use crate::state::State;
use crate::wire::options::{self, Options};
use crate::wire::table::parse;

/// The first version that returns the client's request id.
const REPEATS_CLIENT_ID: &str = "2019-02-02";

/// The version for requests without one: the newest that this server supports.
const NEWEST: HeaderValue = HeaderValue::from_static("2026-10-06");

/// Answers a request. Every invalid request gets a response; the only errors are broken
/// connections, and injected faults that break one.
pub(crate) async fn answer(
    state: &State,
    service: Service,
    address: IpAddr,
    request: Request<Incoming>,
    pace: Pace,
) -> Result<SentResponse, io::Error> {
    let (parts, body) = request.into_parts();
    let mut body = RequestBody::new(body, pace);
    let context = context(state, service, &parts);
    let receipts = Receipts::default();
    let arrival =
        Arrival { state, address, request: &parts, context: &context, receipts: &receipts };
    if state.control.is_idle() || context.is_owner {
        let mut answer = execute(arrival, &mut body, None, None).await?;
        respond::finish(&mut answer, context);
        return Ok(cut::whole(answer));
    }
    // The table of a batch is named only in its body, which is read after the head is accepted.
    let admitted = if is_batch(arrival) { admit(arrival) } else { None };
    let batch = if admitted.is_some() { body.read(MAX_BATCH_BYTES).await?.ok() } else { None };
    let mut visit = state.control.arrive(service, &parts, batch.as_deref(), context.now);
    let refusal = visit.before().await?;
    let mut answer = execute(arrival, &mut body, admitted, refusal).await?;
    respond::finish(&mut answer, context);
    visit.after(answer, &state.clock).await
}

fn is_batch(arrival: Arrival<'_>) -> bool {
    let Parts { method, uri, .. } = arrival.request;
    arrival.context.service == Service::Table
        && method != http::Method::OPTIONS
        && uri.path().ends_with("/$batch")
}

/// Authenticates a request to the Table service, if its head is valid.
fn admit(arrival: Arrival<'_>) -> Option<Admitted<'_>> {
    let route = head::check(&arrival.state.hosts, arrival.request, arrival.context).ok()?;
    table::answer::admit(arrival, route).ok()
}

/// Executes a request and returns its response, without the headers of all responses; a `refusal` is
/// the response without execution. Returns an error if the connection broke.
async fn execute(
    arrival: Arrival<'_>,
    body: &mut RequestBody,
    admitted: Option<Admitted<'_>>,
    refusal: Option<Rejection>,
) -> io::Result<HttpResponse> {
    let Arrival { state, request: parts, context, .. } = arrival;
    let service = context.service;
    let outcome = match (refusal, &state.durable) {
        (Some(rejection), _) => Err(Failure::front_end(rejection)),
        (None, None) => attempt(arrival, body, admitted).await?,
        (None, Some(durable)) => {
            let request = durable::Request { service, parts };
            loop {
                let admission = match durable.admit(&state.accounts, &request) {
                    Ok(admission) => admission,
                    Err(refused) => break Err(not_kept(refused)),
                };
                // Authenticated by the data as it is now: some may have been taken back since.
                let receipts = Receipts::default();
                let arrival = Arrival { receipts: &receipts, ..arrival };
                let outcome = attempt(arrival, body, None).await;
                // No response may depend on changes that can still be lost.
                match durable.settle(&state.accounts, &request, admission, receipts.last()).await {
                    Ok(true) => break outcome?,
                    Ok(false) => {}
                    Err(refused) => break Err(not_kept(refused)),
                }
            }
        }
    };
    if outcome.is_err() {
        // Clients see the error only after everything they send has been read.
        body.discard(&parts.headers).await;
    }
    log(parts, &outcome, context);
    let mut answer = outcome.unwrap_or_else(|failure| {
        let options = Options::parse(parts.uri.query().unwrap_or_default()).unwrap_or_default();
        let format = parse::response_format(&options, &parts.headers);
        let mut answer = respond::failure(&failure, format, context);
        #[cfg(feature = "oauth")]
        crate::authority::challenge(state, parts, &mut answer);
        if failure.rejection.code == ErrorCode::SERVER_BUSY && state.control.throttle.is_on() {
            hub::ask_to_wait(&mut answer);
        }
        if !state.control.is_idle() {
            answer.extensions_mut().insert(failure.rejection.clone());
        }
        if service == Service::Table
            && failure.layer == Layer::Data
            && parts.method == http::Method::POST
        {
            // Recorded: the preference counts as applied even when nothing was inserted.
            respond::apply_prefer(&mut answer, parse::prefer(&parts.headers));
        }
        answer
    });
    cors::apply(&state.accounts, service, parts, &mut answer);
    Ok(answer)
}

/// Logs the request and its result, without any stored data.
fn log(parts: &Parts, outcome: &Result<HttpResponse, Failure>, context: &ResponseContext) {
    let (id, method, address) = (&context.id, &parts.method, RedactedUri(&parts.uri));
    match outcome {
        Ok(answer) => {
            let status = answer.status().as_u16();
            debug!(?id, %method, %address, status, "a request is answered");
        }
        Err(failure) => {
            let Rejection { status, code, .. } = &failure.rejection;
            let rule = failure.rejection.reason();
            let status = status.as_u16();
            debug!(?id, %method, %address, status, %code, rule, "a request is refused");
        }
    }
}

/// Answers a request, even one that makes the server panic. The outer error is a broken connection.
async fn attempt(
    arrival: Arrival<'_>,
    body: &mut RequestBody,
    admitted: Option<Admitted<'_>>,
) -> io::Result<Result<HttpResponse, Failure>> {
    let Arrival { request, context, .. } = arrival;
    let answer = respond_to(arrival, body, admitted);
    let answer = AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        error!(id = ?context.id, method = %request.method, "a request caused a panic");
        Err(Rejection::new(ErrorCode::INTERNAL_ERROR).into())
    });
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(RequestError::Failed(failure)) => Ok(Err(failure)),
        Err(RequestError::Broken(error)) => Err(error),
    }
}

/// The response when the disk accepts no changes.
fn not_kept(refused: Unavailable) -> Failure {
    let (code, message) = match refused {
        Unavailable::Full => (
            ErrorCode::INSUFFICIENT_STORAGE,
            "The disk that holds the server's data takes no changes, because it is full or fails: \
             the request has changed nothing. Make room; changes are then taken again.",
        ),
        Unavailable::Unreadable => (
            ErrorCode::INTERNAL_ERROR,
            "The server encountered an internal error: its disk refused a change, and what is on \
             it cannot be read. The server's log says why.",
        ),
    };
    Failure::front_end(Rejection::with_message(code, message))
}

/// Returns the response, or the reason why there is none.
///
/// The request is authenticated by its head, unless it is `admitted` already; the body is read after
/// that.
async fn respond_to(
    arrival: Arrival<'_>,
    body: &mut RequestBody,
    admitted: Option<Admitted<'_>>,
) -> Result<HttpResponse, RequestError> {
    if let Some(admitted) = admitted {
        return table::answer::answer(arrival, admitted, body).await;
    }
    let Arrival { state, request, context, .. } = arrival;
    let route = head::check(&state.hosts, request, context)?;
    if request.method == http::Method::OPTIONS {
        return Ok(cors::preflight(&state.accounts, context.service, &route, request)?);
    }
    match context.service {
        Service::Table => {
            table::answer::answer(arrival, table::answer::admit(arrival, route)?, body).await
        }
        Service::Queue => queue::answer::answer(arrival, &route, body).await,
        Service::Blob => blob::answer::answer(arrival, &route, body.incoming()).await,
    }
}

/// The values that the response repeats from the request. An invalid version is not repeated.
fn context(state: &State, service: Service, request: &Parts) -> ResponseContext {
    let version = match request.headers.get(headers::VERSION) {
        Some(version) => Some(version).filter(|v| head::is_version(v.as_bytes())).cloned(),
        None => Some(unsaid_version(request.uri.query().unwrap_or_default())),
    };
    let repeats =
        version.as_ref().is_some_and(|version| version.as_bytes() >= REPEATS_CLIENT_ID.as_bytes());
    let client_id = request
        .headers
        .get(headers::CLIENT_REQUEST_ID)
        .filter(|id| repeats && id.len() <= head::MAX_CLIENT_REQUEST_ID);
    ResponseContext {
        service,
        id: state.ids.next(),
        now: state.now(),
        version,
        client_id: client_id.cloned(),
        is_owner: request.extensions.get::<Owner>().is_some(),
    }
}

/// The version of a request without the header: that of its query or its signature.
fn unsaid_version(query: &str) -> HeaderValue {
    let option = |name: &str| {
        let mut pairs = options::pairs(query).filter_map(|pair| options::split_once(pair, b'='));
        let value = pairs.find(|(known, _)| *known == name)?.1;
        head::is_version(value.as_bytes()).then(|| respond::value(value.to_owned()))
    };
    option("api-version").or_else(|| option("sv")).unwrap_or(NEWEST)
}
