//! Patience: how long a job waits for a service that does not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::governor::Late;
use super::{CURRENT, Pace};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Ends waits when no request was answered for some time. Time in which no request wants an answer does not count: a job may
/// wait for its own maximum rates, or work on what it read.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// When the first request of those wanted to be sent that were not answered; `None` after an answer.
    since: Mutex<Option<Duration>>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: Mutex::new(None) }
    }

    /// Records that a request waits for its turn or an answer.
    pub(super) fn begins(&self, now: Duration) {
        self.since().get_or_insert(now);
    }

    /// Records an answer, even that the request was refused for another reason than being one too many.
    pub(super) fn is_answered(&self) {
        *self.since() = None;
    }

    /// What is left, if a request waits.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.since().map(|since| self.limit.saturating_sub(now.saturating_sub(since)))
    }

    fn since(&self) -> MutexGuard<'_, Option<Duration>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails requests at a pace, and does not repeat them, when none was answered for this long. It applies to the returned handle
/// and its clones.
pub fn patient(pace: Pace, limit: Duration) -> Pace {
    Pace { patience: Some(Arc::new(Patience::new(limit))), ..pace }
}

/// Checks that the pace in which the current future runs allows a wait before a repetition. Otherwise returns the error that
/// would be repeated.
pub fn check_wait(clock: &dyn Clock, wait: Duration, error: Error) -> Result<()> {
    let limits = CURRENT.try_with(|pace| (pace.until, pace.patience.clone())).ok();
    let (until, patience) = limits.unwrap_or_default();
    match late(clock, wait, until, patience.as_deref()) {
        Some(late) => Err(late.marks(error)),
        None => Ok(()),
    }
}

/// Why a wait is too long, if it is.
pub(super) fn late(
    clock: &dyn Clock,
    wait: Duration,
    until: Option<chrono::DateTime<chrono::Utc>>,
    patience: Option<&Patience>,
) -> Option<Late> {
    let left = until.map(|until| (until - clock.now()).to_std().unwrap_or_default());
    if left.is_some_and(|left| wait >= left) {
        return Some(Late::Deadline);
    }
    let left = patience.and_then(|patience| patience.left(clock.elapsed()));
    left.is_some_and(|left| wait >= left).then_some(Late::Patience)
}

impl Late {
    /// The error of what is not repeated for this reason.
    pub(crate) fn marks(self, error: Error) -> Error {
        match self {
            Self::Deadline => error
                .past_deadline()
                .advise("the deadline has passed; resume the job from its checkpoint"),
            Self::Patience => error
                .past_deadline()
                .advise("nothing was answered for too long; resume the job from its checkpoint"),
            Self::Timeout => error.advise("allow a longer `timeout`, or try again later"),
        }
    }
}
