//! What errors say about a request, for decisions of several modules.

use rowkey_client::{Error, ErrorCode, ErrorKind, Outcome};

/// Returns whether another program changed, created or deleted the rows first.
pub(crate) fn is_taken(error: &Error) -> bool {
    [ErrorKind::AlreadyExists, ErrorKind::Conflict, ErrorKind::NotFound].contains(&error.kind())
}

/// Returns whether the request may have been applied by an earlier attempt, or another program was faster.
pub(crate) fn may_be_applied(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown || is_taken(error)
}

pub(crate) fn is_missing_queue(error: &Error) -> bool {
    error.code() == Some(&ErrorCode::QUEUE_NOT_FOUND)
}

pub(crate) fn is_missing_table(error: &Error) -> bool {
    error.code() == Some(&ErrorCode::TABLE_NOT_FOUND)
}
