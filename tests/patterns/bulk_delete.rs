//! Bulk deletion: what is deleted and what stays, checkpoints, and that it can be broken off anywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{TryStreamExt as _, future, stream};
use rowkey::{
    Entity, ErrorCode, ErrorKind, ManualClock, Match, Query, ScanPolicy, StorageAccount, Table,
};
use rowkey_patterns::bulk::{Atomic, BestEffort, Bulk};
use rowkey_patterns::bulk_delete::{BulkDelete, Checkpoint, Progress};
use rowkey_server::{Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{device}", row = "{number:4}", rename_all = "PascalCase")]
struct Event {
    device: String,
    number: u32,
    level: i32,
}

fn event(device: &str, number: u32) -> Event {
    let level = i32::from(number.is_multiple_of(3));
    Event { device: device.into(), number, level }
}

/// Adds so many events of each device; a third of them is important.
async fn fill(table: &Table, devices: &[&str], events: u32) {
    let all = devices.iter().flat_map(|device| (0..events).map(|number| event(device, number)));
    let all: Vec<_> = all.collect();
    assert!(Bulk::new(table.clone(), BestEffort).upsert(stream::iter(all)).await.is_complete());
}

/// The events that are not important.
fn unimportant(table: &Table) -> Query<Event> {
    table.scan::<Event>().scan_policy(ScanPolicy::Allow).filter(Event::LEVEL.is(0))
}

async fn start() -> Result<(Server, Table), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("events");
    table.create().await?;
    Ok((server, table))
}

fn stored(snapshot: &Snapshot) -> BTreeSet<(String, u32)> {
    let table = snapshot.table("events").unwrap();
    let key = |e: rowkey_server::StoredEntity<'_>| {
        (e.partition_key().to_owned(), e.row_key().parse().unwrap())
    };
    table.entities().map(key).collect()
}

#[tokio::test]
async fn what_the_query_finds_is_deleted_a_hundred_a_request() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 360).await;
    let before = server.journal();
    let progress = BulkDelete::new(unimportant(&table)).run().await?;
    assert_eq!((progress.found, progress.deleted, progress.pages), (480, 480, 1));
    assert_eq!((progress.gone, progress.changed, progress.transactions), (0, 0, 6));
    let journal = server.journal().since(&before);
    assert_eq!(journal.count(Operation::QueryEntities), 1);
    assert_eq!(journal.count(Operation::Transaction), 6, "100, 100 and 40 of each");
    assert_eq!(journal.len(), 7);
    assert!(stored(&server.snapshot()).iter().all(|(_, number)| number.is_multiple_of(3)));
    assert_eq!(stored(&server.snapshot()).len(), 240);
    Ok(())
}

#[tokio::test]
async fn it_works_on_every_server() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    fill(&table, &["a", "b", "c"], 30).await;
    let one = table.query(Event::partition("b")).page_size(7);
    let progress = BulkDelete::new(one).run().await?;
    assert_eq!((progress.found, progress.deleted), (30, 30));
    let progress = BulkDelete::new(unimportant(&table)).unconditionally().run().await?;
    assert_eq!(progress.deleted, 40);
    assert_eq!(table.scan::<Event>().all().await?.len(), 20);
    Ok(())
}

#[tokio::test]
async fn a_dry_run_counts_and_deletes_nothing() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 30).await;
    let before = server.journal();
    let dry = BulkDelete::new(unimportant(&table).page_size(25)).dry_run();
    let checkpoints: Vec<_> = dry.checkpoints().try_collect().await?;
    assert_eq!((checkpoints.len(), checkpoints[1].progress.found), (2, 40));
    assert_eq!(checkpoints[1].progress.deleted, 0);
    let journal = server.journal().since(&before);
    assert_eq!((journal.len(), journal.count(Operation::QueryEntities)), (2, 2));
    assert_eq!(stored(&server.snapshot()).len(), 60);

    // Resuming from it would leave out what it did not delete.
    let again = BulkDelete::new(unimportant(&table)).resume(checkpoints[0].clone());
    let error = again.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let again = BulkDelete::new(unimportant(&table).page_size(25)).dry_run();
    assert_eq!(again.resume(checkpoints[0].clone()).run().await?.found, 40);
    Ok(())
}

