//! Statistics: exact for all rows, however they are divided into pages and ranges, and in bounded memory.

use std::collections::BTreeMap;

use rowkey::pace::Pace;
use rowkey::patterns::inspect::{PartitionStats, Tally, stats};
use rowkey::{DynamicEntity, StorageAccount, Table, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Operation, Pages, Server};
use rowkey_tests::TestResult;

/// A table of 60 partitions, and the rows and bytes of each.
async fn table() -> TestResult<(Server, Table, BTreeMap<String, (u64, u64)>)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("things");
    table.create().await?;
    let mut all = BTreeMap::new();
    for partition in 0..60_u32 {
        let key = format!("{}{partition:02}", ["device-", "", "user"][partition as usize % 3]);
        let rows: Vec<_> = (0..=partition * 7 % 90)
            .map(|number| {
                let mut row = DynamicEntity::new(&key, format!("{number:03}"));
                row.set("Text", "x".repeat((partition * number % 11) as usize));
                row
            })
            .collect();
        rows.iter().fold(table.transaction(), Transaction::insert).submit().await?;
        let bytes = rows.iter().map(|row| row.size() as u64).sum();
        all.insert(key, (rows.len() as u64, bytes));
    }
    Ok((server, table, all))
}

/// The keys and the sizes of the largest partitions.
fn largest(
    all: &BTreeMap<String, (u64, u64)>,
    top: usize,
    by: fn(&(u64, u64)) -> u64,
) -> Vec<(String, u64, u64)> {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by(|one, other| by(other.1).cmp(&by(one.1)).then(one.0.cmp(other.0)));
    all.into_iter().take(top).map(|(key, (rows, bytes))| (key.clone(), *rows, *bytes)).collect()
}

fn shown(partitions: &[PartitionStats]) -> Vec<(String, u64, u64)> {
    partitions.iter().map(|one| (one.partition_key.clone(), one.rows, one.bytes)).collect()
}

#[tokio::test]
async fn pages_and_ranges_that_end_anywhere_change_no_count() -> TestResult {
    let (server, table, all) = table().await?;
    let sums = |by: fn(&(u64, u64)) -> u64| all.values().map(by).sum::<u64>();
    let mut ranges = 0;
    for seed in 0..12 {
        let _chaos = (seed > 0).then(|| server.chaos(Pages::seeded(seed)));
        let tally = Tally::new(&table, 7);
        let job = tally.job().concurrency(4);
        let job = job.progress(|progress| ranges = ranges.max(progress.units.unwrap_or(0)));
        let stats = tally.stats(&job.run().await?);
        assert_eq!((stats.rows, stats.bytes), (sums(|one| one.0), sums(|one| one.1)), "{seed}");
        assert_eq!((stats.partitions, stats.complete), (60, true), "{seed}");
        assert_eq!(shown(&stats.most_rows), largest(&all, 7, |one| one.0), "{seed}");
        assert_eq!(shown(&stats.most_bytes), largest(&all, 7, |one| one.1), "{seed}");
        assert_eq!(stats.properties["Text"].types["Edm.String"], stats.rows);
    }
    assert!(ranges > 4, "{ranges}");
    let sample = stats(&table, 1_000_000, 7).await?;
    assert_eq!(shown(&sample.most_rows), largest(&all, 7, |one| one.0));
    assert_eq!((sample.partitions, sample.complete), (60, true));
    // Without an order of rows.
    let cosmos = StorageAccount::builder().connection_string(server.connection_string())?.cosmos();
    let tally = Tally::new(&cosmos.build()?.table(table.name()), 7);
    let stats = tally.stats(&tally.job().run().await?);
    assert_eq!(shown(&stats.most_bytes), largest(&all, 7, |one| one.1));
    Ok(())
}

#[tokio::test]
async fn a_job_that_resumes_counts_no_row_twice() -> TestResult {
    let (server, table, all) = table().await?;
    let _chaos = server.chaos(Pages::seeded(1));
    let rows = all.values().map(|one| one.0).sum::<u64>();
    for failed in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let fault = Fault::on(Operation::QueryEntities).nth(failed).times(1);
        let injected = server.inject(fault.reject(ErrorCode::AUTHENTICATION_FAILED));
        let tally = Tally::new(&table, 3);
        let job = || tally.job().pace(Pace::background()).concurrency(3);
        let report = match job().run().await {
            Ok(report) => report,
            Err(stopped) => job().resume(*stopped.checkpoint).run().await?,
        };
        let stats = tally.stats(&report);
        assert_eq!((stats.rows, stats.partitions, stats.complete), (rows, 60, true), "{failed}");
        assert_eq!(shown(&stats.most_rows), largest(&all, 3, |one| one.0), "{failed}");
        drop(injected);
        // A job that begins again does not resume.
        let again = tally.stats(&tally.job().run().await?);
        assert!(!again.complete && again.rows > rows);
    }
    let debug = format!("{:?}", stats(&table, 10, 1).await?);
    assert!(!debug.contains("device"), "{debug}");
    Ok(())
}
