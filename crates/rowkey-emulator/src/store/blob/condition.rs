//! Conditions on entity tags, times and index tags, as reads and writes evaluate them.

use http::StatusCode;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::entry::{Blob, Version};
use crate::clock::unix_seconds;
use crate::op::condition::{Conditions, Match, Outcome};
use crate::op::tags::Tags;

/// The current values that conditions are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current<'a> {
    pub(super) version: Version,
    /// `None` for a container, which has no tags.
    pub(super) tags: Option<&'a Tags>,
}

impl<'a> From<&'a Blob> for Current<'a> {
    fn from(blob: &'a Blob) -> Self {
        Self { version: blob.version, tags: Some(&blob.tags) }
    }
}

/// Rejects a read that does not meet the conditions. Unchanged data is 304.
pub(super) fn for_read<'a>(
    conditions: &Conditions,
    current: impl Into<Current<'a>>,
) -> Result<(), Rejection> {
    if *conditions == Conditions::NONE {
        return Ok(());
    }
    if conditions.none_match == Some(Match::Any) {
        return Err(Rejection::new(ErrorCode::UNSATISFIABLE_CONDITION));
    }
    match outcome(conditions, current.into()) {
        Outcome::Met => Ok(()),
        Outcome::Failed => Err(not_met()),
        Outcome::Unchanged => Err(Rejection { status: StatusCode::NOT_MODIFIED, ..not_met() }),
    }
}

/// Rejects a change that does not meet the conditions.
pub(super) fn for_change<'a>(
    conditions: &Conditions,
    current: impl Into<Current<'a>>,
) -> Result<(), Rejection> {
    if *conditions == Conditions::NONE || outcome(conditions, current.into()) == Outcome::Met {
        Ok(())
    } else {
        Err(not_met())
    }
}

/// Rejects a write that does not meet the conditions, where the blob may not exist yet.
///
/// Recorded: for the holder of a lease, `If-None-Match: *` is met even if there is a blob.
pub(super) fn for_put(
    conditions: &Conditions,
    current: Option<&Blob>,
    is_holder: bool,
) -> Result<(), Rejection> {
    match current {
        Some(_) if conditions.none_match == Some(Match::Any) && is_holder => Ok(()),
        Some(_) if conditions.none_match == Some(Match::Any) => {
            Err(Rejection::new(ErrorCode::BLOB_ALREADY_EXISTS))
        }
        Some(blob) => for_change(conditions, blob),
        None if conditions.matches.is_some() || conditions.tags.is_some() => Err(not_met()),
        None => Ok(()),
    }
}

/// Rejects a copy if its source does not meet the conditions.
pub(super) fn for_source(conditions: &Conditions, source: &Blob) -> Result<(), Rejection> {
    for_change(conditions, source).map_err(|rejection| {
        of_copy(rejection, conditions, Some(source), ErrorCode::SOURCE_CONDITION_NOT_MET)
    })
}

/// Changes the error to name the target of a copy as the blob that does not meet the conditions.
pub(super) fn on_target(
    rejection: Rejection,
    conditions: &Conditions,
    target: Option<&Blob>,
) -> Rejection {
    of_copy(rejection, conditions, target, ErrorCode::TARGET_CONDITION_NOT_MET)
}

/// For a copy, the error for an unmet condition tells which of the two blobs does not meet it. The
/// error for a condition on index tags does not, according to a test of the official Python library
/// and to Azurite.
fn of_copy(
    rejection: Rejection,
    conditions: &Conditions,
    blob: Option<&Blob>,
    code: ErrorCode,
) -> Rejection {
    let is_by_tags = conditions
        .tags
        .as_ref()
        .is_some_and(|filter| blob.is_none_or(|blob| !filter.matches(&blob.tags, "")));
    if rejection.code == ErrorCode::CONDITION_NOT_MET && !is_by_tags {
        Rejection::new(code)
    } else {
        rejection
    }
}

fn outcome(conditions: &Conditions, Current { version, tags }: Current<'_>) -> Outcome {
    let none = Tags::default();
    let tags = tags.unwrap_or(&none);
    conditions.evaluate(version.tag, unix_seconds(version.modified), tags)
}

fn not_met() -> Rejection {
    Rejection::new(ErrorCode::CONDITION_NOT_MET)
}
