//! Conditions on tags and times, as reads and writes answer them.

use http::StatusCode;
use rowkey_wire::blob::tag::{Conditions, Match, Outcome};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::account::Version;
use crate::clock::unix_seconds;

/// Refuses to read what does not meet the conditions; what has not changed is 304.
pub(super) fn for_read(conditions: &Conditions, version: Version) -> Result<(), Rejection> {
    if *conditions == Conditions::NONE {
        return Ok(());
    }
    if conditions.none_match == Some(Match::Any) {
        return Err(Rejection::new(ErrorCode::UNSATISFIABLE_CONDITION));
    }
    match outcome(conditions, version) {
        Outcome::Met => Ok(()),
        Outcome::Failed => Err(not_met()),
        Outcome::Unchanged => Err(Rejection { status: StatusCode::NOT_MODIFIED, ..not_met() }),
    }
}

/// Refuses to change what does not meet the conditions.
pub(super) fn for_change(conditions: &Conditions, version: Version) -> Result<(), Rejection> {
    if *conditions == Conditions::NONE || outcome(conditions, version) == Outcome::Met {
        Ok(())
    } else {
        Err(not_met())
    }
}

/// Refuses to put what does not meet the conditions, where there may be nothing yet.
///
/// Recorded: for the holder of a lease `If-None-Match: *` is met although there is a blob.
pub(super) fn for_put(
    conditions: &Conditions,
    version: Option<Version>,
    is_holder: bool,
) -> Result<(), Rejection> {
    match version {
        Some(_) if conditions.none_match == Some(Match::Any) && is_holder => Ok(()),
        Some(_) if conditions.none_match == Some(Match::Any) => {
            Err(Rejection::new(ErrorCode::BLOB_ALREADY_EXISTS))
        }
        Some(version) => for_change(conditions, version),
        None if conditions.matches.is_some() => Err(not_met()),
        None => Ok(()),
    }
}

/// Refuses to copy what does not meet the conditions on the source.
pub(super) fn for_source(conditions: &Conditions, version: Version) -> Result<(), Rejection> {
    for_change(conditions, version).map_err(|_| Rejection::new(ErrorCode::SOURCE_CONDITION_NOT_MET))
}

/// Of a copy, a condition that is not met says which of the two blobs does not meet it.
pub(super) fn on_target(rejection: Rejection) -> Rejection {
    if rejection.code == ErrorCode::CONDITION_NOT_MET {
        Rejection::new(ErrorCode::TARGET_CONDITION_NOT_MET)
    } else {
        rejection
    }
}

fn outcome(conditions: &Conditions, version: Version) -> Outcome {
    conditions.evaluate(version.tag, unix_seconds(version.modified))
}

fn not_met() -> Rejection {
    Rejection::new(ErrorCode::CONDITION_NOT_MET)
}
