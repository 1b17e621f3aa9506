//! The report of hot partitions: every attempt is counted, and nothing if it is off.

use futures_util::TryStreamExt as _;
use rowkey::{ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;

use crate::{Counter, counter, start};

#[tokio::test]
async fn every_attempt_is_counted_by_table_and_partition() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock)
        .hot_partitions(2)
        .build()?;
    let (first, second) = (account.table("first"), account.table("second"));
    for table in [&first, &second] {
        table.create().await?;
    }
    let report = account.hot_partitions();
    assert_eq!((report.entities, report.partitions.len()), (0, 0), "tables have no partition");

    let busy = Fault::on(Operation::InsertEntity).times(1).reject(ErrorCode::SERVER_BUSY);
    let busy = server.inject(busy);
    first.insert(&counter("a", 1)).await?;
    assert_eq!(busy.hits(), 1);
    first.transaction().insert(&counter("a", 2)).insert(&counter("a", 3)).submit().await?;
    assert!(first.get(Counter::key("a", 9)).await?.is_none());
    assert_eq!(first.query(Counter::partition("a")).all().await?.len(), 3, "one page");
    second.insert(&counter("a", 1)).await?;
    // Neither names one partition.
    assert_eq!(first.scan::<Counter>().all().await?.len(), 3);

    let report = account.with_options(account.options().clone()).hot_partitions();
    let of = |at: usize| {
        let one = &report.partitions[at];
        (&*one.table, &*one.partition_key, one.entities, one.throttled)
    };
    assert_eq!(of(0), ("first", "a", 8, 1), "two inserts, two in a transaction, a get, three rows");
    assert_eq!(of(1), ("second", "a", 1, 0));
    assert_eq!(report.entities, 9);
    assert!(report.partitions[0].is_hot() && !report.partitions[1].is_hot());

    // A stream counts its rows, too, and the case of the table's name does not matter.
    let streamed: Vec<_> =
        account.table("FIRST").query(Counter::partition("a")).stream().try_collect().await?;
    assert_eq!(streamed.len(), 3);
    assert_eq!(account.hot_partitions().partitions[0].entities, 11);

    // A third partition takes a counter.
    first.insert(&counter("b", 1)).await?;
    let report = account.hot_partitions();
    assert_eq!(report.partitions.len(), 2);
    assert_eq!((report.partitions[1].inherited, report.partitions[1].entities), (1, 2));
    account.clear_hot_partitions();
    assert_eq!(account.hot_partitions().entities, 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_counted_unless_it_is_on() -> TestResult {
    let (_server, account, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    assert_eq!(account.hot_partitions(), rowkey::hot_partitions::HotPartitions::default());
    Ok(())
}
