//! Metrics of jobs: what was done since the previous report, at which rate, and what is left.

use std::time::Duration;

use rowkey_client::Table;
use rowkey_client::pace::Pace;
use rowkey_client::telemetry::{metrics, receipt_so_far};

use super::Checkpoint;
use super::report::Counts;

/// The shortest time over which a rate is measured.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a run of a job has reported.
pub(super) struct Measures {
    table: Table,
    counts: Counts,
    requests: u32,
    /// The examined items, and the requests at the pace, at a time of the account's clock, from which the rates
    /// are measured.
    rated: (u64, u64, Duration),
    /// The name of the job, and which of its gauges are set.
    job: String,
    has_rates: bool,
    has_backlog: bool,
}

impl Measures {
    /// Begins a run of a job on `table`, which has these results already.
    pub(super) fn new(table: &Table, pace: &Pace, counts: Counts) -> Self {
        let rated = (counts.examined, pace.requests().sent, table.account().clock().elapsed());
        let (table, job) = (table.clone(), String::new());
        Self { table, counts, requests: 0, rated, job, has_rates: false, has_backlog: false }
    }

    /// Reports what was done since the last time.
    pub(super) fn tell(
        &mut self,
        job: &str,
        pace: &Pace,
        checkpoint: &Checkpoint,
        units: Option<u64>,
    ) {
        if self.job.is_empty() {
            job.clone_into(&mut self.job);
        }
        let account = self.table.account();
        let telemetry = account.telemetry();
        let attributes = [("rowkey.job", job), ("db.collection.name", self.table.name())];
        let requests = receipt_so_far().attempts();
        let sent = requests.saturating_sub(self.requests);
        if sent > 0 {
            telemetry.count(metrics::JOB_REQUESTS.name, &attributes, sent.into());
        }
        self.requests = requests;
        let counts = checkpoint.report().total;
        for (verdict, count) in verdicts(&counts, &self.counts) {
            if count > 0 {
                let [job, table] = attributes;
                let attributes = [job, table, ("rowkey.verdict", verdict)];
                telemetry.count(metrics::JOB_ENTITIES.name, &attributes, count);
            }
        }
        self.counts = counts;
        let (examined, paced, since) = self.rated;
        let now = account.clock().elapsed();
        let elapsed = now.saturating_sub(since);
        if elapsed >= INTERVAL {
            let rate = as_f64(counts.examined.saturating_sub(examined)) / elapsed.as_secs_f64();
            telemetry.gauge(metrics::JOB_RATE.name, &attributes, rate);
            let sent = pace.requests().sent;
            let pace = as_f64(sent.saturating_sub(paced)) / elapsed.as_secs_f64();
            telemetry.gauge(metrics::JOB_PACE.name, &attributes, pace);
            self.rated = (counts.examined, sent, now);
            self.has_rates = true;
        }
        if let Some(units) = units {
            let left = units.saturating_sub(checkpoint.done());
            telemetry.gauge(metrics::JOB_BACKLOG.name, &attributes, as_f64(left));
            let done = as_f64(units - left) / as_f64(units.max(1));
            telemetry.gauge(metrics::JOB_PROGRESS.name, &attributes, done);
            self.has_backlog = true;
        }
    }
}

/// A run that has ended, or was dropped, does nothing and leaves nothing to this program: a gauge that kept its last value
/// would look like a job that stands still.
impl Drop for Measures {
    fn drop(&mut self) {
        let telemetry = self.table.account().telemetry();
        let attributes = [("rowkey.job", &*self.job), ("db.collection.name", self.table.name())];
        if self.has_rates {
            telemetry.gauge(metrics::JOB_RATE.name, &attributes, 0.0);
            telemetry.gauge(metrics::JOB_PACE.name, &attributes, 0.0);
        }
        if self.has_backlog {
            telemetry.gauge(metrics::JOB_BACKLOG.name, &attributes, 0.0);
        }
    }
}

/// How much each verdict grew.
fn verdicts(now: &Counts, before: &Counts) -> [(&'static str, u64); 7] {
    [
        ("right", now.right, before.right),
        ("missing", now.missing, before.missing),
        ("stale", now.stale, before.stale),
        ("orphaned", now.orphaned, before.orphaned),
        ("unreadable", now.unreadable, before.unreadable),
        ("failed", now.failed, before.failed),
        ("skipped", now.skipped, before.skipped),
    ]
    .map(|(verdict, now, before)| (verdict, now.saturating_sub(before)))
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
