//! No more of something a second than allowed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::Clock;

/// Who wants to go on waits until those before it have had their time.
#[derive(Debug)]
pub struct Pace {
    per_second: Option<u32>,
    /// When the next may begin.
    next: Mutex<DateTime<Utc>>,
}

impl Pace {
    /// So many a second, at least 1; or as many as can be.
    pub fn new(per_second: Option<u32>) -> Self {
        let per_second = per_second.map(|rate| rate.max(1));
        Self { per_second, next: Mutex::new(DateTime::<Utc>::MIN_UTC) }
    }

    /// Waits until it is the turn of so many.
    pub async fn take(&self, clock: &dyn Clock, count: usize) {
        let Some(per_second) = self.per_second else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let wait = self.reserve(clock.now(), Duration::from_secs(1) * count / per_second);
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }

    /// Takes the next `time` there is; returns how long it is until then.
    fn reserve(&self, now: DateTime<Utc>, time: Duration) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = now.max(*next);
        *next = begin + time;
        (begin - now).to_std().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begins_when_those_before_it_have_had_their_time() {
        let pace = Pace::new(Some(100));
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(pace.reserve(now, second), Duration::ZERO);
        assert_eq!(pace.reserve(now, second / 2), second);
        assert_eq!(pace.reserve(now + second, second), second / 2);
        assert_eq!(pace.reserve(now + 10 * second, second), Duration::ZERO, "nothing is saved up");
        assert_eq!(pace.reserve(now + 10 * second, second), second);
    }
}
