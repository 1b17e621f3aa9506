//! The retry budget of an account: retries may follow failures, and must not add to an outage.
//!
//! A token bucket, with the numbers of the standard retry mode of AWS's SDKs. It is full at the beginning. A
//! retry takes 5 tokens and gets them back if its operation succeeds; an operation that succeeds at once adds
//! one. So about 100 retries in a row may fail, and then one retry follows 5 successes. The idea is the same
//! as in gRPC's retry throttling and in Finagle's retry budgets.

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

    /// Records an operation that succeeded after this many attempts.
    pub(crate) fn succeeded(&self, attempts: u32) {
        // Nearly always full, and then nothing is written to memory that threads share.
        if self.tokens.load(Ordering::Relaxed) < self.capacity {
            self.refill(if attempts > 1 { COST } else { 1 });
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
        (0..4).for_each(|_| budget.succeeded(1));
        assert!(!budget.take());
        budget.succeeded(1);
        assert!(budget.take());
        budget.succeeded(2);
        assert!(budget.take(), "a retry that succeeds costs nothing");
        (0..1000).for_each(|_| budget.succeeded(3));
        assert_eq!([(); 3].map(|()| budget.take()), [true, true, false]);
    }

    #[test]
    fn a_budget_can_be_unlimited_or_empty() {
        let (unlimited, none) = (Budget::new(u32::MAX), Budget::new(0));
        assert!((0..1000).all(|_| unlimited.take()));
        assert!(!none.take());
    }
}
