//! The server's clock: the machine's or a manual one, either of which can be advanced.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowkey_wire::edm::DateTime;

/// Ticks (100 ns) from 0001-01-01 to 1970-01-01.
const EPOCH: i64 = 621_355_968_000_000_000;

/// What the server takes the time from. Clones are the same clock.
///
/// Everything that happens with time on the server (timestamps, the expiry of shared access
/// signatures, blocked table names) follows it, so a test advances it instead of waiting.
#[derive(Clone)]
pub struct ServerClock(Arc<Inner>);

struct Inner {
    /// The machine's clock when there is none.
    fixed: Option<i64>,
    /// Ticks that it was advanced by.
    advanced: AtomicI64,
}

impl ServerClock {
    /// The machine's clock.
    pub(crate) fn real() -> Self {
        Self(Arc::new(Inner { fixed: None, advanced: AtomicI64::new(0) }))
    }

    /// A clock that stands at `start` until it is advanced.
    pub(crate) fn manual(start: DateTime) -> Self {
        Self(Arc::new(Inner { fixed: Some(start.ticks()), advanced: AtomicI64::new(0) }))
    }

    /// The time on this clock.
    pub fn now(&self) -> DateTime {
        let base = self.0.fixed.unwrap_or_else(machine_ticks);
        let ticks = base.saturating_add(self.0.advanced.load(Ordering::Relaxed));
        DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX)
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let ticks = i64::try_from(by.as_nanos() / 100).unwrap_or(i64::MAX);
        self.0.advanced.fetch_add(ticks, Ordering::Relaxed);
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.fixed.is_some() { "manual" } else { "real" };
        write!(f, "ServerClock({kind}, {})", self.now())
    }
}

/// Seconds since 1970 of an instant.
pub(crate) const fn unix_seconds(instant: DateTime) -> i64 {
    (instant.ticks() - EPOCH) / 10_000_000
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the machine's clock"
)]
fn machine_ticks() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX).saturating_add(EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_it_is_advanced() {
        let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let same = clock.clone();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_millis(1500));
        assert_eq!(same.now().to_string(), "2026-01-01T00:00:01.5Z");
        assert_eq!(unix_seconds(same.now()), 1_767_225_601);
    }
}