#[tokio::test]
async fn what_was_changed_since_it_was_found_stays_unless_it_is_said_otherwise() -> TestResult {
    for unconditionally in [false, true] {
        let server = Server::start().await?;
        let account = StorageAccount::from_connection_string(server.connection_string())?;
        let table = account.table("events");
        table.create().await?;
        fill(&table, &["a"], 12).await;
        let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
        let delete = BulkDelete::new(unimportant(&table));
        let delete = if unconditionally { delete.unconditionally() } else { delete };
        let others = async {
            held.wait_until_held().await;
            // While the first deletes are on their way, two are changed and two deleted.
            for number in [1, 4] {
                table.replace((&Event { level: 5, ..event("a", number) }, Match::Any)).await?;
            }
            for number in [2, 5] {
                table.delete(Event::key("a", number), Match::Any).await?;
            }
            held.release();
            Ok::<_, rowkey::Error>(())
        };
        let (progress, others) = future::join(delete.run(), others).await;
        others?;
        let progress = progress?;
        let counted = (progress.found, progress.deleted, progress.gone, progress.changed);
        let left: Vec<_> = stored(&server.snapshot()).into_iter().map(|(_, n)| n).collect();
        if unconditionally {
            assert_eq!((counted, &*left), ((8, 6, 2, 0), &[0, 3, 6, 9][..]));
        } else {
            assert_eq!((counted, &*left), ((8, 4, 2, 2), &[0, 1, 3, 4, 6, 9][..]));
        }
        assert_eq!(progress.transactions, if unconditionally { 3 } else { 5 });
    }
    Ok(())
}

#[tokio::test]
async fn it_goes_on_where_a_stored_checkpoint_says() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 60).await;
    let query = || unimportant(&table).page_size(20);
    let mut first = BulkDelete::new(query()).checkpoints();
    let stored_text = first.try_next().await?.unwrap().to_string();
    drop(first);
    assert_eq!(stored(&server.snapshot()).len(), 100);

    let checkpoint: Checkpoint = stored_text.parse()?;
    let before = server.journal();
    let rest: Vec<_> =
        BulkDelete::new(query()).resume(checkpoint).checkpoints().try_collect().await?;
    assert_eq!(rest.iter().map(|c| c.progress.deleted).collect::<Vec<_>>(), [40, 60, 80]);
    assert_eq!(rest.iter().map(Checkpoint::is_finished).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(server.journal().since(&before).count(Operation::QueryEntities), 3);
    assert_eq!(stored(&server.snapshot()).len(), 40);

    let sent = server.journal().len();
    let finished = rest.last().unwrap().clone();
    let progress = BulkDelete::new(query()).resume(finished.clone()).run().await?;
    assert_eq!((progress, server.journal().len()), (finished.progress, sent), "nothing is left");

    let other = BulkDelete::new(table.query(Event::partition("a"))).resume(rest[0].clone());
    assert_eq!(other.run().await.unwrap_err().kind(), ErrorKind::Invalid, "another query");
    Ok(())
}

#[tokio::test]
async fn no_more_are_deleted_a_second_than_allowed() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let table = account.table("events");
    table.create().await?;
    fill(&table, &["a"], 250).await;
    let all = table.query(Event::partition("a"));
    let progress = BulkDelete::new(all).per_second(50).run().await?;
    assert_eq!(progress.deleted, 250);
    let waits: Vec<_> =
        clock.slept().into_iter().filter(|wait| *wait == Duration::from_secs(2)).collect();
    assert_eq!(waits.len(), 2, "100, 2 seconds, 100, 2 seconds, 50: {:?}", clock.slept());
    Ok(())
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error() -> TestResult {
    let (_server, table) = start().await?;
    let nowhere = table.account().table("nowhere");
    let error = BulkDelete::new(unimportant(&nowhere)).run().await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));
    Ok(())
}

