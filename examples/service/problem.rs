//! Errors as HTTP responses.

use axum::Json;
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use rowkey::{Error, ErrorCode, ErrorKind, Outcome};
use rowkey_store::IfMatchError;
use serde_json::json;

/// A status, the declaration whose value is taken, and how long a client should wait.
pub(crate) struct Problem(StatusCode, Option<&'static str>, Option<std::time::Duration>);

impl From<StatusCode> for Problem {
    fn from(status: StatusCode) -> Self {
        Self(status, None, None)
    }
}

/// 428 for a change without `If-Match`, 400 for a malformed header.
impl From<IfMatchError> for Problem {
    fn from(error: IfMatchError) -> Self {
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        eprintln!("{error}");
        let status = match error.kind() {
            ErrorKind::NotFound if !is_misconfigured(&error) => StatusCode::NOT_FOUND,
            ErrorKind::AlreadyExists => StatusCode::CONFLICT,
            // If the outcome is unknown, the change may have been made.
            ErrorKind::Conflict if error.outcome() != Outcome::Unknown => {
                StatusCode::PRECONDITION_FAILED
            }
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            _ if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.details().index, error.details().retry_after)
    }
}

/// A missing table, queue or container is a fault of this service: the id that the client sent may be right.
fn is_misconfigured(error: &Error) -> bool {
    const MISSING: [ErrorCode; 3] =
        [ErrorCode::TABLE_NOT_FOUND, ErrorCode::QUEUE_NOT_FOUND, ErrorCode::CONTAINER_NOT_FOUND];
    error.code().is_some_and(|code| MISSING.contains(code))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(status, index, wait) = self;
        let body = json!({ "error": status.canonical_reason(), "index": index });
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let wait = wait.map_or(1, |wait| wait.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, wait.into());
        }
        response
    }
}
