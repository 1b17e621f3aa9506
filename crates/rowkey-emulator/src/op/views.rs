//! What the store reports of containers and blobs, for the responses that list them.

use super::tags::Tags;

/// A lease in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseView {
    /// `unlocked` or `locked`
    pub(crate) status: &'static str,
    /// `available`, `leased`, `expired`, `breaking` or `broken`
    pub(crate) state: &'static str,
    /// `fixed` or `infinite`, if the lease is held
    pub(crate) duration: Option<&'static str>,
}

/// A blob that Find Blobs by Tags returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundView<'a> {
    /// Its container.
    pub(crate) container: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its tags.
    pub(crate) tags: &'a Tags,
}
