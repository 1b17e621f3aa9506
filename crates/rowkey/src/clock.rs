//! Where the client takes the time from, and how it waits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, Utc};

#[cfg(any(test, feature = "test-util"))]
mod manual;

#[cfg(any(test, feature = "test-util"))]
pub use manual::ManualClock;

/// The source of time: what requests are dated with, and how the client waits between attempts.
///
/// [`SystemClock`] is the default. Tests that must not wait use `ManualClock` (feature
/// `test-util`).
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> DateTime<Utc>;

    /// Completes when `duration` has passed.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock. Sleeping needs a running tokio runtime with its timer enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others mean")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others mean")]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
