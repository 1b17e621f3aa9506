//! Errors from unsuccessful responses, and from attempts without a response.

use std::borrow::Cow;

use rowkey_wire::code::ErrorCode;

use super::{Call, Reply, Safety};
use crate::error::{Error, ErrorDetails, ErrorKind, Outcome};

/// An unsuccessful response: the whole one, or a part of a transaction's.
#[derive(Debug, Default)]
pub(crate) struct Failure<'a> {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The service's error code, if it sent one.
    pub(crate) code: Option<ErrorCode>,
    /// The service's message.
    pub(crate) message: Option<String>,
    /// `x-ms-request-id`.
    pub(crate) request_id: Option<&'a str>,
    /// How many attempts were made, this one included.
    pub(crate) attempts: u32,
    /// Whether the outcome of an earlier attempt is unknown.
    pub(crate) ambiguous: bool,
}

impl Error {
    /// The error for an unsuccessful response to `call`.
    #[cold]
    pub(crate) fn from_response(call: &Call<'_>, failure: Failure<'_>) -> Self {
        let Failure { status, code, message, request_id, attempts, ambiguous } = failure;
        let code = code.filter(is_plausible);
        let mut outcome = outcome_of(status, code.as_ref());
        let changes = call.safety != Safety::Read;
        if ambiguous && changes {
            // The refusal may be the effect of this operation's own first attempt.
            outcome = Outcome::Unknown;
        }
        let kind = kind_of(status, code.as_ref());
        let what = what(status, code.as_ref(), kind);
        let existing = code.as_ref().and_then(for_existing);
        let is_blocked = code.as_ref().is_some_and(is_being_deleted);
        let details = ErrorDetails {
            status: Some(status),
            request_id: request_id.map(Into::into),
            attempts,
            service_message: message.map(String::into_boxed_str),
            ..ErrorDetails::default()
        };
        let error = Self::failed((kind, outcome), what, code, changes, details)
            .of(call.operation, call.resource);
        if kind == ErrorKind::Decode {
            error.advise("check the endpoint: a storage service says in a code why it refuses")
        } else if let Some(advice) = existing {
            error.advise(advice)
        } else if is_blocked {
            error.advise(
                "its name is free again 30 seconds or more after it was deleted; \
                 `create_if_missing_within` waits for that",
            )
        } else {
            error
        }
    }

    /// Adds the details of the successful response that cannot be decoded. A write may have been
    /// applied then; a read has changed nothing.
    #[cold]
    pub(crate) fn of_answer(self, call: &Call<'_>, reply: &Reply) -> Self {
        let (status, id) = (reply.status.as_u16(), reply.request_id());
        self.of(call.operation, call.resource).received(
            call.safety != Safety::Read,
            status,
            id,
            reply.attempts,
        )
    }

    /// The error for an attempt at `call` that got no complete response.
    #[cold]
    pub(crate) fn transport(
        call: &Call<'_>,
        kind: ErrorKind,
        what: &'static str,
        outcome: Outcome,
        attempts: u32,
    ) -> Self {
        let changes = call.safety != Safety::Read;
        let details = ErrorDetails { attempts, ..ErrorDetails::default() };
        Self::failed((kind, outcome), what.into(), None, changes, details)
            .of(call.operation, call.resource)
    }
}

/// The kind of an unsuccessful response.
fn kind_of(status: u16, code: Option<&ErrorCode>) -> ErrorKind {
    let known = KINDS.iter().find(|(known, _)| Some(known) == code);
    if let Some((_, kind)) = known {
        return *kind;
    }
    if code.is_some_and(|code| code.as_str().starts_with("Lease")) {
        return ErrorKind::Leased;
    }
    match status {
        304 => ErrorKind::NotModified,
        401 | 403 => ErrorKind::Auth,
        // Without an error code of the service, the response comes from another server: "not found"
        // then says nothing about the resource, and "conflict" does not prove that it exists.
        404 if code.is_none() => ErrorKind::Decode,
        404 => ErrorKind::NotFound,
        408 | 500 | 502..=504 => ErrorKind::Unavailable,
        409 => match code {
            Some(code) if code.as_str().ends_with("AlreadyExists") => ErrorKind::AlreadyExists,
            Some(_) => ErrorKind::Unexpected,
            None => ErrorKind::Decode,
        },
        412 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::Throttled,
        400..=499 | 501 => ErrorKind::Invalid,
        _ => ErrorKind::Unexpected,
    }
}

