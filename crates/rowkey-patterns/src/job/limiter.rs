//! The request rate of one target: the state that a [`Pace`](super::Pace) keeps for each.
//!
//! Until the service pushes back, only concurrency is limited. Then a limiter behaves like a TCP
//! sender with CUBIC: it falls back to seven tenths of the rate that worked, recovers to that rate
//! within seconds, stays near it, and then probes higher rates. After each pushback, concurrency
//! starts at one request and grows by one for each response, so that one request, not all that wait,
//! finds out whether the target has recovered.
//!
//! This module neither waits nor reads a clock: callers pass the time.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// The rate after a pushback, relative to the rate before: CUBIC's factor, also used by AWS's
/// adaptive retry.
const REDUCTION: f64 = 0.7;
/// The time to recover to the rate at which the service pushed back, in seconds.
const RECOVERY: f64 = 5.0;
/// The wait after the first failure; doubled for each further failure without a response in
/// between.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest wait that a limiter chooses itself.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest wait accepted from `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);
/// How long an unused limiter is kept.
const MEMORY: Duration = Duration::from_secs(60);

/// The state of one target. Units are the entities of a partition, or requests if their number of
/// entities is not known in advance.
#[derive(Debug)]
pub(super) struct Limiter {
    /// Set once the service has pushed back.
    rate: Option<Rate>,
    /// The earliest time of the next request: after a pause, or after the time that earlier
    /// requests take at the rate.
    not_before: DateTime<Utc>,
    /// The maximum number of requests in flight.
    window: u32,
    in_flight: u32,
    /// Counts reductions: one congestion that fails many requests reduces the rate once.
    epoch: u64,
    /// Failures since the last response, counted once per epoch.
    misses: u32,
    throughput: Throughput,
}

/// The rate that was too high, and when the service pushed back.
#[derive(Clone, Copy, Debug)]
struct Rate {
    highest: f64,
    since: DateTime<Utc>,
}

/// The recent throughput of the service, in units per second.
#[derive(Debug)]
struct Throughput {
    since: DateTime<Utc>,
    units: f64,
    smoothed: f64,
}

/// Whether a request may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Now,
    At(DateTime<Utc>),
    /// Only after a response to a request in flight.
    Later,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The service reported throttling.
    Throttled,
    /// There was no response. A single one may be a closed connection, and reduces nothing.
    Unanswered,
}

impl Limiter {
    /// Creates a limiter that initially allows `window` requests in flight.
    pub(super) fn new(window: u32, now: DateTime<Utc>) -> Self {
        Self {
            rate: None,
            not_before: now,
            window,
            in_flight: 0,
            epoch: 0,
            misses: 0,
            throughput: Throughput { since: now, units: 0.0, smoothed: 0.0 },
        }
    }

    pub(super) fn ready(&self, now: DateTime<Utc>) -> Ready {
        if now < self.not_before {
            Ready::At(self.not_before)
        } else if self.in_flight >= self.window {
            Ready::Later
        } else {
            Ready::Now
        }
    }

    /// Records that a request about `units` was sent. Returns the epoch, to be passed to `failed`.
    pub(super) fn send(&mut self, units: u64, now: DateTime<Utc>) -> u64 {
        self.in_flight += 1;
        if let Some(rate) = self.rate(now) {
            self.not_before = self.not_before.max(now) + seconds(as_f64(units) / rate);
        }
        self.epoch
    }

    /// Records the response to a request about `units`.
    pub(super) fn answered(&mut self, units: u64, now: DateTime<Utc>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window = self.window.saturating_add(1);
        self.misses = 0;
        self.throughput.add(units, now);
    }

    /// Records that the caller dropped a request, so that its result stays unknown.
    pub(super) fn abandoned(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records a failure of a request about `units`, sent in `epoch`. `asked` is the wait that the
    /// service asked for, and `fraction` is random, from 0 to 1. Returns whether the rate was
    /// reduced.
    pub(super) fn failed(
        &mut self,
        failure: Failure,
        (units, epoch): (u64, u64),
        asked: Option<Duration>,
        fraction: f64,
        now: DateTime<Utc>,
    ) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        let is_news = epoch == self.epoch;
        let mut pause = asked.unwrap_or_default().min(LONGEST_ASKED);
        let mut reduced = false;
        if is_news {
            self.epoch += 1;
            self.misses = self.misses.saturating_add(1);
            self.window = 1;
            if asked.is_none() {
                pause = back_off(self.misses);
            }
            reduced = failure == Failure::Throttled || self.misses > 1;
            if reduced {
                self.reduce(units, now);
            }
        }
        // Spread, so that clients refused at the same time do not return at the same time.
        self.not_before = self.not_before.max(now + pause.mul_f64(1.0 + fraction / 4.0));
        reduced
    }

