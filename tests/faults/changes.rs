//! The reader of changes: what it returns, its position, its requests, and writers and failures between any two of
//! them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::{Either, select};
use rowkey::table::{Changes, Watermark};
use rowkey::{DynamicEntity, ErrorKind, Match, ScanPolicy, Table};
use rowkey_emulator::{Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::sweep;

use super::{Counter, counter, start};

/// Reads pages of two rows.
fn changes(table: &Table, from: Watermark) -> Changes<Counter> {
    let scan = table.scan::<Counter>().scan_policy(ScanPolicy::Allow);
    scan.page_size(2).changes(from).overlap(Duration::from_secs(60))
}

/// The rest of a pass: the counts by id.
async fn rest(changes: &mut Changes<Counter>) -> rowkey::Result<BTreeMap<u32, i32>> {
    changes.pass().map_ok(|read| (read.entity.id, read.entity.count)).try_collect().await
}

#[tokio::test]
async fn a_pass_returns_what_was_written_since_the_last_one_began() -> TestResult {
    let (server, _, table) = start().await?;
    for id in 1..=5 {
        table.insert(&counter("a", id)).await?;
    }
    let mut reader = changes(&table, Watermark::beginning());
    assert_eq!(rest(&mut reader).await?.len(), 5);
    assert_eq!(rest(&mut reader).await?, BTreeMap::new(), "within the overlap, a version once");
    server.clock().advance(Duration::from_secs(300));
    table.replace((&Counter { count: 7, ..counter("a", 3) }, Match::Any)).await?;
    table.insert(&counter("b", 6)).await?;
    table.delete(Counter::key("a", 1), Match::Any).await?;
    assert_eq!(rest(&mut reader).await?, BTreeMap::from([(3, 7), (6, 0)]), "no deletion");
    // Another program begins at the position, and reads what is in the overlap again.
    let stored = serde_json::to_string(reader.position())?;
    let mut other = changes(&table, serde_json::from_str(&stored)?);
    assert_eq!(rest(&mut other).await?.len(), 2);
    server.clock().advance(Duration::from_secs(300));
    assert_eq!(rest(&mut other).await?.len(), 0, "the clock alone changes nothing");
    assert_eq!(rest(&mut other).await?.len(), 0);
    let since = Watermark::since(server.clock().now().to_chrono())?;
    assert_eq!(rest(&mut changes(&table, since)).await?.len(), 0);
    // Without overlap and without a clock that moves, ties are read.
    table.replace((&Counter { count: 8, ..counter("a", 3) }, Match::Any)).await?;
    assert_eq!(rest(&mut other).await?, BTreeMap::from([(3, 8)]));
    Ok(())
}

#[tokio::test]
async fn a_pass_costs_the_requests_of_its_query() -> TestResult {
    let (server, _, table) = start().await?;
    for id in 0..25_u32 {
        let rows: Vec<_> = (0..100).map(|row| counter("many", id * 100 + row)).collect();
        rows.iter().fold(table.transaction(), rowkey::Transaction::insert).submit().await?;
    }
    let query = || table.query(Counter::partition("many"));
    let mut before = server.journal();
    let mut cost = || {
        let now = server.journal();
        let since = now.clone().since(&before);
        before = now;
        assert_eq!(since.len(), since.count(Operation::QueryEntities));
        since.len()
    };
    let mut reader = query().changes(Watermark::beginning());
    cost();
    assert_eq!(reader.pass().try_collect::<Vec<_>>().await?.len(), 2500);
    assert_eq!(cost(), 3, "one for each 1,000 entities");
    server.clock().advance(Duration::from_secs(600));
    assert_eq!(reader.next().await?, None);
    assert_eq!(reader.next().await?, None);
    assert_eq!(cost(), 4, "what the overlap has is read once more: three, then one");
    Ok(())
}

#[tokio::test]
async fn what_is_not_a_whole_query_or_its_own_watermark_is_refused() -> TestResult {
    let (server, account, table) = start().await?;
    for id in 1..=3 {
        table.insert(&counter("a", id)).await?;
    }
    let mut reader = changes(&table, Watermark::beginning());
    for _ in 0..3 {
        reader.next().await?.ok_or("three")?;
    }
    let position = reader.position().clone();
    assert!(format!("{reader:?}").starts_with("Changes"));
    let text = position.to_string();
    assert_eq!(text.parse::<Watermark>()?, position);
    for invalid in
        ["", "all.", "all.1", "x", "1.x.y", ".", &text[..text.len() - 1], &format!("{text}.1")]
    {
        let error = invalid.parse::<Watermark>().unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("1.x")), (ErrorKind::Invalid, false));
    }
    let before = server.journal();
    let other = account.table("others").scan::<Counter>().scan_policy(ScanPolicy::Allow);
    let refused = [
        table.query(Counter::partition("a")).take(2).changes(Watermark::beginning()),
        table.query(Counter::partition("a")).changes(position.clone()),
        other.changes(position),
        table.scan::<Counter>().scan_policy(ScanPolicy::Deny).changes(Watermark::beginning()),
    ];
    for mut refused in refused {
        assert_eq!(refused.next().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_row_that_does_not_decode_is_one_error_and_hides_no_other() -> TestResult {
    let (_server, _, table) = start().await?;
    for id in [1, 3] {
        table.insert(&counter("a", id)).await?;
    }
    let mut other = DynamicEntity::new("a", "0002");
    other.set("Count", "secret");
    table.insert(&other).await?;
    let mut reader = changes(&table, Watermark::beginning());
    assert_eq!(reader.next().await?.ok_or("one")?.entity.id, 1);
    let error = reader.next().await.unwrap_err();
    assert_eq!((error.kind(), error.details().failed_rows.len()), (ErrorKind::Decode, 1));
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(rest(&mut reader).await?, BTreeMap::from([(3, 0)]));
    let found: Vec<_> = changes(&table, Watermark::beginning())
        .pass()
        .map_err(|_| ())
        .try_collect()
        .await
        .unwrap_or_default();
    assert_eq!(found.len(), 0);
    Ok(())
}

/// A writer between any two requests, in front of the reader and behind it, and the reader's future dropped there or
/// not: after the next pass, everything was seen.
#[tokio::test]
async fn what_is_written_between_any_two_requests_is_seen() -> TestResult {
    for dropped in [false, true] {
        for nth in 1.. {
            let (server, account, table) = start().await?;
            for id in 1..=6 {
                table.insert(&counter("a", id)).await?;
            }
            let mut reader = changes(&table, Watermark::beginning());
            let mut seen = BTreeMap::new();
            let held = server.inject(Fault::on(Operation::QueryEntities).nth(nth).hold());
            let writing = async {
                held.wait_until_held().await;
                for id in [1, 6, 7] {
                    let changed = Counter { count: 5, ..counter("a", id) };
                    account.table("counters").upsert(&changed).await?;
                }
                if !dropped {
                    held.release();
                }
                Ok::<_, rowkey::Error>(())
            };
            let mut is_over = false;
            {
                let mut reading = pin!(async {
                    while let Some(read) = reader.next().await? {
                        seen.insert(read.entity.id, read.entity.count);
                    }
                    Ok::<_, rowkey::Error>(())
                });
                match select(&mut reading, pin!(writing)).await {
                    Either::Left((read, _)) => {
                        read?;
                        is_over = true;
                    }
                    Either::Right((written, _)) if dropped => written?,
                    Either::Right((written, _)) => {
                        written?;
                        reading.await?;
                    }
                }
            }
            drop(held);
            if is_over {
                assert!(nth > 3, "{nth}");
                break;
            }
            server.clock().advance(Duration::from_secs(30));
            for _ in 0..2 {
                seen.extend(rest(&mut reader).await?);
            }
            let expected = (1..=7).map(|id| (id, if [1, 6, 7].contains(&id) { 5 } else { 0 }));
            assert_eq!(seen, expected.collect(), "request {nth}, dropped {dropped}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_request_is_sent_again_by_the_next_call() -> TestResult {
    let (server, _, table) = start().await?;
    for id in 1..=6 {
        table.insert(&counter("a", id)).await?;
    }
    let runs = sweep(
        &server,
        async |account| {
            let account = rowkey_tests::sweep::once(account);
            let mut reader = changes(&account.table("counters"), Watermark::beginning());
            let (mut seen, mut errors) = (Vec::new(), 0);
            loop {
                match reader.next().await {
                    Ok(Some(read)) => seen.push(read.entity.id),
                    Ok(None) => return (seen, errors),
                    Err(error) if errors < 3 => {
                        assert!(error.details().failed_rows.is_empty(), "{error}");
                        errors += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        },
        async |_, _| Ok(()),
        |_, (seen, _)| assert_eq!(*seen, [1, 2, 3, 4, 5, 6]),
    )
    .await?;
    assert!(runs.failures > 0);
    Ok(())
}
