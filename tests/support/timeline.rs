//! Simulated time: it passes only while all futures wait for it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::Clock;
use rowkey_emulator::ServerClock;

/// A clock for tests of throttling, deadlines and back-off, shared with a server.
///
/// [`run`](Self::run) polls a future until everything in it waits for the clock, and then advances the clock
/// to the end of the shortest wait. Hours pass in an instant, waits end in order, and concurrent waits
/// overlap. Requests take no time: make them under [`request`](Self::request), and time stands still until
/// they are answered.
#[derive(Clone, Debug)]
pub struct Timeline {
    server: ServerClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    begun: DateTime<Utc>,
    now: DateTime<Utc>,
    sleepers: Vec<(DateTime<Utc>, Waker)>,
    requests: usize,
}

impl Timeline {
    /// A timeline that also advances `server`, a manual clock.
    pub fn new(server: &ServerClock) -> Self {
        let now = server.now().to_chrono();
        let state = State { begun: now, now, sleepers: Vec::new(), requests: 0 };
        Self { server: server.clone(), state: Arc::new(Mutex::new(state)) }
    }

    /// The time that has passed.
    pub fn elapsed(&self) -> Duration {
        let state = self.state();
        (state.now - state.begun).to_std().unwrap_or_default()
    }

    /// Makes a request. No time passes until it is answered.
    pub async fn request<T>(&self, request: impl Future<Output = T>) -> T {
        let _in_flight = InFlight::new(self);
        request.await
    }

    /// Runs a future to its end.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            loop {
                let noticing = Arc::new(Noticing(context.waker().clone(), AtomicBool::new(false)));
                let waker = Waker::from(Arc::clone(&noticing));
                if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(result);
                }
                // A future that was woken in the meantime has work at this time, and is polled again soon.
                if noticing.1.load(Ordering::Relaxed) || !self.move_on() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Ends the shortest wait. Returns `false` if nothing waits or a request is in flight.
    fn move_on(&self) -> bool {
        let ended = {
            let mut state = self.state();
            let earliest = state.sleepers.iter().map(|(until, _)| *until).min();
            let Some(earliest) = earliest.filter(|_| state.requests == 0) else { return false };
            let passed = (earliest - state.now).to_std().unwrap_or_default();
            self.server.advance(passed);
            state.now = state.now.max(earliest);
            let now = state.now;
            let (ended, rest) = std::mem::take(&mut state.sleepers)
                .into_iter()
                .partition(|(until, _)| *until <= now);
            state.sleepers = rest;
            let ended: Vec<(DateTime<Utc>, Waker)> = ended;
            ended
        };
        for (_, waker) in ended {
            waker.wake();
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Timeline {
    fn now(&self) -> DateTime<Utc> {
        self.state().now
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.now() + duration;
        Box::pin(poll_fn(move |context| {
            let mut state = self.state();
            if state.now >= until {
                return Poll::Ready(());
            }
            state.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        }))
    }
}

struct InFlight<'a>(&'a Timeline);

impl<'a> InFlight<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        timeline.state().requests += 1;
        Self(timeline)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.state().requests -= 1;
    }
}

/// Forwards a wake-up, and records that there was one.
struct Noticing(Waker, AtomicBool);

impl Wake for Noticing {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Relaxed);
        self.0.wake_by_ref();
    }
}
