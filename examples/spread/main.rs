//! The prepend/append anti-pattern, and the solution: events by time are all written to one end of one
//! partition, which throttles them; over eight buckets all are accepted, and are read back in order.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use futures_util::TryStreamExt as _;
use rowkey::patterns::spread::Spread;
use rowkey::{ClientOptions, Entity, ErrorKind, ManualClock, RetryOptions, StorageAccount};
use rowkey_emulator::{Server, Targets};

/// A reading of a device. The RowKey grows with time, so within a bucket all goes to the end.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{day:8}_{bucket:3}", row = "{millisecond:8}_{device}")]
struct Reading {
    day: u32,
    bucket: u16,
    millisecond: u32,
    device: String,
    value: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A server that throttles like the service on a smaller scale: 100 entities per second in each partition
    // instead of 2,000. Time stands still, so everything happens in one second.
    let targets = Targets { entities_per_partition: 100, ..Targets::default() };
    let server = Server::builder().manual_clock().throttle(targets).start().await?;
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::new("2026-01-01T00:00:00Z".parse()?))
        .options(ClientOptions { retry, ..ClientOptions::default() })
        .hot_partitions(128)
        .build()?;
    let table = account.table("readings");
    table.create_if_missing().await?;

    // ANCHOR: detect
    // 400 readings into one partition: a hundred are taken. The account counts each.
    let mut taken = 0;
    for n in 0..400 {
        match table.insert(&reading(20_251_231, 0, n)).await {
            Ok(_) => taken += 1,
            Err(error) if error.kind() == ErrorKind::Throttled => {}
            Err(error) => return Err(error.into()),
        }
    }
    assert_eq!(taken, 100);
    let report = account.hot_partitions();
    assert!(report.partitions[0].is_append_only());
    assert_eq!(report.partitions[0].throttled, 300);
    println!("{report}");
    // ANCHOR_END: detect

    // ANCHOR: spread
    // The same over eight buckets, chosen by the device, so that a device's readings are found in
    // one of them.
    let spread = Spread::over(8)?;
    for n in 0..400 {
        let bucket = spread.bucket_of(&device(n));
        table.insert(&reading(20_260_101, bucket, n)).await?;
    }
    // ANCHOR_END: spread

    // ANCHOR: gather
    // All of them in the order of time, one query per bucket, at most 50 of each in memory.
    server.clock().advance(std::time::Duration::from_secs(60));
    let mut all = spread
        .gather(&table, |bucket| Reading::partition(20_260_101, bucket))
        .page_size(50)
        .stream();
    let (mut count, mut place) = (0, None);
    while let Some(found) = all.try_next().await? {
        assert_eq!(found.stored.entity.millisecond, count * 2);
        count += 1;
        if count == 150 {
            // To be stored; the program stops here.
            place = Some(found.continuation().to_string());
            break;
        }
    }
    let place = place.ok_or("there are more than 150")?.parse()?;
    let rest = spread.gather(&table, |bucket| Reading::partition(20_260_101, bucket));
    let rest: Vec<_> = rest.resume(place).stream().try_collect().await?;
    assert_eq!(rest.len(), 250);
    assert_eq!(rest[0].stored.entity.millisecond, 300);
    // ANCHOR_END: gather

    println!("one partition took {taken} of 400 in a second, eight buckets took all, in order");
    Ok(())
}

fn device(n: u32) -> String {
    format!("sensor-{:02}", n % 40)
}

fn reading(day: u32, bucket: u16, n: u32) -> Reading {
    Reading { day, bucket, millisecond: n * 2, device: device(n), value: f64::from(n) / 10.0 }
}
