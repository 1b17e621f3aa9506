//! When what is written is forced to the disk itself.

use std::time::Duration;

/// When a server that keeps its data forces it to the disk itself, which is what survives a loss of
/// power. What is acknowledged survives the death of the process in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// Before each answer to a request that changed something. Requests that come together share
    /// one sync.
    Always,
    /// So often, on a thread of its own: a loss of power may undo what was acknowledged since the
    /// last time, but nothing before, and no transaction in part.
    Interval(Duration),
}

impl Default for SyncPolicy {
    /// Once a second.
    fn default() -> Self {
        Self::Interval(Duration::from_secs(1))
    }
}
