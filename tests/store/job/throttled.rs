//! Loading at the service's targets while a program reads, in simulated time: nothing is lost, the target is
//! used, and reads are as fast as when nothing is loaded.

use std::time::Duration;

use futures_util::{future, stream};
use rowkey::pace::{Pace, Targets as Ceilings};
use rowkey::patterns::job::{Job, Report};
use rowkey::{ClientOptions, DynamicEntity, Key, StorageAccount};
use rowkey_emulator::{Operation, Server, StoredTable, Targets};
use rowkey_tests::TestResult;
use rowkey_tests::timeline::Timeline;

const LOADERS: usize = 8;
const TRANSACTIONS: usize = 40;
const LATENCY: Duration = Duration::from_millis(20);
/// The time between two reads of the foreground.
const BETWEEN: Duration = Duration::from_millis(25);

/// What is loaded, and how.
#[derive(Clone)]
struct Plan {
    /// The limits of the server.
    targets: Targets,
    /// What the client knows of them.
    ceilings: Ceilings,
    /// Programs, each with its own account, that share the loaders.
    programs: usize,
    rows: usize,
    /// Whether all rows are in one partition, or each loader has its own.
    is_hot: bool,
    /// The pace of the reads.
    reads: Option<Pace>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            targets: Targets::default(),
            ceilings: Ceilings::default(),
            programs: 1,
            rows: 100,
            is_hot: true,
            reads: Some(Pace::foreground()),
        }
    }
}

/// What eight loaders and a reader did.
#[derive(Debug)]
struct Outcome {
    stored: usize,
    transactions: usize,
    seconds: f64,
    /// The 99th percentile of the latency of reads.
    slow: Duration,
    reads: usize,
}

impl Plan {
    #[expect(clippy::future_not_send, reason = "errors of tests; the test runs on one thread")]
    async fn run(self, name: &str) -> TestResult<Outcome> {
        let server = Server::builder().manual_clock().throttle(self.targets).start().await?;
        let timeline = Timeline::new(server.clock());
        let mut programs = Vec::new();
        for _ in 0..self.programs {
            let builder = timeline.connect(&server, LATENCY).await?;
            let builder = builder.targets(self.ceilings).seed(programs.len() as u64);
            programs.push(builder.build()?);
        }
        let reader = programs[0].clone();
        timeline.run(reader.table("readings").create()).await?;
        let row = DynamicEntity::new("p0", "read");
        timeline.run(reader.table("readings").insert(&row)).await?;
        server.clock().advance(Duration::from_secs(1));
        let begun = timeline.elapsed();
        let loading = async {
            let loaders = (0..LOADERS).map(|loader| self.load(&programs, loader));
            let reports = future::try_join_all(loaders).await?;
            TestResult::Ok((reports, timeline.elapsed()))
        };
        let reading = read(&reader, &timeline, self.reads.clone());
        let both = async {
            let (loading, reading) = (std::pin::pin!(loading), std::pin::pin!(reading));
            match future::select(loading, reading).await {
                future::Either::Left((loaded, reading)) => {
                    let loaded = loaded?;
                    TestResult::Ok((loaded, reading.await?))
                }
                future::Either::Right((read, loading)) => {
                    let read = read?;
                    Ok((loading.await?, read))
                }
            }
        };
        let ((reports, ended), mut latencies) = timeline.run(both).await?;
        assert!(reports.iter().all(Report::is_clean));
        let reported: u64 = reports.iter().map(|report| report.total.right).sum();
        let stored = server.snapshot().table("readings").map_or(0, StoredTable::len) - 1;
        assert_eq!(reported, stored as u64, "the reports are true");
        latencies.sort();
        let outcome = Outcome {
            stored,
            transactions: server.journal().count(Operation::Transaction),
            seconds: ended.saturating_sub(begun).as_secs_f64(),
            slow: latencies[latencies.len() * 99 / 100],
            reads: latencies.len(),
        };
        eprintln!("{name}: {outcome:?}");
        Ok(outcome)
    }

    async fn load(&self, programs: &[StorageAccount], loader: usize) -> TestResult<Report> {
        let table = programs[loader % programs.len()].table("readings");
        let partition = if self.is_hot { "p0".to_owned() } else { format!("p{loader}") };
        let rows = (0..TRANSACTIONS * self.rows)
            .map(move |row| DynamicEntity::new(&partition, format!("{loader}-{row:05}")));
        let load = Job::insert(&table, stream::iter(rows)).groups_per_partition(8);
        // As full as the plan says: an entity group transaction may have 100 operations.
        let pace = Pace::background();
        Ok(load.pace(pace).run().await?)
    }
}

