//! No more requests in a second than allowed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::StorageAccount;

/// Lets requests go one after the other, so many in a second, by the account's clock.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time between two requests, if there is a limit.
    interval: Option<Duration>,
    /// When the next one may go.
    next: Mutex<Option<DateTime<Utc>>>,
}

impl Pace {
    pub(super) fn new(requests_per_second: Option<u32>) -> Self {
        let interval = requests_per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
        Self { interval, next: Mutex::default() }
    }

    /// Returns when it is the caller's turn.
    pub(super) async fn turn(&self, account: &StorageAccount) {
        let Some(interval) = self.interval else { return };
        let clock = account.clock();
        let wait = {
            let now = clock.now();
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = next.map_or(now, |next| next.max(now));
            *next = Some(turn + interval);
            (turn - now).to_std().unwrap_or_default()
        };
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }
}
