//! A maximum rate: when the next request may be sent so that the average stays below it.
//!
//! The generic cell rate algorithm: one time, at which all that was sent is paid for. It needs no timer, and a
//! request knows at once how long it has to wait.

use std::time::Duration;

/// Lateness that is made up for. A timer that ends a millisecond late would otherwise lose that millisecond of
/// throughput each time: half of it, if requests are half a millisecond apart.
pub(super) const LATENESS: Duration = Duration::from_millis(50);
/// The longest time that one request pays for.
const LONGEST: Duration = Duration::from_secs(3600);

/// The use of a rate. Times are those of the clock's [`elapsed`](crate::Clock::elapsed).
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    paid: Duration,
}

impl Meter {
    /// A meter of a rate that was not used before.
    pub(super) fn new(now: Duration) -> Self {
        Self { paid: now }
    }

    /// The earliest time of the next request; `ahead` is how much of the coming time may be used in advance.
    pub(super) fn next(&self, ahead: Duration) -> Duration {
        self.paid.saturating_sub(ahead)
    }

    /// Counts units that are sent now at `rate` per second.
    pub(super) fn take(&mut self, units: f64, rate: f64, now: Duration) {
        let base = self.paid.max(now.saturating_sub(LATENESS));
        let time = Duration::try_from_secs_f64(units / rate).unwrap_or(LONGEST).min(LONGEST);
        self.paid = base.saturating_add(time);
    }

    /// Takes back units that were counted and not sent.
    pub(super) fn give_back(&mut self, units: f64, rate: f64) {
        let time = Duration::try_from_secs_f64(units / rate).unwrap_or(LONGEST).min(LONGEST);
        self.paid = self.paid.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn requests_are_spread_over_the_time_that_they_pay_for() {
        let mut meter = Meter::new(ms(1000));
        for begin in [1000, 1500, 2000] {
            assert_eq!(meter.next(Duration::ZERO), ms(begin));
            meter.take(50.0, 100.0, ms(begin));
        }
        assert_eq!(meter.next(ms(500)), ms(2000), "half a second in advance");
        meter.give_back(50.0, 100.0);
        assert_eq!(meter.next(Duration::ZERO), ms(2000));
    }

    #[test]
    fn lateness_is_made_up_for_and_idle_time_is_not_saved_up() {
        let mut meter = Meter::new(ms(0));
        for late in 0..100 {
            let due = meter.next(Duration::ZERO);
            assert_eq!(due, ms(20 * late), "{late}");
            meter.take(1.0, 50.0, due + ms(3));
        }
        meter.take(1.0, 50.0, ms(60_000));
        assert_eq!(meter.next(Duration::ZERO), ms(60_000 - 50 + 20));
    }
}
