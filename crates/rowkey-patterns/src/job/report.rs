//! Reports: the result of a job, in terms shared by all jobs.

use std::collections::BTreeMap;

use rowkey_client::Error;
use rowkey_client::internals::shown;
use serde::{Deserialize, Serialize};

use super::outputs::Outputs;

/// The most problems that a report keeps with their keys. Further ones are only counted.
pub const MAX_PROBLEMS: usize = 1000;

/// The finding of a job about one item: a row, or what one part of the declaration requires of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is correct, or the job's work on it is done.
    Right,
    /// It does not exist but should.
    Missing,
    /// It exists but differs from its source.
    Stale,
    /// It exists but its source does not.
    Orphaned,
    /// It cannot be decoded.
    Unreadable,
    /// The job's work on it failed.
    Failed,
    /// It was left unchanged on purpose: it has another type, or another writer changed it in the
    /// meantime.
    Skipped,
}

/// The counts of a [`Report`], or of one part of it.
///
/// `examined` is the sum of all others except `repaired`, which counts the missing, stale and
/// orphaned items that were repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// Items that have a verdict.
    pub examined: u64,
    /// [`Verdict::Right`].
    pub right: u64,
    /// Missing, stale and orphaned items that were repaired.
    pub repaired: u64,
    /// [`Verdict::Missing`].
    pub missing: u64,
    /// [`Verdict::Stale`].
    pub stale: u64,
    /// [`Verdict::Orphaned`].
    pub orphaned: u64,
    /// [`Verdict::Unreadable`].
    pub unreadable: u64,
    /// [`Verdict::Failed`].
    pub failed: u64,
    /// [`Verdict::Skipped`].
    pub skipped: u64,
}

/// An item that a job could not read or process.
///
/// It holds keys: treat it as you treat the data. Its `Debug` output does not show them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// Usually [`Verdict::Unreadable`] or [`Verdict::Failed`].
    pub verdict: Verdict,
    /// The part of the declaration that the problem concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The PartitionKey as it is stored.
    pub partition_key: String,
    /// The RowKey as it is stored; if several entities failed together, the RowKey of the first.
    pub row_key: String,
    /// What happened. Quotes no keys.
    pub error: String,
}

/// The result of a job: its findings and changes.
///
/// ```
/// use rowkey::patterns::job::{Report, Verdict};
///
/// let mut report = Report::default();
/// report.note(None, Verdict::Right, 98);
/// report.note(Some("by_email"), Verdict::Missing, 2);
/// assert!(!report.is_clean());
/// report.repaired(Some("by_email"), 2);
/// assert!(report.is_clean());
/// assert_eq!((report.total.examined, report.part("by_email").missing), (100, 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The counts of all items.
    pub total: Counts,
    /// The counts for each part of the declaration, by its name: an index, a list, a claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Counts>,
    /// Problems with their keys, up to [`MAX_PROBLEMS`]; `total` counts all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    #[serde(default, skip_serializing_if = "Outputs::is_empty")]
    outputs: Outputs,
}

impl Report {
    /// Creates a report of items that share one verdict.
    pub fn of(verdict: Verdict, items: u64) -> Self {
        let mut report = Self::default();
        report.note(None, verdict, items);
        report
    }

    /// Counts items with a verdict, in total and, if given, in a part.
    pub fn note(&mut self, part: Option<&str>, verdict: Verdict, items: u64) {
        self.count(part, |counts| {
            counts.examined += items;
            *counts.of(verdict) += items;
        });
    }

    /// Counts how many of the missing, stale and orphaned items were repaired.
    pub fn repaired(&mut self, part: Option<&str>, items: u64) {
        self.count(part, |counts| counts.repaired += items);
    }

    /// Counts an item and keeps its keys and error.
    pub fn problem(
        &mut self,
        part: Option<&str>,
        verdict: Verdict,
        keys: (&str, &str),
        error: &Error,
    ) {
        self.note(part, verdict, 1);
        self.explain(part, verdict, keys, error);
    }

