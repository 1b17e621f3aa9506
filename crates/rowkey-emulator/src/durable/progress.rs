//! Tracks how many units were handed over, and how many have been written.
//!
//! A request waits for all units handed over before its response, including those of other
//! requests: its result may depend on their changes, and must not be sent while these can still be
//! lost.

use std::ops::RangeInclusive;
#[cfg(feature = "durable")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
#[cfg(feature = "durable")]
use std::task::{Context, Poll, Wake, Waker};
#[cfg(feature = "durable")]
use std::thread::{self, Thread};

use tokio::sync::watch;

/// The units that were handed over, and those that have been written.
#[derive(Debug)]
pub(crate) struct Progress {
    issued: AtomicU64,
    status: watch::Sender<Status>,
    /// Units that were removed from memory because they could not be written.
    lost: Mutex<Vec<RangeInclusive<u64>>>,
}

#[derive(Clone, Copy, Debug)]
struct Status {
    units: u64,
    phase: Phase,
    /// The number of failed writes.
    failures: u64,
}

/// Whether changes can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Memory matches the disk, and the disk accepts no changes.
    Full,
    /// Memory is ahead of the disk.
    Failed,
}

/// A write failed: memory is ahead of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

impl Progress {
    #[cfg_attr(not(feature = "durable"), expect(dead_code, reason = "nothing is kept"))]
    pub(crate) fn new() -> Self {
        let (status, _) = watch::channel(Status { units: 0, phase: Phase::Open, failures: 0 });
        Self { issued: AtomicU64::new(0), status, lost: Mutex::default() }
    }

    /// Waits until everything handed over before has been written.
    pub(crate) async fn settled(&self) -> Result<(), Failed> {
        let wanted = self.issued.load(Ordering::Acquire);
        let is_settled = |status: &Status| status.phase == Phase::Failed || status.units >= wanted;
        let status = *self.status.borrow();
        let status = if is_settled(&status) {
            status
        } else {
            // `self` holds the sender, so it cannot be dropped.
            let mut changes = self.status.subscribe();
            changes.wait_for(is_settled).await.map_or(status, |status| *status)
        };
        if status.phase == Phase::Failed { Err(Failed) } else { Ok(()) }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.status.borrow().phase
    }

    /// The number of failed writes.
    pub(crate) fn failures(&self) -> u64 {
        self.status.borrow().failures
    }

    /// Whether a unit was removed from memory.
    pub(crate) fn is_lost(&self, unit: u64) -> bool {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.iter().any(|units| units.contains(&unit))
    }
}

#[cfg(feature = "durable")]
impl Progress {
    /// Counts a unit that is handed over; returns its number.
    pub(super) fn issue(&self) -> u64 {
        self.issued.fetch_add(1, Ordering::Release) + 1
    }

    /// Counts `units` units as written.
    pub(super) fn note_written(&self, units: u64) {
        self.status.send_modify(|status| status.units += units);
    }

    /// Whether everything handed over has been written.
    pub(super) fn is_settled(&self) -> bool {
        self.status.borrow().units >= self.issued.load(Ordering::Acquire)
    }

    /// Blocks this thread until everything handed over before has been written.
    pub(super) fn settle_here(&self) -> Result<(), Failed> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut settled = std::pin::pin!(self.settled());
        loop {
            match settled.as_mut().poll(&mut context) {
                Poll::Ready(settled) => return settled,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Records that a write failed. Returns whether this is a new failure.
    pub(super) fn fail(&self) -> bool {
        self.status.send_if_modified(|status| {
            let is_new = status.phase != Phase::Failed;
            status.phase = Phase::Failed;
            status.failures += u64::from(is_new);
            is_new
        })
    }

    /// Records that memory has been restored from disk: all unwritten units are lost.
    pub(super) fn take_back(&self) {
        self.status.send_modify(|status| {
            let issued = self.issued.load(Ordering::Acquire);
            if status.units < issued {
                let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.push(status.units + 1..=issued);
            }
            status.units = issued;
            status.phase = Phase::Full;
        });
    }

    /// Records that the disk accepts changes again.
    pub(super) fn open(&self) {
        self.status.send_modify(|status| status.phase = Phase::Open);
    }
}

/// Wakes a thread that waits for a future.
#[cfg(feature = "durable")]
struct Unpark(Thread);

#[cfg(feature = "durable")]
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(all(test, feature = "durable"))]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_response_waits_only_for_units_issued_before_it() {
        let progress = Progress::new();
        assert_eq!(progress.settled().now_or_never(), Some(Ok(())));
        progress.issue();
        let mut first = Box::pin(progress.settled());
        assert_eq!(first.as_mut().now_or_never(), None);
        progress.issue();
        let mut second = Box::pin(progress.settled());
        progress.note_written(1);
        assert_eq!(first.now_or_never(), Some(Ok(())));
        assert_eq!(second.as_mut().now_or_never(), None);
        progress.note_written(1);
        assert_eq!(second.now_or_never(), Some(Ok(())));
    }

    #[test]
    fn a_thread_that_waits_goes_on_when_the_last_unit_is_written_or_a_write_fails() {
        let progress = Progress::new();
        assert_eq!(progress.settle_here(), Ok(()));
        progress.issue();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| progress.settle_here());
            progress.note_written(1);
            assert_eq!(waiting.join().unwrap(), Ok(()));
            progress.issue();
            let waiting = scope.spawn(|| progress.settle_here());
            progress.fail();
            assert_eq!(waiting.join().unwrap(), Err(Failed));
        });
    }

    #[test]
    fn after_a_failure_nothing_settles_until_the_rollback() {
        let progress = Progress::new();
        progress.issue();
        let mut waiting = Box::pin(progress.settled());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        assert!(progress.fail() && !progress.fail());
        assert_eq!((progress.phase(), progress.failures()), (Phase::Failed, 1));
        assert_eq!(waiting.now_or_never(), Some(Err(Failed)));
        assert_eq!(progress.settled().now_or_never(), Some(Err(Failed)));
    }

    #[test]
    fn rolled_back_units_are_lost_and_later_units_are_kept() {
        let progress = Progress::new();
        for _ in 0..3 {
            progress.issue();
        }
        progress.note_written(1);
        progress.fail();
        progress.take_back();
        assert_eq!(progress.phase(), Phase::Full);
        assert_eq!([1, 2, 3, 4].map(|unit| progress.is_lost(unit)), [false, true, true, false]);
        assert_eq!(progress.settled().now_or_never(), Some(Ok(())));
        progress.open();
        assert_eq!(progress.issue(), 4);
        assert_eq!(progress.settled().now_or_never(), None);
        progress.note_written(1);
        assert_eq!(progress.settled().now_or_never(), Some(Ok(())));
    }
}
