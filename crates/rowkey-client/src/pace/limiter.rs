//! The request rate of one target: a partition, a queue, a scan or the account.
//!
//! Up to the target's ceiling, only the concurrency of background requests is limited until the service
//! pushes back. Then a limiter behaves like a TCP sender with CUBIC: it falls back to seven tenths of the rate
//! that worked, recovers to that rate within seconds, stays near it, and then probes higher rates. After each
//! pushback, concurrency starts at one request and grows by one for each response, so that one request, not
//! all that wait, finds out whether the target has recovered.
//!
//! In an outage, each such request reduces the rate further, though it was not sent too fast. So the last rate at which
//! requests were really sent and refused is remembered, and when responses come again, the rate doubles each second up to
//! seven tenths of it.
//!
//! Requests of the foreground and the background share the rate. A background request waits until all that
//! was sent is paid for; a foreground request may use the next half second in advance, and the background
//! pays for it by waiting longer. The service allows such bursts: it counts over about a second.
//!
//! This module neither waits nor reads a clock: callers pass the time, as [`Clock::elapsed`](crate::Clock::elapsed).

use std::time::Duration;

use super::Priority;
use super::meter::Meter;
use crate::backoff::doubled;

/// The rate after a pushback, relative to the rate before: CUBIC's factor, also used by AWS's
/// adaptive retry.
const REDUCTION: f64 = 0.7;
/// The time to recover to the rate at which the service pushed back, in seconds.
const RECOVERY: f64 = 5.0;
/// The wait after the first failure; doubled for each further failure without a response in
/// between.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest wait that a limiter chooses itself for the background.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest wait that a limiter chooses itself for the foreground: a user waits, and one request of a target in this
/// time does not harm a service.
const LONGEST_HALT: Duration = Duration::from_secs(2);
/// The lowest rate of the foreground, in requests per second. In an outage the pauses keep the rate lower.
const LEAST: f64 = 1.0;
/// The longest wait accepted from `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);
/// How much of the coming time a foreground request may use.
const AHEAD: Duration = Duration::from_millis(500);
/// The throughput of what was sent before a pause of this length is not used.
const IDLE: Duration = Duration::from_secs(10);
/// The shortest time whose throughput is measured, in seconds.
const MOMENT: f64 = 0.1;
/// How long an unused limiter is kept that the service has pushed back on.
const MEMORY: Duration = Duration::from_secs(60);
/// How long any other is kept. It knows only its window.
const SHORT_MEMORY: Duration = Duration::from_secs(2);

/// The state of one target. Units are the entities of a partition, or requests.
#[derive(Debug)]
pub(super) struct Limiter {
    /// The highest rate, in units per second.
    ceiling: Option<f64>,
    /// Set once the service has pushed back.
    rate: Option<Rate>,
    meter: Meter,
    /// No request is sent before: one of the foreground was refused.
    halted: Duration,
    /// No background request is sent before: one of them was refused.
    paused: Duration,
    /// The maximum number of background requests in flight, and after a pushback of foreground requests, too.
    window: u32,
    in_flight: [u32; 2],
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
    since: Duration,
    /// The last rate at which requests were really sent and refused; 0 if none was measured.
    refused: f64,
}

/// The recent throughput of the service, in units per second.
#[derive(Debug)]
struct Throughput {
    since: Duration,
    units: f64,
    smoothed: f64,
}

/// Whether a request may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Now,
    At(Duration),
    /// Only after a response to a request in flight.
    Later,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The service reported throttling.
    Throttled,
    /// There was no response. A single one may be a closed connection, and reduces nothing.
    Unanswered,
}

/// A request that was sent: what is passed to [`Limiter::failed`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) priority: Priority,
    pub(super) units: u64,
    pub(super) epoch: u64,
}

impl Limiter {
    /// Creates a limiter that initially allows `window` background requests in flight.
    pub(super) fn new(window: u32, ceiling: Option<f64>, now: Duration) -> Self {
        Self {
            ceiling,
            rate: None,
            meter: Meter::new(now),
            halted: now,
            paused: now,
            window,
            in_flight: [0; 2],
            epoch: 0,
            misses: 0,
            throughput: Throughput { since: now, units: 0.0, smoothed: 0.0 },
        }
    }

