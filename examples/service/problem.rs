//! What goes wrong, as HTTP says it.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use rowkey::{Error, ErrorKind};
use serde_json::json;

/// An answer that is not what was asked for.
pub enum Problem {
    /// The store refuses or fails.
    Store(Error),
    /// The service itself refuses.
    Refused(StatusCode, &'static str),
}

impl Problem {
    pub const NOT_FOUND: Self = Self::Refused(StatusCode::NOT_FOUND, "there is none");
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = match self {
            Self::Refused(status, what) => {
                return (status, Json(json!({ "error": what }))).into_response();
            }
            Self::Store(error) => error,
        };
        let status = match error.kind() {
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::AlreadyExists => StatusCode::CONFLICT,
            ErrorKind::Conflict => StatusCode::PRECONDITION_FAILED,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            _ if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        // Messages of errors hold neither keys nor content, and yet are for the operator.
        eprintln!("{error}");
        let taken = error.index().filter(|_| status == StatusCode::CONFLICT);
        let body = Json(json!({ "error": status.canonical_reason(), "taken": taken }));
        let wait = error.retry_after().map_or(1, |wait| wait.as_secs().max(1));
        let headers: &[(HeaderName, String)] = match status {
            StatusCode::SERVICE_UNAVAILABLE => &[(RETRY_AFTER, wait.to_string())],
            _ => &[],
        };
        (status, headers, body).into_response()
    }
}
