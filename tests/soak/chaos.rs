//! What goes wrong: requests that fail in every way, workers that are killed, and workers that are
//! suspended for longer than their messages are hidden.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use rowkey_server::{ErrorCode, Fault, Injected, Server};
use rowkey_tests::random::Random;

use crate::VISIBILITY;

/// How many requests are waited for by faults at a time.
const FAULTS: usize = 6;

pub(crate) struct Chaos<'s> {
    server: &'s Server,
    random: Mutex<Random>,
    faults: Mutex<Vec<Injected>>,
    failed: AtomicU64,
    killed: AtomicU64,
    suspended: AtomicU64,
    put_again: AtomicU64,
}

impl<'s> Chaos<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        Self {
            server,
            random: Mutex::new(Random(5)),
            faults: Mutex::default(),
            failed: AtomicU64::new(0),
            killed: AtomicU64::new(0),
            suspended: AtomicU64::new(0),
            put_again: AtomicU64::new(0),
        }
    }

    /// Puts new faults in the place of those that have been met.
    pub(crate) fn inject(&self) {
        let (mut random, mut faults) = (self.random.lock().unwrap(), self.faults.lock().unwrap());
        let before = faults.len();
        faults.retain(|fault| fault.hits() == 0);
        self.failed.fetch_add((before - faults.len()) as u64, Ordering::Relaxed);
        while faults.len() < FAULTS {
            let requests = Fault::any().nth(1 + random.within(500));
            let fault = match random.below(4) {
                0 => requests.close_before_commit(),
                1 => requests.close_after_commit(),
                2 => requests.reject(ErrorCode::SERVER_BUSY),
                _ => requests.reject(ErrorCode::INTERNAL_ERROR),
            };
            faults.push(self.server.inject(fault));
        }
    }

    /// From here on nothing goes wrong.
    pub(crate) fn end(&self) {
        let faults = std::mem::take(&mut *self.faults.lock().unwrap());
        let met = faults.iter().filter(|fault| fault.hits() > 0).count();
        self.failed.fetch_add(met as u64, Ordering::Relaxed);
    }

    /// A worker that is to be killed now, about every second.
    pub(crate) fn kills(&self) -> Option<usize> {
        let mut random = self.random.lock().unwrap();
        random.one_in(100).then(|| {
            self.killed.fetch_add(1, Ordering::Relaxed);
            random.below(1000) as usize
        })
    }

    /// A worker that is to be suspended now, about every other second.
    pub(crate) fn suspends(&self) -> Option<(usize, Duration)> {
        let mut random = self.random.lock().unwrap();
        random.one_in(200).then(|| {
            self.suspended.fetch_add(1, Ordering::Relaxed);
            let pause = VISIBILITY + Duration::from_millis(random.within(2000));
            (random.below(1000) as usize, pause)
        })
    }

    pub(crate) fn count_put_again(&self) {
        self.put_again.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Chaos<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} requests failed, {} workers killed, {} suspended, {} puts repeated",
            number(&self.failed),
            number(&self.killed),
            number(&self.suspended),
            number(&self.put_again)
        )
    }
}

/// Stops polling a future for a while, as a machine does that is suspended: what it has sent is
/// answered, and it does not know of it.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Closed>);

#[derive(Default)]
struct Closed {
    is: bool,
    waiting: Option<Waker>,
}

impl Gate {
    pub(crate) async fn around(self: Arc<Self>, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        poll_fn(|context| {
            let mut closed = self.0.lock().unwrap();
            if closed.is {
                closed.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            drop(closed);
            work.as_mut().poll(context)
        })
        .await;
    }

    pub(crate) fn close_for(self: &Arc<Self>, pause: Duration) {
        self.0.lock().unwrap().is = true;
        let gate = Arc::clone(self);
        let opens = async move {
            use rowkey::Clock as _;
            rowkey::SystemClock.sleep(pause).await;
            let mut closed = gate.0.lock().unwrap();
            closed.is = false;
            if let Some(waker) = closed.waiting.take() {
                waker.wake();
            }
        };
        #[expect(clippy::disallowed_methods, reason = "it opens whatever else goes on")]
        drop(tokio::spawn(opens));
    }
}
