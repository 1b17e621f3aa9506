//! Checkpoints: the position of a job, as text that can be stored.

use std::fmt;
use std::str::FromStr;

use rowkey_client::{Continuation, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::report::Report;

/// The only format that this version writes and reads.
const VERSION: u32 = 1;

/// The position of a job: its results so far and the remaining work.
///
/// It is consistent at all times: it has passed exactly the items that the report counts. A job that
/// resumes from it processes each item at least once and skips none; items processed after the
/// checkpoint are processed again. It is tied to the job's name, table and parameters.
///
/// Store it as text (`to_string` and `parse`, or serde). Its size is that of the report, the split
/// keys, and one continuation token for each range in progress. It holds keys: treat it as you treat
/// the data.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    job: String,
    table: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<(String, String)>,
    /// The start keys of all ranges except the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) splits: Vec<String>,
    /// Ranges that were split from others, numbered after all that the job began with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<Added>,
    /// The number of units of work (ranges, groups) that were begun. All of them that are not open
    /// are done.
    begun: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<Open>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
    pub(super) report: Report,
    /// The checkpoints of several jobs that run as one, as far as they have begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Self>,
}

/// A unit of work that was begun but is not done.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    at: u64,
    /// The token to continue a range from; `None` at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Continuation>,
}

/// A range that was split from another, which ends where it begins.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Added {
    /// The number of the other one.
    of: u64,
    pub(super) from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
}

/// A checkpoint of any version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Checkpoint {
    /// Creates the checkpoint of a new job.
    pub(super) fn new(job: &str, table: &str, parameters: &[(String, String)]) -> Self {
        Self {
            version: VERSION,
            job: job.to_owned(),
            table: table.to_owned(),
            parameters: parameters.to_vec(),
            splits: Vec::new(),
            added: Vec::new(),
            begun: 0,
            open: Vec::new(),
            finished: false,
            report: Report::default(),
            parts: Vec::new(),
        }
    }

    /// The findings and changes so far, of all resumed runs.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The value of a [parameter](super::Job::parameter) of the job or, if several run as one, of the first of them that has it: for what
    /// a job that goes on must have as it was, such as a time that was "an hour ago" then.
    ///
    /// ```
    /// use rowkey::patterns::job::Checkpoint;
    ///
    /// let stored = r#"{"version":1,"job":"delete","table":"events","parameters":[["before","2026-11-20"]],"begun":0,
    ///     "report":{"total":{}}}"#;
    /// let checkpoint: Checkpoint = stored.parse()?;
    /// assert_eq!(checkpoint.parameter("before"), Some("2026-11-20"));
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let parts = self.parts.iter().flat_map(|part| &part.parameters);
        let mut all = self.parameters.iter().chain(parts);
        all.find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Whether the job is done.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The number of completed units of work: ranges of a walk, groups of a load.
    pub fn done(&self) -> u64 {
        self.begun - self.open.len() as u64
    }

    /// Refuses a checkpoint of another job than that of `self`.
    pub(super) fn check(&self, resumed: &Self) -> Result<()> {
        let what = if resumed.version != VERSION {
            return Err(wrong_version(resumed.version));
        } else if resumed.job != self.job {
            format!("the checkpoint belongs to the job `{}`, not to `{}`", resumed.job, self.job)
        } else if !resumed.table.eq_ignore_ascii_case(&self.table) {
            format!("the checkpoint belongs to the table {}", resumed.table)
        } else if resumed.parameters != self.parameters {
            // Values may quote stored data, so only the name is shown.
            let differs = |one: &[(String, String)], other: &[(String, String)]| {
                one.iter().find(|each| !other.contains(each)).map(|(name, _)| name.clone())
            };
            let name = differs(&self.parameters, &resumed.parameters)
                .or_else(|| differs(&resumed.parameters, &self.parameters));
            format!("the checkpoint belongs to a job with another `{}`", name.unwrap_or_default())
        } else if resumed.open.iter().any(|open| open.at >= resumed.begun)
            || !resumed.open.is_sorted_by(|one, next| one.at < next.at)
        {
            "the checkpoint contradicts itself".to_owned()
        } else {
            return Ok(());
        };
        let advice = "resume the job that wrote it, or start without a checkpoint";
        Err(Error::refused(ErrorKind::Invalid, what).advise(advice))
    }

    /// Whether a unit of work is done.
    pub(super) fn is_done(&self, at: u64) -> bool {
        at < self.begun && self.find(at).is_err()
    }

    /// Returns the token to continue an open unit of work from.
    pub(super) fn next_of(&self, at: u64) -> Option<Continuation> {
        self.find(at).ok().and_then(|found| self.open[found].next.clone())
    }

    /// The key before which a range ends that was split: where the last one begins that was split from it.
    pub(super) fn end_of(&self, at: u64) -> Option<&str> {
        self.added.iter().rfind(|added| added.of == at).map(|added| &*added.from)
    }

    /// Splits a range that ends before `to`: it ends before `from` now, and a range that was added has the rest.
    pub(super) fn split(&mut self, of: u64, from: String, to: Option<String>) {
        self.added.push(Added { of, from, to });
    }

    /// Marks a unit of work as open. All units before it are open or done.
    pub(super) fn begin(&mut self, at: u64) {
        for at in self.begun..=at {
            self.open.push(Open { at, next: None });
        }
        self.begun = self.begun.max(at + 1);
    }

    /// Records progress of an open unit of work: the token to continue from, or `None` if it is
    /// done.
    pub(super) fn advance(&mut self, at: u64, next: Option<Continuation>, report: Report) {
        self.report.merge(report);
        if let Ok(found) = self.find(at) {
            match next {
                Some(next) => self.open[found].next = Some(next),
                None => drop(self.open.remove(found)),
            }
        }
    }

    /// Refuses the end of a stream while units are open: the stream is shorter than in the earlier
    /// run.
    pub(super) fn check_complete(&self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let what = format!("the stream lacks {} groups of an earlier run", self.open.len());
        Err(Error::refused(ErrorKind::Invalid, what).advise("resume with the same stream"))
    }

    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    fn find(&self, at: u64) -> Result<usize, usize> {
        self.open.binary_search_by_key(&at, |open| open.at)
    }
}

