//! How long blobs are left alone that nothing names, because whoever wrote them may be about to.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::{Container, Error, ErrorKind, Result};

/// For how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard(pub(crate) Duration);

impl Default for Guard {
    fn default() -> Self {
        Self(Duration::from_secs(24 * 60 * 60))
    }
}

impl Guard {
    /// Refuses a guard that could be over before an operation is, or its last request has arrived.
    pub(crate) fn check(self, timeout: Duration) -> Result<()> {
        if self.0 >= timeout * 4 {
            return Ok(());
        }
        let what = format!(
            "blobs are guarded for {} seconds, and an operation may take {}: it must be four times as \
             long",
            self.0.as_secs(),
            timeout.as_secs()
        );
        Err(Error::refused(ErrorKind::Invalid, what)
            .advise("guard them for longer, or lower the timeout"))
    }

    /// Until what age a blob may be named by an operation that begins now: half of the guard is for
    /// what is under way.
    pub(crate) fn young(self, timeout: Duration) -> TimeDelta {
        let young = (self.0 / 2).saturating_sub(timeout);
        TimeDelta::from_std(young).unwrap_or(TimeDelta::MAX)
    }

    /// Whether a blob that was written then may be deleted.
    pub(crate) fn is_over(self, modified: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        // Both are in whole seconds.
        let guard = TimeDelta::from_std(self.0).unwrap_or(TimeDelta::MAX);
        (now - modified).checked_sub(&TimeDelta::seconds(1)).is_some_and(|age| age > guard)
    }
}

/// The time where the ages of blobs are counted, as a blob of this name tells that is written for it.
/// Nothing is trusted of this machine's clock.
pub(crate) async fn service_time(container: &Container, name: &str) -> Result<DateTime<Utc>> {
    let written = container.blob(name).put("").send().await?;
    written.modified.ok_or_else(|| {
        let what = "the service does not say when a blob was written";
        Error::refused(ErrorKind::Decode, what)
    })
}
