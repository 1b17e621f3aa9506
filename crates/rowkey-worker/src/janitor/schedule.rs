//! The schedule of the chores, which each leader passes to the next in the lock's blob.
//!
//! All times are the service's, in seconds. Clocks of machines are never compared: a leader takes the time at
//! which the service wrote its blob, and adds the time since then by [`Clock::elapsed`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::blob::Content;
use rowkey_client::internals::doubled;
use rowkey_client::{Clock, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Report;
use super::chore::Chore;

/// The version of the format.
const VERSION: u8 = 1;
/// How many runs are kept.
const KEPT: usize = 100;
/// The delay after a failed run; doubled each time, up to the chore's `every`.
const RETRY: Duration = Duration::from_secs(60);

/// An estimate of the service's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceTime {
    at: DateTime<Utc>,
    elapsed: Duration,
}

impl ServiceTime {
    /// From a response of the service. `elapsed` is [`Clock::elapsed`] at the time of the request.
    pub(super) fn new(content: &Content, elapsed: Duration) -> Self {
        Self { at: content.properties.modified, elapsed }
    }

    pub(super) fn now(&self, clock: &dyn Clock) -> i64 {
        let passed = clock.elapsed().saturating_sub(self.elapsed).as_secs();
        self.at.timestamp().saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

/// The times and results of the runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Schedule {
    v: u8,
    /// By name. Includes chores that only other programs have.
    chores: BTreeMap<String, Entry>,
    #[serde(default)]
    pub(super) runs: VecDeque<Report>,
}

/// The state of one chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// When the chore was first registered, when its last run began, or, after a failure, when that run
    /// ended.
    at: i64,
    /// Whether it has run, or was started.
    ran: bool,
    /// Consecutive runs that did not finish successfully. A started run counts until it ends.
    failures: u32,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { v: VERSION, chores: BTreeMap::new(), runs: VecDeque::new() }
    }
}

impl Schedule {
    /// Parses the blob that the last leader wrote.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        // The parser's error quotes the content.
        let refused = |_| {
            let what = "the content of the lock's blob is not a schedule of a janitor";
            Error::refused(ErrorKind::Decode, what).advise("use a separate blob for the janitor")
        };
        let Versioned { v } = serde_json::from_slice(bytes).map_err(refused)?;
        if v > VERSION {
            let what = "a newer program wrote the schedule";
            return Err(Error::refused(ErrorKind::Decode, what)
                .advise("let only programs of the newer version be janitors"));
        }
        serde_json::from_slice(bytes).map_err(refused)
    }

    pub(super) fn text(&self) -> Result<String> {
        let what = "the schedule is not JSON";
        serde_json::to_string(self).map_err(|_| Error::refused(ErrorKind::Invalid, what))
    }

    /// Registers a chore unless a leader has registered it before; returns whether it was new.
    pub(super) fn note(&mut self, name: &str, now: i64) -> bool {
        let is_new = !self.chores.contains_key(name);
        if is_new {
            self.chores.insert(name.to_owned(), Entry { at: now, ran: false, failures: 0 });
        }
        is_new
    }

    /// When the chore is to run next.
    pub(super) fn due(&self, chore: &Chore) -> i64 {
        let Some(entry) = self.chores.get(chore.name()) else { return i64::MAX };
        let wait = if entry.failures > 0 {
            doubled(RETRY, entry.failures - 1, chore.every)
        } else {
            let wait = if entry.ran { chore.every } else { chore.first_after };
            wait.saturating_add(chore.jitter.mul_f64(fraction(chore.name(), entry.at)))
        };
        entry.at.saturating_add(i64::try_from(wait.as_secs()).unwrap_or(i64::MAX))
    }

    /// Records that a run begins. If its end is never recorded, the run counts as failed. Returns the
    /// previous entry.
    pub(super) fn begin(&mut self, name: &str, now: i64) -> Option<Entry> {
        let entry = self.chores.get_mut(name)?;
        let before = *entry;
        *entry = Entry { at: now, ran: true, failures: before.failures.saturating_add(1) };
        Some(before)
    }

    /// Restores the previous entry of a run that did not take place.
    pub(super) fn take_back(&mut self, name: &str, before: Entry) {
        self.chores.insert(name.to_owned(), before);
    }

    /// Records the end of a run.
    pub(super) fn end(&mut self, report: &Report, now: i64) {
        if let Some(entry) = self.chores.get_mut(&report.chore) {
            if report.is_done() {
                entry.failures = 0;
            } else {
                entry.at = now;
            }
        }
        self.keep(report);
    }

    /// Adds a report to the last runs.
    pub(super) fn keep(&mut self, report: &Report) {
        self.runs.push_back(report.clone());
        while self.runs.len() > KEPT {
            self.runs.pop_front();
        }
    }
}

