//! The line that shows the progress of a job on a terminal.

use std::time::Duration;

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowkey::cost::{Meter, PriceTable};
use rowkey::patterns::job::{Checkpoint, Progress};
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
    /// What the requests of this run cost.
    money: Option<(PriceTable, Meter)>,
}

/// What the line shows.
struct Shown {
    /// What all runs have done.
    entities: u64,
    total: Option<u64>,
    requests: u64,
    money: Option<String>,
    /// What this run has done, and in which time.
    done: u64,
    elapsed: Duration,
    /// The rate of the one partition that is the limit.
    lane: Option<u32>,
}

impl Line {
    pub(super) fn new(
        total: Option<u64>,
        resumed: Option<&Checkpoint>,
        money: Option<(PriceTable, Meter)>,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg}{elapsed}") {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        let before = resumed.map_or(0, |checkpoint| checkpoint.report().total.examined);
        Self { bar, begun: SystemClock.elapsed(), before, total, money }
    }

    pub(super) fn tell(&self, progress: &Progress<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let entities = progress.report().total.examined;
        let shown = Shown {
            entities,
            total: self.total,
            requests: progress.requests.sent,
            money: self.money.as_ref().map(|(prices, meter)| money(prices, meter)),
            done: entities.saturating_sub(self.before),
            elapsed: SystemClock.elapsed().saturating_sub(self.begun),
            lane: progress.lane.map(|lane| lane.entities_per_second),
        };
        self.bar.set_message(shown.text());
        self.bar.tick();
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Shown {
    /// The text before the time.
    fn text(&self) -> String {
        let mut parts =
            vec![format!("entities: {}", self.entities), format!("requests: {}", self.requests)];
        parts.extend(self.money.clone());
        let millis = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        // A rate of less than a second is none.
        if millis >= 1000 && self.done > 0 {
            parts.push(format!("{}/s", self.done.saturating_mul(1000) / millis));
            if let Some(left) = self.total.and_then(|total| total.checked_sub(self.entities)) {
                let seconds = left.saturating_mul(millis) / self.done.saturating_mul(1000);
                parts.push(format!("{} left", HumanDuration(Duration::from_secs(seconds))));
            }
        }
        if let Some(rate) = self.lane {
            let rate = HumanCount(rate.into());
            parts.push(format!("one partition is one lane: {rate} entities a second"));
        }
        parts.push(String::new());
        parts.join(", ")
    }
}

/// What the requests so far cost, or the first of them that has no price.
fn money(prices: &PriceTable, meter: &Meter) -> String {
    let usage = meter.usage();
    if let Ok(amount) = prices.of(&usage) {
        return format!("{} {amount}", prices.currency());
    }
    let unknown = usage.iter().find(|(class, _)| prices.price(*class).is_none());
    let unknown = unknown.map_or_else(String::new, |(class, _)| format!(" of a {class}"));
    format!("no price{unknown}")
}

#[cfg(test)]
mod tests {
    use rowkey::cost::Class;
    use rowkey::{DynamicEntity, StorageAccount};
    use rowkey_emulator::Server;

    use super::*;

    fn shown(done: u64, millis: u64) -> Shown {
        Shown {
            entities: done,
            total: None,
            requests: 3,
            money: None,
            done,
            elapsed: Duration::from_millis(millis),
            lane: None,
        }
    }

    #[test]
    fn the_line_has_the_rate_of_this_run_and_the_time_that_is_left() {
        assert_eq!(shown(500, 999).text(), "entities: 500, requests: 3, ");
        let none = Shown { total: Some(7), ..shown(0, 5000) };
        assert_eq!(none.text(), "entities: 0, requests: 3, ");
        let resumed = || Shown { entities: 700, ..shown(500, 2000) };
        assert_eq!(resumed().text(), "entities: 700, requests: 3, 250/s, ");
        let left = Shown { total: Some(50_700), ..resumed() };
        assert_eq!(left.text(), "entities: 700, requests: 3, 250/s, 3 minutes left, ");
    }

    #[tokio::test]
    async fn the_line_has_the_money_so_far_and_says_what_has_no_price() {
        let server = Server::start().await.unwrap();
        let account = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        let meter = Meter::new();
        let orders = account.with_meter(&meter).table("orders");
        orders.create().await.unwrap();
        orders.insert(&DynamicEntity::new("contoso", "1")).await.unwrap();
        let prices = PriceTable::new("EUR").per_10_000(Class::TableWrite, "0.5".parse().unwrap());
        let line = Shown { money: Some(money(&prices, &meter)), ..shown(500, 2000) };
        assert_eq!(line.text(), "entities: 500, requests: 3, EUR 0.0001, 250/s, ");
        orders.transaction().upsert(&DynamicEntity::new("contoso", "2")).submit().await.unwrap();
        let line = Shown { money: Some(money(&prices, &meter)), ..shown(0, 0) };
        let text = "entities: 0, requests: 3, no price of a table batch write, ";
        assert_eq!(line.text(), text);
    }

    #[test]
    fn the_line_says_when_one_partition_is_the_limit() {
        let line = Shown { lane: Some(2000), ..shown(6000, 3000) };
        let text = "entities: 6000, requests: 3, 2000/s, one partition is one lane: 2,000 entities a second, ";
        assert_eq!(line.text(), text);
    }
}