/// The error codes that are more specific than their HTTP status.
const KINDS: [(ErrorCode, ErrorKind); 23] = [
    (ErrorCode::BLOB_IS_SEALED, ErrorKind::Invalid),
    (ErrorCode::BLOCK_COUNT_EXCEEDS_LIMIT, ErrorKind::TooLarge),
    (ErrorCode::CONTAINER_BEING_DELETED, ErrorKind::Unavailable),
    (ErrorCode::CRC64_MISMATCH, ErrorKind::Damaged),
    (ErrorCode::ENTITY_TOO_LARGE, ErrorKind::TooLarge),
    (ErrorCode::INFINITE_LEASE_DURATION_REQUIRED, ErrorKind::Leased),
    (ErrorCode::INVALID_AUTHENTICATION_INFO, ErrorKind::Auth),
    (ErrorCode::INVALID_BLOB_TYPE, ErrorKind::Invalid),
    (ErrorCode::KEY_VALUE_TOO_LARGE, ErrorKind::TooLarge),
    (ErrorCode::MAX_BLOB_SIZE_CONDITION_NOT_MET, ErrorKind::TooLarge),
    (ErrorCode::MD5_MISMATCH, ErrorKind::Damaged),
    (ErrorCode::MESSAGE_TOO_LARGE, ErrorKind::TooLarge),
    (ErrorCode::OPERATION_TIMED_OUT, ErrorKind::Unavailable),
    (ErrorCode::POP_RECEIPT_MISMATCH, ErrorKind::Conflict),
    (ErrorCode::PROPERTY_VALUE_TOO_LARGE, ErrorKind::TooLarge),
    (ErrorCode::QUEUE_BEING_DELETED, ErrorKind::Unavailable),
    (ErrorCode::REQUEST_BODY_TOO_LARGE, ErrorKind::TooLarge),
    (ErrorCode::SERVER_BUSY, ErrorKind::Throttled),
    (ErrorCode::SNAPSHOTS_PRESENT, ErrorKind::Invalid),
    (ErrorCode::TABLE_BEING_DELETED, ErrorKind::Unavailable),
    (ErrorCode::TOO_MANY_PROPERTIES, ErrorKind::TooLarge),
    (ErrorCode::TOO_MANY_REQUESTS, ErrorKind::Throttled),
    (ErrorCode::UNSATISFIABLE_CONDITION, ErrorKind::Invalid),
];

/// The outcome after an unsuccessful response.
///
/// An error code on a 503 proves that the service itself refused the request. Without one, the
/// response may come from an intermediary, which does not know what happened to the request it
/// passed on.
pub(crate) fn outcome_of(status: u16, code: Option<&ErrorCode>) -> Outcome {
    match status {
        408 | 503 if code.is_some_and(|code| code.status().is_some()) => Outcome::Rejected,
        408 | 500 | 502..=504 => Outcome::Unknown,
        _ => Outcome::Rejected,
    }
}

/// Whether the code means that a table, queue or container of this name is still being deleted.
pub(crate) fn is_being_deleted(code: &ErrorCode) -> bool {
    [
        ErrorCode::CONTAINER_BEING_DELETED,
        ErrorCode::QUEUE_BEING_DELETED,
        ErrorCode::TABLE_BEING_DELETED,
    ]
    .contains(code)
}

/// The advice for a resource that exists already and is not an entity.
fn for_existing(code: &ErrorCode) -> Option<&'static str> {
    let created = [
        ErrorCode::CONTAINER_ALREADY_EXISTS,
        ErrorCode::QUEUE_ALREADY_EXISTS,
        ErrorCode::TABLE_ALREADY_EXISTS,
    ];
    if created.contains(code) {
        Some("use it, or create it with `create_if_missing`")
    } else if *code == ErrorCode::BLOB_ALREADY_EXISTS {
        Some("read it, or write it without the condition that it is missing")
    } else {
        None
    }
}

/// A code is a single word. Other text came from another server and might quote the request.
fn is_plausible(code: &ErrorCode) -> bool {
    let text = code.as_str();
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn what(status: u16, code: Option<&ErrorCode>, kind: ErrorKind) -> Cow<'static, str> {
    let text = match kind {
        ErrorKind::AlreadyExists => "it exists already",
        ErrorKind::Auth => "access was refused",
        ErrorKind::Conflict => "it was changed since it was read",
        ErrorKind::Damaged => "what was sent arrived damaged",
        ErrorKind::Invalid => "the service refused the request",
        ErrorKind::Leased => "a lease stands in the way",
        ErrorKind::NotFound => "it does not exist",
        ErrorKind::NotModified => "it was not changed",
        ErrorKind::Throttled => "the service is throttling",
        ErrorKind::TooLarge => "a limit of the service was exceeded",
        ErrorKind::Unavailable => "the service could not do it now",
        ErrorKind::Decode => "the answer is not that of a storage service",
        ErrorKind::Unexpected => "the answer was not expected",
    };
    match code {
        Some(code) => format!("{text} ({status} {code})").into(),
        None => format!("{text} ({status})").into(),
    }
}

#[cfg(test)]
mod tests;
