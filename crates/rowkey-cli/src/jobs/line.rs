//! The line that shows the progress of a job on a terminal.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowkey::patterns::job::Checkpoint;
use rowkey::{Clock as _, SystemClock};

/// How often the time on the line goes on while nothing else happens.
const TICK: Duration = Duration::from_millis(500);

/// The line, hidden where stderr is no terminal.
pub(super) struct Line {
    bar: ProgressBar,
    begun: Duration,
    /// What earlier runs have done.
    before: u64,
    total: Option<u64>,
}

impl Line {
    pub(super) fn new(total: Option<u64>, resumed: Option<&Checkpoint>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg}{elapsed}") {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        let before = resumed.map_or(0, |checkpoint| checkpoint.report().total.examined);
        Self { bar, begun: SystemClock.elapsed(), before, total }
    }

    /// Shows how many entities are done by how many requests.
    pub(super) fn tell(&self, entities: u64, requests: u64) {
        if self.bar.is_hidden() {
            return;
        }
        let elapsed = SystemClock.elapsed().saturating_sub(self.begun);
        let now = entities.saturating_sub(self.before);
        self.bar.set_message(message(requests, (now, elapsed), self.total, entities));
        self.bar.tick();
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The text before the time: `done` is what this run has done in which time, and `entities` what all runs have.
fn message(
    requests: u64,
    (done, elapsed): (u64, Duration),
    total: Option<u64>,
    entities: u64,
) -> String {
    let first = format!("entities: {entities}, requests: {requests}, ");
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    // A rate of less than a second is none.
    if millis < 1000 || done == 0 {
        return first;
    }
    let rate = done.saturating_mul(1000) / millis;
    match total.and_then(|total| total.checked_sub(entities)) {
        None => format!("{first}{rate}/s, "),
        Some(left) => {
            let seconds = left.saturating_mul(millis) / done.saturating_mul(1000);
            let left = HumanDuration(Duration::from_secs(seconds));
            format!("{first}{rate}/s, {left} left, ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rate_of_this_run_and_the_time_that_is_left() {
        let text = |done, millis, total, entities| {
            message(3, (done, Duration::from_millis(millis)), total, entities)
        };
        assert_eq!(text(500, 999, None, 500), "entities: 500, requests: 3, ");
        assert_eq!(text(0, 5000, Some(7), 0), "entities: 0, requests: 3, ");
        assert_eq!(text(500, 2000, None, 700), "entities: 700, requests: 3, 250/s, ");
        let left = "entities: 700, requests: 3, 250/s, 3 minutes left, ";
        assert_eq!(text(500, 2000, Some(50_700), 700), left);
    }
}
