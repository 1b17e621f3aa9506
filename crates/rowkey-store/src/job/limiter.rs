//! How fast requests to one target may be sent: what a [`Pace`](super::Pace) keeps of each.
//!
//! Nothing is limited but concurrency until the service pushes back. From then on a limiter behaves as
//! a TCP sender with CUBIC does: it takes seven tenths of the rate that worked, comes back to that
//! rate within seconds, stays near it, and then probes beyond. Concurrency begins at one request after
//! each push back and grows by one for each response, so that one request finds out whether the
//! target is well again, not all that wait.
//!
//! Nothing here waits or reads a clock: the times are given.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// What is left of the rate after a push back: CUBIC's factor, which AWS's adaptive retry uses too.
const REDUCTION: f64 = 0.7;
/// How long it takes to come back to the rate at which the service pushed back, in seconds.
const RECOVERY: f64 = 5.0;
/// The wait after the first failure without a response in between; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest wait that a limiter chooses by itself.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest wait that is taken from `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);
/// For how long a limiter that is not used is worth keeping.
const MEMORY: Duration = Duration::from_secs(60);

/// The state of one target. Units are entities for a partition and requests for an account.
#[derive(Debug)]
pub(super) struct Limiter {
    /// Set once the service has pushed back.
    rate: Option<Rate>,
    /// Until then nothing is sent: a pause, or the time that earlier requests take at the rate.
    not_before: DateTime<Utc>,
    /// How many requests may be in flight.
    window: u32,
    in_flight: u32,
    /// Counts reductions: one congestion, which many requests meet, reduces the rate once.
    epoch: u64,
    /// Failures since the last response, counted once an epoch.
    misses: u32,
    throughput: Throughput,
}

/// The rate that was too high, and when that was found.
#[derive(Clone, Copy, Debug)]
struct Rate {
    highest: f64,
    since: DateTime<Utc>,
}

/// What the service let through lately, in units a second.
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
    /// When a request in flight is answered.
    Later,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The service says that it gets too much.
    Throttled,
    /// There was no answer. One alone may be a connection that was closed, and reduces nothing.
    Unanswered,
}

impl Limiter {
    /// Admits `window` requests at once to begin with.
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

    /// Notes that a request about so many units is sent. Returns the epoch, to be given back.
    pub(super) fn send(&mut self, units: u64, now: DateTime<Utc>) -> u64 {
        self.in_flight += 1;
        self.charge(units, now);
        self.epoch
    }

    /// Notes a response; `more` units than were known when the request was sent.
    pub(super) fn answered(&mut self, units: u64, more: u64, now: DateTime<Utc>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window = self.window.saturating_add(1);
        self.misses = 0;
        self.throughput.add(units + more, now);
        self.charge(more, now);
    }

    /// Notes that what became of a request will not be known: its caller is gone.
    pub(super) fn abandoned(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Notes a failure of a request about so many units, sent in `epoch`; `asked` is the service's own
    /// wait, and `fraction` is random, 0 to 1. Says whether the rate was reduced.
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
        // Spread, so that clients that were refused together do not come back together.
        self.not_before = self.not_before.max(now + pause.mul_f64(1.0 + fraction / 4.0));
        reduced
    }

    /// Whether forgetting it would change nothing.
    pub(super) fn is_idle(&self, now: DateTime<Utc>) -> bool {
        let last = self.rate.map_or(self.throughput.since, |rate| rate.since.max(self.not_before));
        self.in_flight == 0 && self.not_before <= now && last + MEMORY < now
    }

    /// The rate at this time, in units a second; `None` while nothing limits it.
    pub(super) fn rate(&self, now: DateTime<Utc>) -> Option<f64> {
        let Rate { highest, since } = self.rate?;
        let seconds = (now - since).as_seconds_f64();
        let cubic = 1.0 + (1.0 - REDUCTION) * ((seconds - RECOVERY) / RECOVERY).powi(3);
        // What is not used is not known to work: the rate does not run away from the throughput.
        let known = (2.0 * self.throughput.at(now)).max(highest);
        Some((highest * cubic).min(known))
    }

    fn charge(&mut self, units: u64, now: DateTime<Utc>) {
        if let Some(rate) = self.rate(now).filter(|_| units > 0) {
            self.not_before = self.not_before.max(now) + seconds(as_f64(units) / rate);
        }
    }

    fn reduce(&mut self, units: u64, now: DateTime<Utc>) {
        // One request in the longest pause is the least.
        let least = as_f64(units.max(1)) / LONGEST_PAUSE.as_secs_f64();
        let worked = match self.rate(now) {
            Some(rate) => rate,
            None => self.throughput.at(now).max(as_f64(units)),
        };
        self.rate = Some(Rate { highest: worked.max(least), since: now });
    }
}

/// The wait after so many failures in a row, at least 1.
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

    /// The last second counts four fifths, what was before the rest.
    fn at(&self, now: DateTime<Utc>) -> f64 {
        let elapsed = (now - self.since).as_seconds_f64();
        if elapsed < 1.0 {
            // Not over: it can only raise what is known.
            return self.smoothed.max(self.units);
        }
        let latest = self.units / elapsed;
        if self.smoothed > 0.0 { 0.8 * latest + 0.2 * self.smoothed } else { latest }
    }
}

/// Rates need no more than the 53 bits that a double has.
#[expect(clippy::cast_precision_loss, reason = "an estimate; counts are far below 2^53")]
fn as_f64(units: u64) -> f64 {
    units as f64
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_ASKED).min(LONGEST_ASKED)
}
