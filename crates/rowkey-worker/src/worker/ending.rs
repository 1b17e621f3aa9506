//! Decides how a message ends, from what happened to it and what is known of it. Sends nothing, and reads no clock.

use std::time::Duration;

use rowkey_client::{Error, ErrorKind};
use tokio::task::JoinError;

use super::hold::Lost;
use super::{Done, Step};
use crate::dead_letters::Cause;
use crate::panics;
use crate::task::Envelope;

/// The shortest wait of a task that was not begun, so that it is not received again and again.
const SHORTEST: Duration = Duration::from_secs(1);

/// Why a task failed, or cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) text: String,
    /// How long the service asked the client to wait.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), retry_after: None }
    }

    pub(super) fn panicked(what: &str, text: &str) -> Self {
        Self::new(Cause::Panic, format!("{what} panicked: {text}"))
    }

    pub(super) fn of(error: JoinError) -> Self {
        match panics::of(error) {
            Some(text) => Self::panicked("the handler", &text),
            None => Self::new(Cause::UnknownEnd, "the runtime was shut down while the handler ran"),
        }
    }

    /// Whether the cause is not the task, but a service or the program.
    fn is_transient(&self) -> bool {
        let transient = [ErrorKind::Throttled, ErrorKind::Unavailable].map(Cause::Error);
        self.cause == Cause::UnknownEnd || transient.contains(&self.cause)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let retry_after = error.details().retry_after;
        Self { retry_after, ..Self::new(Cause::Error(error.kind()), error.to_string()) }
    }
}

/// What happened to a message that was received.
#[derive(Debug)]
pub(super) enum Processed {
    /// Its task was not tried, because the handler of another one blocks. It waits until it can be tried alone, or, if it
    /// `has_begun`, for its key.
    Blocked { has_begun: bool },
    /// The result of the handler.
    Done(Done),
    /// The task has or had a dead letter.
    IsDeadLetter,
    /// Reading the task or handling it failed.
    Failed(Failure),
    /// Another worker has the message.
    Lost(Lost),
    /// A worker of a newer program may know the task.
    Newer(String),
    /// The worker stops before the handler has ended.
    Stopped,
    /// The task cannot be processed, or was given up before.
    Unprocessable(Failure),
}

/// What is known of a message when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The number of attempts before this one that counted.
    pub(super) attempts: u32,
    /// How often the message was received before.
    pub(super) received: u32,
    pub(super) age: Duration,
}

/// The limits of a worker.
pub(super) struct Limits<'w> {
    pub(super) max_attempts: u32,
    pub(super) patience: Duration,
    /// The wait after a failure, by the number of waits before it.
    pub(super) retry: &'w dyn Fn(u32) -> Duration,
    /// The same for a worker of a newer program.
    pub(super) newer: &'w dyn Fn(u32) -> Duration,
}

/// How a message ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The message is deleted, and then the blob of its task unless a dead letter has it.
    Complete { step: Step, keeps_blob: bool },
    /// The message becomes a dead letter. The failure counts as an attempt if it is the result of one.
    DeadLetter { failure: Failure, is_attempt: bool },
    /// Another worker has the message.
    Lost(Lost),
    /// The message is received again after a while. If `is_known`, it says that the result of this attempt is
    /// known.
    Retry { step: Step, wait: Duration, failure: Option<Failure>, is_known: bool },
}

/// Whether the dependencies of tasks are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// Unavailable; the service asked the client to wait this long.
    Down(Option<Duration>),
    /// Unknown: the result says nothing about it.
    Unsaid,
    Up,
}

impl Ending {
    /// The failure of an attempt, and whether it counts as one.
    pub(super) fn failed_attempt(&self) -> Option<(&Failure, bool)> {
        match self {
            Self::DeadLetter { failure, is_attempt: true } => Some((failure, true)),
            Self::Retry { failure: Some(failure), step, .. } => {
                Some((failure, *step == Step::Retried))
            }
            _ => None,
        }
    }

    /// What this ending says about dependencies; `step` is the result of the requests that ended the message.
    pub(super) fn dependency(&self, step: Step) -> Dependency {
        match self {
            Self::Complete { .. } if step != Step::Lost => Dependency::Up,
            Self::Retry { failure: Some(failure), step: Step::Deferred, .. } => {
                Dependency::Down(failure.retry_after)
            }
            _ => Dependency::Unsaid,
        }
    }
}

