//! Throttling: request rates of an account, a partition and a queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::active::Active;

/// A second in ticks.
const SECOND: i64 = 10_000_000;
/// The number of remembered limits at which unused ones are removed.
const SWEEP_AT: usize = 4096;

/// The rates per second above which a server answers 503 `ServerBusy` with `Retry-After`, for
/// [`ServerBuilder::throttle`](crate::ServerBuilder::throttle) and
/// [`Server::set_targets`](crate::Server::set_targets).
///
/// The default is the service's documented
/// [targets](https://learn.microsoft.com/azure/storage/tables/scalability-targets). A second's
/// worth may be used at once; it refills continuously by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
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

/// The targets, which can be set at any time, and the current use.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Whether there are targets. Nearly all requests read only this.
    is_on: AtomicBool,
    active: Arc<Active>,
    limits: Mutex<Limits>,
}

#[derive(Debug, Default)]
struct Limits {
    targets: Option<Targets>,
    /// For each limit, the instant at which it will be unused again.
    unused_at: HashMap<Limited, i64>,
}

impl Throttle {
    pub(crate) fn new(active: Arc<Active>) -> Self {
        Self { is_on: AtomicBool::new(false), active, limits: Mutex::default() }
    }

    /// Sets the targets; `None` ends throttling. What was used is forgotten.
    pub(crate) fn set(&self, targets: Option<Targets>) {
        let mut limits = self.limits();
        match (limits.targets.is_some(), targets.is_some()) {
            (false, true) => self.active.enter(),
            (true, false) => self.active.leave(),
            _ => {}
        }
        self.is_on.store(targets.is_some(), Ordering::Relaxed);
        *limits = Limits { targets, unused_at: HashMap::new() };
    }

    /// The targets.
    pub(crate) fn targets(&self) -> Option<Targets> {
        if self.is_on() { self.limits().targets } else { None }
    }

    /// Whether there are targets.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts a request to an account.
    pub(crate) fn request(&self, account: &str, now: DateTime) -> Result<(), Rejection> {
        let limited = || Limited::Account(account.into());
        self.take(limited, |targets| targets.requests_per_account, 1, now)
    }

    /// Counts a request about messages.
    pub(crate) fn message(
        &self,
        account: &str,
        queue: &str,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let limited = || Limited::Queue(account.into(), queue.into());
        self.take(limited, |targets| targets.messages_per_queue, 1, now)
    }

    /// Counts `count` entities of a partition. A count of 0 only checks whether the partition
    /// accepts any.
    pub(crate) fn entities(
        &self,
        (account, table, partition_key): (&str, &str, &str),
        count: usize,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let limited = || partition(account, table, partition_key);
        self.take(limited, |targets| targets.entities_per_partition, count, now)
    }

    /// Counts entities that were read. Their number is known only after the query.
    pub(crate) fn note_entities(
        &self,
        (account, table, partition_key): (&str, &str, &str),
        count: usize,
        now: DateTime,
    ) {
        let mut limits = self.limits();
        let Some(targets) = limits.targets else { return };
        let unused_at = limits.of(partition(account, table, partition_key), now);
        *unused_at = now.ticks().max(*unused_at) + cost(targets.entities_per_partition, count);
    }

    /// Forgets what was used.
    pub(crate) fn clear(&self) {
        self.limits().unused_at.clear();
    }

    fn take(
        &self,
        limited: impl FnOnce() -> Limited,
        rate: impl FnOnce(&Targets) -> u32,
        count: usize,
        now: DateTime,
    ) -> Result<(), Rejection> {
        if !self.is_on() {
            return Ok(());
        }
        let mut limits = self.limits();
        let Some(targets) = limits.targets else { return Ok(()) };
        let unused_at = limits.of(limited(), now);
        let after = now.ticks().max(*unused_at) + cost(rate(&targets), count);
        if after - now.ticks() > SECOND {
            return Err(Rejection::new(ErrorCode::SERVER_BUSY));
        }
        *unused_at = after;
        Ok(())
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    /// The instant at which this limit will be unused again.
    fn of(&mut self, limited: Limited, now: DateTime) -> &mut i64 {
        if self.unused_at.len() >= SWEEP_AT {
            self.unused_at.retain(|_, unused_at| *unused_at > now.ticks());
        }
        self.unused_at.entry(limited).or_insert(0)
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

    fn throttle(targets: Targets) -> Throttle {
        let throttle = Throttle::new(Arc::default());
        throttle.set(Some(targets));
        throttle
    }

    #[test]
    fn targets_can_be_set_and_removed_at_any_time() {
        let active = Arc::<Active>::default();
        let throttle = Throttle::new(Arc::clone(&active));
        let none = Targets { requests_per_account: 0, ..Targets::default() };
        throttle.request("a", at(0)).unwrap();
        for _ in 0..2 {
            throttle.set(Some(none));
            assert!(throttle.request("a", at(0)).is_err() && !active.is_idle());
            assert_eq!(throttle.targets(), Some(none));
        }
        throttle.set(None);
        throttle.set(None);
        throttle.request("a", at(0)).unwrap();
        assert!(active.is_idle() && throttle.targets().is_none());
    }

    fn at(ticks: i64) -> DateTime {
        let start: DateTime = "2026-01-01T00:00:00Z".parse().unwrap();
        DateTime::from_ticks(start.ticks() + ticks).unwrap()
    }

    #[test]
    fn a_rate_limit_allows_a_burst_and_refills_with_the_clock() {
        let throttle = throttle(Targets { entities_per_partition: 10, ..Targets::default() });
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
        let throttle = throttle(targets);
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
