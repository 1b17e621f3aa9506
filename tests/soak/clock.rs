//! The time of the server in all processes of the soak.
//!
//! The server's clock is the machine's, and the parent advances it: ten minutes of an outage take a second.
//! A file holds by how much. Processes read it whenever they ask for the time, so one that was stopped
//! knows the right time as soon as it goes on, as with `CLOCK_BOOTTIME`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::{Clock, SystemClock};
use rowkey_emulator::ServerClock;

/// How often those that wait are looked at.
const TICK: Duration = Duration::from_millis(4);

/// The clock of a process. Clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) struct SharedClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: File,
    /// Those that wait, and until when.
    sleepers: Mutex<Vec<(Duration, Waker)>>,
}

impl SharedClock {
    /// The clock that follows the file at `path`, with a thread that wakes those that wait.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let inner = Arc::new(Inner { file: File::open(path)?, sleepers: Mutex::default() });
        let followed = Arc::downgrade(&inner);
        thread::spawn(move || wake(&followed));
        Ok(Self(inner))
    }
}

impl Inner {
    /// By how much the server's clock was advanced.
    fn advanced(&self) -> Duration {
        loop {
            // Written as one piece; the repetition would tell if it were not.
            let mut bytes = [0; 16];
            self.file.read_exact_at(&mut bytes, 0).unwrap();
            let [one, other] = [0, 8].map(|at| bytes[at..at + 8].try_into().unwrap());
            if one == other {
                return Duration::from_millis(u64::from_le_bytes(one));
            }
        }
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed() + self.advanced()
    }
}

fn wake(followed: &Weak<Inner>) {
    while let Some(inner) = followed.upgrade() {
        let now = inner.elapsed();
        let over: Vec<_> =
            inner.sleepers.lock().unwrap().extract_if(.., |(until, _)| *until <= now).collect();
        drop(inner);
        for (_, waker) in over {
            waker.wake();
        }
        pause(TICK);
    }
}

/// Keeps the thread for this time of the machine.
#[expect(clippy::disallowed_methods, reason = "threads without a runtime, and handlers that block")]
pub(crate) fn pause(duration: Duration) {
    thread::sleep(duration);
}

impl Clock for SharedClock {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0.advanced()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.0.elapsed().saturating_add(duration);
        Box::pin(std::future::poll_fn(move |context| {
            if self.0.elapsed() >= until {
                return Poll::Ready(());
            }
            self.0.sleepers.lock().unwrap().push((until, context.waker().clone()));
            Poll::Pending
        }))
    }
}

/// The parent's side: advances the server's clock and says so.
pub(crate) struct Advancing {
    server: ServerClock,
    file: File,
    by: Duration,
}

impl Advancing {
    pub(crate) fn create(path: &Path, server: &ServerClock) -> std::io::Result<Self> {
        let advancing =
            Self { server: server.clone(), file: File::create(path)?, by: Duration::ZERO };
        advancing.write()?;
        Ok(advancing)
    }

    pub(crate) fn advance(&mut self, by: Duration) -> std::io::Result<()> {
        self.by += by;
        self.server.advance(by);
        self.write()
    }

    /// By how much, since the soak began.
    pub(crate) fn total(&self) -> Duration {
        self.by
    }

    fn write(&self) -> std::io::Result<()> {
        let millis = u64::try_from(self.by.as_millis()).unwrap().to_le_bytes();
        self.file.write_all_at(&[millis, millis].concat(), 0)
    }
}
