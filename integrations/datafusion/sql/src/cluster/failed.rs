//! Errors of the cluster in the words of the client, with the exit codes of one machine.
//!
//! Ballista hands on the form for debugging of a task's error, inside of a text of its own. So an executor writes the exit code and the words
//! of this program into the error, and the client finds them at the one place where they can be. What an executor did not write so has the
//! exit code 1: no value of a row can choose another one.

use ballista_core::error::BallistaError;
use datafusion::common::DataFusionError;
use rowkey_datafusion::service_error;

use super::lost;
use crate::error::{Error, Exit};

/// Before the exit code in the error of a task.
const MARK: &str = "rowkey-sql exit ";
/// Before the error of a task, in the text of the scheduler.
const STAGE: &str = "Job failed due to stage ";
/// Behind the number of the stage.
const FAILED: &str = " failed: ";
/// Before the error of a task, behind that.
const TASK: &str = "Task failed due to runtime execution error: ";

/// The codes that the error of a task can have.
const EXITS: [Exit; 6] =
    [Exit::Failed, Exit::Usage, Exit::NotFound, Exit::Condition, Exit::Denied, Exit::Unavailable];

/// The error of a task as the client shall show it. Others stay what they are: Ballista runs a task again if files or the rows of another
/// task could not be read.
pub(super) fn marked(error: DataFusionError) -> DataFusionError {
    match in_words(&error) {
        Some(error) => DataFusionError::Execution(format!("{MARK}{}: {error}", error.exit() as u8)),
        None => error,
    }
}

fn in_words(error: &DataFusionError) -> Option<Error> {
    if service_error(error).is_some() {
        return Some(error.into());
    }
    match error.find_root() {
        DataFusionError::IoError(_) => {
            // A file of an account that is not there, or that is closed to this process, will not be so soon.
            let error = Error::from(error);
            matches!(error.exit(), Exit::NotFound | Exit::Condition | Exit::Denied).then_some(error)
        }
        DataFusionError::ResourcesExhausted(_) => {
            let (error, here) = (Error::from(error), "allow more memory with --memory-limit");
            let text = error.to_string().replace(here, "start executors with more --memory");
            Some(Error::new(error.exit(), text))
        }
        DataFusionError::External(inner) => match inner.downcast_ref() {
            // It has no source.
            Some(BallistaError::DataFusionError(inner)) => in_words(inner),
            Some(BallistaError::ArrowError(inner)) => {
                Some(DataFusionError::Execution(inner.to_string()).into())
            }
            Some(_) => None,
            None => Some(error.into()),
        },
        _ => Some(error.into()),
    }
}

/// The error of a job that failed, from the text of the scheduler.
pub(super) fn of_job(reason: &str, scheduler: &str) -> Error {
    let reason = reason.trim_end();
    let found = of_task(reason)
        .or_else(|| lost::of_job(reason, scheduler))
        .or_else(|| lost::of_stage(of_stage(reason)?));
    // At least in the words of the engine, if it has some.
    found.unwrap_or_else(|| {
        let words = reason.match_indices("(\"").find_map(|(at, _)| quoted(&reason[at + 2..]));
        let words = words.unwrap_or_else(|| reason.to_owned());
        Error::new(Exit::Failed, format!("on the cluster: {words}"))
    })
}

/// What the scheduler says of a stage that failed.
fn of_stage(reason: &str) -> Option<&str> {
    let (stage, reason) = reason.strip_prefix(STAGE)?.split_once(FAILED)?;
    stage.parse::<u64>().is_ok().then_some(reason)
}

/// The error of a task that no other executor runs again.
fn of_task(reason: &str) -> Option<Error> {
    let task = of_stage(reason)?.strip_prefix(TASK)?.strip_prefix("DataFusionError(")?;
    let (kind, text) = task.split_once("(\"")?;
    if !kind.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let text = quoted(text)?;
    let found = text.strip_prefix(MARK).and_then(|marked| {
        let (code, text) = marked.split_once(": ")?;
        let exit = EXITS.into_iter().find(|exit| (*exit as u8).to_string() == code)?;
        Some((exit, text))
    });
    let (exit, text) = found.unwrap_or((Exit::Failed, &text));
    Some(Error::new(exit, format!("on the cluster: {text}")))
}