    /// Whether a request may be sent now. A background request whose turn it is (`owed`) may use the coming
    /// time like one of the foreground.
    pub(super) fn ready(&self, priority: Priority, owed: bool, now: Duration) -> Ready {
        let is_background = priority == Priority::Background;
        let opens = if is_background { self.paused.max(self.halted) } else { self.halted };
        let ahead = if is_background && !owed { Duration::ZERO } else { AHEAD };
        let at = opens.max(self.meter.next(ahead));
        if now < at {
            return Ready::At(at);
        }
        // Before a pushback, the concurrency of the foreground is the program's own.
        let is_limited = is_background || self.epoch > 0;
        if is_limited && self.in_flight[priority as usize] >= self.window {
            Ready::Later
        } else {
            Ready::Now
        }
    }

    /// Records that a request about `units` was sent. Returns the epoch, to be passed to `failed`.
    pub(super) fn send(&mut self, priority: Priority, units: u64, now: Duration) -> u64 {
        self.in_flight[priority as usize] += 1;
        self.count(units, now);
        self.epoch
    }

    /// Counts units that are known only after the response: they worked, and later requests pay for them.
    pub(super) fn read(&mut self, units: u64, now: Duration) {
        self.throughput.add(units, now);
        self.count(units, now);
    }

    fn count(&mut self, units: u64, now: Duration) {
        let units = as_f64(units);
        // What a pushback taught is never a reason to wait longer than a pause: a rate that was learned from
        // small requests would stop a large one, or a page of many entities, for hours.
        let learned = self.learned(now).map(|rate| rate.max(units / LONGEST_PAUSE.as_secs_f64()));
        if let Some(rate) = lower(learned, self.ceiling) {
            self.meter.take(units, rate, now);
        }
    }

    /// Records the response to a request about `units`.
    pub(super) fn answered(&mut self, priority: Priority, units: u64, now: Duration) {
        self.abandoned(priority);
        self.window = self.window.saturating_add(1);
        self.misses = 0;
        self.throughput.add(units, now);
    }

    /// Records that the caller dropped a request, so that its result stays unknown.
    pub(super) fn abandoned(&mut self, priority: Priority) {
        let in_flight = &mut self.in_flight[priority as usize];
        *in_flight = in_flight.saturating_sub(1);
    }

    /// Records a failure. `asked` is the wait that the service asked for, and `fraction` is random, from 0 to
    /// 1. Returns whether the rate was reduced.
    pub(super) fn failed(
        &mut self,
        failure: Failure,
        sent: Sent,
        asked: Option<Duration>,
        fraction: f64,
        now: Duration,
    ) -> bool {
        self.abandoned(sent.priority);
        let is_news = sent.epoch == self.epoch;
        let mut pause = asked.unwrap_or_default().min(LONGEST_ASKED);
        let mut reduced = false;
        if is_news {
            self.epoch += 1;
            self.misses = self.misses.saturating_add(1);
            self.window = 1;
            if asked.is_none() {
                let longest = match sent.priority {
                    Priority::Foreground => LONGEST_HALT,
                    Priority::Background => LONGEST_PAUSE,
                };
                pause = doubled(FIRST_PAUSE, self.misses - 1, longest);
            }
            reduced = failure == Failure::Throttled || self.misses > 1;
            if reduced {
                self.reduce(sent, now);
            }
        }
        // Spread, so that clients refused at the same time do not return at the same time.
        let until = now.saturating_add(pause.mul_f64(1.0 + fraction / 4.0));
        // A large background request is refused when a small foreground request would not be, so it does
        // not stop the foreground, of which one request at a time finds out.
        match sent.priority {
            Priority::Foreground => self.halted = self.halted.max(until),
            Priority::Background => self.paused = self.paused.max(until),
        }
        reduced
    }

    /// Whether a request was answered before the last failure.
    pub(super) fn is_first_miss(&self) -> bool {
        self.misses == 1
    }

