//! How long a receiver waits that finds nothing, and what failed waits for its next attempt.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Waits that get longer: twice as long each time, spread at random by up to a half, so that programs which
/// began together do not ask together.
///
/// ```
/// use std::time::Duration;
/// use rowkey_store::Waits;
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
    /// Those of a receiver that finds nothing: 1 to 30 seconds, 4,000 requests a day.
    pub const IDLE: Self = Self::new(Duration::from_secs(1), Duration::from_secs(30));

    /// `least` at first, then twice as long each time, up to `most`.
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self { least, most }
    }

    /// The next wait after as many others: from a half to all of `least`, doubled as often.
    pub fn after(&self, others: u32) -> Duration {
        let longest = self.least.saturating_mul(2_u32.saturating_pow(others)).min(self.most);
        // Each has keys of its own. 16 bits are plenty, and exact.
        let drawn = RandomState::new().hash_one(others) & 0xFFFF;
        let fraction = f64::from(u16::try_from(drawn).unwrap_or_default()) / 65536.0;
        longest.mul_f64(0.5 + fraction / 2.0)
    }
}
