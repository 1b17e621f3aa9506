//! Progress names the partition's rate while one partition limits a job, on a clock that waits advance.

use futures_util::stream;
use rowkey_client::pace::{Lane, Targets};
use rowkey_client::{Clock as _, DynamicEntity, ManualClock, StorageAccount, SystemClock, Table};
use rowkey_emulator::Server;

use super::{Job, Walk};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The tables `things` and `copies` of an account that takes 50 entities of a partition a second.
async fn tables(server: &Server) -> TestResult<[Table; 2]> {
    let targets = Targets { entities_per_partition: 50, ..Targets::default() };
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    let clock = ManualClock::auto_advancing(SystemClock.now());
    let account = builder.targets(targets).clock(clock).build()?;
    let tables = ["things", "copies"].map(|name| account.table(name));
    for table in &tables {
        table.create_if_missing().await?;
    }
    Ok(tables)
}

/// 400 rows in these partitions, by turns.
fn rows(partitions: &'static [&'static str]) -> impl Iterator<Item = DynamicEntity> {
    let turns = (0..400).zip(partitions.iter().cycle());
    turns.map(|(number, partition)| DynamicEntity::new(*partition, format!("{number:04}")))
}

#[tokio::test]
async fn progress_says_when_one_partition_limits_a_load_a_walk_and_a_copy() -> TestResult {
    for (partitions, is_lane) in [(&["p"][..], true), (&["p", "q"], false)] {
        let server = Server::start().await?;
        let [things, copies] = tables(&server).await?;
        let mut last = None;
        let load = Job::upsert(&things, stream::iter(rows(partitions)));
        load.progress(|progress| last = progress.lane).run().await?;
        assert_eq!(last.is_some(), is_lane, "{partitions:?}");
        assert!(last.is_none_or(|Lane { entities_per_second, .. }| entities_per_second == 50));

        let mut last = None;
        let all = || Walk::new(&things, |things| things.scan::<DynamicEntity>().page_size(200));
        let copy = Job::copy(all(), &copies).progress(|progress| last = progress.lane);
        copy.run().await?;
        if is_lane {
            assert_eq!(last.map(|lane| lane.entities_per_second), Some(50));
        }

        let mut last = None;
        Job::count(all()).progress(|progress| last = progress.lane).run().await?;
        assert_eq!(last, None, "a scan has no rate of its own");
    }
    Ok(())
}
