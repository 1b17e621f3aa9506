//! The preconditions of an operation.

use chrono::{DateTime, Utc};
use rowkey_wire::etag::{ETag, Match};

use crate::blob::wire::encode;
use crate::transport::Safety;

/// The preconditions of an operation.
///
/// Set them on a handle with [`Blob::with_conditions`](super::Blob::with_conditions). A write whose
/// condition does not hold fails with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) and
/// changes nothing; a read that finds nothing newer fails with
/// [`ErrorKind::NotModified`](crate::ErrorKind::NotModified).
///
/// ```
/// use rowkey::blob::Conditions;
/// use rowkey::{ETag, Match};
///
/// let read = ETag::new("\"0x8D9C0DFD1829915\"");
/// assert_eq!(Conditions::from(&read).if_match, Some(Match::ETag(read)));
/// assert_eq!(Conditions::missing().if_none_match, Some(Match::Any));
/// ```
///
/// [Conditional headers](https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// It has this `ETag`, or, for `Match::Any`, it exists.
    pub if_match: Option<Match>,
    /// It does not have this `ETag`, or, for `Match::Any`, it does not exist.
    pub if_none_match: Option<Match>,
    /// It was changed after this time. The service compares whole seconds.
    pub if_modified_since: Option<DateTime<Utc>>,
    /// It was not changed after this time. The service compares whole seconds.
    pub if_unmodified_since: Option<DateTime<Utc>>,
}

impl Conditions {
    /// Requires that it no longer has this `ETag`, for reading only if there is something new.
    pub fn changed(etag: &ETag) -> Self {
        Self { if_none_match: Some(etag.into()), ..Self::default() }
    }

    /// Requires that it does not exist.
    pub fn missing() -> Self {
        Self { if_none_match: Some(Match::Any), ..Self::default() }
    }

    /// Replaces the conditions of a handle and keeps its lease.
    pub(crate) fn place(self, wire: &mut encode::Conditions) {
        wire.matches = self.if_match;
        wire.none_match = self.if_none_match;
        wire.modified_since = self.if_modified_since;
        wire.unmodified_since = self.if_unmodified_since;
    }
}

/// Requires that it still has this `ETag`.
impl From<&ETag> for Conditions {
    fn from(etag: &ETag) -> Self {
        Self { if_match: Some(etag.into()), ..Self::default() }
    }
}

impl From<ETag> for Conditions {
    fn from(etag: ETag) -> Self {
        Self::from(&etag)
    }
}

/// The retry safety of a write: one that requires that the blob does not exist is an insert.
pub(super) fn safety(conditions: &encode::Conditions) -> Safety {
    if conditions.none_match == Some(Match::Any) { Safety::Insert } else { Safety::Conditional }
}
