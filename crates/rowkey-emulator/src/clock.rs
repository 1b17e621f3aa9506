//! The server's clock: the machine's or a manual one, either of which can be advanced.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::select;
use rowkey_wire::edm::DateTime;
use tokio::sync::{oneshot, watch};

/// Ticks (100 ns) from 0001-01-01 to 1970-01-01.
const EPOCH: i64 = 621_355_968_000_000_000;

/// The server's source of time. Clones share one clock.
///
/// Everything on the server that depends on time follows it: timestamps, the visibility and expiry
/// of messages, leases, the expiry of shared access signatures, blocked names, injected delays and
/// throttling. A test advances it instead of waiting.
#[derive(Clone)]
pub struct ServerClock(Arc<Inner>);

struct Inner {
    /// The instant at which a manual clock started; `None` for the machine's clock.
    fixed: Option<i64>,
    /// The ticks by which it was advanced.
    advanced: AtomicI64,
    /// Wakes the tasks that sleep on this clock.
    moved: watch::Sender<()>,
}

impl ServerClock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self::new(None, 0)
    }

    /// A clock that stands still at `start` until it is advanced.
    pub fn manual(start: DateTime) -> Self {
        Self::new(Some(start.ticks()), 0)
    }

    /// An independent clock of the same kind that shows the same time.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.0.fixed, self.0.advanced.load(Ordering::Relaxed))
    }

    fn new(fixed: Option<i64>, advanced: i64) -> Self {
        let (moved, _) = watch::channel(());
        Self(Arc::new(Inner { fixed, advanced: AtomicI64::new(advanced), moved }))
    }

    /// The time on this clock.
    pub fn now(&self) -> DateTime {
        let base = self.0.fixed.unwrap_or_else(machine_ticks);
        let ticks = base.saturating_add(self.0.advanced.load(Ordering::Relaxed));
        DateTime::from_ticks(ticks).unwrap_or(DateTime::MAX)
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.advanced.fetch_add(ticks(by), Ordering::Relaxed);
        self.0.moved.send_replace(());
    }

    /// Waits until this clock is `duration` past `start`.
    pub(crate) async fn sleep(&self, start: DateTime, duration: Duration) {
        let mut moved = self.0.moved.subscribe();
        let until = start.ticks().saturating_add(ticks(duration));
        loop {
            let left = until.saturating_sub(self.now().ticks());
            let Ok(left) = u64::try_from(left) else { return };
            if left == 0 {
                return;
            }
            let real = pin!(async {
                match self.0.fixed {
                    None => machine_sleep(Duration::from_nanos(left.saturating_mul(100))).await,
                    Some(_) => std::future::pending().await,
                }
            });
            // The sender lives as long as `self`, so waiting cannot fail.
            select(real, pin!(moved.changed())).await;
        }
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.fixed.is_some() { "manual" } else { "real" };
        write!(f, "ServerClock({kind}, {})", self.now())
    }
}

/// An instant in seconds since 1970.
pub(crate) const fn unix_seconds(instant: DateTime) -> i64 {
    (instant.ticks() - EPOCH) / 10_000_000
}

fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

/// Waits on the machine's clock.
async fn machine_sleep(duration: Duration) {
    // A runtime with timers reads the time whenever it is idle, which would slow down every
    // request. Delays are rare, so each one has its own thread, which ends when no request waits
    // for it any more.
    let (done, slept) = oneshot::channel();
    let (_waiting, given_up) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = given_up.recv_timeout(duration);
        let _ = done.send(());
    });
    let _ = slept.await;
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
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_it_is_advanced() {
        let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let same = clock.clone();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_millis(1500));
        assert_eq!(same.now().to_string(), "2026-01-01T00:00:01.5Z");
        assert_eq!(unix_seconds(same.now()), 1_767_225_601);
        let fork = clock.fork();
        clock.advance(Duration::from_secs(1));
        assert_eq!(fork.now().to_string(), "2026-01-01T00:00:01.5Z");
    }

    #[tokio::test]
    async fn a_sleep_completes_when_the_clock_reaches_its_deadline() {
        let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let mut sleep = std::pin::pin!(clock.sleep(clock.now(), Duration::from_secs(3)));
        let mut is_done = || sleep.as_mut().now_or_never().is_some();
        assert!(!is_done());
        clock.advance(Duration::from_secs(2));
        assert!(!is_done());
        clock.advance(Duration::from_secs(1));
        assert!(is_done());
    }

    #[tokio::test]
    async fn a_real_clock_completes_sleeps_by_itself_and_by_advancing() {
        let clock = ServerClock::real();
        clock.sleep(clock.now(), Duration::from_millis(1)).await;
        let hour = Duration::from_secs(3600);
        let mut sleep = std::pin::pin!(clock.sleep(clock.now(), hour));
        assert!(sleep.as_mut().now_or_never().is_none());
        clock.advance(hour);
        sleep.await;
    }
}
