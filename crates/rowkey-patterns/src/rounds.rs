//! How often, and how soon, what lost against another writer is tried again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rowkey::{Error, ErrorCode, ErrorKind, Outcome, StorageAccount, Table};

/// How often in all.
const MAX: u32 = 40;
/// How often without a wait: a writer that met one other has won by then.
const AT_ONCE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(8);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The rounds of an operation that reads, decides and writes under a condition: up to 40, the first
/// few at once, later ones after waits of up to half a second.
#[derive(Debug)]
pub struct Rounds<'a> {
    account: &'a StorageAccount,
    /// What makes the waits of two writers differ: the key that each writes.
    seed: u64,
    lost: u32,
}

impl<'a> Rounds<'a> {
    /// No round is lost yet. `key` says what is written; it makes the waits of two writers differ.
    pub fn new(table: &'a Table, key: impl Hash) -> Self {
        Self::of(table.account(), key)
    }

    /// The same where there is no one table.
    pub fn of(account: &'a StorageAccount, key: impl Hash) -> Self {
        Self { account, seed: hash(key), lost: 0 }
    }

    /// Whether to read and try again, after a wait if it was lost several times.
    pub async fn again(&mut self) -> bool {
        self.lost += 1;
        if self.lost >= MAX {
            return false;
        }
        if let Some(doublings) = self.lost.checked_sub(AT_ONCE) {
            let wait = LONGEST_WAIT.min(FIRST_WAIT * (1 << doublings.min(16)));
            let part = u32::try_from(hash((self.seed, self.lost)) % 256).unwrap_or_default();
            let wait = wait / 2 + wait / 2 * part / 256;
            self.account.clock().sleep(wait).await;
        }
        true
    }
}

/// Whether a write was refused because of what somebody else wrote since the reading. Not when
/// nobody knows whether it was refused: then the caller has to.
pub fn was_lost(error: &Error) -> bool {
    let whole = [&ErrorCode::CONTAINER_NOT_FOUND, &ErrorCode::TABLE_NOT_FOUND];
    error.outcome() == Outcome::Rejected
        && error.code().is_none_or(|code| !whole.contains(&code))
        && matches!(
            error.kind(),
            ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound
        )
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
