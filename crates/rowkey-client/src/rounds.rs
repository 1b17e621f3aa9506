//! Retries of an operation that lost against another writer: how often, and after what waits.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_wire::code::ErrorCode;

use crate::account::StorageAccount;
use crate::backoff::doubled;
use crate::error::{Error, ErrorKind, Outcome};
use crate::table::Table;

/// The maximum number of rounds.
const MAX: u32 = 40;
/// The number of rounds without a wait; enough for a writer that competes with one other.
const AT_ONCE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(8);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The rounds of an operation that reads, decides and writes conditionally: up to 40, the first few without a
/// wait, later ones after waits of up to half a second.
///
/// ```
/// # use rowkey::{DynamicEntity, Key, StorageAccount};
/// use rowkey::rounds::{Rounds, was_lost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let table = account.table("counters");
/// # table.create().await?;
/// # let mut counter = DynamicEntity::new("counters", "visits");
/// # counter.set("Count", 0_i64);
/// # table.insert(&counter).await?;
/// let mut rounds = Rounds::new(&table, "visits");
/// loop {
///     let stored = table.get(Key::<DynamicEntity>::new("counters", "visits")).await?;
///     let mut counter = stored.ok_or("no counter")?;
///     let count: i64 = counter.entity.get_as("Count")?;
///     counter.entity.set("Count", count + 1);
///     match table.replace(&counter).await {
///         Err(error) if was_lost(&error) && rounds.again().await => {}
///         written => break drop(written?),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Rounds<'a> {
    account: &'a StorageAccount,
    /// Makes the waits of writers differ by the key that each writes. Writers of the same key differ by the
    /// moment at which they lost.
    seed: u64,
    lost: u32,
}

impl<'a> Rounds<'a> {
    /// Starts with no round lost. `key` identifies the written data, so that the waits of two writers differ.
    pub fn new(table: &'a Table, key: impl Hash) -> Self {
        Self::of(table.account(), key)
    }

    /// The same for operations on more than one table.
    pub fn of(account: &'a StorageAccount, key: impl Hash) -> Self {
        Self { account, seed: hash(key), lost: 0 }
    }

    /// Returns whether to read and try again. Waits first if several rounds were lost.
    pub async fn again(&mut self) -> bool {
        self.lost += 1;
        if self.lost >= MAX {
            return false;
        }
        if let Some(doublings) = self.lost.checked_sub(AT_ONCE) {
            let clock = self.account.clock();
            // A clock that stands still gives the same waits each time, which tests need.
            clock.sleep(wait(doublings, self.seed, clock.now())).await;
        }
        true
    }
}

/// The wait: between half of the doubled wait and all of it.
fn wait(doublings: u32, seed: u64, lost_at: DateTime<Utc>) -> Duration {
    let longest = doubled(FIRST_WAIT, doublings, LONGEST_WAIT);
    let moment = (lost_at.timestamp(), lost_at.timestamp_subsec_nanos());
    let part = u32::try_from(hash((seed, doublings, moment)) % 256).unwrap_or_default();
    longest / 2 + longest / 2 * part / 256
}

/// Returns whether a write was refused because another writer changed the data after it was read. `false` if
/// the outcome is unknown, which the caller must handle, and if another entity has a value that must be unique.
pub fn was_lost(error: &Error) -> bool {
    let whole = [&ErrorCode::CONTAINER_NOT_FOUND, &ErrorCode::TABLE_NOT_FOUND];
    let is_race = match error.kind() {
        // A store finds it by a read, and then sends no write.
        ErrorKind::Conflict => error.outcome() != Outcome::Unknown,
        ErrorKind::AlreadyExists | ErrorKind::NotFound => error.outcome() == Outcome::Rejected,
        _ => false,
    };
    is_race
        && error.details().index.is_none()
        && error.code().is_none_or(|code| !whole.contains(&code))
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn conflicting_writers_of_one_row_have_different_backoff() {
        let at = |nanoseconds| DateTime::from_timestamp(1_700_000_000, nanoseconds).unwrap();
        for doublings in 0..20 {
            let waits: BTreeSet<_> = (0..100).map(|n| wait(doublings, 7, at(n * 1000))).collect();
            assert!(waits.len() > 50, "{} of 100", waits.len());
            let longest = LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow(doublings.min(10)));
            assert!(waits.iter().all(|wait| (longest / 2..=longest).contains(wait)));
            assert_eq!(wait(doublings, 7, at(5)), wait(doublings, 7, at(5)));
            assert!((0..100).any(|seed| wait(doublings, seed, at(5)) != wait(doublings, 7, at(5))));
        }
    }
}