fn wrong_version(version: u32) -> Error {
    let what = format!("the checkpoint has version {version}; version {VERSION} is supported");
    Error::refused(ErrorKind::Invalid, what).advise("resume it with the program that wrote it")
}

impl fmt::Display for Checkpoint {
    /// The text to store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Checkpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // The errors of serde_json quote the text.
        let invalid = |_| {
            Error::refused(ErrorKind::Invalid, "invalid checkpoint")
                .advise("take another copy of it, or start without a checkpoint")
        };
        let Version { version } = serde_json::from_str(text).map_err(invalid)?;
        if version != VERSION {
            return Err(wrong_version(version));
        }
        serde_json::from_str(text).map_err(invalid)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("job", &self.job)
            .field("table", &self.table)
            .field("done", &self.done())
            .field("open", &self.open.len())
            .field("finished", &self.finished)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;

    fn begun() -> Checkpoint {
        let parameters = [("repair".to_owned(), "true".to_owned())];
        let mut checkpoint = Checkpoint::new("verify", "orders", &parameters);
        checkpoint.begin(2);
        checkpoint.advance(1, None, Report::of(Verdict::Right, 7));
        let next = "AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg".parse().unwrap();
        checkpoint.advance(0, Some(next), Report::of(Verdict::Stale, 1));
        checkpoint
    }

    #[test]
    fn a_begun_part_stays_open_until_it_is_done() {
        let checkpoint = begun();
        assert_eq!([0, 1, 2, 3].map(|at| checkpoint.is_done(at)), [false, true, false, false]);
        assert!(checkpoint.next_of(0).is_some() && checkpoint.next_of(2).is_none());
        assert_eq!((checkpoint.done(), checkpoint.report().total.examined), (1, 8));
        assert_eq!(checkpoint.to_string().parse::<Checkpoint>().unwrap(), checkpoint);
    }

    #[test]
    fn checkpoints_stored_by_this_version_must_stay_readable() {
        let text = r#"{"version":1,"job":"verify","table":"orders","parameters":[["repair","true"]],
            "splits":["m"],"begun":3,"open":[{"at":0,"next":"AQf_AAAAAAAAAAMACAAxITQhY0dzLTEhNCFjbXMtCIIMXg"},
            {"at":2}],"report":{"total":{"examined":8,"right":7,"stale":1},
            "parts":{"by_email":{"examined":1,"stale":1}},"problems":[{"verdict":"unreadable",
            "partition_key":"p","row_key":"r","error":"it is wrong"}]}}"#;
        let checkpoint: Checkpoint = text.parse().unwrap();
        assert_eq!((checkpoint.done(), checkpoint.is_finished()), (1, false));
        assert_eq!(checkpoint.report().part("by_email").stale, 1);
        assert_eq!(checkpoint.report().problems[0].row_key, "r");
        begun().check(&checkpoint).unwrap();
    }

    #[test]
    fn a_foreign_checkpoint_is_rejected_with_a_reason_and_without_values() {
        let parameters = |value: &str| [("repair".to_owned(), value.to_owned())];
        let this = Checkpoint::new("verify", "orders", &parameters("secret"));
        this.check(&Checkpoint::new("verify", "Orders", &parameters("secret"))).unwrap();
        let contradictory = Checkpoint { begun: 1, ..begun() };
        let same = Checkpoint::new("verify", "orders", &parameters("true"));
        for (job, other, why) in [
            (&this, Checkpoint::new("count", "orders", &parameters("secret")), "job `count`"),
            (&this, Checkpoint::new("verify", "staff", &parameters("secret")), "table staff"),
            (&this, Checkpoint::new("verify", "orders", &parameters("x")), "another `repair`"),
            (&this, Checkpoint::new("verify", "orders", &[]), "another `repair`"),
            (&this, Checkpoint { version: 2, ..this.clone() }, "version 2"),
            (&same, contradictory, "contradicts"),
        ] {
            let error = job.check(&other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(why), "{error}");
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }

    #[test]
    fn an_invalid_checkpoint_is_rejected_without_being_shown() {
        let newer = begun().to_string().replace(r#""version":1"#, r#""version":2"#);
        assert!(newer.parse::<Checkpoint>().unwrap_err().to_string().contains("version 2"));
        for text in ["", "secret", r#"{"version":"secret"}"#, r#"{"version":1,"job":["secret"]}"#] {
            let error = text.parse::<Checkpoint>().unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"));
        }
    }
}
