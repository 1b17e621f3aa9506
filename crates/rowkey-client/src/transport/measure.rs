//! Metrics of operations and attempts. Without a hook, an operation costs a few comparisons.
//!
//! An operation or attempt whose future is dropped is reported, too: its `error.type` is `cancelled`.

use std::time::Duration;

use http::Method;
use rowkey_wire::auth::Service;
use tokio::time::Instant;

use super::call::{Call, Reply};
use super::http::{HttpResponse, TransportError};
use super::trace::{MESSAGING, TABLES};
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::telemetry::metrics::{
    BATCH_OPERATIONS, BLOB_OPERATION_DURATION, DB_OPERATION_DURATION, DB_RETURNED_ROWS,
    HTTP_ACTIVE, HTTP_DURATION, HTTP_REQUEST_SIZE, HTTP_RESPONSE_SIZE, MESSAGING_CONSUMED,
    MESSAGING_OPERATION_DURATION, MESSAGING_SENT, RETRIES, RETRIES_WITHHELD, RETRY_DELAY,
    THROTTLED,
};
use crate::telemetry::{Attributes, Hook, Series, error_type, status_text};

/// The `error.type` of what the program dropped before its end.
const CANCELLED: &str = "cancelled";

/// Reports an operation when it is over, or dropped.
pub(crate) struct OperationTimer<'a>(Option<Operation<'a>>);

struct Operation<'a> {
    hook: (&'a Hook, &'a Series),
    call: &'a Call<'a>,
    service: Service,
    endpoint: &'a Endpoint,
    begun: Instant,
}

impl<'a> OperationTimer<'a> {
    pub(crate) fn begin(
        hook: &'a Hook,
        call: &'a Call<'a>,
        service: Service,
        endpoint: &'a Endpoint,
    ) -> Self {
        let hook = hook.installed();
        Self(hook.map(|hook| Operation { hook, call, service, endpoint, begun: Instant::now() }))
    }

    /// Ends it with its result, which came from `endpoint`.
    pub(crate) fn end(mut self, endpoint: &'a Endpoint, result: &Result<Reply>) {
        let Some(operation) = self.0.take() else { return };
        let operation = Operation { endpoint, ..operation };
        match result {
            Ok(_) => operation.report(None, None),
            Err(error) => {
                let status = error.details().status;
                let is_expected =
                    status.is_some_and(|status| operation.call.expected.contains(&status));
                let failure = (!is_expected).then(|| error_type(error));
                operation.report(status.map(status_text), failure);
            }
        }
    }
}

impl Drop for OperationTimer<'_> {
    fn drop(&mut self) {
        if let Some(operation) = self.0.take() {
            operation.report(None, Some(CANCELLED));
        }
    }
}

impl Operation<'_> {
    /// Reports the end, with the status of a response that was not a success.
    fn report(&self, status: Option<&str>, failure: Option<&str>) {
        let (hook, series) = self.hook;
        let seconds = self.begun.elapsed().as_secs_f64();
        let mut attributes = described(series, self.service, self.call);
        let metric = match self.service {
            Service::Table => DB_OPERATION_DURATION,
            Service::Queue => MESSAGING_OPERATION_DURATION,
            Service::Blob => BLOB_OPERATION_DURATION,
        };
        match self.service {
            Service::Table => attributes.push_some("db.response.status_code", status),
            Service::Blob => attributes.push_some("http.response.status_code", status),
            Service::Queue => {
                attributes.push_some("messaging.operation.type", kind_of(self.call.operation));
            }
        }
        attributes.push_some("error.type", failure);
        push_server(&mut attributes, self.endpoint);
        hook.call(|hook| hook.record(metric.name, attributes.as_slice(), seconds));
        if self.service == Service::Queue && self.call.operation == "PutMessage" {
            let mut attributes = described(series, self.service, self.call);
            attributes.push_some("error.type", failure);
            push_server(&mut attributes, self.endpoint);
            hook.call(|hook| hook.count(MESSAGING_SENT.name, attributes.as_slice(), 1));
        }
        let parts = self.call.parts.map(|parts| parts.requests.len());
        if let Some(operations) = self.call.batch.or(parts) {
            let mut attributes = Attributes::new();
            attributes.push("rowkey.operation.name", self.call.operation);
            push_server(&mut attributes, self.endpoint);
            let operations = u32::try_from(operations).unwrap_or(u32::MAX).into();
            hook.call(|hook| hook.record(BATCH_OPERATIONS.name, attributes.as_slice(), operations));
        }
    }
}

/// Reports an attempt when it is over, or dropped.
pub(crate) struct AttemptTimer<'a>(Option<InFlight<'a>>);

struct InFlight<'a> {
    hook: &'a Hook,
    method: &'a Method,
    endpoint: &'a Endpoint,
    /// The bytes in the body of the request.
    sent: u64,
    begun: Instant,
}

impl<'a> AttemptTimer<'a> {
    pub(crate) fn begin(
        hook: &'a Hook,
        method: &'a Method,
        endpoint: &'a Endpoint,
        sent: u64,
    ) -> Self {
        let Some((hook, _)) = hook.installed() else { return Self(None) };
        let in_flight = InFlight { hook, method, endpoint, sent, begun: Instant::now() };
        in_flight.adjust(1);
        Self(Some(in_flight))
    }

