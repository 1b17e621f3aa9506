//! Waits of receivers that find nothing, and of failed work before its next attempt.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use rowkey_client::internals::doubled;

/// Exponential waits with jitter: each is twice as long as the one before, reduced at random by up to half,
/// so that programs that started together do not send requests together.
///
/// ```
/// use rowkey::patterns::Waits;
/// use std::time::Duration;
///
/// let waits = Waits::new(Duration::from_secs(1), Duration::from_secs(30));
/// assert!(waits.after(0) <= Duration::from_secs(1));
/// assert!(waits.after(3) >= Duration::from_secs(4));
/// assert!(waits.after(99) <= Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    least: Duration,
    most: Duration,
}

impl Waits {
    /// The waits of a receiver that finds nothing: 1 to 30 seconds, about 4,000 requests per day.
    pub const IDLE: Self = Self::new(Duration::from_secs(1), Duration::from_secs(30));

    /// Starts with `least` and doubles each time, up to `most`.
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self { least, most }
    }

    /// Returns the wait after `others` earlier ones: from half to all of `least`, doubled `others`
    /// times.
    pub fn after(&self, others: u32) -> Duration {
        let longest = doubled(self.least, others, self.most);
        // Each `RandomState` has its own random keys. 16 bits are enough, and convert exactly.
        let drawn = RandomState::new().hash_one(others) & 0xFFFF;
        let fraction = f64::from(u16::try_from(drawn).unwrap_or_default()) / 65536.0;
        longest.mul_f64(0.5 + fraction / 2.0)
    }
}
