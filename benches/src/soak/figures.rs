//! A compact histogram of the latencies of millions of requests, and summaries per minute.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Steps of each power of two: a latency is known to one part in 32.
const STEPS: u64 = 32;

/// How many requests took how long.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Latencies {
    pub(crate) fn push(&mut self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(STEPS);
        let power = u64::from(nanoseconds.ilog2()) - u64::from(STEPS.ilog2());
        let at = usize::try_from(power * STEPS + (nanoseconds >> power)).unwrap_or_default();
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// Milliseconds that this many in a hundred took at most.
    pub(crate) fn percentile(&self, percent: u64) -> f64 {
        let mut left = (self.total * percent).div_ceil(100);
        for (at, &count) in (0..).zip(&self.counts) {
            if left <= count {
                let power = (at / STEPS).saturating_sub(1);
                return milliseconds((at - power * STEPS + 1) << power);
            }
            left -= count;
        }
        0.0
    }

    /// Milliseconds that the slowest took.
    pub(crate) fn longest(&self) -> f64 {
        milliseconds(self.longest)
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some hours")]
fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// What everybody who sends requests writes down. Clones write to the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Rc<RefCell<Counts>>);

/// The figures since the previous call.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Of requests over connections that are busy all the time.
    pub(crate) latencies: Latencies,
    /// Answers that slow, half-closed and short-lived connections got.
    pub(crate) odd: u64,
    pub(crate) errors: u64,
}

impl Tally {
    pub(crate) fn took(&self, latency: Duration) {
        self.0.borrow_mut().latencies.push(latency);
    }

    pub(crate) fn odd(&self) {
        self.0.borrow_mut().odd += 1;
    }

    /// Counts an error and says it, unless there were many already.
    pub(crate) fn error(&self, what: &str, error: &dyn std::fmt::Display) {
        let mut counts = self.0.borrow_mut();
        counts.errors += 1;
        if counts.errors <= 5 {
            let text: String = error.to_string().chars().take(600).collect();
            eprintln!("{what}: {text}");
        }
    }

    pub(crate) fn take(&self) -> Counts {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_accurate_to_one_part_in_32() {
        let mut latencies = Latencies::default();
        for microseconds in 1..=10_000 {
            latencies.push(Duration::from_micros(microseconds));
        }
        for (percent, expected) in [(50, 5.0), (99, 9.9), (100, 10.0)] {
            let found = latencies.percentile(percent);
            assert!((found / expected - 1.0).abs() < 0.04, "{percent}: {found}");
        }
        assert!((latencies.longest() - 10.0).abs() < 1e-9);
        let mut twice = latencies.clone();
        twice.add(&latencies);
        assert_eq!(twice.count(), 20_000);
        assert!((twice.percentile(50) - latencies.percentile(50)).abs() < 1e-9);
    }
}