    /// Whether the limiter can be dropped without any effect.
    pub(super) fn is_idle(&self, now: DateTime<Utc>) -> bool {
        let last = self.rate.map_or(self.throughput.since, |rate| rate.since.max(self.not_before));
        self.in_flight == 0 && self.not_before <= now && last + MEMORY < now
    }

    /// The rate at this time, in units per second; `None` if it is not limited.
    pub(super) fn rate(&self, now: DateTime<Utc>) -> Option<f64> {
        let Rate { highest, since } = self.rate?;
        let seconds = (now - since).as_seconds_f64();
        let cubic = 1.0 + (1.0 - REDUCTION) * ((seconds - RECOVERY) / RECOVERY).powi(3);
        // The rate stays near the actual throughput: an unused rate is not known to work.
        let known = (2.0 * self.throughput.at(now)).max(highest);
        Some((highest * cubic).min(known))
    }

    fn reduce(&mut self, units: u64, now: DateTime<Utc>) {
        // The minimum is one request per longest pause.
        let least = as_f64(units) / LONGEST_PAUSE.as_secs_f64();
        let worked = match self.rate(now) {
            Some(rate) => rate.max(least),
            // Nothing worked yet, so there is no rate to reduce: the window and the pause are the limit.
            None if self.throughput.at(now) <= 0.0 => return,
            None => self.throughput.at(now).max(as_f64(units)),
        };
        self.rate = Some(Rate { highest: worked, since: now });
    }
}

