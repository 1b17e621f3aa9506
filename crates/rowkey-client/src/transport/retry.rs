//! Decides which failures are retried, and after which wait.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, header};
use rowkey_wire::headers::parse_http_date;

use super::call::Safety;
use crate::backoff::doubled;
use crate::error::Outcome;
use crate::options::RetryOptions;

/// Whether a status means that the same request may succeed a little later.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Whether an operation of this safety may be retried after a transient failure with this outcome.
pub(crate) fn may_repeat(outcome: Outcome, safety: Safety, options: &RetryOptions) -> bool {
    match (outcome, safety) {
        (Outcome::NotSent | Outcome::Rejected, _)
        | (Outcome::Unknown, Safety::Read | Safety::Conditional) => true,
        (Outcome::Unknown, Safety::Insert) => options.repeat_inserts,
        (Outcome::Unknown, Safety::Never) => false,
    }
}

/// The wait after the attempt with this number, counted from 1. `fraction` is a random number from
/// 0 to 1.
pub(crate) fn backoff(options: &RetryOptions, attempt: u32, fraction: f64) -> Duration {
    let delay = doubled(options.base_delay, attempt.saturating_sub(1), options.max_delay);
    let spread = Duration::try_from_secs_f64(delay.as_secs_f64() * (0.8 + 0.4 * fraction));
    // A wait that overflows `Duration` is longer than the maximum.
    spread.unwrap_or(Duration::MAX).min(options.max_delay)
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

/// A small random number generator, for jitter and request ids, not for secrets.
#[derive(Debug)]
pub(crate) struct Jitter(AtomicU64);

impl Jitter {
    /// A generator that returns the same numbers for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A generator that returns different numbers in every process and for every account.
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

    /// `SplitMix64`: a counter, mixed. The counter is all its state, so threads need no lock.
    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_depend_on_the_outcome_and_on_the_operation() {
        use Outcome::{NotSent, Rejected, Unknown};
        use Safety::{Conditional, Insert, Never, Read};
        let careful = RetryOptions::default();
        let bold = RetryOptions { repeat_inserts: true, ..RetryOptions::default() };
        for safety in [Read, Conditional, Insert, Never] {
            for outcome in [NotSent, Rejected] {
                assert!(may_repeat(outcome, safety, &careful), "{outcome:?} {safety:?}");
            }
        }
        for (safety, careful_repeats, bold_repeats) in [
            (Read, true, true),
            (Conditional, true, true),
            (Insert, false, true),
            (Never, false, false),
        ] {
            assert_eq!(may_repeat(Unknown, safety, &careful), careful_repeats, "{safety:?}");
            assert_eq!(may_repeat(Unknown, safety, &bold), bold_repeats, "{safety:?}");
        }
    }

    #[test]
    fn transient_statuses_match_the_azure_sdks() {
        let transient: Vec<u16> = (100..600).filter(|status| is_transient(*status)).collect();
        assert_eq!(transient, [408, 429, 500, 502, 503, 504]);
    }

    #[test]
    fn delays_double_up_to_the_maximum_with_20_percent_jitter() {
        let options = RetryOptions::default();
        let middle = |attempt| backoff(&options, attempt, 0.5).as_millis();
        assert_eq!([1, 2, 3, 4].map(middle), [800, 1600, 3200, 6400]);
        assert_eq!([8, 9, 40, u32::MAX].map(middle), [60_000; 4]);
        assert_eq!(backoff(&options, 1, 0.0), Duration::from_millis(640));
        assert_eq!(backoff(&options, 1, 1.0), Duration::from_millis(960));
        let endless =
            RetryOptions { base_delay: Duration::MAX, max_delay: Duration::MAX, ..options };
        assert_eq!(backoff(&endless, 2, 0.5), Duration::MAX);
    }

    #[test]
    fn retry_after_overrides_the_delay() {
        let now = parse_http_date("Wed, 23 Sep 2015 16:40:05 GMT").unwrap();
        for (name, value, wait) in [
            ("retry-after", "7", Some(7000)),
            ("retry-after", "Wed, 23 Sep 2015 16:40:35 GMT", Some(30_000)),
            ("retry-after", "Wed, 23 Sep 2015 16:40:00 GMT", Some(0)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("x-ms-retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "250", Some(250)),
            ("x-other", "7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(
                retry_after(&headers, now),
                wait.map(Duration::from_millis),
                "{name} {value}"
            );
        }
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The reference output for this seed, as the generator's authors' code prints it.
        let jitter = Jitter::seeded(1_234_567);
        let expected: [u64; 3] =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| jitter.next()), expected);
        for _ in 0..1000 {
            assert!((0.0..=1.0).contains(&jitter.fraction()));
        }
    }
}