/// The fields that all versions of the format have.
#[derive(Deserialize)]
struct Versioned {
    v: u8,
}

/// A number from 0 to 1, the same for all leaders.
fn fraction(name: &str, at: i64) -> f64 {
    let digest = Sha256::new().chain_update(name).chain_update(at.to_le_bytes()).finalize();
    f64::from(u16::from_le_bytes([digest[0], digest[1]])) / 65536.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::janitor::{Counts, Outcome};

    const HOUR: Duration = Duration::from_secs(3600);

    fn chore() -> Chore {
        let work = |_| async { Ok::<_, Error>(Counts::new()) };
        Chore::new("one", HOUR, work).first_after(Duration::from_secs(100)).jitter(Duration::ZERO)
    }

    fn report(outcome: Outcome) -> Report {
        Report {
            chore: "one".to_owned(),
            leader: 1,
            began: DateTime::UNIX_EPOCH,
            took: Duration::ZERO,
            outcome,
            counts: Counts::new(),
        }
    }

    #[test]
    fn a_chore_is_due_after_its_interval_and_sooner_after_a_failure() {
        let (mut schedule, chore) = (Schedule::default(), chore());
        assert_eq!(schedule.due(&chore), i64::MAX);
        assert!(schedule.note("one", 1000) && !schedule.note("one", 2000));
        assert_eq!(schedule.due(&chore), 1100);
        let failed = report(Outcome::Failed("no".to_owned()));
        for (began, ended, due) in [(1100, 1105, 1165), (1165, 1170, 1290), (1290, 1300, 1540)] {
            schedule.begin("one", began);
            assert!(
                schedule.due(&chore) > began,
                "a leader that stops does not begin it again at once"
            );
            schedule.end(&failed, ended);
            assert_eq!(schedule.due(&chore), due);
        }
        for _ in 0..40 {
            schedule.begin("one", 1540);
            schedule.end(&failed, 1550);
        }
        assert_eq!(schedule.due(&chore), 1550 + 3600);
        schedule.begin("one", 9000);
        schedule.end(&report(Outcome::Done), 9500);
        assert_eq!(schedule.due(&chore), 9000 + 3600);
        let before = schedule.begin("one", 12_600).unwrap();
        schedule.take_back("one", before);
        assert_eq!(schedule.due(&chore), 9000 + 3600);
    }

    #[test]
    fn jitter_is_the_same_for_all_leaders_and_differs_from_run_to_run() {
        let drawn: Vec<_> = (0..100).map(|at| fraction("one", at)).collect();
        assert!(drawn.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        assert!(drawn.iter().any(|it| *it < 0.2) && drawn.iter().any(|it| *it > 0.8));
        let again: Vec<_> = (0..100).map(|at| fraction("one", at)).collect();
        assert_eq!(drawn, again);
    }

    #[test]
    fn schedules_round_trip_and_invalid_ones_are_rejected() {
        let mut schedule = Schedule::default();
        schedule.note("one", 1000);
        for _ in 0..=KEPT {
            schedule.keep(&report(Outcome::Failed("no".to_owned())));
        }
        let text = schedule.text().unwrap();
        let read = Schedule::read(text.as_bytes()).unwrap();
        assert_eq!((read.chores, read.runs.len()), (schedule.chores, KEPT));
        for refused in ["{", "[]", r#"{"v":2}"#, r#"{"v":1,"chores":3}"#] {
            assert_eq!(Schedule::read(refused.as_bytes()).unwrap_err().kind(), ErrorKind::Decode);
        }
    }
}
