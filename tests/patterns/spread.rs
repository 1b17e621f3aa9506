//! Spread: what is written to many buckets comes back in order through every failure, and takes what one
//! partition does not.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::edm::Value;
use rowkey::hot_partitions::Order;
use rowkey::patterns::spread::{Found, Gather, Spread};
use rowkey::{
    ClientOptions, Continuation, Entity, ErrorKind, ManualClock, Outcome, Partition, RetryOptions,
    StorageAccount, Table,
};
use rowkey_emulator::{Operation, Pages, Server, Targets};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

use rowkey_tests::random::{Random, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{day}_{bucket:3}", row = "{at:6}_{device}", rename_all = "PascalCase")]
struct Event {
    day: String,
    bucket: u16,
    at: u32,
    device: String,
    size: i32,
}

/// The same with a bucket that the key computes.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{day}_{device:bucket(5)}", row = "{at:6}_{device}")]
struct Computed {
    day: String,
    at: u32,
    device: String,
}

#[tokio::test]
async fn computed_buckets_are_merged_in_order() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let computed = |at: u32| Computed { day: "d".into(), at, device: format!("device{at}") };
    for n in 0..40_u32 {
        table.insert(&computed(n * 17 % 40)).await?;
    }
    let gather = Gather::of(&table, Computed::partitions("d")).page_size(3);
    let found: Vec<_> = gather.stream().try_collect().await?;
    let entities: Vec<_> = found.iter().map(|found| found.stored.entity.clone()).collect();
    assert_eq!(entities, (0..40).map(computed).collect::<Vec<_>>());
    let buckets: BTreeSet<_> = found.iter().map(|found| found.bucket).collect();
    assert_eq!(buckets, (0..5).collect(), "all were in use");
    let one = table.get(Computed::key("d", "device7", 7)).await?.ok_or("not found")?;
    assert_eq!(one.entity, computed(7));
    Ok(())
}

fn event(spread: &Spread, at: u32, device: &str) -> Event {
    let bucket = spread.bucket_of(device);
    Event { day: "d".into(), bucket, at, device: device.into(), size: 1 }
}

fn partition(bucket: u16) -> Partition<Event> {
    Event::partition("d", bucket)
}

fn rows<E>(found: &[Found<E>]) -> Vec<&str> {
    found.iter().map(|found| found.row_key.as_str()).collect()
}

async fn started() -> TestResult<(Server, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("events");
    table.create().await?;
    Ok((server, table))
}

#[tokio::test]
async fn spread_rows_are_merged_in_order() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let spread = Spread::over(5)?;
    for n in 0..40_u32 {
        table.insert(&event(&spread, n * 17 % 40, &format!("device{n}"))).await?;
    }
    let found: Vec<_> =
        spread.gather(&table, partition).page_size(3).stream().try_collect().await?;
    let times: Vec<_> = found.iter().map(|found| found.stored.entity.at).collect();
    assert_eq!(times, (0..40).collect::<Vec<_>>());
    let buckets: BTreeSet<_> = found.iter().map(|found| found.bucket).collect();
    assert_eq!(buckets, (0..5).collect(), "all were in use");
    assert!(found.iter().all(|found| found.bucket == found.stored.entity.bucket));

    // A part of each, and some of that.
    let narrowed = |bucket| partition(bucket).prefix("00002");
    let gather = spread.gather(&table, narrowed).filter(Event::SIZE.ge(1));
    let some: Vec<_> = gather.stream().try_collect().await?;
    assert_eq!(some.len(), 10);
    Ok(())
}

#[tokio::test]
async fn the_row_format_is_stable() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(8)?;
    table.insert(&event(&spread, 7, "door")).await?;
    let snapshot = server.snapshot();
    let stored = snapshot.table("events").unwrap();
    let rows: Vec<_> = stored
        .entities()
        .map(|entity| (entity.partition_key(), entity.row_key(), entity.properties().collect()))
        .collect();
    // "door" is in bucket 7 of 8 for every program.
    assert_eq!(rows, [("d_007", "000007_door", vec![("Size", Value::from(1))])]);
    Ok(())
}

#[tokio::test]
async fn reading_costs_a_request_for_each_page_of_each_bucket() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(4)?;
    for n in 0..20 {
        let bucket = spread.next_bucket();
        table.insert(&Event { bucket, ..event(&spread, n, "x") }).await?;
    }
    let count = async |page_size| {
        let before = server.journal();
        let gather = spread.gather(&table, partition).page_size(page_size);
        assert_eq!(gather.stream().count().await, 20);
        let sent = server.journal().since(&before);
        assert_eq!(sent.len(), sent.count(Operation::QueryEntities));
        sent.len()
    };
    assert_eq!(count(1000).await, 4, "five rows each, a page each");
    assert_eq!(count(2).await, 12);
    // The first entity costs one page of each bucket, and no more is held.
    let before = server.journal();
    let mut stream = spread.gather(&table, partition).page_size(2).stream();
    assert_eq!(stream.try_next().await?.ok_or("there is one")?.row_key, "000000_x");
    assert_eq!(server.journal().since(&before).len(), 4);
    Ok(())
}