/// Reads an entity again and again for ten seconds. Returns how long each read took.
async fn read(
    account: &StorageAccount,
    timeline: &Timeline,
    pace: Option<Pace>,
) -> TestResult<Vec<Duration>> {
    use rowkey::Clock as _;
    let options = ClientOptions { pace, ..ClientOptions::default() };
    let table = account.with_options(options).table("readings");
    let mut latencies = Vec::new();
    for _ in 0..400 {
        let begun = timeline.elapsed();
        let found = table.get(Key::<DynamicEntity>::new("p0", "read")).await?;
        assert!(found.is_some());
        latencies.push(timeline.elapsed().saturating_sub(begun));
        timeline.sleep(BETWEEN).await;
    }
    Ok(latencies)
}

impl Outcome {
    /// The part of a target of entities per second that was used.
    fn used(&self, target: u32) -> f64 {
        let entities = u32::try_from(self.stored).unwrap_or(u32::MAX);
        f64::from(entities) / (self.seconds * f64::from(target))
    }
}

#[tokio::test]
async fn eight_loaders_use_the_target_of_a_partition_and_reads_are_as_fast_as_before() -> TestResult
{
    for reads in [Some(Pace::foreground()), None] {
        let outcome = Plan { reads, ..Plan::default() }.run("documented target").await?;
        assert_eq!((outcome.stored, outcome.reads), (32_000, 400));
        assert_eq!(outcome.transactions, 320, "none was refused");
        assert!(outcome.used(2000) >= 0.95, "{outcome:?}");
        assert!(outcome.slow <= 2 * LATENCY, "{outcome:?}");
    }
    Ok(())
}

#[tokio::test]
async fn loaders_find_a_limit_that_they_do_not_know() -> TestResult {
    let targets = Targets { entities_per_partition: 500, ..Targets::default() };
    let outcome = Plan { targets, ..Plan::default() }.run("unknown limit").await?;
    assert_eq!(outcome.stored, 32_000);
    assert!(outcome.transactions <= 320 * 11 / 10, "{outcome:?}");
    assert!(outcome.used(500) >= 0.85, "{outcome:?}");
    assert!(outcome.slow <= 2 * LATENCY, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn two_programs_share_a_partition() -> TestResult {
    let outcome = Plan { programs: 2, ..Plan::default() }.run("two programs").await?;
    assert_eq!(outcome.stored, 32_000);
    assert!(outcome.transactions <= 320 * 13 / 10, "{outcome:?}");
    assert!(outcome.used(2000) >= 0.8, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn two_programs_with_half_the_target_each_refuse_nothing() -> TestResult {
    let ceilings = Ceilings { entities_per_partition: 1000, ..Ceilings::default() };
    let outcome = Plan { programs: 2, ceilings, ..Plan::default() }.run("two halves").await?;
    assert_eq!((outcome.stored, outcome.transactions), (32_000, 320));
    assert!(outcome.used(2000) >= 0.95, "{outcome:?}");
    assert!(outcome.slow <= 2 * LATENCY, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn loaders_of_a_partition_each_do_not_slow_each_other_down() -> TestResult {
    let plan = Plan { is_hot: false, ..Plan::default() };
    let outcome = plan.run("a partition each").await?;
    assert_eq!((outcome.stored, outcome.transactions), (32_000, 320));
    // Each has 4,000 rows at 2,000 per second.
    assert!(outcome.seconds < 2.2, "{outcome:?}");
    assert!(outcome.slow <= 2 * LATENCY, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn loaders_use_the_target_of_an_account() -> TestResult {
    let targets = Targets { requests_per_account: 100, ..Targets::default() };
    let ceilings = Ceilings { requests_per_account: 100, ..Ceilings::default() };
    let plan = Plan { targets, ceilings, is_hot: false, rows: 200, ..Plan::default() };
    let outcome = plan.run("account").await?;
    assert_eq!(outcome.stored, 64_000);
    assert!(outcome.transactions <= 640 + 10, "{outcome:?}");
    assert!(outcome.slow <= 2 * LATENCY, "{outcome:?}");
    Ok(())
}
