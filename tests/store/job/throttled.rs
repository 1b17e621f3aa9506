//! Loading at the service's documented targets, in simulated time: nothing is lost, and few requests
//! are refused.

use std::time::Duration;

use futures_util::{future, stream};
use rowkey::patterns::job::{Attempt, Batch, Job, Pace, Report, Verdict, paced};
use rowkey::{Clock as _, DynamicEntity, Result, StorageAccount, Table, Transaction};
use rowkey_emulator::{Operation, Server, StoredTable, Targets};
use rowkey_tests::TestResult;
use rowkey_tests::timeline::Timeline;

const LOADERS: usize = 8;
const GROUPS: usize = 40;
const LATENCY: Duration = Duration::from_millis(20);

/// Rows of one transaction, and the time that it takes to send them.
struct Group {
    table: Table,
    timeline: Timeline,
    rows: Vec<DynamicEntity>,
}

impl Batch for Group {
    fn keys(&self) -> (&str, &str) {
        (&self.rows[0].partition_key, &self.rows[0].row_key)
    }

    fn entities(&self) -> u64 {
        self.rows.len() as u64
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        self.timeline.sleep(LATENCY).await;
        let transaction = self.rows.iter().fold(self.table.transaction(), Transaction::insert);
        self.timeline.request(transaction.submit()).await?;
        Ok(Report::of(Verdict::Right, self.entities()))
    }
}

/// The groups of one loader, in a partition that its name gives.
fn groups(
    table: &Table,
    timeline: &Timeline,
    (loader, rows): (usize, usize),
    partition: impl Fn(usize) -> String,
) -> Vec<Group> {
    let group = |group: usize| {
        let row =
            |row| DynamicEntity::new(partition(group), format!("{loader}-{group:02}-{row:02}"));
        let (table, timeline) = (table.clone(), timeline.clone());
        Group { table, timeline, rows: (0..rows).map(row).collect() }
    };
    (0..GROUPS).map(group).collect()
}

/// What eight loaders did.
struct Outcome {
    transactions: usize,
    stored: usize,
    seconds: f64,
}

/// Runs eight loaders of 40 transactions at once, each with its own pace or all with one.
async fn load(
    targets: Targets,
    rows: usize,
    shared: bool,
    seed: u64,
    partition: impl Fn(usize, usize) -> String,
) -> TestResult<Outcome> {
    let server = Server::builder().manual_clock().throttle(targets).start().await?;
    let timeline = Timeline::new(server.clock());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(timeline.clone())
        .build()?;
    let table = paced(&account.table("readings"));
    table.create().await?;
    server.clock().advance(Duration::from_secs(1));
    let one = Pace::new(&account).seeded(seed);
    let loaders = (0..LOADERS).map(|loader| {
        let own = || Pace::new(&account).seeded(seed * 100 + loader as u64);
        let pace = if shared { one.clone() } else { own() };
        let groups = groups(&table, &timeline, (loader, rows), |group| partition(loader, group));
        Job::load("import", &table, stream::iter(groups)).groups_per_partition(8).pace(pace).run()
    });
    let reports = timeline.run(future::try_join_all(loaders)).await?;
    assert!(reports.iter().all(Report::is_clean));
    let reported: u64 = reports.iter().map(|report| report.total.right).sum();
    let stored = server.snapshot().table("readings").map_or(0, StoredTable::len);
    assert_eq!(reported, stored as u64, "the reports are true");
    let transactions = server.journal().count(Operation::Transaction);
    let seconds = timeline.elapsed().as_secs_f64();
    eprintln!(
        "seed {seed}, shared {shared}: {stored} rows, {transactions} transactions, {seconds:.1} s"
    );
    Ok(Outcome { transactions, stored, seconds })
}

#[tokio::test]
async fn eight_loaders_of_one_partition_store_all_rows_with_few_rejections() -> TestResult {
    for shared in [true, false] {
        let outcome = load(Targets::default(), 100, shared, 1, |_, _| "hot".to_owned()).await?;
        assert_eq!(outcome.stored, 32_000);
        assert!(outcome.transactions <= 320 * 13 / 10, "{}", outcome.transactions);
        // 32,000 entities at 2,000 per second, the first 2,000 at once: 15 seconds are the least.
        assert!(outcome.seconds < 20.0, "{}", outcome.seconds);
    }
    Ok(())
}

#[tokio::test]
async fn eight_loaders_of_many_partitions_adapt_to_the_account_limit() -> TestResult {
    for shared in [true, false] {
        let targets = Targets { requests_per_account: 50, ..Targets::default() };
        let partition = |loader, group| format!("{loader}-{group}");
        let outcome = load(targets, 10, shared, 1, partition).await?;
        assert_eq!(outcome.stored, 3_200);
        assert!(outcome.transactions <= 320 * 13 / 10, "{}", outcome.transactions);
    }
    Ok(())
}

#[tokio::test]
async fn eight_loaders_of_a_partition_each_do_not_slow_each_other_down() -> TestResult {
    let targets = Targets { entities_per_partition: 200, ..Targets::default() };
    for shared in [true, false] {
        let outcome = load(targets, 10, shared, 1, |loader, _| format!("p{loader}")).await?;
        assert_eq!(outcome.stored, 3_200);
        assert!(outcome.transactions <= 320 * 13 / 10, "{}", outcome.transactions);
        // Each has 400 rows at 200 per second, the first 200 at once.
        assert!(outcome.seconds < 6.0, "{}", outcome.seconds);
    }
    Ok(())
}