#[tokio::test]
async fn equal_keys_in_several_buckets_are_all_returned_and_resumable() -> TestResult {
    let (_server, table) = started().await?;
    let spread = Spread::over(3)?;
    for bucket in 0..3 {
        for at in 0..2 {
            table.insert(&Event { bucket, ..event(&spread, at, "same") }).await?;
        }
    }
    let all: Vec<_> = spread.gather(&table, partition).stream().try_collect().await?;
    let order: Vec<_> = all.iter().map(|found| (found.stored.entity.at, found.bucket)).collect();
    assert_eq!(order, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    for (n, found) in all.iter().enumerate() {
        let token: Continuation = found.continuation().to_string().parse()?;
        assert_eq!(token, found.continuation());
        let rest = spread.gather(&table, partition).resume(token).stream();
        let rest: Vec<_> = rest.try_collect().await?;
        assert_eq!(rows(&rest), rows(&all)[n + 1..]);
    }
    Ok(())
}

#[tokio::test]
async fn merged_pages_are_full_and_tokens_belong_to_their_query() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(3)?;
    for n in 0..20 {
        table.insert(&event(&spread, n, &format!("device{n}"))).await?;
    }
    let gather = || spread.gather(&table, partition);
    let all: Vec<_> = gather().stream().try_collect().await?;
    let all: Vec<_> = all.into_iter().map(|found| found.stored.entity).collect();
    let (mut read, mut from) = (Vec::new(), None);
    loop {
        let page = gather().page(6, from).await?;
        assert!(page.entities.len() == 6 || page.continuation.is_none(), "the page is filled");
        read.extend(page.entities.into_iter().map(|stored| stored.entity));
        let Some(token) = page.continuation else { break };
        let text = token.to_string();
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')));
        from = Some(text.parse::<Continuation>()?);
    }
    assert_eq!(read, all);

    // More buckets behind the others are the same reading; others are not, and nothing is sent.
    let token = gather().page(6, None).await?.continuation.ok_or("there are more")?;
    let more = Spread::over(4)?.gather(&table, partition).page(14, Some(token.clone())).await?;
    assert_eq!(more.entities.len(), 14);
    let before = server.journal();
    let of_first = table.query(partition(0)).page(1, None);
    let filtered = gather().filter(Event::SIZE.ge(3));
    let other = spread.gather(&table, |bucket| Event::partition("other", bucket));
    for error in [
        filtered.page(6, Some(token.clone())).await.unwrap_err(),
        other.page(6, Some(token.clone())).await.unwrap_err(),
        gather().page(0, None).await.unwrap_err(),
        table.query(partition(0)).page(6, Some(token)).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    assert!(server.journal().since(&before).is_empty());
    let of_first = of_first.await?.continuation.ok_or("there are more")?;
    assert_eq!(gather().page(6, Some(of_first)).await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn all_rows_are_found_after_the_number_of_buckets_changes() -> TestResult {
    let (_server, table) = started().await?;
    let devices: Vec<_> = (0..30).map(|n| format!("device{n}")).collect();
    let few = Spread::over(4)?;
    for device in &devices[..15] {
        table.insert(&event(&few, 1, device)).await?;
    }
    // Readers know of it first, then writers change; and back to fewer.
    for (now, range) in [(9, 15..25), (2, 25..30)] {
        let spread = Spread::over(now)?.formerly(9)?.formerly(4)?;
        for device in &devices[range.clone()] {
            table.insert(&event(&spread, 1, device)).await?;
        }
        let gathered = spread.gather(&table, partition).stream().count().await;
        assert_eq!(gathered, range.end, "of {now} buckets");
        for device in &devices[..range.end] {
            let mut found = 0;
            for bucket in spread.places_of(device) {
                let key = Event::key("d", bucket, 1, device);
                found += usize::from(table.get(key).await?.is_some());
            }
            assert_eq!(found, 1, "{device}");
        }
    }
    Ok(())
}

/// The documented target of a partition, in small: ten entities per second.
#[tokio::test]
async fn several_buckets_accept_a_load_that_one_partition_rejects() -> TestResult {
    let targets = Targets { entities_per_partition: 10, ..Targets::default() };
    let server = Server::builder().manual_clock().throttle(targets).start().await?;
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let account = account(&server)?;
    let account = account.with_options(ClientOptions { retry, ..account.options().clone() });
    let table = account.table("events");
    table.create().await?;
    let written = async |spread: &Spread, day: &str| {
        let mut written = 0;
        for at in 0..80 {
            let bucket = spread.next_bucket();
            let entry = Event { day: day.into(), bucket, ..event(spread, at, "x") };
            match table.insert(&entry).await {
                Ok(_) => written += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Throttled),
            }
        }
        written
    };
    // All within one second: the clock stands.
    assert_eq!(written(&Spread::over(1)?, "one").await, 10);
    assert_eq!(written(&Spread::over(8)?, "eight").await, 80);
    Ok(())
}

#[tokio::test]
async fn the_account_reports_an_append_only_partition_and_not_buckets() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .hot_partitions(128)
        .build()?;
    let table = account.table("events");
    table.create().await?;
    for (buckets, concerns) in [(1, 1), (16, 0)] {
        let spread = Spread::over(buckets)?;
        account.clear_hot_partitions();
        for at in 0..400 {
            let bucket = spread.next_bucket();
            let entry = Event { day: format!("{buckets}"), bucket, ..event(&spread, at, "x") };
            table.insert(&entry).await?;
        }
        let report = account.hot_partitions();
        assert_eq!(report.concerns().count(), concerns, "{report}");
        assert_eq!(report.entities, 400);
        let first = &report.partitions[0];
        assert_eq!(
            (&*first.partition_key, first.entities),
            (&*format!("{buckets}_000"), 400 / u64::from(buckets))
        );
        if buckets == 1 {
            assert_eq!(first.order, Order::Ascending);
            assert!(report.to_string().contains("append-only"), "{report}");
        }
    }
    assert_eq!(server.journal().count(Operation::InsertEntity), 800);
    Ok(())
}

#[tokio::test]
async fn an_error_in_one_bucket_fails_the_query() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(3)?;
    let before = server.journal();
    let gather = spread.gather(&table, |_| Event::partition("a\tb", 0));
    let error = gather.stream().try_next().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let gather = spread.gather(&table, partition).page_size(1001);
    assert_eq!(gather.stream().try_next().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(server.journal().since(&before).is_empty());
    let missing = table.account().table("missing");
    let error = spread.gather(&missing, partition).stream().try_next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn a_reader_resumes_after_the_last_row_after_any_fault() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(2)?;
    for n in 0..9 {
        table.insert(&event(&spread, n, &format!("device{n}"))).await?;
    }
    let all: Vec<_> = spread.gather(&table, partition).stream().try_collect().await?;
    let expected = rows(&all);
    let read = async |table: Table, mut found: Vec<Found<Event>>| {
        let mut gather = spread.gather(&table, partition).page_size(2);
        if let Some(last) = found.last() {
            gather = gather.resume(last.continuation());
        }
        let mut stream = gather.stream();
        while let Ok(Some(next)) = stream.try_next().await {
            found.push(next);
        }
        found
    };
    let runs = sweep(
        &server,
        async |account| read(once(account).table("events"), Vec::new()).await,
        async |account, found| {
            assert!(expected.starts_with(&rows(found)));
            let found = read(account.table("events"), found.clone()).await;
            assert_eq!(rows(&found), expected);
            Ok(())
        },
        |_, _| {},
    )
    .await?;
    assert!(runs.requests >= 5, "{runs}");
    Ok(())
}

/// Random rows in random buckets, read in pages that end anywhere, by readers that stop anywhere.
#[tokio::test]
async fn merging_agrees_with_a_sorted_list() -> TestResult {
    let (server, table) = started().await?;
    for seed in seeds(150) {
        let mut random = Random(seed);
        let buckets = u16::try_from(random.within(6) + 1)?;
        let spread = Spread::over(buckets)?;
        let day = format!("d{seed}");
        let mut model = BTreeSet::new();
        for bucket in 0..buckets {
            let mut rows = table.transaction();
            let mut count = 0;
            for _ in 0..random.within(15) {
                let at = u32::try_from(random.within(40))?;
                if model.insert((at, bucket)) {
                    let row = Event { day: day.clone(), bucket, ..event(&spread, at, "x") };
                    rows = rows.insert(&row);
                    count += 1;
                }
            }
            if count > 0 {
                rows.submit().await?;
            }
        }
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let page_size = u32::try_from(random.within(6) + 1)?;
        let mut found: Vec<Found<Event>> = Vec::new();
        loop {
            let mut gather = spread.gather(&table, |bucket| Event::partition(&day, bucket));
            if let Some(last) = found.last() {
                gather = gather.resume(last.continuation().to_string().parse()?);
            }
            let stop_after = usize::try_from(random.within(30) + 1)?;
            let stream = gather.page_size(page_size).stream();
            let some: Vec<_> = stream.take(stop_after).try_collect().await?;
            if some.is_empty() {
                break;
            }
            found.extend(some);
        }
        let found: Vec<_> = found.iter().map(|f| (f.stored.entity.at, f.bucket)).collect();
        assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_tasks_share_the_round_robin_counter() -> TestResult {
    let (server, table) = started().await?;
    let spread = Spread::over(4)?;
    stream::iter(0..40)
        .map(|at| {
            let (table, spread) = (&table, &spread);
            async move {
                let entry = Event { bucket: spread.next_bucket(), ..event(spread, at, "x") };
                table.insert(&entry).await?;
                Ok::<(), rowkey::Error>(())
            }
        })
        .buffer_unordered(8)
        .try_collect::<()>()
        .await?;
    let stored = server.snapshot();
    let stored = stored.table("events").unwrap();
    let rows = (0..4).map(|bucket| stored.partition(&format!("d_{bucket:03}")).count());
    assert_eq!(rows.collect::<Vec<_>>(), [10, 10, 10, 10]);
    Ok(())
}
