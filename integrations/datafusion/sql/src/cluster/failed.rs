//! Errors of the cluster in the words of the client.

use datafusion::common::DataFusionError;

/// The error of a plan that failed on the cluster. Ballista has it as a text, with the error of a task in the form for debugging.
pub(super) fn failed(error: DataFusionError) -> DataFusionError {
    let DataFusionError::Execution(text) = &error else { return error };
    let text = match of_task(text) {
        Some(reason) => format!("on the cluster: {reason}"),
        None if text.contains("tcp connect error") => {
            "the scheduler does not answer; start `rowkey-sql scheduler`, or correct --scheduler"
                .to_owned()
        }
        None => return error,
    };
    DataFusionError::Execution(text)
}

/// The text in `… DataFusionError(Kind("text"))`.
fn of_task(text: &str) -> Option<String> {
    let (_, quoted) = text.split_once("DataFusionError(")?.1.split_once("(\"")?;
    let mut reason = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(reason),
            '\\' => match characters.next()? {
                'n' => reason.push(' '),
                other => reason.push(other),
            },
            other => reason.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_task;

    #[test]
    fn the_reason_of_a_task_is_found_in_the_error_of_a_job() {
        let text = r#"Job 1 failed: Job failed due to stage 1 failed: Task failed: DataFusionError(Plan("the \"x\" is\nnot here"))"#;
        assert_eq!(of_task(text).as_deref(), Some("the \"x\" is not here"));
        assert_eq!(of_task("Job 1 failed: no executors"), None);
        assert_eq!(of_task("DataFusionError(Plan(\"cut"), None);
    }
}
