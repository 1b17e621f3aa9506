//! Key ranges: a table of 20,000 meters in 200 partitions is divided into four ranges, which are read at once.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::patterns::ranges::{KeyRange, split};
use rowkey::{Entity, StorageAccount, Table, Transaction};
use rowkey_emulator::{Operation, Server};

/// A meter, in the partition of its district.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "district-{district:4}", row = "{number:6}")]
struct Meter {
    district: u32,
    number: u32,
    kwh: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let meters = account.table("meters");
    meters.create().await?;
    fill(&meters).await?;

    // ANCHOR: split
    // Nine requests find ranges that cover all keys, with about as many rows each.
    let before = server.journal();
    let ranges = split(&meters, 4).await?;
    assert_eq!(ranges.len(), 4);
    assert!(server.journal().since(&before).count(Operation::QueryEntities) <= 9);

    // A range is two keys, so it can be sent to another task or machine. Each row is in one of them.
    let sums = ranges.iter().map(|range| sum(meters.clone(), range.clone()));
    let mut kwh = 0;
    for (rows, of_range) in try_join_all(sums).await? {
        println!("{rows:5} meters in a range");
        kwh += of_range;
    }
    assert_eq!(kwh, 1_990_000);
    // ANCHOR_END: split
    Ok(())
}

// ANCHOR: sum
/// The number of meters in a range, and what they have counted. `within` leaves out copies in indexes, as the scan of a type does.
async fn sum(meters: Table, range: KeyRange) -> rowkey::Result<(u64, i64)> {
    let mut found = range.within(meters.scan::<Meter>()).stream();
    let (mut rows, mut kwh) = (0, 0);
    while let Some(meter) = found.try_next().await? {
        (rows, kwh) = (rows + 1, kwh + meter.entity.kwh);
    }
    Ok((rows, kwh))
}
// ANCHOR_END: sum

/// 200 districts with 100 meters each.
async fn fill(meters: &Table) -> rowkey::Result<()> {
    let write = |district: u32| async move {
        let meter = |number| Meter { district, number, kwh: i64::from(district) };
        let all = (0..100).map(meter);
        all.fold(meters.transaction(), |all, meter| Transaction::insert(all, &meter)).submit().await
    };
    stream::iter(0..200).map(write).buffer_unordered(8).try_for_each(|_| async { Ok(()) }).await
}