    pub(crate) fn end(mut self, result: &std::result::Result<HttpResponse, TransportError>) {
        let Some(in_flight) = self.0.take() else { return };
        match result {
            Ok(HttpResponse { status, body, headers, rest }) => {
                let text = status_text(status.as_u16());
                let is_error = status.is_client_error() || status.is_server_error();
                let broken = body.as_ref().err().map(|error| error.class);
                let failure = if is_error { Some(text) } else { broken };
                let length = match rest {
                    // It is read later.
                    Some(_) => super::http::content_length(headers),
                    None => body.as_ref().ok().map(|body| body.len() as u64),
                };
                in_flight.report(Some(text), failure, length);
            }
            Err(broken) => in_flight.report(None, Some(broken.class), None),
        }
    }
}

impl Drop for AttemptTimer<'_> {
    fn drop(&mut self) {
        if let Some(in_flight) = self.0.take() {
            in_flight.report(None, Some(CANCELLED), None);
        }
    }
}

impl InFlight<'_> {
    fn report(&self, status: Option<&str>, failure: Option<&str>, received: Option<u64>) {
        let seconds = self.begun.elapsed().as_secs_f64();
        // First, and in a call of its own: a hook that panics must not leave it in flight.
        self.adjust(-1);
        let mut attributes = Attributes::new();
        attributes.push("http.request.method", self.method.as_str());
        attributes.push_some("http.response.status_code", status);
        attributes.push_some("error.type", failure);
        push_server(&mut attributes, self.endpoint);
        let attributes = attributes.as_slice();
        self.hook.call(|hook| {
            hook.record(HTTP_DURATION.name, attributes, seconds);
            hook.record(HTTP_REQUEST_SIZE.name, attributes, as_f64(self.sent));
            if let Some(received) = received {
                hook.record(HTTP_RESPONSE_SIZE.name, attributes, as_f64(received));
            }
        });
    }

    fn adjust(&self, change: i64) {
        let mut attributes = Attributes::new();
        attributes.push("http.request.method", self.method.as_str());
        push_server(&mut attributes, self.endpoint);
        self.hook.call(|hook| hook.adjust(HTTP_ACTIVE.name, attributes.as_slice(), change));
    }
}

/// Counts a failed attempt, if the service was busy.
#[cold]
pub(crate) fn failed(hook: &Hook, endpoint: &Endpoint, error: &Error) {
    if error.kind() == ErrorKind::Throttled {
        count_failure(hook, endpoint, error, THROTTLED.name);
    }
}

/// Counts an attempt that follows a failed one, after a wait.
#[cold]
pub(crate) fn retried(hook: &Hook, endpoint: &Endpoint, error: &Error, wait: Duration) {
    count_failure(hook, endpoint, error, RETRIES.name);
    let mut attributes = Attributes::new();
    push_server(&mut attributes, endpoint);
    let seconds = wait.as_secs_f64();
    hook.call(|hook| hook.record(RETRY_DELAY.name, attributes.as_slice(), seconds));
}

/// Counts an attempt that does not follow a failed one, because the retry budget is used up.
#[cold]
pub(crate) fn withheld(hook: &Hook, endpoint: &Endpoint, error: &Error) {
    count_failure(hook, endpoint, error, RETRIES_WITHHELD.name);
}

fn count_failure(hook: &Hook, endpoint: &Endpoint, error: &Error, metric: &'static str) {
    let mut attributes = Attributes::new();
    attributes.push("error.type", error_type(error));
    push_server(&mut attributes, endpoint);
    hook.call(|hook| hook.count(metric, attributes.as_slice(), 1));
}

/// Reports how many rows or messages the response to a read has.
pub(crate) fn returned(
    hook: &Hook,
    service: Service,
    call: &Call<'_>,
    endpoint: &Endpoint,
    number: usize,
) {
    let Some((hook, series)) = hook.installed() else { return };
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mut attributes = described(series, service, call);
    push_server(&mut attributes, endpoint);
    let attributes = attributes.as_slice();
    hook.call(|hook| match service {
        Service::Table => hook.record(DB_RETURNED_ROWS.name, attributes, number.into()),
        Service::Queue => hook.count(MESSAGING_CONSUMED.name, attributes, number.into()),
        Service::Blob => {}
    });
}

/// The attributes of an operation.
fn described<'a>(series: &Series, service: Service, call: &'a Call<'_>) -> Attributes<'a> {
    let mut attributes = Attributes::new();
    let (resource, operation) = match service {
        Service::Table => {
            attributes.push("db.system.name", TABLES);
            ("db.collection.name", "db.operation.name")
        }
        Service::Queue => {
            attributes.push("messaging.system", MESSAGING);
            ("messaging.destination.name", "messaging.operation.name")
        }
        Service::Blob => ("rowkey.container.name", "rowkey.operation.name"),
    };
    attributes.push(operation, call.operation);
    if !call.resource.is_empty() {
        attributes.push(resource, series.bounded(resource, call.resource));
    }
    attributes
}

/// The `messaging.operation.type` of an operation on messages.
fn kind_of(operation: &str) -> Option<&'static str> {
    match operation {
        "PutMessage" => Some("send"),
        "GetMessages" | "PeekMessages" => Some("receive"),
        "DeleteMessage" => Some("settle"),
        _ => None,
    }
}

fn push_server<'a>(attributes: &mut Attributes<'a>, endpoint: &'a Endpoint) {
    attributes.push("server.address", endpoint.host());
    attributes.push("server.port", endpoint.port_text());
}

#[expect(clippy::cast_precision_loss, reason = "sizes of bodies are far below 2^53")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}
