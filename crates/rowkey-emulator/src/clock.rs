//! The server's clock: the machine's or a manual one, either of which can be advanced, stopped and started again.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
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
    /// The instant that a clock shows that stands still; 0 while it follows the machine's clock.
    at: AtomicI64,
    /// The ticks by which it is ahead of the machine's clock while it follows that.
    ahead: AtomicI64,
    /// Held while the clock is set. Reading it takes no lock.
    setting: Mutex<()>,
    /// Wakes the tasks that sleep on this clock.
    moved: watch::Sender<()>,
}

impl ServerClock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self::new(0, 0)
    }

    /// A clock that stands still at `start` until it is advanced.
    pub fn manual(start: DateTime) -> Self {
        Self::new(start.ticks().max(1), 0)
    }

    /// An independent clock of the same kind that shows the same time.
    pub(crate) fn fork(&self) -> Self {
        let _setting = self.setting();
        Self::new(self.0.at.load(Ordering::Relaxed), self.0.ahead.load(Ordering::Relaxed))
    }

    fn new(at: i64, ahead: i64) -> Self {
        let (moved, _) = watch::channel(());
        let (at, ahead) = (AtomicI64::new(at), AtomicI64::new(ahead));
        Self(Arc::new(Inner { at, ahead, setting: Mutex::new(()), moved }))
    }

    /// The time on this clock.
    pub fn now(&self) -> DateTime {
        DateTime::from_ticks(self.ticks()).unwrap_or(DateTime::MAX)
    }

    /// Whether the clock stands still: it is manual, or it was stopped by [`freeze`](Self::freeze).
    pub fn is_frozen(&self) -> bool {
        self.0.at.load(Ordering::Acquire) != 0
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(|clock| {
            let moved = if self.is_frozen() { &clock.at } else { &clock.ahead };
            moved.store(moved.load(Ordering::Relaxed).saturating_add(ticks(by)), Ordering::Release);
        });
    }

    /// Stops the clock at the time that it shows. It can still be advanced.
    ///
    /// ```
    /// use rowkey_emulator::ServerClock;
    ///
    /// let clock = ServerClock::real();
    /// clock.freeze();
    /// assert_eq!(clock.now(), clock.now());
    /// clock.follow();
    /// assert!(!clock.is_frozen());
    /// ```
    pub fn freeze(&self) {
        self.set(|clock| clock.at.store(self.ticks().max(1), Ordering::Release));
    }

    /// Lets a clock that stands still go on with the machine's clock, from the time that it shows. It
    /// never goes back, so what it was advanced by stays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rowkey_emulator::ServerClock;
    ///
    /// let clock = ServerClock::real();
    /// clock.freeze();
    /// clock.advance(Duration::from_secs(3600));
    /// let stopped = clock.now();
    /// clock.follow();
    /// assert!(clock.now() >= stopped);
    /// ```
    pub fn follow(&self) {
        self.set(|clock| {
            clock.ahead.store(self.ticks().saturating_sub(machine_ticks()), Ordering::Relaxed);
            // What is read after this instant is seen with it.
            clock.at.store(0, Ordering::Release);
        });
    }

    fn ticks(&self) -> i64 {
        match self.0.at.load(Ordering::Acquire) {
            0 => machine_ticks().saturating_add(self.0.ahead.load(Ordering::Relaxed)),
            at => at,
        }
    }

    fn set(&self, change: impl FnOnce(&Inner)) {
        let setting = self.setting();
        change(&self.0);
        drop(setting);
        self.0.moved.send_replace(());
    }

    fn setting(&self) -> MutexGuard<'_, ()> {
        self.0.setting.lock().unwrap_or_else(PoisonError::into_inner)
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
            let is_frozen = self.is_frozen();
            let real = pin!(async {
                if is_frozen {
                    std::future::pending::<()>().await;
                } else {
                    machine_sleep(Duration::from_nanos(left.saturating_mul(100))).await;
                }
            });
            // The sender lives as long as `self`, so waiting cannot fail.
            select(real, pin!(moved.changed())).await;
        }
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_frozen() { "frozen" } else { "following" };
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

    #[test]
    fn a_clock_stops_and_goes_on_from_where_it_stopped() {
        let clock = ServerClock::real();
        clock.advance(Duration::from_secs(86_400));
        clock.freeze();
        let stopped = clock.now();
        assert!(clock.is_frozen() && clock.now() == stopped);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now().ticks(), stopped.ticks() + 10_000_000);
        let at = clock.now();
        clock.follow();
        assert!(!clock.is_frozen() && clock.now() >= at);
        clock.follow();
        assert!(clock.now() >= at);
        let manual = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        manual.follow();
        assert!(manual.now().to_string().starts_with("2026-01-01T00:0"), "{manual:?}");
    }

    #[tokio::test]
    async fn a_sleep_on_a_stopped_clock_goes_on_when_the_clock_does() {
        let clock = ServerClock::real();
        clock.freeze();
        let mut sleep = std::pin::pin!(clock.sleep(clock.now(), Duration::from_millis(1)));
        assert!(sleep.as_mut().now_or_never().is_none());
        clock.follow();
        sleep.await;
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
