//! Which failures are repeated, and after which wait.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, header};
use rowkey_wire::headers::parse_http_date;

use super::call::Safety;
use crate::error::Outcome;
use crate::options::RetryOptions;

/// Whether a status says that the same request may succeed a little later.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Whether an operation of this safety may be repeated after a transient failure that leaves this
/// outcome.
pub(crate) fn may_repeat(outcome: Outcome, safety: Safety, options: &RetryOptions) -> bool {
    match (outcome, safety) {
        (Outcome::NotSent | Outcome::Rejected, _) => true,
        (Outcome::Unknown, Safety::Read | Safety::Conditional) => true,
        (Outcome::Unknown, Safety::Insert) => options.repeat_inserts,
        (Outcome::Unknown, Safety::Never) => false,
    }
}

/// The wait after the attempt with this number, counted from 1. `fraction` is random, 0 to 1.
pub(crate) fn backoff(options: &RetryOptions, attempt: u32, fraction: f64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(31);
    let delay = options.base_delay.saturating_mul(1 << doublings).min(options.max_delay);
    delay.mul_f64(0.8 + 0.4 * fraction).min(options.max_delay)
}

/// The wait that the service asks for, in milliseconds (Cosmos DB), seconds, or until a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        if let Some(milliseconds) = text(name).and_then(|text| text.parse().ok()) {
            return Some(Duration::from_millis(milliseconds));
        }
    }
    let text = text(header::RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // A date in the past means now.
    Some((parse_http_date(text)? - now).to_std().unwrap_or_default())
}

/// A small generator of random numbers: for spreading waits and naming requests, not for secrets.
#[derive(Debug)]
pub(crate) struct Jitter(AtomicU64);

impl Jitter {
    /// The same numbers for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Different numbers in every process and for every account.
    pub(crate) fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(0))
    }

    /// A number from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }

    /// A random GUID.
    pub(crate) fn guid(&self) -> uuid::Uuid {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }

    /// SplitMix64: a counter, mixed. The counter is all its state, so threads need no lock.
    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
