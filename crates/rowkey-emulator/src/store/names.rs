//! Whether the names of deleted tables, queues and containers are blocked for some time.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;

/// Added to the error for a blocked name: explains the blocking and how to disable it.
const SWITCH: &str = " (This server blocks names as Azure does: 40 s for tables, 30 s for queues and \
containers. They are free at once without the program's --strict, or with \
ServerBuilder::reuse_names(true).)";

/// When the names of deleted tables, queues and containers can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// After some time, as in the service.
    Blocked,
    /// At once.
    Reused,
}

/// The names of deleted resources, and until when they are blocked.
#[derive(Clone, Debug)]
pub(crate) struct BlockedNames<K> {
    names: Names,
    /// How long, in seconds. The service says "at least".
    seconds: i64,
    until: BTreeMap<K, DateTime>,
}

impl<K: Clone + Ord> BlockedNames<K> {
    pub(crate) fn new(names: Names, seconds: i64) -> Self {
        Self { names, seconds, until: BTreeMap::new() }
    }

    /// Takes a name for a new resource; `code` is the error if it is blocked.
    pub(crate) fn take<Q: Ord + ?Sized>(
        &mut self,
        name: &Q,
        now: DateTime,
        code: ErrorCode,
    ) -> Result<(), Rejection>
    where
        K: Borrow<Q>,
    {
        let is_blocked = self.until.get(name).is_some_and(|until| now < *until);
        if self.names == Names::Blocked && is_blocked {
            return Err(being_deleted(code));
        }
        self.until.remove(name);
        Ok(())
    }

    /// Blocks the name of a deleted resource. Names that are free by now are passed to `freed`.
    pub(crate) fn block(&mut self, name: K, now: DateTime, mut freed: impl FnMut(&K)) {
        self.until.retain(|name, until| {
            let is_blocked = now < *until;
            if !is_blocked {
                freed(name);
            }
            is_blocked
        });
        if self.names == Names::Blocked
            && let Ok(until) = DateTime::from_ticks(now.ticks() + self.seconds * 10_000_000)
        {
            self.until.insert(name, until);
        }
    }
}

/// For the durable store.
#[cfg(feature = "durable")]
impl<K: Clone + Ord> BlockedNames<K> {
    /// Until when a name is blocked.
    pub(crate) fn until<Q: Ord + ?Sized>(&self, name: &Q) -> Option<DateTime>
    where
        K: Borrow<Q>,
    {
        self.until.get(name).copied()
    }

    /// All names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.until.keys()
    }

    /// Restores a blocked name.
    pub(crate) fn restore(&mut self, name: K, until: DateTime) {
        self.until.insert(name, until);
    }
}

/// The error for creating a resource with a blocked name. It mentions the option, because other
/// emulators do not block names.
fn being_deleted(code: ErrorCode) -> Rejection {
    let mut rejection = Rejection::new(code);
    rejection.message.to_mut().push_str(SWITCH);
    rejection
}
