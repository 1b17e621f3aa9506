//! Hedged reads: a second, identical request for a read that is slow, and the first good answer.
//!
//! Why the delay follows the measured latency: with the 95th percentile, about one read in twenty sends a second
//! request, at any latency of the account, and it does so as soon as the first one is slower than the others
//! ("The Tail at Scale", Dean and Barroso 2013). A fixed delay has to be changed when the latency changes. It is
//! for programs that know which delay their callers accept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When a read sends a second request, for [`ClientOptions::hedge`](crate::ClientOptions::hedge).
///
/// A read that has no answer after the delay is sent once more, on another connection or to the account's
/// secondary. The first good answer is returned, and the other request is cancelled; the service bills both.
/// Point reads, pages of queries and peeked messages are hedged; writes, received messages and reads of
/// blobs never are. Under a [`Pace`](super::Pace), the second request counts as well.
///
/// ```
/// use std::time::Duration;
///
/// use rowkey::pace::Hedge;
/// use rowkey::{ClientOptions, StorageAccount};
///
/// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let hedge = Hedge { after: Some(Duration::from_millis(50)), ..Hedge::default() };
/// let options = ClientOptions { hedge: Some(hedge), ..ClientOptions::default() };
/// let profiles = account.table("profiles").with_options(options);
/// # let _ = profiles;
/// # Ok::<_, rowkey::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// The delay. `None` is the time within which 95 % of the account's reads of the same kind were answered,
    /// from the 20th on. Default: `None`.
    pub after: Option<Duration>,
    /// Whether the second request goes to the account's secondary, whose data may be older. Needs
    /// `read_from_secondary`. Default: `false`: to the same endpoint.
    pub at_secondary: bool,
    /// The most second requests, in percent of all hedged reads of the account. Default: 5.
    pub percent: u32,
}

impl Default for Hedge {
    fn default() -> Self {
        Self { after: None, at_secondary: false, percent: 5 }
    }
}

/// The share of reads that are answered within the delay.
const SHARE: f64 = 0.95;
/// Reads before the estimate is used.
const LEAST: u64 = 20;
/// How much one read changes the estimate: a part of it.
const STEP: f64 = 0.05;
/// The price of a second request, in hundredths.
const PRICE: u64 = 100;
/// The most second requests that are saved up.
const SAVED: u64 = 10 * PRICE;

/// What an account knows about its reads, and how many second requests it may send.
#[derive(Debug, Default)]
pub(crate) struct Hedging {
    /// The estimates, for point reads and for others.
    latency: [Quantile; 2],
    credit: AtomicU64,
}

/// A quantile, followed by steps: up by 95 parts if a value is above, down by 5 if it is not. Where it stays,
/// 5 % are above. A few lines instead of a histogram; it is right within a tenth after some hundred values.
#[derive(Debug, Default)]
struct Quantile {
    /// In nanoseconds. Concurrent changes may lose one another, which changes an estimate by one step.
    value: AtomicU64,
    seen: AtomicU64,
}

impl Hedging {
    /// The delay for a read of this kind, if it may be hedged. Counts the read.
    pub(crate) fn delay(&self, hedge: &Hedge, is_point: bool) -> Option<Duration> {
        let add = |credit: u64| Some(credit.saturating_add(hedge.percent.into()).min(SAVED));
        let _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        hedge.after.or_else(|| self.latency[usize::from(is_point)].get())
    }

    /// Takes the price of a second request. Returns `false` if there were too many.
    pub(crate) fn take(&self) -> bool {
        let take = |credit: u64| credit.checked_sub(PRICE);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Records how long a read took, or at least took.
    pub(crate) fn record(&self, is_point: bool, elapsed: Duration) {
        self.latency[usize::from(is_point)].add(elapsed);
    }
}

impl Quantile {
    fn get(&self) -> Option<Duration> {
        let is_known = self.seen.load(Ordering::Relaxed) >= LEAST;
        is_known.then(|| Duration::from_nanos(self.value.load(Ordering::Relaxed)))
    }

    fn add(&self, value: Duration) {
        let value = value.as_nanos().min(u64::MAX.into());
        let value = u64::try_from(value).unwrap_or(u64::MAX);
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let estimate = self.value.load(Ordering::Relaxed);
        let next = match seen {
            // The largest of the first is a good beginning.
            0..LEAST => estimate.max(value),
            _ if value > estimate => scaled(estimate, 1.0 + STEP * SHARE),
            _ => scaled(estimate, 1.0 - STEP * (1.0 - SHARE)),
        };
        self.value.store(next.max(1), Ordering::Relaxed);
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of a positive number"
)]
fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_follows_the_95th_percentile() {
        let hedging = Hedging::default();
        let hedge = Hedge::default();
        assert_eq!(hedging.delay(&hedge, true), None, "nothing is known");
        // 1 to 100 ms, in a mixed order; then ten times as much.
        for scale in [1, 10] {
            for read in 0..20_000_u64 {
                let wait = Duration::from_millis((read * 37 % 100 + 1) * scale);
                hedging.record(true, wait);
            }
            let delay = hedging.delay(&hedge, true).unwrap().as_millis();
            let expected = u128::from(95 * scale);
            assert!(delay.abs_diff(expected) <= expected / 10, "{delay} {expected}");
        }
        assert_eq!(hedging.delay(&hedge, false), None, "another kind");
    }

    #[test]
    fn second_requests_are_a_percentage_of_reads() {
        let hedging = Hedging::default();
        let hedge = Hedge { after: Some(Duration::ZERO), ..Hedge::default() };
        let reads = (0..1000).filter(|_| {
            assert_eq!(hedging.delay(&hedge, true), hedge.after);
            hedging.take()
        });
        assert_eq!(reads.count(), 50);
        for _ in 0..10_000 {
            hedging.delay(&hedge, true);
        }
        assert_eq!((0..100).filter(|_| hedging.take()).count(), 10, "few are saved up");
    }
}
