//! A reproduction: loaders of the pattern `bulk` give rows up at the service's documented targets.

use std::future::poll_fn;
use std::pin::pin;

use futures_util::{future, stream};
use rowkey::{Clock as _, DynamicEntity, StorageAccount};
use rowkey_patterns::bulk::{BestEffort, Bulk};
use rowkey_server::{Server, StoredTable, Targets};
use rowkey_tests::TestResult;
use rowkey_tests::timeline::Timeline;

/// Polls often enough before time moves on that requests, which the loaders make themselves, are
/// answered.
const SETTLED: u32 = 4000;

#[tokio::test]
async fn eight_bulk_loaders_of_one_partition_store_all_rows() -> TestResult {
    let server = Server::builder().manual_clock().throttle(Targets::default()).start().await?;
    let timeline = Timeline::new(server.clock());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(timeline.clone())
        .build()?;
    let table = account.table("readings");
    table.create().await?;
    let loaders = (0..8).map(|loader| {
        let rows =
            (0..4000).map(move |row| DynamicEntity::new("hot", format!("{loader}-{row:04}")));
        Bulk::new(table.clone(), BestEffort).insert(stream::iter(rows))
    });
    let mut loaders = pin!(future::join_all(loaders));
    let (mut now, mut polls) = (timeline.now(), 0);
    let settled = poll_fn(|context| {
        let polled = loaders.as_mut().poll(context);
        if timeline.now() != now {
            (now, polls) = (timeline.now(), 0);
        }
        if polled.is_pending() && polls < SETTLED {
            polls += 1;
            context.waker().wake_by_ref();
        }
        polled
    });
    let reports = timeline.run(settled).await;
    let failed: u64 = reports.iter().map(|report| report.progress.failed).sum();
    let stored = server.snapshot().table("readings").map_or(0, StoredTable::len);
    assert_eq!((stored, failed), (32_000, 0));
    Ok(())
}
