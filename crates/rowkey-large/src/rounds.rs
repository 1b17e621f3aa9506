//! How often, and how soon, what lost against another writer is tried again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rowkey::{Clock, Error, ErrorCode, ErrorKind, Outcome};

/// How often in all.
const MAX: u32 = 40;
/// How often without a wait: a writer that met one other has won by then.
const AT_ONCE: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(8);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The rounds of an operation that reads, decides and writes under a condition.
pub(crate) struct Rounds {
    /// What makes the waits of two writers differ: that which each writes.
    seed: u64,
    lost: u32,
}

impl Rounds {
    pub(crate) fn new(of: impl Hash) -> Self {
        Self { seed: hash(of), lost: 0 }
    }

    /// Whether to read and try again, after a wait if it was lost several times.
    pub(crate) async fn again(&mut self, clock: &dyn Clock) -> bool {
        self.lost += 1;
        if self.lost >= MAX {
            return false;
        }
        if let Some(doublings) = self.lost.checked_sub(AT_ONCE) {
            let wait = LONGEST_WAIT.min(FIRST_WAIT * (1 << doublings.min(16)));
            let part = u32::try_from(hash((self.seed, self.lost)) % 256).unwrap_or_default();
            clock.sleep(wait / 2 + wait / 2 * part / 256).await;
        }
        true
    }
}

/// Whether a write was refused because of what somebody else wrote since the reading. Not when
/// nobody knows whether it was refused: then the caller has to.
pub(crate) fn was_lost(error: &Error) -> bool {
    let missing = [&ErrorCode::TABLE_NOT_FOUND, &ErrorCode::CONTAINER_NOT_FOUND];
    error.outcome() == Outcome::Rejected
        && error.code().is_none_or(|code| !missing.contains(&code))
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