/// Decides before a task is tried: whether it is tried while no other task runs, or why it is not tried at all.
///
/// If a process dies, all tasks that it was processing end without a known result, and one of them may have
/// caused that. So a task becomes a dead letter for this cause only after it was tried alone.
pub(super) fn is_tried_alone(
    envelope: &Envelope,
    dequeue_count: u32,
    max_attempts: u32,
) -> Result<bool, Failure> {
    // Without a known result: a worker died, or a response was lost. A text that was copied into another message
    // counts the receptions of that one.
    let received = dequeue_count.saturating_sub(1);
    let known = if envelope.receptions > received { 0 } else { envelope.receptions };
    let unknown = received.saturating_sub(known);
    if envelope.attempts >= max_attempts {
        let last = envelope.history.last();
        let cause = last.and_then(|failure| failure.cause.as_deref());
        let last = last.map_or("unknown", |failure| &failure.error);
        let text = format!("it was tried {} times; the last failure: {last}", envelope.attempts);
        return Err(Failure::new(cause.map_or(Cause::UnknownEnd, Cause::from), text));
    }
    if envelope.alone && unknown > 0 {
        let text = format!(
            "it was received {dequeue_count} times and never completed, even when tried alone"
        );
        return Err(Failure::new(Cause::UnknownEnd, text));
    }
    Ok(unknown >= max_attempts)
}

