//! Bulk deletion: of plain types, of a store, and interrupted at any request.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{future, stream};
use rowkey::pace::Pace;
use rowkey::patterns::job::{Checkpoint, Interrupted, Job, Report, Walk};
use rowkey::store::Store;
use rowkey::{Entity, ErrorCode, ErrorKind, Match, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep, waiting};
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

/// Adds this many events of each device; a third of them is important.
async fn fill(table: &Table, devices: &[&str], events: u32) -> TestResult {
    let all = devices.iter().flat_map(|device| (0..events).map(|number| event(device, number)));
    let all: Vec<_> = all.collect();
    assert!(Job::upsert(table, stream::iter(all)).run().await?.is_clean());
    Ok(())
}

/// The events that are not important.
fn unimportant(table: &Table, page: u32) -> Walk<Event> {
    Walk::new(table, move |table| table.scan::<Event>().filter(Event::LEVEL.is(0)).page_size(page))
}

async fn start() -> TestResult<(Server, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("events");
    table.create().await?;
    Ok((server, table))
}

fn stored(snapshot: &Snapshot) -> BTreeSet<(String, u32)> {
    let table = snapshot.table("events").unwrap();
    let key = |e: rowkey_emulator::StoredEntity<'_>| {
        (e.partition_key().to_owned(), e.row_key().parse().unwrap())
    };
    table.entities().map(key).collect()
}

#[tokio::test]
async fn a_job_deletes_a_hundred_rows_per_request() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 360).await?;
    let before = server.journal();
    let counted = Job::count(unimportant(&table, 1000)).run().await?;
    assert_eq!(counted.total.examined, 480);
    assert_eq!(server.journal().since(&before).len(), 1, "counting deletes nothing");
    let before = server.journal();
    let report = Job::delete(unimportant(&table, 1000)).run().await?;
    assert_eq!((report.total.right, report.total.examined), (480, 480));
    let journal = server.journal().since(&before);
    assert_eq!(journal.count(Operation::QueryEntities), 1);
    assert_eq!(journal.count(Operation::Transaction), 6, "100, 100 and 40 of each");
    assert_eq!(journal.len(), 7);
    assert!(stored(&server.snapshot()).iter().all(|(_, number)| number.is_multiple_of(3)));
    assert_eq!(stored(&server.snapshot()).len(), 240);
    Ok(())
}

#[tokio::test]
async fn bulk_deletion_works_on_every_server() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    fill(&table, &["a", "b", "c"], 30).await?;
    let one = Walk::new(&table, |table| table.query(Event::partition("b")).page_size(7));
    assert_eq!(Job::delete(one).run().await?.total.right, 30);
    assert_eq!(Job::delete(unimportant(&table, 1000)).run().await?.total.right, 40);
    assert_eq!(table.scan::<Event>().all().await?.len(), 20);
    Ok(())
}

/// While the first deletes are on their way, events 1, 4 and 7 are changed and 2 and 5 deleted. Event 7
/// is as unimportant as before.
#[tokio::test]
async fn rows_changed_since_they_were_read_are_checked_again() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("events");
    table.create().await?;
    fill(&table, &["a"], 12).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let others = async {
        held.wait_until_held().await;
        for (number, level) in [(1, 5), (4, 5), (7, 0)] {
            table.replace((&Event { level, ..event("a", number) }, Match::Any)).await?;
        }
        for number in [2, 5] {
            table.delete(Event::key("a", number), Match::Any).await?;
        }
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let delete = Job::delete(unimportant(&table, 1000)).run();
    let (report, others) = future::join(delete, others).await;
    others?;
    let report = report?;
    assert_eq!((report.total.right, report.total.skipped), (6, 2), "{report:?}");
    let left: Vec<_> = stored(&server.snapshot()).into_iter().map(|(_, n)| n).collect();
    assert_eq!(left, [0, 1, 3, 4, 6, 9]);
    Ok(())
}

