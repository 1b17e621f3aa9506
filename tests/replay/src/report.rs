//! The printed report: each failure, the counts by operation, the last line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::judge::Level;
use crate::replay::{Outcome, Verdict};

/// The failures at a level, each with what differs.
pub fn failures(verdicts: &[Verdict], level: Level) -> String {
    let mut text = String::new();
    for verdict in verdicts.iter().filter(|it| it.judged() && !it.passed(level)) {
        let Verdict { file, test, seq, op, request, .. } = verdict;
        let request: String = request.chars().take(300).collect();
        let _ = writeln!(text, "{file} {test} #{seq} {op}\n    {request}");
        if let Outcome::Judged { judgement, .. } = &verdict.outcome {
            for level in Level::ALL {
                for difference in judgement.at(level) {
                    let _ = writeln!(text, "    {}: {difference}", level.name());
                }
            }
        }
    }
    text
}

/// How many exchanges agree, by file and by operation, and the last line: passed, failed, skipped.
pub fn summary(verdicts: &[Verdict], level: Level) -> String {
    let mut text = String::new();
    table(&mut text, "file", verdicts, |it| it.file.clone());
    table(&mut text, "operation", verdicts, |it| format!("{} {}", it.service.name(), it.op));
    let judged = verdicts.iter().filter(|it| it.judged()).count();
    let passed = verdicts.iter().filter(|it| it.passed(level)).count();
    let (failed, skipped) = (judged - passed, verdicts.len() - judged);
    let _ = writeln!(
        text,
        "level {}: {passed} passed, {failed} failed, {skipped} skipped",
        level.name()
    );
    text
}

fn table(text: &mut String, title: &str, verdicts: &[Verdict], key: impl Fn(&Verdict) -> String) {
    let mut groups = BTreeMap::<String, Vec<&Verdict>>::new();
    for verdict in verdicts {
        groups.entry(key(verdict)).or_default().push(verdict);
    }
    let width = groups.keys().map(String::len).max().unwrap_or(0).max(title.len());
    let _ = writeln!(text, "{title:width$}  status   body  exact replayed skipped");
    for (name, group) in groups {
        let [status, body, exact] =
            Level::ALL.map(|level| group.iter().filter(|it| it.passed(level)).count());
        let judged = group.iter().filter(|it| it.judged()).count();
        let skipped = group.len() - judged;
        let _ =
            writeln!(text, "{name:width$}  {status:6} {body:6} {exact:6} {judged:8} {skipped:7}");
    }
    text.push('\n');
}

/// Every verdict, as JSON.
pub fn json(verdicts: &[Verdict]) -> String {
    let one = |verdict: &Verdict| {
        let mut value = serde_json::json!({
            "file": verdict.file, "test": verdict.test, "seq": verdict.seq,
            "service": verdict.service.name(), "op": verdict.op, "request": verdict.request,
        });
        match &verdict.outcome {
            Outcome::Skipped => value["skipped"] = "pause".into(),
            Outcome::Judged { judgement, after_failure } => {
                let mut differences = serde_json::Map::new();
                for level in Level::ALL {
                    let texts: Vec<&str> = judgement.at(level).collect();
                    if !texts.is_empty() {
                        differences.insert(level.name().to_owned(), texts.into());
                    }
                }
                value["level"] = judgement.level().map_or("none", Level::name).into();
                value["diffs"] = differences.into();
                value["after_failure"] = (*after_failure).into();
            }
        }
        value
    };
    serde_json::Value::Array(verdicts.iter().map(one).collect()).to_string()
}
