//! How much has been handed over to be kept, and how much of it is.
//!
//! Whoever answers a request waits for everything that was handed over before: what a request saw
//! or refused to do may rest on the change of another that is not kept yet, and must not be told to
//! anybody while it can still be lost.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Units that were handed over, and those that are kept.
#[derive(Debug)]
pub(crate) struct Progress {
    issued: AtomicU64,
    kept: watch::Sender<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    units: u64,
    /// Nothing can be kept any more.
    failed: bool,
}

/// Changes cannot be kept any more: memory may be ahead of what is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

impl Progress {
    #[cfg_attr(not(feature = "durable"), expect(dead_code, reason = "nothing is kept"))]
    pub(crate) fn new() -> Self {
        let (kept, _) = watch::channel(Kept { units: 0, failed: false });
        Self { issued: AtomicU64::new(0), kept }
    }

    /// Waits until everything is kept that was handed over before.
    pub(crate) async fn settled(&self) -> Result<(), Failed> {
        let wanted = self.issued.load(Ordering::Acquire);
        let is_settled = |kept: &Kept| kept.failed || kept.units >= wanted;
        let kept = *self.kept.borrow();
        let kept = if is_settled(&kept) {
            kept
        } else {
            // The sender is in `self`, so it cannot be gone.
            let mut changes = self.kept.subscribe();
            changes.wait_for(is_settled).await.map_or(kept, |kept| *kept)
        };
        if kept.failed { Err(Failed) } else { Ok(()) }
    }

    /// Whether nothing can be kept any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.kept.borrow().failed
    }
}

#[cfg(feature = "durable")]
impl Progress {
    /// One more unit is handed over.
    pub(super) fn issue(&self) {
        self.issued.fetch_add(1, Ordering::Release);
    }

    /// So many more units are kept.
    pub(super) fn keep(&self, units: u64) {
        self.kept.send_modify(|kept| kept.units += units);
    }

    /// Whether everything is kept that was handed over.
    pub(super) fn is_settled(&self) -> bool {
        self.kept.borrow().units >= self.issued.load(Ordering::Acquire)
    }

    /// Nothing can be kept any more.
    pub(super) fn fail(&self) {
        self.kept.send_modify(|kept| kept.failed = true);
    }
}

#[cfg(all(test, feature = "durable"))]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_answer_waits_for_what_was_handed_over_before_it_and_for_nothing_else() {
        let progress = Progress::new();
        assert_eq!(progress.settled().now_or_never(), Some(Ok(())));
        progress.issue();
        let mut first = Box::pin(progress.settled());
        assert_eq!(first.as_mut().now_or_never(), None);
        progress.issue();
        let mut second = Box::pin(progress.settled());
        progress.keep(1);
        assert_eq!(first.now_or_never(), Some(Ok(())));
        assert_eq!(second.as_mut().now_or_never(), None);
        progress.keep(1);
        assert_eq!(second.now_or_never(), Some(Ok(())));
    }

    #[test]
    fn nothing_is_settled_any_more_after_a_failure() {
        let progress = Progress::new();
        progress.issue();
        let mut waiting = Box::pin(progress.settled());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        progress.fail();
        assert!(progress.has_failed());
        assert_eq!(waiting.now_or_never(), Some(Err(Failed)));
        assert_eq!(progress.settled().now_or_never(), Some(Err(Failed)));
    }
}