#[tokio::test]
async fn a_deletion_resumes_from_a_stored_checkpoint() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 60).await?;
    let mut told = Vec::new();
    let report = Job::delete(unimportant(&table, 20))
        .progress(|progress| told.push(progress.checkpoint.to_string()))
        .run()
        .await?;
    assert_eq!(report.total.right, 80);
    let deleted: Vec<_> = told
        .iter()
        .map(|text| text.parse::<Checkpoint>().map(|at| at.report().total.right))
        .collect::<Result<_, _>>()?;
    assert_eq!(deleted, [20, 40, 60, 80, 80]);
    assert_eq!(stored(&server.snapshot()).len(), 40);

    // From the second page on: 40 of 80 are there again, and the first page is left alone.
    fill(&table, &["a", "b"], 60).await?;
    let resumed = Job::delete(unimportant(&table, 20)).resume(told[1].parse()?).run().await?;
    assert_eq!((resumed.total.right, stored(&server.snapshot()).len()), (80, 80));

    let sent = server.journal().len();
    let finished = told.last().ok_or("it is finished")?;
    let again = Job::delete(unimportant(&table, 20)).resume(finished.parse()?).run().await?;
    assert_eq!((again, server.journal().len()), (report, sent), "nothing is left");
    let other = Job::count(unimportant(&table, 20)).resume(told[0].parse()?);
    assert_eq!(other.run().await.unwrap_err().error.kind(), ErrorKind::Invalid, "another job");
    Ok(())
}

#[tokio::test]
async fn deletions_respect_the_maximum_rate() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let (account, clock) = waiting(&server)?;
    let table = account.table("events");
    table.create().await?;
    fill(&table, &["a"], 250).await?;
    let begun = clock.slept().len();
    let all = Walk::new(&table, |table| table.query(Event::partition("a")));
    let pace = Pace::background().entities_per_second(50);
    assert_eq!(Job::delete(all).pace(pace).run().await?.total.right, 250);
    // 250 are read and 200 deleted before the last 50 are.
    let waited: Duration = clock.slept()[begun..].iter().sum();
    assert_eq!(waited, Duration::from_secs(9));
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_an_error() -> TestResult {
    let (_server, table) = start().await?;
    let nowhere = table.account().table("nowhere");
    let ended = Job::delete(unimportant(&nowhere, 1000)).run().await.unwrap_err();
    assert_eq!(ended.error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));
    Ok(())
}

/// Deletes, storing checkpoints in `kept` as a program does that may end at any time.
async fn delete(
    account: &StorageAccount,
    kept: &mut Option<String>,
) -> Result<Report, Interrupted> {
    let walk = unimportant(&account.table("events"), 30).split_partitions(["b"]);
    let job = Job::delete(walk).concurrency(1);
    let job = match kept.as_deref().and_then(|text| text.parse().ok()) {
        Some(checkpoint) => job.resume(checkpoint),
        None => job,
    };
    job.progress(|progress| *kept = Some(progress.checkpoint.to_string())).run().await
}

#[tokio::test]
async fn a_deletion_completes_with_a_correct_count_if_any_request_fails() -> TestResult {
    let (server, table) = start().await?;
    fill(&table, &["a", "b"], 60).await?;
    for patient in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if patient { account.clone() } else { once(account) };
                delete(&account, &mut None).await
            },
            async |_, _| Ok(()),
            |snapshot, report| {
                let left = stored(snapshot);
                assert!(left.iter().all(|(_, number)| number.is_multiple_of(3)), "{left:?}");
                assert_eq!(left.len(), 40, "and nothing else is deleted");
                assert_eq!(report.as_ref().unwrap().total.right, 80);
            },
        )
        .await?;
        assert_eq!(runs.requests, 8, "two pages of each partition");
    }
    Ok(())
}

/// The same events, found by their level as well.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{device}", row = "e_{number:4}", rename_all = "PascalCase")]
#[entity(index(name = by_level, row = "level_{level}", many))]
struct Indexed {
    device: String,
    number: u32,
    level: i32,
}