/// Decides how a message ends.
pub(super) fn decide(processed: Processed, known: &Known, limits: &Limits<'_>) -> Ending {
    let has_patience = known.age < limits.patience;
    let complete = |step, keeps_blob| Ending::Complete { step, keeps_blob };
    let dead =
        |cause, text| Ending::DeadLetter { failure: Failure::new(cause, text), is_attempt: false };
    let retry = |step, wait| Ending::Retry { step, wait, failure: None, is_known: true };
    match processed {
        Processed::Done(Done::Applied) => complete(Step::Handled, false),
        Processed::Done(Done::AlreadyApplied) => complete(Step::Suppressed, false),
        Processed::Done(Done::Later(wait)) => retry(Step::Deferred, wait),
        Processed::Done(Done::Poison(text)) => dead(Cause::Rejected, text),
        Processed::Done(Done::TooOld(text)) => dead(Cause::TooOld, text),
        Processed::IsDeadLetter => complete(Step::Suppressed, true),
        Processed::Lost(lost) => Ending::Lost(lost),
        Processed::Newer(_) if has_patience => {
            retry(Step::Deferred, (limits.newer)(known.received))
        }
        Processed::Newer(text) => dead(Cause::Unreadable, text),
        Processed::Stopped => retry(Step::HandedBack, Duration::ZERO),
        Processed::Unprocessable(failure) => Ending::DeadLetter { failure, is_attempt: false },
        Processed::Blocked { has_begun } => {
            let wait = (limits.retry)(known.received).max(SHORTEST);
            Ending::Retry { step: Step::Deferred, wait, failure: None, is_known: has_begun }
        }
        Processed::Failed(failure) => {
            let (step, waits) = if failure.is_transient() && has_patience {
                (Step::Deferred, known.received)
            } else if known.attempts.saturating_add(1) < limits.max_attempts {
                (Step::Retried, known.attempts)
            } else {
                return Ending::DeadLetter { failure, is_attempt: true };
            };
            let wait = (limits.retry)(waits).max(failure.retry_after.unwrap_or_default());
            Ending::Retry { step, wait, failure: Some(failure), is_known: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Content;

    const HOUR: Duration = Duration::from_secs(3600);
    /// After the limits' patience.
    const OLD: Duration = Duration::from_secs(100 * 3600);

    /// Decides for the fourth reception of a message, by limits of 3 attempts, with waits that show what they are of.
    fn end(processed: Processed, attempts: u32, age: Duration) -> Ending {
        let limits = Limits {
            max_attempts: 3,
            patience: 72 * HOUR,
            retry: &|waits| Duration::from_secs(waits.into()),
            newer: &|waits| HOUR * (waits + 1),
        };
        decide(processed, &Known { attempts, received: 3, age }, &limits)
    }

    fn seconds(wait: u64) -> Duration {
        Duration::from_secs(wait)
    }

    fn failure(cause: Cause) -> Failure {
        Failure::new(cause, "no")
    }

    fn dead(failure: Failure, is_attempt: bool) -> Ending {
        Ending::DeadLetter { failure, is_attempt }
    }

    fn retry(step: Step, wait: Duration) -> Ending {
        Ending::Retry { step, wait, failure: None, is_known: true }
    }

    #[test]
    fn what_does_not_fail_ends_in_the_same_way_at_each_attempt_and_age() {
        let no = || "no".to_owned();
        let complete = |step, keeps_blob| Ending::Complete { step, keeps_blob };
        let blocked = |is_known| Ending::Retry {
            step: Step::Deferred,
            wait: seconds(3),
            failure: None,
            is_known,
        };
        let unreadable = failure(Cause::Unreadable);
        let rows: [(&dyn Fn() -> Processed, Ending, Dependency); 12] = [
            (&|| Processed::Done(Done::Applied), complete(Step::Handled, false), Dependency::Up),
            (
                &|| Processed::Done(Done::AlreadyApplied),
                complete(Step::Suppressed, false),
                Dependency::Up,
            ),
            (
                &|| Processed::Done(Done::Later(HOUR)),
                retry(Step::Deferred, HOUR),
                Dependency::Unsaid,
            ),
            (
                &|| Processed::Done(Done::Poison(no())),
                dead(failure(Cause::Rejected), false),
                Dependency::Unsaid,
            ),
            (
                &|| Processed::Done(Done::TooOld(no())),
                dead(failure(Cause::TooOld), false),
                Dependency::Unsaid,
            ),
            (&|| Processed::IsDeadLetter, complete(Step::Suppressed, true), Dependency::Up),
            (
                &|| Processed::Unprocessable(failure(Cause::Unreadable)),
                dead(unreadable, false),
                Dependency::Unsaid,
            ),
            (&|| Processed::Stopped, retry(Step::HandedBack, Duration::ZERO), Dependency::Unsaid),
            (&|| Processed::Lost(Lost::Taken), Ending::Lost(Lost::Taken), Dependency::Unsaid),
            (&|| Processed::Lost(Lost::Expired), Ending::Lost(Lost::Expired), Dependency::Unsaid),
            (&|| Processed::Blocked { has_begun: false }, blocked(false), Dependency::Unsaid),
            (&|| Processed::Blocked { has_begun: true }, blocked(true), Dependency::Unsaid),
        ];
        for (processed, ending, dependency) in rows {
            for (attempts, age) in [(0, HOUR), (2, HOUR), (9, OLD)] {
                assert_eq!(end(processed(), attempts, age), ending);
            }
            assert_eq!(ending.dependency(Step::Handled), dependency, "{ending:?}");
            assert_eq!(ending.dependency(Step::Lost), Dependency::Unsaid, "{ending:?}");
            assert_eq!(ending.failed_attempt(), None, "{ending:?}");
        }
        let soon = Processed::Blocked { has_begun: false };
        let none = Limits {
            max_attempts: 3,
            patience: HOUR,
            retry: &|_| Duration::ZERO,
            newer: &|_| HOUR,
        };
        let known = Known { attempts: 0, received: 0, age: HOUR };
        assert!(
            matches!(decide(soon, &known, &none), Ending::Retry { wait: SHORTEST, .. }),
            "it is not received again and again"
        );
    }

    #[test]
    fn a_task_of_a_newer_program_waits_and_finally_is_unreadable() {
        for attempts in [0, 9] {
            let newer = || Processed::Newer("no".to_owned());
            assert_eq!(end(newer(), attempts, HOUR), retry(Step::Deferred, 4 * HOUR));
            assert_eq!(end(newer(), attempts, OLD), dead(failure(Cause::Unreadable), false));
        }
    }

    #[test]
    fn failures_are_retried_counted_unless_transient_and_finally_dead_letters() {
        let again = |step, wait, failure: &Failure| Ending::Retry {
            step,
            wait: seconds(wait),
            failure: Some(failure.clone()),
            is_known: true,
        };
        let counted = [
            Cause::Panic,
            Cause::TimeLimit,
            Cause::Error(ErrorKind::NotFound),
            Cause::Error(ErrorKind::Unexpected),
        ];
        let transient = [
            Cause::Error(ErrorKind::Throttled),
            Cause::Error(ErrorKind::Unavailable),
            // The runtime was shut down.
            Cause::UnknownEnd,
        ];
        for (cause, is_transient) in counted
            .map(|cause| (cause, false))
            .into_iter()
            .chain(transient.map(|cause| (cause, true)))
        {
            let failure = failure(cause);
            for (attempts, age) in [(0, HOUR), (1, HOUR), (2, HOUR), (0, OLD), (1, OLD), (2, OLD)] {
                let ending = end(Processed::Failed(failure.clone()), attempts, age);
                let row = format!("{failure:?} after {attempts} attempts, {age:?} old");
                if is_transient && age == HOUR {
                    // By the receptions before.
                    assert_eq!(ending, again(Step::Deferred, 3, &failure), "{row}");
                    assert_eq!(ending.dependency(Step::Deferred), Dependency::Down(None), "{row}");
                    assert_eq!(ending.dependency(Step::Lost), Dependency::Down(None), "{row}");
                    assert_eq!(ending.failed_attempt(), Some((&failure, false)), "{row}");
                } else {
                    // By the counted attempts before.
                    let counts = match attempts {
                        2 => dead(failure.clone(), true),
                        _ => again(Step::Retried, attempts.into(), &failure),
                    };
                    assert_eq!(ending, counts, "{row}");
                    assert_eq!(ending.dependency(Step::Retried), Dependency::Unsaid, "{row}");
                    assert_eq!(ending.failed_attempt(), Some((&failure, true)), "{row}");
                }
            }
        }
    }

    #[test]
    fn the_wait_that_a_service_asks_for_is_the_shortest() {
        for (kind, step) in
            [(ErrorKind::Throttled, Step::Deferred), (ErrorKind::Conflict, Step::Retried)]
        {
            for (asked, waits) in [(1, if step == Step::Deferred { 3 } else { 1 }), (60, 60)] {
                let retry_after = Some(seconds(asked));
                let failure = Failure { retry_after, ..failure(Cause::Error(kind)) };
                let ending = end(Processed::Failed(failure.clone()), 1, HOUR);
                let is_down = step == Step::Deferred;
                let down = if is_down { Dependency::Down(retry_after) } else { Dependency::Unsaid };
                assert_eq!(ending.dependency(step), down);
                let (wait, failure) = (seconds(waits), Some(failure));
                assert_eq!(ending, Ending::Retry { step, wait, failure, is_known: true });
            }
        }
    }

    #[test]
    fn a_task_is_tried_alone_after_unknown_ends_and_not_at_all_after_too_many_attempts() {
        let null = serde_json::value::RawValue::NULL.to_owned();
        let with = |attempts, receptions, alone| {
            let mut envelope = Envelope::new("a1".to_owned(), Content::Inline(null.clone()));
            (envelope.attempts, envelope.receptions, envelope.alone) =
                (attempts, receptions, alone);
            envelope
        };
        let unknown = |text: &str| Err(Failure::new(Cause::UnknownEnd, text));
        let alone = "it was received 5 times and never completed, even when tried alone";
        let rows = [
            (with(0, 0, false), 1, Ok(false)),
            (with(0, 0, false), 3, Ok(false)),
            (with(0, 0, false), 4, Ok(true)),
            // All results are known.
            (with(2, 9, false), 10, Ok(false)),
            (with(2, 6, false), 10, Ok(true)),
            // The text of another message.
            (with(0, 90, false), 4, Ok(true)),
            (with(0, 3, true), 4, Ok(false)),
            (with(0, 3, true), 5, unknown(alone)),
            (with(3, 3, false), 4, unknown("it was tried 3 times; the last failure: unknown")),
        ];
        for (envelope, dequeue_count, result) in rows {
            assert_eq!(is_tried_alone(&envelope, dequeue_count, 3), result, "{envelope:?}");
        }
        let mut failed = with(3, 3, false);
        let at = chrono::DateTime::UNIX_EPOCH;
        failed.failed(at, "no", Some("Panic".to_owned()));
        let last = "it was tried 3 times; the last failure: no";
        assert_eq!(is_tried_alone(&failed, 4, 3), Err(Failure::new(Cause::Panic, last)));
    }
}
