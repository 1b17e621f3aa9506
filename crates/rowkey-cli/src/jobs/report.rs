//! What of a job is not as it should be: messages, and the exit code.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use rowkey::patterns::job::{Counts, Problem, Report, Verdict};
use serde_json::{Value, json};

use crate::args::Common;
use crate::error::{Error, Exit, Result};

/// The most different messages that are shown without keys.
const MAX_MESSAGES: usize = 20;

/// Ends a command whose job is done: writes what failed or differs to stderr, as JSON with `--json`, and returns an error with
/// the exit code for that. Keys are shown only with `--show-keys`.
pub(crate) fn finish(common: &Common, report: &Report) -> Result<()> {
    if report.is_clean() {
        return Ok(());
    }
    let mut err = io::stderr().lock();
    for message in messages(&report.problems, common.show_keys) {
        let line = if common.json { message.to_string() } else { plain(&message) };
        // The exit code says it, too, if stderr is closed.
        let _ = writeln!(err, "{line}");
    }
    Err(Error::new(Exit::Partly, summary(&report.total)))
}

/// How many entities have which fault.
fn summary(counts: &Counts) -> String {
    let faults = [
        (counts.failed, "failed"),
        (counts.unreadable, "cannot be read"),
        (counts.missing, "are missing"),
        (counts.stale, "differ"),
        (counts.orphaned, "should not exist"),
    ];
    let faults: Vec<_> = faults
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!("the command is done; of {} {}", entities(counts.examined), faults.join(", "))
}

/// Messages with their numbers, or one for each entity with its keys.
fn messages(problems: &[Problem], show_keys: bool) -> Vec<Value> {
    if show_keys {
        let message = |problem: &Problem| {
            json!({"problem": {
                "verdict": name(problem.verdict),
                "partition_key": problem.partition_key,
                "row_key": problem.row_key,
                "message": problem.error,
            }})
        };
        return problems.iter().map(message).collect();
    }
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for problem in problems {
        // Each request has a number of its own.
        let error = problem.error.split_once(" (request ").map_or(&*problem.error, |both| both.0);
        *counts.entry((name(problem.verdict), error)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let message = |((verdict, error), count)| json!({"problem": {"verdict": verdict, "entities": count, "message": error}});
    counts.into_iter().take(MAX_MESSAGES).map(message).collect()
}

fn plain(message: &Value) -> String {
    let problem = &message["problem"];
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    let first = format!("rowkey: {}: {}", text("verdict"), text("message"));
    if let Some(count) = problem["entities"].as_u64() {
        return format!("{first} ({})", entities(count));
    }
    let (partition_key, row_key) = (text("partition_key"), text("row_key"));
    format!("{first} (PartitionKey {partition_key:?}, RowKey {row_key:?})")
}

/// A number of entities, in words.
pub(crate) fn entities(count: u64) -> String {
    if count == 1 { "1 entity".to_owned() } else { format!("{count} entities") }
}

const fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Right => "right",
        Verdict::Missing => "missing",
        Verdict::Stale => "different",
        Verdict::Orphaned => "orphaned",
        Verdict::Unreadable => "unreadable",
        Verdict::Failed => "failed",
        Verdict::Skipped => "skipped",
    }
}

#[cfg(test)]
mod tests {
    use rowkey::ErrorKind;

    use super::*;

    fn report() -> Report {
        let mut report = Report::of(Verdict::Right, 5);
        for number in 0..3 {
            let what = format!("it exists already (request {number})");
            let error = rowkey::Error::refused(ErrorKind::AlreadyExists, what);
            report.problem(None, Verdict::Failed, ("secret", "a\u{1b}b"), &error);
        }
        report
    }

    #[test]
    fn messages_are_counted_and_show_keys_only_where_that_was_asked_for() {
        let counted = messages(&report().problems, false);
        assert_eq!(counted.len(), 1);
        let text = plain(&counted[0]);
        assert_eq!(text, "rowkey: failed: it exists already (3 entities)");
        let keys = messages(&report().problems, true);
        assert_eq!(keys.len(), 3);
        let text = plain(&keys[0]);
        assert!(text.ends_with("(PartitionKey \"secret\", RowKey \"a\\u{1b}b\")"), "{text}");
    }

    #[test]
    fn the_summary_names_each_fault() {
        let mut report = report();
        report.note(None, Verdict::Missing, 2);
        let text = summary(&report.total);
        assert_eq!(text, "the command is done; of 10 entities 3 failed, 2 are missing");
    }
}
