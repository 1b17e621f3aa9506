//! What meters and receipts make of an attempt: whether it was sent, whether it is billed, and as what.

use rowkey_wire::code::ErrorCode;

use super::batch;
use super::call::Call;
use super::http::{ErrorText, HttpResponse, TransportError, content_type};
use super::sign::Signed;
use crate::cost::{Counting, Meters, Request, Response};
use crate::error::Outcome;
use crate::telemetry::Hook;

/// Begins to count an attempt; `None` if nothing counts it.
pub(super) fn begin<'a>(
    meters: &Meters,
    telemetry: &'a Hook,
    call: &Call<'_>,
    signed: &Signed,
) -> Option<Counting<'a>> {
    let parts = call.parts.map(|parts| parts.requests.len());
    let sent =
        Request { operation: call.operation, parts, sent: signed.request.body().len() as u64 };
    Counting::begin(meters, telemetry, sent, &signed.id)
}

/// Counts an attempt that is over. The pieces of a body that is read later are counted as they are read.
pub(super) fn end(
    counting: Counting<'_>,
    call: &Call<'_>,
    result: &mut Result<HttpResponse, TransportError>,
) {
    match result {
        Err(error) if error.outcome == Outcome::NotSent => counting.was_not_sent(),
        Err(_) => counting.end(Response::default(), None),
        Ok(answer) => {
            if let Some(rest) = &mut answer.rest {
                rest.counted_by(counting.received());
            }
            counting.end(response(call, answer), answer.request_id());
        }
    }
}

fn response(call: &Call<'_>, answer: &HttpResponse) -> Response {
    let HttpResponse { status, headers, body, .. } = answer;
    let body = body.as_ref().map(|body| &**body).unwrap_or_default();
    // A batch that was refused has a successful status.
    let part = call.batch.filter(|_| status.is_success());
    let part = part.and_then(|_| batch::failure(content_type(headers), body));
    let (status, text) = match &part {
        Some(part) => (part.status, part.body),
        None => (status.as_u16(), body),
    };
    Response {
        status: Some(status),
        is_unauthenticated: status == 403 && is_about_authentication(headers, text),
        returns_messages: call.operation == "GetMessages" && has_message(body),
        received: body.len() as u64,
    }
}

#[cold]
fn is_about_authentication(headers: &http::HeaderMap, body: &[u8]) -> bool {
    let codes = [ErrorCode::AUTHENTICATION_FAILED, ErrorCode::INVALID_AUTHENTICATION_INFO];
    ErrorText::of(headers, body).code.is_some_and(|code| codes.contains(&code))
}

/// Whether the body of an answer to `GetMessages` has a message.
fn has_message(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"<QueueMessage>").is_some()
}