    /// Keeps the keys and the error of an item that is counted already.
    #[doc(hidden)]
    pub fn explain(
        &mut self,
        part: Option<&str>,
        verdict: Verdict,
        (partition_key, row_key): (&str, &str),
        error: &Error,
    ) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                verdict,
                part: part.map(str::to_owned),
                partition_key: partition_key.to_owned(),
                row_key: row_key.to_owned(),
                error: error.to_string(),
            });
        }
    }

    /// Adds what a step of a job wrote elsewhere, such as a file, as a text of the step's own form.
    ///
    /// ```
    /// use rowkey::patterns::job::{Report, Verdict};
    ///
    /// let mut report = Report::of(Verdict::Right, 1000);
    /// report.add_output("orders-00000.jsonl");
    /// assert!(report.outputs().eq(["orders-00000.jsonl"]));
    /// ```
    pub fn add_output(&mut self, text: impl Into<String>) {
        self.outputs.push(text.into());
    }

    /// What the steps of a job wrote elsewhere. A checkpoint has exactly the outputs of what it has passed, so others, of work that is
    /// done again, can be told apart from them.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter()
    }

    /// Whether nothing is wrong: all missing, stale and orphaned items were repaired, nothing was
    /// unreadable, and nothing failed. Skipped items do not count.
    pub fn is_clean(&self) -> bool {
        self.total.is_clean()
    }

    /// The counts of one part; zeros if it has no items.
    pub fn part(&self, name: &str) -> Counts {
        self.parts.get(name).copied().unwrap_or_default()
    }

    /// Adds a report about other items.
    ///
    /// ```
    /// use rowkey::patterns::job::{Report, Verdict};
    ///
    /// let mut report = Report::of(Verdict::Right, 98);
    /// report.merge(Report::of(Verdict::Failed, 2));
    /// assert_eq!((report.total.examined, report.total.failed), (100, 2));
    /// assert!(!report.is_clean());
    /// ```
    pub fn merge(&mut self, other: Self) {
        self.total.add(other.total);
        for (name, counts) in other.parts {
            self.parts.entry(name).or_default().add(counts);
        }
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
        self.outputs.append(other.outputs);
    }

    /// Adds the report of a job as a part with its name.
    pub(super) fn merge_named(&mut self, name: &str, other: &Self) {
        self.total.add(other.total);
        self.parts.entry(name.to_owned()).or_default().add(other.total);
        let named = |part: &str| format!("{name}: {part}");
        for (part, counts) in &other.parts {
            self.parts.entry(named(part)).or_default().add(*counts);
        }
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        let problems = other.problems.iter().take(room).map(|problem| Problem {
            part: Some(problem.part.as_deref().map_or_else(|| name.to_owned(), named)),
            ..problem.clone()
        });
        self.problems.extend(problems);
        self.outputs.append(other.outputs.clone());
    }

    fn count(&mut self, part: Option<&str>, change: impl Fn(&mut Counts)) {
        change(&mut self.total);
        if let Some(part) = part {
            change(self.parts.entry(part.to_owned()).or_default());
        }
    }
}

impl Counts {
    /// The number of missing, stale and orphaned items, repaired or not.
    pub fn drifted(&self) -> u64 {
        self.missing + self.stale + self.orphaned
    }

    /// Like [`Report::is_clean`].
    pub fn is_clean(&self) -> bool {
        self.drifted() == self.repaired && self.unreadable == 0 && self.failed == 0
    }

    fn of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::Right => &mut self.right,
            Verdict::Missing => &mut self.missing,
            Verdict::Stale => &mut self.stale,
            Verdict::Orphaned => &mut self.orphaned,
            Verdict::Unreadable => &mut self.unreadable,
            Verdict::Failed => &mut self.failed,
            Verdict::Skipped => &mut self.skipped,
        }
    }

    fn add(&mut self, other: Self) {
        self.examined += other.examined;
        self.right += other.right;
        self.repaired += other.repaired;
        self.missing += other.missing;
        self.stale += other.stale;
        self.orphaned += other.orphaned;
        self.unreadable += other.unreadable;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

shown!(Problem: verdict, part, error);

#[cfg(test)]
mod tests {
    use rowkey_client::ErrorKind;

    use super::*;

    #[test]
    fn only_unrepaired_faults_make_a_report_unclean() {
        use Verdict::{Failed, Missing, Orphaned, Right, Skipped, Stale, Unreadable};
        for (verdict, clean, clean_when_repaired) in [
            (Right, true, false),
            (Skipped, true, false),
            (Missing, false, true),
            (Stale, false, true),
            (Orphaned, false, true),
            (Unreadable, false, false),
            (Failed, false, false),
        ] {
            let mut report = Report::of(verdict, 3);
            assert_eq!((report.total.examined, report.is_clean()), (3, clean), "{verdict:?}");
            report.repaired(None, 3);
            assert_eq!(report.is_clean(), clean_when_repaired, "{verdict:?}");
        }
    }

    #[test]
    fn merged_reports_count_everything_and_keep_a_bounded_number_of_problems() {
        let error = Error::refused(ErrorKind::Invalid, "it is wrong");
        let mut one = Report::default();
        for _ in 0..MAX_PROBLEMS {
            one.problem(Some("x"), Verdict::Unreadable, ("secret", "secret"), &error);
        }
        let mut other = Report::of(Verdict::Right, 1);
        other.note(Some("y"), Verdict::Stale, 2);
        other.repaired(Some("y"), 1);
        other.problem(Some("x"), Verdict::Failed, ("p", "r"), &error);
        one.merge(other);
        let counts = Counts {
            examined: 1004,
            right: 1,
            repaired: 1,
            stale: 2,
            unreadable: 1000,
            failed: 1,
            ..Counts::default()
        };
        assert_eq!((one.total, one.problems.len()), (counts, MAX_PROBLEMS));
        assert_eq!(
            (one.part("x").failed, one.part("y").drifted(), one.part("z")),
            (1, 2, Counts::default())
        );
        assert!(!format!("{one:?}").contains("secret"));
    }
}
