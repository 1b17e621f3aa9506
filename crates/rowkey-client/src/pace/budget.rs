//! The retry budget of an account: retries may follow failures, and must not add to an outage.
//!
//! A token bucket, with the numbers of the standard retry mode of AWS's SDKs. It is full at the beginning. A
//! retry takes 5 tokens and gets them back if the service answers its operation; an operation that is answered at
//! once adds one. So about 100 retries in a row may fail, and then one retry follows 5 answers. The idea is the
//! same as in gRPC's retry throttling and in Finagle's retry budgets. An answer is any that a retry would not
//! change: a service that says 404 has recovered as well as one that says 200.

use std::sync::atomic::{AtomicU32, Ordering};

/// The retries that a full bucket allows.
pub(crate) const RETRIES: u32 = 100;
/// The tokens that a retry takes.
const COST: u32 = 5;

/// The tokens that are left.
#[derive(Debug)]
pub(crate) struct Budget {
    tokens: AtomicU32,
    capacity: u32,
}

impl Budget {
    /// A full budget of this many retries.
    pub(crate) fn new(retries: u32) -> Self {
        let capacity = retries.saturating_mul(COST);
        Self { tokens: AtomicU32::new(capacity), capacity }
    }

    /// Takes what a retry costs. Returns `false` if there is not enough.
    #[cold]
    pub(crate) fn take(&self) -> bool {
        let take = |tokens: u32| tokens.checked_sub(COST);
        self.capacity == u32::MAX
            || self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Records an operation that the service answered, and whether its last attempt was a retry that took
    /// tokens.
    pub(crate) fn answered(&self, has_taken: bool) {
        // Nearly always full, and then nothing is written to memory that threads share.
        if self.tokens.load(Ordering::Relaxed) < self.capacity {
            self.refill(if has_taken { COST } else { 1 });
        }
    }

    #[cold]
    fn refill(&self, tokens: u32) {
        let add = |left: u32| Some(left.saturating_add(tokens).min(self.capacity));
        let _ = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_end_with_the_budget_and_successes_refill_it() {
        let budget = Budget::new(2);
        assert_eq!([(); 3].map(|()| budget.take()), [true, true, false]);
        (0..4).for_each(|_| budget.answered(false));
        assert!(!budget.take());
        budget.answered(false);
        assert!(budget.take());
        budget.answered(true);
        assert!(budget.take(), "a retry that succeeds costs nothing");
        (0..1000).for_each(|_| budget.answered(true));
        assert_eq!([(); 3].map(|()| budget.take()), [true, true, false]);
    }

    #[test]
    fn a_budget_can_be_unlimited_or_empty() {
        let (unlimited, none) = (Budget::new(u32::MAX), Budget::new(0));
        assert!((0..1000).all(|_| unlimited.take()));
        assert!(!none.take());
    }
}