    /// Whether the limiter can be dropped without any effect.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        let paid = self.meter.next(Duration::ZERO).max(self.halted).max(self.paused);
        let (last, memory) = match self.rate {
            None => (self.throughput.since, SHORT_MEMORY),
            Some(rate) => (rate.since, MEMORY),
        };
        self.in_flight == [0; 2] && paid <= now && last.max(paid) + memory < now
    }

    /// The rate, if what was sent is not paid for at this time.
    pub(super) fn unpaid(&self, now: Duration) -> Option<f64> {
        if self.meter.next(Duration::ZERO) > now { self.rate(now) } else { None }
    }

    /// The rate at this time, in units per second; `None` if it is not limited.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        lower(self.learned(now), self.ceiling)
    }

    /// The rate that follows from pushbacks; `None` if there was none.
    pub(super) fn learned(&self, now: Duration) -> Option<f64> {
        let Rate { highest, since, refused } = self.rate?;
        let seconds = now.saturating_sub(since).as_secs_f64();
        let cubic = 1.0 + (1.0 - REDUCTION) * ((seconds - RECOVERY) / RECOVERY).powi(3);
        let doubled = (highest * REDUCTION * seconds.exp2()).min(REDUCTION * refused);
        // The rate stays near the actual throughput: an unused rate is not known to work.
        let known = (2.0 * self.throughput.at(now)).max(highest);
        Some((highest * cubic).max(doubled).min(known))
    }

    fn reduce(&mut self, sent: Sent, now: Duration) {
        let units = as_f64(sent.units);
        let least = match sent.priority {
            Priority::Foreground => LEAST * units,
            // One request in the longest pause.
            Priority::Background => units / LONGEST_PAUSE.as_secs_f64(),
        };
        let throughput = self.throughput.at(now);
        // What was answered within the first second is a guess, and none to return to.
        let is_measured = self.throughput.smoothed > 0.0;
        let (highest, refused) = match (self.learned(now), self.rate) {
            (Some(rate), Some(before)) => {
                let highest = rate.max(least);
                // A request after a failure finds out whether an outage is over, and was not sent at the rate. The throughput
                // alone does not tell: a fifth of it is from before, however long the outage.
                let is_used = self.is_first_miss() && is_measured && 2.0 * throughput >= rate;
                (highest, if is_used { highest } else { before.refused })
            }
            // Nothing worked yet, so there is no rate to reduce: the window and the pause are the limit.
            _ if throughput <= 0.0 => return,
            _ => {
                let worked = throughput.max(units);
                (worked, if is_measured { worked } else { 0.0 })
            }
        };
        self.rate = Some(Rate { highest, since: now, refused });
    }
}

/// The lower of two rates; `None` means not limited.
fn lower(learned: Option<f64>, ceiling: Option<f64>) -> Option<f64> {
    match (learned, ceiling) {
        (Some(learned), Some(ceiling)) => Some(learned.min(ceiling)),
        (learned, ceiling) => learned.or(ceiling),
    }
}

impl Throughput {
    fn add(&mut self, units: u64, now: Duration) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= IDLE {
            // Nothing was sent, which shows nothing about what would have worked.
            (self.smoothed, self.units, self.since) = (0.0, 0.0, now);
        } else if elapsed >= Duration::from_secs(1) {
            self.smoothed = self.at(now);
            self.units = 0.0;
            self.since = now;
        }
        self.units += as_f64(units);
    }

    /// Returns the smoothed throughput: four fifths from the last second, the rest from before.
    fn at(&self, now: Duration) -> f64 {
        let elapsed = now.saturating_sub(self.since).as_secs_f64();
        if elapsed < 1.0 {
            // The current second is not over, so it can only raise the value. The first one is no measure: what
            // worked within a moment is taken for its rate, and not for that of the whole second.
            let is_first = self.smoothed <= 0.0;
            return if is_first {
                self.units / elapsed.max(MOMENT)
            } else {
                self.smoothed.max(self.units)
            };
        }
        let latest = self.units / elapsed;
        if self.smoothed > 0.0 { 0.8 * latest + 0.2 * self.smoothed } else { latest }
    }
}

