//! Throttling: request rates of an account, a partition and a queue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use smol_str::SmolStr;

/// A second in ticks.
const SECOND: i64 = 10_000_000;
/// The number of remembered limits at which unused ones are removed.
const SWEEP_AT: usize = 4096;

/// The rates per second above which a server answers 503 `ServerBusy` with `Retry-After`, for
/// [`ServerBuilder::throttle`](crate::ServerBuilder::throttle).
///
/// The default is the service's documented
/// [targets](https://learn.microsoft.com/azure/storage/tables/scalability-targets). A second's
/// worth may be used at once; it refills continuously by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Requests per second to an account. Default: 20,000.
    pub requests_per_account: u32,
    /// Entities per second that are read or written in a partition, including those in transactions
    /// and in pages of queries. Default: 2,000.
    pub entities_per_partition: u32,
    /// Requests per second about the messages of a queue. Default: 2,000.
    pub messages_per_queue: u32,
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            requests_per_account: 20_000,
            entities_per_partition: 2000,
            messages_per_queue: 2000,
        }
    }
}

/// The unit that a limit applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Limited {
    Account(SmolStr),
    Partition(SmolStr, SmolStr, SmolStr),
    Queue(SmolStr, SmolStr),
}

/// The current use: for each limit, the instant at which it will be unused again.
#[derive(Debug)]
pub(crate) struct Throttle {
    targets: Targets,
    unused_at: Mutex<HashMap<Limited, i64>>,
}

impl Throttle {
    pub(crate) fn new(targets: Targets) -> Self {
        Self { targets, unused_at: Mutex::default() }
    }

    /// Counts a request to an account.
    pub(crate) fn request(&self, account: &str, now: DateTime) -> Result<(), Rejection> {
        let limited = Limited::Account(account.into());
        self.take(limited, self.targets.requests_per_account, 1, now)
    }

    /// Counts a request about messages.
    pub(crate) fn message(
        &self,
        account: &str,
        queue: &str,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let limited = Limited::Queue(account.into(), queue.into());
        self.take(limited, self.targets.messages_per_queue, 1, now)
    }

    /// Counts `count` entities of a partition. A count of 0 only checks whether the partition
    /// accepts any.
    pub(crate) fn entities(
        &self,
        (account, table, partition_key): (&str, &str, &str),
        count: usize,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let limited = partition(account, table, partition_key);
        self.take(limited, self.targets.entities_per_partition, count, now)
    }

    /// Counts entities that were read. Their number is known only after the query.
    pub(crate) fn note_entities(
        &self,
        (account, table, partition_key): (&str, &str, &str),
        count: usize,
        now: DateTime,
    ) {
        let mut all = self.all(now);
        let unused_at = all.entry(partition(account, table, partition_key)).or_insert(0);
        *unused_at = now.ticks().max(*unused_at) + cost(self.targets.entities_per_partition, count);
    }

    /// Resets all limits.
    pub(crate) fn clear(&self) {
        self.unused_at.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn take(
        &self,
        limited: Limited,
        rate: u32,
        count: usize,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let mut all = self.all(now);
        let unused_at = all.entry(limited).or_insert(0);
        let after = now.ticks().max(*unused_at) + cost(rate, count);
        if after - now.ticks() > SECOND {
            return Err(Rejection::new(ErrorCode::SERVER_BUSY));
        }
        *unused_at = after;
        Ok(())
    }

    fn all(&self, now: DateTime) -> MutexGuard<'_, HashMap<Limited, i64>> {
        let mut all = self.unused_at.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SWEEP_AT {
            all.retain(|_, unused_at| *unused_at > now.ticks());
        }
        all
    }
}

fn partition(account: &str, table: &str, partition_key: &str) -> Limited {
    Limited::Partition(account.into(), table.to_ascii_lowercase().into(), partition_key.into())
}

/// The time that `count` units take to refill, at most one second.
fn cost(rate: u32, count: usize) -> i64 {
    let ticks = SECOND.checked_div(i64::from(rate)).unwrap_or(SECOND + 1);
    ticks.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX)).min(SECOND.max(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ticks: i64) -> DateTime {
        let start: DateTime = "2026-01-01T00:00:00Z".parse().unwrap();
        DateTime::from_ticks(start.ticks() + ticks).unwrap()
    }

    #[test]
    fn a_rate_limit_allows_a_burst_and_refills_with_the_clock() {
        let throttle = Throttle::new(Targets { entities_per_partition: 10, ..Targets::default() });
        let place = ("a", "T", "p");
        throttle.entities(place, 7, at(0)).unwrap();
        throttle.entities(("a", "t", "p"), 3, at(0)).unwrap();
        let busy = throttle.entities(place, 1, at(0)).unwrap_err();
        assert_eq!((busy.code, busy.status.as_u16()), (ErrorCode::SERVER_BUSY, 503));
        throttle.entities(("a", "t", "q"), 10, at(0)).unwrap();
        throttle.entities(("b", "t", "p"), 10, at(0)).unwrap();
        // A tenth of a second refills one unit.
        assert!(throttle.entities(place, 1, at(SECOND / 10 - 1)).is_err());
        throttle.entities(place, 1, at(SECOND / 10)).unwrap();
        assert!(throttle.entities(place, 1, at(SECOND / 10)).is_err());
        throttle.entities(place, 10, at(2 * SECOND)).unwrap();
        // A page may exceed a second's worth; later requests wait for it.
        throttle.note_entities(place, 1000, at(2 * SECOND));
        assert!(throttle.entities(place, 0, at(3 * SECOND - 1)).is_err());
        throttle.entities(place, 0, at(3 * SECOND)).unwrap();
    }

    #[test]
    fn accounts_and_queues_have_separate_rate_limits() {
        let targets =
            Targets { requests_per_account: 2, messages_per_queue: 1, ..Targets::default() };
        let throttle = Throttle::new(targets);
        throttle.message("a", "q", at(0)).unwrap();
        throttle.message("a", "r", at(0)).unwrap();
        assert!(throttle.message("a", "q", at(0)).is_err());
        throttle.request("a", at(0)).unwrap();
        throttle.request("a", at(0)).unwrap();
        assert!(throttle.request("a", at(0)).is_err());
        throttle.request("b", at(0)).unwrap();
        throttle.clear();
        throttle.request("a", at(0)).unwrap();
    }
}
