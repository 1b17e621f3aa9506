//! A clock that tests advance.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Clock;

/// A clock that stands still until a test advances it.
///
/// Clones share the time. With [`ManualClock::new`], sleepers wake when [`advance`](Self::advance)
/// has moved the time far enough. With [`ManualClock::auto_advancing`], a sleep advances the time
/// itself and returns at once, so that a test of retries does not wait and reads the waits from
/// [`slept`](Self::slept).
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: DateTime<Utc>,
    elapsed: Duration,
    auto_advance: bool,
    slept: Vec<Duration>,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// A clock that shows `start` until it is advanced.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self::with(start, false)
    }

    /// A clock that starts at `start` and is advanced by each sleep on it.
    pub fn auto_advancing(start: DateTime<Utc>) -> Self {
        Self::with(start, true)
    }

    fn with(now: DateTime<Utc>, auto_advance: bool) -> Self {
        let elapsed = Duration::ZERO;
        let state = State { now, elapsed, auto_advance, slept: Vec::new(), sleepers: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Moves the time forward and wakes the tasks that have slept long enough.
    pub fn advance(&self, duration: Duration) {
        let sleepers = {
            let mut state = self.state();
            state.pass(duration);
            std::mem::take(&mut state.sleepers)
        };
        // Tasks that have to sleep longer register again.
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Sets the date, as an operator or NTP does: no time passes, and no sleeper wakes.
    pub fn set_date(&self, now: DateTime<Utc>) {
        self.state().now = now;
    }

    /// The duration of every sleep, in order.
    pub fn slept(&self) -> Vec<Duration> {
        self.state().slept.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent at every unlock, so a panic elsewhere does not invalidate it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.elapsed += duration;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.state().now
    }

    fn elapsed(&self) -> Duration {
        self.state().elapsed
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = {
            let mut state = self.state();
            state.slept.push(duration);
            let until = state.elapsed.saturating_add(duration);
            if state.auto_advance {
                state.pass(duration);
            }
            until
        };
        Box::pin(Sleep { clock: self, until })
    }
}

struct Sleep<'a> {
    clock: &'a ManualClock,
    until: Duration,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        if state.elapsed >= self.until {
            return Poll::Ready(());
        }
        if !state.sleepers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.sleepers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn start() -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap()
    }

    #[test]
    fn a_sleep_completes_when_the_clock_reaches_its_deadline() {
        let clock = ManualClock::new(start());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut sleep = clock.sleep(Duration::from_secs(10));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_secs(9));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(sleep.as_mut().poll(&mut context).is_pending(), "a second is missing");
        clock.advance(Duration::from_secs(1));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert!(sleep.as_mut().poll(&mut context).is_ready());
        assert_eq!(clock.now(), start() + Duration::from_secs(10));
    }

    #[test]
    fn sleeping_on_an_auto_advancing_clock_moves_it_and_is_recorded() {
        let clock = ManualClock::auto_advancing(start());
        let mut context = Context::from_waker(Waker::noop());
        for seconds in [3, 4] {
            let mut sleep = clock.sleep(Duration::from_secs(seconds));
            assert!(sleep.as_mut().poll(&mut context).is_ready());
        }
        assert_eq!(clock.now(), start() + Duration::from_secs(7));
        assert_eq!(clock.slept(), [Duration::from_secs(3), Duration::from_secs(4)]);
    }

    #[test]
    fn setting_the_date_does_not_change_elapsed_time() {
        let clock = ManualClock::new(start());
        clock.advance(Duration::from_secs(5));
        clock.set_date(start() - Duration::from_secs(60));
        assert_eq!(clock.now(), start() - Duration::from_secs(60));
        assert_eq!(clock.elapsed(), Duration::from_secs(5));
    }

    #[test]
    fn clones_share_the_time() {
        let clock = ManualClock::new(start());
        clock.clone().advance(Duration::from_secs(1));
        assert_eq!(clock.now(), start() + Duration::from_secs(1));
    }
}
