//! Spans and events, named by the OpenTelemetry conventions of Azure's libraries.
//!
//! One span for each operation, `warn` for a retry, `error` for a failure that the caller did not
//! expect. Without a subscriber, an operation costs a few loads and no allocation.
//!
//! Conventions: <https://azure.github.io/azure-sdk/opentelemetry_conventions.html>. They ask implementations
//! to keep the `az.` names until the `azure.` names that will replace them are stable.

use std::time::Duration;

use http::HeaderValue;
use rowkey_wire::auth::Service;
use tracing::field::{Empty, display};
use tracing::{Level, Span};

use super::call::{Call, Reply};
use super::redact;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::options::ClientOptions;
use crate::telemetry::error_type;
use crate::transport::Request;

/// The `db.system.name` of tables.
pub(super) const TABLES: &str = "azure.tables";

/// The `messaging.system` of queues.
pub(super) const MESSAGING: &str = "azure_queues";

/// The span of an operation.
pub(crate) fn operation(
    call: &Call<'_>,
    request: &Request,
    endpoint: &Endpoint,
    options: &ClientOptions,
) -> Span {
    if !tracing::enabled!(target: "rowkey", Level::INFO) {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: "rowkey",
        "storage operation",
        otel.name = call.operation,
        otel.kind = "client",
        az.namespace = namespace(request.service),
        db.system.name = Empty,
        db.operation.name = Empty,
        db.collection.name = Empty,
        db.operation.batch.size = Empty,
        messaging.system = Empty,
        messaging.destination.name = Empty,
        az.storage.container = Empty,
        http.request.method = request.method.as_str(),
        server.address = endpoint.host(),
        server.port = endpoint.port(),
        url.template = &*redact::target(request.service, &request.target),
        url.path = Empty,
        az.client_request_id = Empty,
        az.service_request_id = Empty,
        http.request.resend_count = Empty,
        http.response.status_code = Empty,
        otel.status_code = Empty,
        error.type = Empty,
    );
    match request.service {
        Service::Blob => span.record("az.storage.container", call.resource),
        Service::Queue => {
            span.record("messaging.system", MESSAGING);
            span.record("messaging.destination.name", call.resource)
        }
        Service::Table => {
            span.record("db.system.name", TABLES);
            span.record("db.operation.name", call.operation);
            span.record("db.collection.name", call.resource)
        }
    };
    // The conventions know no batches of one.
    if let Some(operations) = call.batch.filter(|operations| *operations > 1) {
        span.record("db.operation.batch.size", operations);
    }
    if options.record_keys {
        // Without the shared access signature, which is added only when the request is sent.
        span.record("url.path", &*request.target);
    }
    span
}

fn namespace(service: Service) -> &'static str {
    match service {
        Service::Table => "Microsoft.Tables",
        Service::Blob | Service::Queue => "Microsoft.Storage",
    }
}

/// Records the attempt that is about to be sent, or whose answer counts.
pub(crate) fn attempt(span: &Span, id: &HeaderValue) {
    if !span.is_disabled() {
        span.record("az.client_request_id", id.to_str().unwrap_or_default());
    }
}

/// Records that an attempt failed and another one follows.
#[cold]
pub(crate) fn retry(call: &Call<'_>, error: &Error, attempt: u32, wait: Duration) {
    tracing::warn!(
        target: "rowkey",
        operation = call.operation,
        resource = call.resource,
        attempt,
        wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        reason = %error_type(error),
        outcome = ?error.outcome(),
        "retrying"
    );
}

/// Records the end of the operation.
pub(crate) fn finish(span: &Span, call: &Call<'_>, result: &Result<Reply>) {
    match result {
        Ok(reply) => {
            if !span.is_disabled() {
                record(span, Some(reply.status.as_u16()), reply.request_id(), reply.attempts);
            }
        }
        Err(error) => failed(span, call, error),
    }
}

#[cold]
fn failed(span: &Span, call: &Call<'_>, error: &Error) {
    let details = error.details();
    record(span, details.status, details.request_id.as_deref(), details.attempts);
    if details.status.is_some_and(|status| call.expected.contains(&status)) {
        return;
    }
    span.record("otel.status_code", "ERROR");
    span.record("error.type", display(error_type(error)));
    tracing::error!(target: "rowkey", parent: span, "{error}");
}

fn record(span: &Span, status: Option<u16>, request_id: Option<&str>, attempts: u32) {
    if let Some(status) = status {
        span.record("http.response.status_code", status);
    }
    if let Some(id) = request_id {
        span.record("az.service_request_id", id);
    }
    if attempts > 1 {
        span.record("http.request.resend_count", attempts - 1);
    }
}
