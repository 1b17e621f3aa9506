//! Responses in JSON, and the errors of Microsoft Entra ID.

use std::borrow::Cow;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA};
use http::{HeaderValue, StatusCode};
use rowkey_wire::edm::DateTime;
use serde_json::{Value, json};

use crate::front::respond::{self, HttpResponse};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store, no-cache");

/// A response with a document.
pub(super) fn json(status: StatusCode, document: &Value) -> HttpResponse {
    let mut answer = respond::with_body(status, document.to_string());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    answer
}

/// Why there is no token.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: &'static str,
    /// The number of an `AADSTS` error.
    number: Option<u32>,
    message: Cow<'static, str>,
}

impl Refusal {
    /// An error with one of the codes of OAuth 2.0.
    pub(super) fn new(
        status: StatusCode,
        error: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, error, number: None, message: message.into() }
    }

    /// 400, with the number of an `AADSTS` error.
    pub(super) fn aadsts(
        error: &'static str,
        number: u32,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { number: Some(number), ..Self::new(StatusCode::BAD_REQUEST, error, message) }
    }

    /// 401 for an application that is not authenticated.
    pub(super) fn client(number: u32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, ..Self::aadsts("invalid_client", number, message) }
    }

    /// Signing failed, which has no other cause than the system's random numbers.
    pub(super) fn unsigned() -> Self {
        let message = "The token could not be signed.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// The response.
    pub(super) fn answer(&self, trace: &HeaderValue, now: DateTime) -> HttpResponse {
        let Self { status, error, number, message } = self;
        let Some(number) = number else {
            return json(*status, &json!({"error": error, "error_description": message}));
        };
        let trace = trace.to_str().unwrap_or_default();
        let now = now.to_string();
        let time = now.split('.').next().unwrap_or_default().trim_end_matches('Z');
        let time = format!("{}Z", time.replace('T', " "));
        let description = format!(
            "AADSTS{number}: {message} Trace ID: {trace} Correlation ID: {trace} Timestamp: {time}"
        );
        let document = json!({
            "error": error,
            "error_description": description,
            "error_codes": [number],
            "timestamp": time,
            "trace_id": trace,
            "correlation_id": trace,
        });
        json(*status, &document)
    }
}