/// Copies go with the entities; one that another writer makes important meanwhile stays.
#[tokio::test]
async fn a_store_deletes_entities_with_their_copies() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let events = Store::<Indexed>::builder(account.table("events")).build()?;
    events.create_if_missing().await?;
    let all = ["a", "b"].into_iter().flat_map(|device| {
        (0..60).map(move |number| {
            let Event { device, number, level } = event(device, number);
            Indexed { device, number, level }
        })
    });
    events.load(stream::iter(all.collect::<Vec<_>>())).run().await?;
    let walk =
        || Walk::new(events.table(), |table| table.scan::<Indexed>().filter(Indexed::LEVEL.is(0)));
    assert_eq!(Job::count(walk()).run().await?.total.examined, 80);
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let others = async {
        held.wait_until_held().await;
        // The first is important now, the second is not; the third is gone.
        for (number, level) in [(1, 5), (2, 0)] {
            let update = |event: &mut Indexed| event.level = level;
            events.update(Indexed::key("a", number), update).await?;
        }
        events.delete(Indexed::key("a", 4)).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let (report, others) = future::join(events.delete_found(walk()).run(), others).await;
    others?;
    let report = report?;
    assert_eq!((report.total.right, report.total.skipped), (79, 1), "{report:?}");
    assert_eq!(events.count(Indexed::partition("a")).await?, 21);
    assert_eq!(events.count(Indexed::by_level("a", 0)).await?, 0);
    let verified = events.verify().run().await?;
    assert!(verified.is_clean() && verified.part("by_level").right == 41, "{verified:?}");
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{device}", row = "e_{number:4}")]
struct Bare {
    device: String,
    number: u32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{device}", row = "e_{number:4}")]
#[entity(index(name = by_number, partition = "number_{number:4}", row = "{device}"))]
struct Elsewhere {
    device: String,
    number: u32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{device}", row = "e_{number:4}")]
#[entity(unique(name = by_number, value = "{number}"))]
struct Unique {
    device: String,
    number: u32,
}

/// Deletes 120 entities of one partition, by the program that wrote them or by another one. Returns the number of queries,
/// and of all other requests.
async fn cost<E>(
    entity: impl Fn(u32) -> E,
    all: rowkey::Partition<E>,
    by_another: bool,
) -> TestResult<[usize; 2]>
where
    E: Entity + Clone + Send + Sync + 'static,
    rowkey::Partition<E>: Clone,
{
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let open =
        || Store::<E>::builder(account.table("events")).queue(account.queue("events")).build();
    let mut events = open()?;
    events.create_if_missing().await?;
    events.load(stream::iter((0..120).map(entity).collect::<Vec<_>>())).run().await?;
    if by_another {
        events = open()?;
    }
    let before = server.journal();
    assert_eq!(events.delete_where(all).run().await?.total.right, 120);
    let journal = server.journal().since(&before);
    let queries = journal.count(Operation::QueryEntities);
    Ok([queries, journal.len() - queries])
}

/// The table of costs on the page.
#[tokio::test]
async fn a_store_deletes_entities_at_the_cost_that_the_page_says() -> TestResult {
    let device = || "a".to_owned();
    let bare = |number| Bare { device: device(), number };
    let bare = cost(bare, Bare::partition("a"), false).await?;
    let indexed = |number| Indexed { device: device(), number, level: 0 };
    let indexed = cost(indexed, Indexed::partition("a"), false).await?;
    // Of 100 operations one is the op row. Both transactions put and delete a message; their op rows go together.
    let groups = 2 * (1 + 2) + 1;
    assert_eq!([bare, indexed], [[1, 2], [1, 3]]);
    for (by_another, of_each) in [(false, 1), (true, 2)] {
        let elsewhere = |number| Elsewhere { device: device(), number };
        let elsewhere = cost(elsewhere, Elsewhere::partition("a"), by_another).await?;
        let unique = |number| Unique { device: device(), number };
        let unique = cost(unique, Unique::partition("a"), by_another).await?;
        assert_eq!([elsewhere, unique], [[1, groups + 120 * of_each]; 2]);
    }
    Ok(())
}

#[tokio::test]
async fn random_deletions_agree_with_a_model() -> TestResult {
    let (server, table) = start().await?;
    let empty = server.snapshot();
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        server.restore(&empty);
        let mut model = BTreeSet::new();
        for device in ["a", "b", "c"] {
            let events: Vec<_> =
                (0..60).filter(|_| random.one_in(2)).map(|number| event(device, number)).collect();
            model.extend(events.iter().map(|event| (event.device.clone(), event.number)));
            Job::insert(&table, stream::iter(events)).run().await?;
        }
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let (important, page) = (random.one_in(2), 1 + random.below(40));
        let walk = || {
            Walk::new(&table, move |table| {
                let level = Event::LEVEL.is(i32::from(important));
                table.scan::<Event>().page_size(page).filter(level)
            })
        };
        let found = model.iter().filter(|(_, n)| n.is_multiple_of(3) == important).count() as u64;
        model.retain(|(_, number)| number.is_multiple_of(3) != important);
        // It is killed after some pages, and resumed.
        let mut told = Vec::new();
        let split = random.one_in(2).then_some("b");
        let report = Job::delete(walk().split_partitions(split))
            .progress(|progress| told.push(progress.checkpoint.to_string()))
            .run()
            .await?;
        assert_eq!(report.total.right, found);
        assert_eq!(stored(&server.snapshot()), model);
        let at = &told[random.below(u32::try_from(told.len())?) as usize];
        let again = Job::delete(walk().split_partitions(split)).resume(at.parse()?).run().await?;
        let before = at.parse::<Checkpoint>()?.report().total.right;
        assert_eq!(again.total.right, before, "nothing is found twice");
    }
    Ok(())
}
