//! When written data is synced to the disk.

use std::time::Duration;

/// When a server that keeps its data syncs it to the disk, so that it survives a loss of power.
/// Acknowledged changes survive the end of the process under every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// Before each response to a request that changed data. Concurrent requests share one sync.
    Always,
    /// At this interval, on a separate thread: a loss of power may undo changes acknowledged since
    /// the last sync, but no earlier ones, and no transaction in part.
    Interval(Duration),
}

impl Default for SyncPolicy {
    /// Once a second.
    fn default() -> Self {
        Self::Interval(Duration::from_secs(1))
    }
}
