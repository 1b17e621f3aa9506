//! The clock of the client: the current time, and sleeping.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};

#[cfg(any(test, feature = "test-util"))]
pub(crate) mod manual;

#[cfg(test)]
pub(crate) use manual::ManualClock;

/// The source of time, for the dates of requests and the delays between attempts.
///
/// The default is [`SystemClock`]. Tests without real delays use `ManualClock` (feature
/// `test-util`).
pub trait Clock: fmt::Debug + Send + Sync {
    /// The current date and time. An operator or NTP may set it forward and back.
    fn now(&self) -> DateTime<Utc>;

    /// The time since a fixed moment, which stays the same while the program runs.
    ///
    /// The client measures leases and guards with it, so it must not go back, and should advance
    /// while the machine is suspended. The default implementation uses [`now`](Self::now), which is
    /// sufficient for tests.
    fn elapsed(&self) -> Duration {
        self.now().signed_duration_since(DateTime::UNIX_EPOCH).to_std().unwrap_or_default()
    }

    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock. Sleeping needs a running tokio runtime with its timer enabled.
///
/// [`elapsed`](Clock::elapsed) is `CLOCK_BOOTTIME` on Linux and Android, and the performance
/// counter on Windows: both advance while the machine is suspended. On other systems it is
/// [`Instant`](std::time::Instant), which on macOS stops during suspension.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    #[cfg(any(target_os = "android", target_os = "linux"))]
    fn elapsed(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // The time since boot is never negative.
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        )
    }

    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    fn elapsed(&self) -> Duration {
        use std::sync::LazyLock;
        use std::time::Instant;

        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
