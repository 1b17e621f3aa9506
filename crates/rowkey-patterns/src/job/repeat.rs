//! What a job does again: work of several requests whose failure may be over after a pause. Single requests are
//! repeated by their [`Pace`](rowkey_client::pace::Pace).

use std::time::Duration;

use rowkey_client::internals::{check_wait, doubled};
use rowkey_client::{Clock, Error, Outcome, Result};

/// The pause after the first failure; doubled for each further failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause that a job chooses itself.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause that the service may ask for. Its `Retry-After` may be of any length.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// The number of an attempt, and the outcome of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// Whether an earlier attempt may have been applied, because its response was lost.
    pub after_unknown: bool,
}

/// Runs `operation` until it succeeds, fails for good, or the deadline of the pace or the end of its patience comes. If the outcome of an
/// earlier attempt is unknown, so is that of the error.
pub(super) async fn until_done<T, F: Future<Output = Result<T>>>(
    clock: &dyn Clock,
    mut operation: impl FnMut(Attempt) -> F,
) -> Result<T> {
    let mut attempt = Attempt { number: 1, after_unknown: false };
    loop {
        let error = match operation(attempt).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let was_unknown = attempt.after_unknown;
        attempt.after_unknown |= error.outcome() == Outcome::Unknown;
        let error = if was_unknown { error.with_outcome(Outcome::Unknown) } else { error };
        if !error.is_retryable() {
            return Err(error);
        }
        pause(clock, attempt.number, error).await?;
        attempt.number = attempt.number.saturating_add(1);
    }
}

/// Waits before a repetition after `failures` retryable errors in a row; returns the error if the deadline of
/// the pace in which the job runs comes first, or the patience of the job ends.
pub(super) async fn pause(clock: &dyn Clock, failures: u32, error: Error) -> Result<()> {
    if error.is_past_deadline() {
        return Err(error);
    }
    let asked = error.details().retry_after.unwrap_or_default().min(LONGEST_ASKED);
    let pause = doubled(FIRST_PAUSE, failures.saturating_sub(1), LONGEST_PAUSE).max(asked);
    check_wait(clock, pause, error)?;
    clock.sleep(pause).await;
    Ok(())
}