/// Rates need no more than the 53 bits of precision of a double.
#[expect(clippy::cast_precision_loss, reason = "an estimate; counts are far below 2^53")]
pub(super) fn as_f64(units: u64) -> f64 {
    units as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    use Priority::{Background, Foreground};

    /// A time, on a clock that has run for a day.
    fn at(milliseconds: u64) -> Duration {
        Duration::from_secs(86_400) + Duration::from_millis(milliseconds)
    }

    fn sent(limiter: &mut Limiter, units: u64, now: Duration) -> Sent {
        let epoch = limiter.send(Background, units, now);
        Sent { priority: Background, units, epoch }
    }

    /// A limiter that sent 1,000 units in its first second and was throttled at its end.
    fn throttled() -> Limiter {
        let mut limiter = Limiter::new(2, None, at(0));
        for request in 0..10 {
            limiter.send(Background, 100, at(request * 100));
            limiter.answered(Background, 100, at(request * 100));
        }
        let request = sent(&mut limiter, 100, at(1000));
        assert!(limiter.failed(Failure::Throttled, request, None, 0.0, at(1000)));
        limiter
    }

    #[test]
    fn only_concurrency_is_limited_before_the_first_throttling_response() {
        let mut limiter = Limiter::new(2, None, at(0));
        for _ in 0..2 {
            assert_eq!(limiter.ready(Background, false, at(0)), Ready::Now);
            limiter.send(Background, 1_000_000, at(0));
        }
        assert_eq!(limiter.ready(Background, false, at(0)), Ready::Later);
        limiter.answered(Background, 1_000_000, at(0));
        assert_eq!(
            (limiter.window, limiter.ready(Background, false, at(0)), limiter.rate(at(0))),
            (3, Ready::Now, None)
        );
    }

    #[test]
    fn throttling_reduces_the_rate_to_70_percent_and_it_recovers() {
        let limiter = throttled();
        assert_eq!(
            (limiter.window, limiter.ready(Background, false, at(991))),
            (1, Ready::At(at(1000 + 250)))
        );
        let rate = |seconds: u64| limiter.rate(at(1000 + seconds * 1000)).unwrap();
        assert!((rate(0) - 700.0).abs() < 1e-6, "{}", rate(0));
        assert!((rate(5) - 1000.0).abs() < 1e-6, "{}", rate(5));
        assert!(rate(3) > 950.0 && rate(3) < rate(4));
        // Nothing was sent meanwhile, so nothing shows that more would work.
        assert!(rate(60) <= 1000.0, "{}", rate(60));
    }

    #[test]
    fn a_fully_used_rate_grows_beyond_the_last_limit() {
        let mut limiter = throttled();
        let mut now = 1000 + 250;
        let mut sent = 0;
        while now < 1000 + 8_000 {
            match limiter.ready(Background, false, at(now)) {
                Ready::Now => {
                    limiter.send(Background, 100, at(now));
                    limiter.answered(Background, 100, at(now));
                    sent += 100;
                }
                Ready::At(time) => {
                    now = u64::try_from(time.saturating_sub(at(0)).as_millis()).unwrap() + 1;
                }
                Ready::Later => panic!("nothing is in flight"),
            }
        }
        assert!(limiter.rate(at(now)).unwrap() > 1050.0);
        // About 950 per second, on average.
        assert!((6_800..8_000).contains(&sent), "{sent}");
    }

    #[test]
    fn one_congestion_event_reduces_the_rate_once() {
        let mut limiter = Limiter::new(8, None, at(0));
        limiter.send(Background, 100, at(0));
        limiter.answered(Background, 100, at(0));
        let requests: Vec<Sent> = (0..8).map(|_| sent(&mut limiter, 100, at(0))).collect();
        let reduced = requests
            .iter()
            .filter(|request| limiter.failed(Failure::Throttled, **request, None, 0.0, at(10)));
        assert_eq!(reduced.count(), 1);
        assert_eq!((limiter.misses, limiter.in_flight), (1, [0, 0]));
        // What worked within a moment is taken for its rate: 100 in a tenth of a second.
        assert!((limiter.rate(at(10)).unwrap() - 700.0).abs() < 1e-6);
    }

    #[test]
    fn pauses_double_with_jitter_and_respect_retry_after() {
        let pause = |failures, asked: Option<u64>, fraction| {
            let mut limiter = Limiter::new(1, None, at(0));
            for _ in 1..failures {
                let request = sent(&mut limiter, 1, at(0));
                limiter.failed(Failure::Unanswered, request, None, 0.0, Duration::ZERO);
            }
            limiter.paused = at(0);
            let request = sent(&mut limiter, 1, at(0));
            let asked = asked.map(Duration::from_secs);
            limiter.failed(Failure::Throttled, request, asked, fraction, at(0));
            limiter.paused.saturating_sub(at(0)).as_millis()
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
        let mut limiter = Limiter::new(4, None, at(0));
        let fail = |limiter: &mut Limiter| {
            let request = sent(limiter, 100, at(0));
            limiter.failed(Failure::Unanswered, request, None, 0.0, at(0))
        };
        assert!(!fail(&mut limiter));
        assert_eq!((limiter.rate(at(0)), limiter.window), (None, 1));
        limiter.send(Background, 100, at(0));
        limiter.answered(Background, 100, at(0));
        assert!(!fail(&mut limiter), "a response in between");
        assert!(fail(&mut limiter));
        assert!(limiter.rate(at(0)).is_some());
    }

    #[test]
    fn the_rate_is_unknown_before_the_first_success() {
        let mut limiter = Limiter::new(4, None, at(0));
        let request = sent(&mut limiter, 100, at(0));
        limiter.failed(Failure::Throttled, request, None, 0.0, at(0));
        assert_eq!((limiter.rate(at(0)), limiter.window), (None, 1));
        limiter.send(Background, 100, at(500));
        limiter.answered(Background, 100, at(500));
        let request = sent(&mut limiter, 100, at(500));
        limiter.failed(Failure::Throttled, request, None, 0.0, at(500));
        assert!((limiter.rate(at(500)).unwrap() - 140.0).abs() < 1e-6);
    }

    /// Sends requests of one unit for as long as the time lasts; returns their number. The service answers them, or refuses
    /// them all, with this fraction for the pauses.
    fn drive(limiter: &mut Limiter, now: &mut u64, until: u64, refused: Option<f64>) -> u64 {
        let mut number = 0;
        while *now < until {
            match limiter.ready(Foreground, false, at(*now)) {
                Ready::Now => {
                    let epoch = limiter.send(Foreground, 1, at(*now));
                    let request = Sent { priority: Foreground, units: 1, epoch };
                    *now += 1;
                    if let Some(fraction) = refused {
                        limiter.failed(Failure::Throttled, request, None, fraction, at(*now));
                    } else {
                        limiter.answered(Foreground, 1, at(*now));
                    }
                    number += 1;
                }
                Ready::At(time) => {
                    let next = u64::try_from(time.saturating_sub(at(0)).as_millis()).unwrap();
                    *now = next.max(*now + 1);
                }
                Ready::Later => panic!("nothing is in flight"),
            }
        }
        number
    }

    #[test]
    fn after_an_outage_of_any_length_the_foreground_recovers_within_seconds() {
        for warm in [5_000, 5_250, 5_500, 5_750] {
            for outage in [1_000, 10_000, 30_000, 600_000] {
                for fraction in [0.0, 0.3, 0.6, 1.0] {
                    let mut limiter = Limiter::new(8, None, at(0));
                    let mut now = 0;
                    let before = drive(&mut limiter, &mut now, warm, None) * 1000 / warm;
                    assert!(before >= 900, "{before}");
                    let end = warm + outage;
                    let sent = drive(&mut limiter, &mut now, end, Some(fraction));
                    let most = outage / 2_000 + 10;
                    assert!(sent <= most, "{sent} requests in an outage of {outage} ms");
                    drive(&mut limiter, &mut now, end + 12_000, None);
                    let after = drive(&mut limiter, &mut now, end + 13_000, None);
                    let case = format!("after {warm} and {outage} ms, pauses of {fraction}");
                    assert!(after >= before * 6 / 10, "{case}: {after} a second, {before} before");
                }
            }
        }
    }

    #[test]
    fn answers_between_refusals_of_an_outage_do_not_make_it_forget_the_rate() {
        let mut limiter = Limiter::new(8, None, at(0));
        let mut now = 0;
        let before = drive(&mut limiter, &mut now, 5_000, None) / 5;
        // One answer in ten seconds.
        for ten in 1..=30 {
            drive(&mut limiter, &mut now, 5_000 + ten * 10_000, Some(0.5));
            let mut answered = 0;
            while answered == 0 {
                let until = now + 1;
                answered = drive(&mut limiter, &mut now, until, None);
            }
        }
        let end = now;
        drive(&mut limiter, &mut now, end + 12_000, None);
        let after = drive(&mut limiter, &mut now, end + 13_000, None);
        assert!(after >= before * 6 / 10, "{after} a second, {before} before");
    }

    #[test]
    fn a_target_with_less_capacity_than_before_is_not_sent_its_old_rate_again() {
        let mut limiter = Limiter::new(8, None, at(0));
        let mut now = 0;
        drive(&mut limiter, &mut now, 5_000, None);
        // From now on the service answers 20 requests of each second.
        let (mut answered, mut refused) = (0, 0);
        let mut of_second = [0_u32; 60];
        while now < 65_000 {
            match limiter.ready(Foreground, false, at(now)) {
                Ready::Now => {
                    let epoch = limiter.send(Foreground, 1, at(now));
                    let second = usize::try_from((now - 5_000) / 1000).unwrap();
                    now += 1;
                    of_second[second] += 1;
                    if of_second[second] <= 20 {
                        limiter.answered(Foreground, 1, at(now));
                        answered += u32::from(second >= 30);
                    } else {
                        let request = Sent { priority: Foreground, units: 1, epoch };
                        limiter.failed(Failure::Throttled, request, None, 0.0, at(now));
                        refused += u32::from(second >= 30);
                    }
                }
                Ready::At(time) => {
                    let next = u64::try_from(time.saturating_sub(at(0)).as_millis()).unwrap();
                    now = next.max(now + 1);
                }
                Ready::Later => panic!("nothing is in flight"),
            }
        }
        assert!(answered >= 450, "{answered} of 600 in the second half minute");
        assert!(refused <= 60, "{refused} refused in the second half minute");
    }

    #[test]
    fn an_unused_limiter_becomes_idle() {
        let limiter = throttled();
        assert!(!limiter.is_idle(at(50_000)));
        assert!(limiter.is_idle(at(62_000)));
        let unlimited = Limiter::new(2, None, at(0));
        assert!(!unlimited.is_idle(at(2000)) && unlimited.is_idle(at(2001)), "it knows nothing");
    }

    #[test]
    fn the_foreground_uses_the_next_half_second_and_the_background_pays_for_it() {
        let mut limiter = Limiter::new(8, Some(1000.0), at(0));
        limiter.send(Background, 100, at(0));
        assert_eq!(limiter.ready(Background, false, at(0)), Ready::At(at(100)));
        for _ in 0..5 {
            assert_eq!(limiter.ready(Foreground, false, at(0)), Ready::Now);
            limiter.send(Foreground, 100, at(0));
        }
        assert_eq!(limiter.ready(Foreground, false, at(0)), Ready::At(at(100)));
        assert_eq!(limiter.ready(Background, false, at(0)), Ready::At(at(600)));
        assert_eq!(limiter.ready(Background, true, at(0)), Ready::At(at(100)), "its turn");
    }

    #[test]
    fn entities_of_pages_are_part_of_the_rate_that_worked() {
        let mut limiter = Limiter::new(8, None, at(0));
        for second in 0..3 {
            let now = at(second * 1000);
            limiter.send(Background, 1, now);
            limiter.answered(Background, 1, now);
            limiter.read(999, now);
        }
        let request = sent(&mut limiter, 1, at(3000));
        limiter.failed(Failure::Throttled, request, None, 0.0, at(3000));
        let rate = limiter.rate(at(3000)).unwrap();
        assert!((650.0..750.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_refused_background_request_stops_only_the_background() {
        let mut limiter = Limiter::new(8, None, at(0));
        let request = sent(&mut limiter, 100, at(0));
        limiter.failed(Failure::Throttled, request, Some(Duration::from_secs(3)), 0.0, at(0));
        assert_eq!(limiter.ready(Background, false, at(0)), Ready::At(at(3000)));
        assert_eq!(limiter.ready(Foreground, false, at(0)), Ready::Now);
        let epoch = limiter.send(Foreground, 1, at(0));
        assert_eq!(limiter.ready(Foreground, false, at(0)), Ready::Later, "one at a time");
        let request = Sent { priority: Foreground, units: 1, epoch };
        limiter.failed(Failure::Throttled, request, Some(Duration::from_secs(2)), 0.0, at(0));
        assert_eq!(limiter.ready(Foreground, false, at(0)), Ready::At(at(2000)));
    }
}
