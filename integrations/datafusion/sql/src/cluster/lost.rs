//! Errors of schedulers and executors that are not there, or are not what they should be.

use crate::error::{Error, Exit};

fn unavailable(text: String) -> Error {
    Error::new(Exit::Unavailable, text)
}

pub(super) fn unknown_host(scheduler: &str) -> Error {
    unavailable(format!(
        "no machine has the name in the address {scheduler} of the scheduler; correct --scheduler"
    ))
}

pub(super) fn silent(scheduler: &str) -> Error {
    unavailable(format!(
        "the scheduler {scheduler} does not answer; start `rowkey-sql scheduler`, or correct --scheduler"
    ))
}

pub(super) fn no_scheduler(scheduler: &str) -> Error {
    unavailable(format!(
        "what listens at {scheduler} does not answer as a scheduler does; correct --scheduler: `rowkey-sql scheduler` says where it listens"
    ))
}

/// In the middle of a statement.
pub(super) fn lost(scheduler: &str) -> Error {
    unavailable(format!(
        "the scheduler {scheduler} does not answer any more, and the statement is lost with it; see that it runs, and run the statement again"
    ))
}

pub(super) fn forgotten(scheduler: &str) -> Error {
    unavailable(format!(
        "the scheduler {scheduler} does not know the statement any more, because it was started again; run the statement again"
    ))
}

pub(super) fn lost_rows(host: &str, port: u16) -> Error {
    unavailable(format!(
        "the executor {host}:{port} has rows of the result and does not send them; see that it runs and can be reached from here, and run the statement again"
    ))
}

pub(super) fn other_version(scheduler: &str, reason: &str) -> Error {
    Error::new(
        Exit::Failed,
        format!(
            "the scheduler {scheduler} has another version: {reason} Run the same version of rowkey-sql everywhere"
        ),
    )
}

pub(super) fn refused(scheduler: &str, reason: &str) -> Error {
    Error::new(
        Exit::Failed,
        format!(
            "the scheduler {scheduler} does not take the statement: {reason}; run the same version of rowkey-sql as client, scheduler and executors"
        ),
    )
}

pub(super) fn too_large(limit: usize) -> Error {
    Error::usage(format!(
        "the plan of the statement has more than {} MiB, which no scheduler takes; use fewer values in it, or run it without --scheduler",
        limit >> 20
    ))
}

/// Of a job that was cancelled, or that failed without one of its tasks. The reason is that of Ballista.
pub(super) fn of_job(reason: &str, scheduler: &str) -> Option<Error> {
    let start =
        format!("start `rowkey-sql executor --scheduler {scheduler}`, and run the statement again");
    Some(unavailable(if reason == "Cancelled" {
        format!(
            "the statement was cancelled at the scheduler {scheduler}; if no executor runs, which it waits for as long as its --patience says, {start}"
        )
    } else if reason.starts_with("all executors were lost") {
        format!("all executors of the scheduler {scheduler} are lost; {start}")
    } else if reason.starts_with("task could not be prepared or was rejected") {
        format!(
            "an executor of the scheduler {scheduler} does not take tasks; see that it runs and that the scheduler reaches it at its --host and --task-port, and run the statement again"
        )
    } else {
        return None;
    }))
}

/// Of a stage whose tasks have failed as often as Ballista runs them.
pub(super) fn of_stage(reason: &str) -> Option<Error> {
    if reason.starts_with("Stage ") && reason.contains(" times, most recent failure reason") {
        return Some(unavailable(
            "on the cluster: executors do not get rows from each other; see that they reach each other at their --host and --port, and run \
             the statement again"
                .to_owned(),
        ));
    }
    let is_of_files = reason.starts_with("Task") && reason.contains(" times, fail the stage, ");
    is_of_files.then(|| {
        Error::new(
            Exit::Failed,
            "on the cluster: an executor cannot read or write files, of intermediate results in its --work-dir or of an account; see that it has room \
             and what it logs, and run the statement again",
        )
    })
}