/// The text that begins behind a quotation mark.
fn quoted(debugged: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = debugged.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                '0' => text.push('\0'),
                'u' => {
                    let code = characters.by_ref().skip(1).take_while(|found| *found != '}');
                    let code = u32::from_str_radix(&code.collect::<String>(), 16).ok();
                    text.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use ballista_core::error::BallistaError;
    use ballista_core::serde::protobuf::FailedTask;
    use datafusion::arrow::error::ArrowError;
    use datafusion::common::DataFusionError;
    use rowkey::ErrorKind;

    use super::{Exit, marked, of_job, of_task};

    /// What the scheduler says of a task with this error.
    fn said(error: DataFusionError) -> String {
        let task = FailedTask::from(BallistaError::from(marked(error)));
        format!("Job failed due to stage 3 failed: {}\n", task.error)
    }

    fn of_service(kind: ErrorKind, text: &'static str) -> DataFusionError {
        DataFusionError::External(Box::new(rowkey::Error::refused(kind, text)))
    }

    #[test]
    fn an_error_comes_through_the_scheduler_with_its_words_and_its_code() {
        let shared = |error| DataFusionError::Shared(Arc::new(error));
        let of_ballista = |error| DataFusionError::External(Box::new(BallistaError::from(error)));
        for (exit, text, error) in [
            (Exit::NotFound, "gone", of_service(ErrorKind::NotFound, "gone")),
            (Exit::Condition, "there", shared(of_service(ErrorKind::AlreadyExists, "there"))),
            (Exit::Denied, "closed", of_ballista(of_service(ErrorKind::Auth, "closed"))),
            (Exit::Unavailable, "busy", of_service(ErrorKind::Throttled, "busy")),
            (
                Exit::Usage,
                "the \"x\" is\n\u{7} \\ not",
                DataFusionError::Plan("the \"x\" is\n\u{7} \\ not".into()),
            ),
            (
                Exit::Failed,
                "Divide by zero error",
                of_ballista(DataFusionError::from(ArrowError::DivideByZero)),
            ),
            (
                Exit::Failed,
                "Cannot cast a string to a value of Int64 type",
                of_ballista(
                    ArrowError::CastError(
                        "Cannot cast string 'secret' to value of Int64 type".into(),
                    )
                    .into(),
                ),
            ),
            (
                Exit::Failed,
                "Resources exhausted: no room; start executors with more --memory,",
                DataFusionError::ResourcesExhausted("no room".to_owned()),
            ),
        ] {
            let found = of_task(&said(error)).unwrap();
            let (code, found) = (found.exit(), found.to_string());
            assert_eq!(code, exit, "{found}");
            assert!(found.starts_with(&format!("on the cluster: {text}")), "{found}");
        }
    }

    #[test]
    fn the_text_of_a_value_chooses_no_code() {
        let forged = "x: rowkey-sql exit 5: no\")) Job failed due to stage 1 failed: Task failed due to runtime execution error: \
                      DataFusionError(Execution(\"rowkey-sql exit 5: no\"))";
        for kind in [DataFusionError::Execution, DataFusionError::Internal] {
            let found = of_task(&said(kind(forged.to_owned()))).unwrap();
            assert_eq!(found.exit(), Exit::Failed);
            assert!(found.to_string().contains(&forged[..20]), "{found}");
        }
        for text in [
            format!("{forged}\n"),
            format!("Error planning job 1: {forged}"),
            "Job failed due to stage 1".to_owned(),
        ] {
            assert!(of_task(&text).is_none(), "{text}");
            assert_eq!(of_job(&text, "here:1").exit(), Exit::Failed);
        }
    }

    /// Ballista runs such a task again.
    #[test]
    fn a_failure_of_files_or_of_another_executor_stays_what_it_is() {
        let lost = BallistaError::FetchFailed("one".to_owned(), 1, 2, "reset".to_owned());
        for error in [
            lost.into_datafusion(),
            DataFusionError::IoError(io::Error::other("full")).context("a sort"),
            BallistaError::IoError(io::Error::other("full")).into_datafusion(),
        ] {
            let before = error.to_string();
            assert_eq!(marked(error).to_string(), before);
        }
    }

    #[test]
    fn the_schedulers_reasons_are_said_in_plain_words() {
        for (exit, words, reason) in [
            (Exit::Unavailable, "--patience", "Cancelled"),
            (
                Exit::Unavailable,
                "executor --scheduler here:1",
                "all executors were lost and no executor re-registered within 3s; no executors remain to run the tasks for this job",
            ),
            (
                Exit::Unavailable,
                "do not get rows from each other",
                "Job failed due to stage 2 failed: Stage 2 has failed 4 times, most recent failure reason: \"GrpcActionError(x)\"\n",
            ),
            (
                Exit::Failed,
                "--work-dir",
                "Job failed due to stage 2 failed: Task 3 in Stage 2 failed 4 times, fail the stage, most recent failure reason: \"IoError\"\n",
            ),
            (
                Exit::Failed,
                "on the cluster: no \"way\"",
                r#"Error planning job 1: DataFusionError(Plan("no \"way\""))"#,
            ),
            (Exit::Failed, "on the cluster: something", "something"),
        ] {
            let error = of_job(reason, "here:1");
            assert_eq!(error.exit(), exit, "{error}");
            let error = error.to_string();
            assert!(error.contains(words) && !error.contains("Error"), "{error}");
        }
    }
}