/// Returns the wait after `failures` in a row, at least 1.
pub(super) fn back_off(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

impl Throughput {
    fn add(&mut self, units: u64, now: DateTime<Utc>) {
        let elapsed = (now - self.since).as_seconds_f64();
        if elapsed >= 1.0 {
            self.smoothed = self.at(now);
            self.units = 0.0;
            self.since = now;
        }
        self.units += as_f64(units);
    }

    /// Returns the smoothed throughput: four fifths from the last second, the rest from before.
    fn at(&self, now: DateTime<Utc>) -> f64 {
        let elapsed = (now - self.since).as_seconds_f64();
        if elapsed < 1.0 {
            // The current second is not over, so it can only raise the value.
            return self.smoothed.max(self.units);
        }
        let latest = self.units / elapsed;
        if self.smoothed > 0.0 { 0.8 * latest + 0.2 * self.smoothed } else { latest }
    }
}

/// Rates need no more than the 53 bits of precision of a double.
#[expect(clippy::cast_precision_loss, reason = "an estimate; counts are far below 2^53")]
fn as_f64(units: u64) -> f64 {
    units as f64
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_ASKED).min(LONGEST_ASKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(1_700_000_000_000 + milliseconds).unwrap()
    }

    /// A limiter that sent 1,000 units in its first second and was throttled at its end.
    fn throttled() -> Limiter {
        let mut limiter = Limiter::new(2, at(0));
        for request in 0..10 {
            limiter.send(100, at(request * 100));
            limiter.answered(100, at(request * 100));
        }
        let sent = (100, limiter.send(100, at(990)));
        assert!(limiter.failed(Failure::Throttled, sent, None, 0.0, at(990)));
        limiter
    }

    #[test]
    fn only_concurrency_is_limited_before_the_first_throttling_response() {
        let mut limiter = Limiter::new(2, at(0));
        for _ in 0..2 {
            assert_eq!(limiter.ready(at(0)), Ready::Now);
            limiter.send(1_000_000, at(0));
        }
        assert_eq!(limiter.ready(at(0)), Ready::Later);
        limiter.answered(1_000_000, at(0));
        assert_eq!(
            (limiter.window, limiter.ready(at(0)), limiter.rate(at(0))),
            (3, Ready::Now, None)
        );
    }

    #[test]
    fn throttling_reduces_the_rate_to_70_percent_and_it_recovers() {
        let limiter = throttled();
        assert_eq!((limiter.window, limiter.ready(at(991))), (1, Ready::At(at(990 + 250))));
        let rate = |seconds: i64| limiter.rate(at(990 + seconds * 1000)).unwrap();
        assert!((rate(0) - 700.0).abs() < 1e-6, "{}", rate(0));
        assert!((rate(5) - 1000.0).abs() < 1e-6, "{}", rate(5));
        assert!(rate(3) > 950.0 && rate(3) < rate(4));
        // Nothing was sent meanwhile, so nothing shows that more would work.
        assert!(rate(60) <= 1000.0, "{}", rate(60));
    }

    #[test]
    fn a_fully_used_rate_grows_beyond_the_last_limit() {
        let mut limiter = throttled();
        let mut now = 990 + 250;
        let mut sent = 0;
        while now < 990 + 8_000 {
            match limiter.ready(at(now)) {
                Ready::Now => {
                    limiter.send(100, at(now));
                    limiter.answered(100, at(now));
                    sent += 100;
                }
                Ready::At(time) => now = (time - at(0)).num_milliseconds() + 1,
                Ready::Later => panic!("nothing is in flight"),
            }
        }
        assert!(limiter.rate(at(now)).unwrap() > 1050.0);
        // About 950 per second, on average.
        assert!((6_800..8_000).contains(&sent), "{sent}");
    }

    #[test]
    fn one_congestion_event_reduces_the_rate_once() {
        let mut limiter = Limiter::new(8, at(0));
        limiter.send(100, at(0));
        limiter.answered(100, at(0));
        let epochs: Vec<u64> = (0..8).map(|_| limiter.send(100, at(0))).collect();
        let reduced = epochs
            .iter()
            .filter(|epoch| limiter.failed(Failure::Throttled, (100, **epoch), None, 0.0, at(10)));
        assert_eq!(reduced.count(), 1);
        assert_eq!((limiter.misses, limiter.in_flight), (1, 0));
        assert!((limiter.rate(at(10)).unwrap() - 70.0).abs() < 1e-6);
    }

    #[test]
    fn pauses_double_with_jitter_and_respect_retry_after() {
        let pause = |failures, asked: Option<u64>, fraction| {
            let mut limiter = Limiter::new(1, at(0));
            for _ in 1..failures {
                let sent = (1, limiter.send(1, at(0)));
                limiter.failed(Failure::Unanswered, sent, None, 0.0, at(-3_600_000));
            }
            limiter.not_before = at(0);
            let sent = (1, limiter.send(1, at(0)));
            limiter.not_before = at(0);
            let asked = asked.map(Duration::from_secs);
            limiter.failed(Failure::Throttled, sent, asked, fraction, at(0));
            (limiter.not_before - at(0)).num_milliseconds()
        };
        assert_eq!(
            [1, 2, 3, 8, 99].map(|failures| pause(failures, None, 0.0)),
            [250, 500, 1000, 30_000, 30_000]
        );
        assert_eq!(pause(1, None, 1.0), 312);
        assert_eq!((pause(1, Some(2), 0.0), pause(9, Some(2), 0.0)), (2000, 2000));
        assert_eq!(
            pause(1, Some(u64::MAX), 1.0),
            4_500_000,
            "an hour and a quarter is the longest"
        );
    }

    #[test]
    fn only_consecutive_lost_connections_reduce_the_rate() {
        let mut limiter = Limiter::new(4, at(0));
        let fail = |limiter: &mut Limiter| {
            let sent = (100, limiter.send(100, at(0)));
            limiter.failed(Failure::Unanswered, sent, None, 0.0, at(0))
        };
        assert!(!fail(&mut limiter));
        assert_eq!((limiter.rate(at(0)), limiter.window), (None, 1));
        limiter.send(100, at(0));
        limiter.answered(100, at(0));
        assert!(!fail(&mut limiter), "a response in between");
        assert!(fail(&mut limiter));
        assert!(limiter.rate(at(0)).is_some());
    }

    #[test]
    fn the_rate_is_unknown_before_the_first_success() {
        let mut limiter = Limiter::new(4, at(0));
        let sent = (100, limiter.send(100, at(0)));
        limiter.failed(Failure::Throttled, sent, None, 0.0, at(0));
        assert_eq!((limiter.rate(at(0)), limiter.window), (None, 1));
        limiter.send(100, at(300));
        limiter.answered(100, at(300));
        let sent = (100, limiter.send(100, at(300)));
        limiter.failed(Failure::Throttled, sent, None, 0.0, at(300));
        assert!((limiter.rate(at(300)).unwrap() - 70.0).abs() < 1e-6);
    }

    #[test]
    fn an_unused_limiter_becomes_idle() {
        let limiter = throttled();
        assert!(!limiter.is_idle(at(50_000)));
        assert!(limiter.is_idle(at(62_000)));
    }
}