#[tokio::test]
async fn several_partitions_are_worked_on_at_once() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("events");
    table.create().await?;
    fill(&table, &["a", "b", "c", "d"], 6).await;
    let held = server.inject(Fault::on(Operation::Transaction).hold());
    let delete = BulkDelete::new(unimportant(&table)).in_flight(3).run();
    let others = async {
        held.wait_until_hit(3).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(held.hits(), 3, "three and no more");
        held.release();
    };
    let (progress, ()) = future::join(delete, others).await;
    assert_eq!(progress?.deleted, 16);
    Ok(())
}

/// Deletes, storing checkpoints in `kept` as a program does that may end at any time.
async fn delete(account: &StorageAccount, kept: &mut Option<String>) -> rowkey::Result<Progress> {
    let from = kept.as_deref().map_or(Ok(Checkpoint::default()), str::parse)?;
    let query = unimportant(&account.table("events")).page_size(30);
    let mut checkpoints = BulkDelete::new(query).in_flight(1).resume(from).checkpoints();
    let mut progress = Progress::default();
    while let Some(checkpoint) = checkpoints.try_next().await? {
        progress = checkpoint.progress;
        *kept = Some(checkpoint.to_string());
    }
    Ok(progress)
}

#[tokio::test]
async fn whichever_request_fails_a_second_run_ends_it() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 60).await;
    for patient in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if patient { account.clone() } else { once(account) };
                let mut kept = None;
                (delete(&account, &mut kept).await, kept)
            },
            async |account, (first, kept)| {
                assert!(first.is_ok() || !patient, "{first:?}");
                let mut kept = kept.clone();
                delete(account, &mut kept).await?;
                Ok(())
            },
            |snapshot, (first, _)| {
                let left = stored(snapshot);
                assert!(left.iter().all(|(_, number)| number.is_multiple_of(3)), "{left:?}");
                assert_eq!(left.len(), 40, "and nothing else is deleted");
                if let Ok(progress) = first {
                    assert_eq!((progress.found, progress.deleted), (80, 80));
                }
            },
        )
        .await?;
        assert_eq!(runs.requests, 7, "three pages, one of them of both partitions");
    }
    Ok(())
}

#[tokio::test]
async fn random_deletions_leave_what_a_model_says() -> TestResult {
    let (server, table) = start().await?;
    let empty = server.snapshot();
    for seed in seeds(150) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        server.restore(&empty);
        let mut model = BTreeSet::new();
        for device in ["a", "b", "c"] {
            let events: Vec<_> =
                (0..60).filter(|_| random.one_in(2)).map(|number| event(device, number)).collect();
            model.extend(events.iter().map(|event| (event.device.clone(), event.number)));
            Bulk::new(table.clone(), Atomic).insert(stream::iter(events)).await?;
        }
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let (important, page) = (random.one_in(2), 1 + random.below(40));
        let in_flight = 1 + random.below(3) as usize;
        let query = || {
            let all = table.scan::<Event>().scan_policy(ScanPolicy::Allow).page_size(page);
            all.filter(Event::LEVEL.is(i32::from(important)))
        };
        let found = model.iter().filter(|(_, n)| n.is_multiple_of(3) == important).count() as u64;
        model.retain(|(_, number)| number.is_multiple_of(3) != important);
        // It is broken off after a few pages, and resumed until it is done.
        let mut at = Checkpoint::default();
        while !at.is_finished() {
            let delete = BulkDelete::new(query()).in_flight(in_flight).resume(at.clone());
            let mut checkpoints = delete.checkpoints();
            for _ in 0..=random.below(3) {
                match checkpoints.try_next().await? {
                    Some(checkpoint) => at = checkpoint,
                    None => break,
                }
            }
        }
        assert_eq!((at.progress.found, at.progress.deleted), (found, found));
        assert_eq!(stored(&server.snapshot()), model);
    }
    Ok(())
}
