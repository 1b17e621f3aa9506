//! Loads of plain types: what is packed together, what becomes of entities that are refused, and that the
//! report is true.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{future, stream};
use rowkey::edm::Value;
use rowkey::patterns::job::{Job, Report};
use rowkey::{DynamicEntity, Entity, ErrorCode, ErrorKind, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{sensor}", row = "{hour:4}", rename_all = "PascalCase")]
struct Reading {
    sensor: String,
    hour: u32,
    degrees: i32,
}

fn reading(sensor: &str, hour: u32) -> Reading {
    Reading { sensor: sensor.into(), hour, degrees: 20 }
}

/// This many readings of each sensor, hour by hour.
fn readings(sensors: &[&str], hours: u32) -> Vec<Reading> {
    (0..hours).flat_map(|hour| sensors.iter().map(move |sensor| reading(sensor, hour))).collect()
}

/// An entity that takes this many bytes as binary.
fn large(row: u32, bytes: usize) -> DynamicEntity {
    let mut entity = DynamicEntity::new("p", format!("{row:04}"));
    for (at, part) in vec![7_u8; bytes].chunks(64 * 1024).enumerate() {
        entity.set(format!("Part{at:02}"), part.to_vec());
    }
    entity
}

async fn start() -> TestResult<(Server, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("readings");
    table.create().await?;
    Ok((server, table))
}

fn transactions(server: &Server) -> usize {
    server.journal().count(Operation::Transaction)
}

/// The stored keys.
fn stored(snapshot: &Snapshot) -> BTreeSet<(String, String)> {
    let table = snapshot.table("readings").unwrap();
    table.entities().map(|e| (e.partition_key().into(), e.row_key().into())).collect()
}

/// The RowKeys of the entities that a report says were not stored.
fn failed(report: &Report) -> Vec<&str> {
    report.problems.iter().map(|problem| &*problem.row_key).collect()
}

#[tokio::test]
async fn a_stream_is_grouped_by_partition_into_the_fewest_transactions() -> TestResult {
    let (server, table) = start().await?;
    let mut told = Vec::new();
    let report = Job::upsert(&table, stream::iter(readings(&["a", "b", "c"], 250)))
        .progress(|progress| told.push(progress.report().total.right))
        .run()
        .await?;
    assert_eq!((report.total.right, report.total.examined), (750, 750));
    assert_eq!(transactions(&server), 9, "100, 100 and 50 of each");
    assert_eq!(server.snapshot().table("readings").unwrap().len(), 750);
    assert!(told.is_sorted() && told.last() == Some(&750), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn loads_work_on_every_server() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let load = |sensors: &[&str]| stream::iter(readings(sensors, 120));
    assert_eq!(Job::insert(&table, load(&["a", "b"])).run().await?.total.right, 240);
    assert_eq!(Job::upsert_merge(&table, load(&["b", "c"])).run().await?.total.right, 240);
    assert_eq!(Job::upsert(&table, load(&["c", "d"])).run().await?.total.right, 240);
    assert_eq!(table.scan::<Reading>().all().await?.len(), 480);
    let other = Reading { degrees: 7, ..reading("a", 7) };
    let again = Job::insert(&table, stream::iter([reading("a", 6), other])).run().await?;
    assert_eq!((again.total.right, failed(&again)), (1, vec!["0007"]));
    Ok(())
}

#[tokio::test]
async fn load_rows_stores_rows_unchanged() -> TestResult {
    let (server, table) = start().await?;
    assert!(Job::insert(&table, stream::iter([reading("a", 7)])).run().await?.is_clean());
    let snapshot = server.snapshot();
    let row = snapshot.table("readings").unwrap().entity("a", "0007").unwrap();
    let properties: Vec<_> = row.properties().collect();
    assert_eq!(properties, [("Degrees", Value::Int32(20))]);
    Ok(())
}

#[tokio::test]
async fn a_merging_load_keeps_other_properties_and_a_replacing_load_does_not() -> TestResult {
    let (_server, table) = start().await?;
    for merges in [true, false] {
        let mut more = DynamicEntity::new("a", "0001");
        more.set("Note", "calibrated");
        table.upsert(&more).await?;
        let entities = stream::iter([reading("a", 1)]);
        let job = if merges {
            Job::upsert_merge(&table, entities)
        } else {
            Job::upsert(&table, entities)
        };
        assert!(job.run().await?.is_clean());
        assert_eq!(table.get(more.key()).await?.unwrap().entity.get("Note").is_some(), merges);
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_is_sent_before_it_exceeds_the_size_limit() -> TestResult {
    let (server, table) = start().await?;
    let rows = (0..20).map(|row| large(row, 900 * 1024));
    assert!(Job::upsert(&table, stream::iter(rows)).run().await?.is_clean());
    // Base64 makes 1.2 MB of 900 KiB, and three of them are less than 4 MiB.
    assert_eq!(transactions(&server), 7);
    Ok(())
}

#[tokio::test]
async fn a_repeated_entity_is_in_a_later_transaction_and_the_last_value_wins() -> TestResult {
    let (server, table) = start().await?;
    let thrice = || stream::iter((0..3).map(|degrees| Reading { degrees, ..reading("a", 1) }));
    assert!(Job::upsert(&table, thrice()).run().await?.is_clean());
    assert_eq!(transactions(&server), 3);
    assert_eq!(table.get(Reading::key("a", 1)).await?.unwrap().entity.degrees, 2);

    // Inserted, the first one stays.
    table.delete(Reading::key("a", 1), rowkey::Match::Any).await?;
    let report = Job::insert(&table, thrice()).run().await?;
    assert_eq!((report.total.right, report.total.failed), (1, 2));
    assert_eq!(table.get(Reading::key("a", 1)).await?.unwrap().entity.degrees, 0);
    Ok(())
}

#[tokio::test]
async fn sixty_four_partitions_are_grouped_at_a_time() -> TestResult {
    let (server, table) = start().await?;
    for (sensors, transactions) in [(64_u32, 64), (65, 67)] {
        let before = server.journal();
        let all =
            (0..2).flat_map(|hour| (0..sensors).map(move |at| reading(&format!("{at}"), hour)));
        let all: Vec<_> = all.collect();
        assert!(Job::upsert(&table, stream::iter(all)).run().await?.is_clean());
        assert_eq!(server.journal().since(&before).count(Operation::Transaction), transactions);
    }
    Ok(())
}

#[tokio::test]
async fn rejected_entities_are_reported_and_the_others_are_stored() -> TestResult {
    let (server, table) = start().await?;
    for hour in [3, 50, 99] {
        table.insert(&Reading { degrees: 7, ..reading("a", hour) }).await?;
    }
    let before = server.journal();
    let report = Job::insert(&table, stream::iter(readings(&["a"], 100))).run().await?;
    assert_eq!(failed(&report), ["0003", "0050", "0099"]);
    assert!(report.problems.iter().all(|problem| problem.error.contains("EntityAlreadyExists")));
    assert_eq!((report.total.right, report.total.failed), (97, 3));
    let sent = server.journal().since(&before);
    assert_eq!(sent.count(Operation::Transaction), 2, "one is refused, and one has the others");
    assert_eq!(sent.count(Operation::GetEntity), 100, "which are there is read");
    assert_eq!(stored(&server.snapshot()).len(), 100);
    assert!(!format!("{report:?}").contains("0050"), "{report:?}");

    // A load that is repeated changes nothing and finds everything right but these.
    let report = Job::insert(&table, stream::iter(readings(&["a"], 100))).run().await?;
    assert_eq!((report.total.right, report.total.failed), (97, 3));
    Ok(())
}

#[tokio::test]
async fn an_invalid_entity_is_reported_without_a_request() -> TestResult {
    let (server, table) = start().await?;
    let mut bad = DynamicEntity::new("p", "0001");
    bad.set("Text", "x".repeat(40_000));
    let rows = [large(0, 1), bad, large(2, 1), DynamicEntity::new("p/q", "0")];
    let rows = rows.into_iter().chain([DynamicEntity::new("q", "0")]);
    let report = Job::upsert(&table, stream::iter(rows)).run().await?;
    assert_eq!((report.total.right, report.total.failed), (3, 2), "{:?}", report.problems);
    assert_eq!(transactions(&server), 2);
    Ok(())
}

#[tokio::test]
async fn an_insert_with_a_lost_response_is_resolved() -> TestResult {
    let (server, table) = start().await?;
    let _lost = server.inject(Fault::on(Operation::Transaction).nth(2).close_after_commit());
    let report = Job::insert(&table, stream::iter(readings(&["a"], 300))).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (300, true));
    assert_eq!(stored(&server.snapshot()).len(), 300);
    Ok(())
}

#[tokio::test]
async fn a_load_ends_at_a_permanent_error() -> TestResult {
    let (server, table) = start().await?;
    let endless = || stream::iter((0..).map(|hour| reading("a", hour % 10_000)));
    let nowhere = table.account().table("nowhere");
    let ended = Job::upsert(&nowhere, endless()).run().await.unwrap_err();
    assert_eq!(ended.error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));

    let _refused =
        server.inject(Fault::on(Operation::Transaction).reject(ErrorCode::new("InvalidInput")));
    let ended = Job::upsert(&table, endless()).stop_after(500).run().await.unwrap_err();
    assert_eq!(ended.error.kind(), ErrorKind::Invalid);
    let total = ended.checkpoint.report().total;
    assert!((500..2000).contains(&total.failed) && total.right == 0, "{total:?}");
    Ok(())
}

#[tokio::test]
async fn each_partition_has_one_transaction_in_flight() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("readings");
    table.create().await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let rows = [readings(&["a"], 200), readings(&["b"], 200)].concat();
    let load = Job::upsert(&table, stream::iter(rows)).concurrency(4).run();
    let meanwhile = async {
        held.wait_until_held().await;
        // The other partition is written, and nothing more of the one that is held. Which one that is
        // depends on whose connection the server takes first.
        while stored(&server.snapshot()).len() < 200 {
            tokio::task::yield_now().await;
        }
        let rows = stored(&server.snapshot());
        let partitions: BTreeSet<_> = rows.iter().map(|(partition, _)| partition).collect();
        assert_eq!(partitions.len(), 1);
        assert_eq!(transactions(&server), 3);
        held.release();
    };
    let (report, ()) = future::join(load, meanwhile).await;
    assert!(report?.is_clean());
    assert_eq!(stored(&server.snapshot()).len(), 400);
    Ok(())
}

#[tokio::test]
async fn the_report_is_correct_if_any_request_fails() -> TestResult {
    let (server, _) = start().await?;
    for inserts in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let table = once(account).table("readings");
                let rows = stream::iter(readings(&["a", "b"], 150));
                let load =
                    if inserts { Job::insert(&table, rows) } else { Job::upsert(&table, rows) };
                load.concurrency(1).run().await
            },
            async |_, _| Ok(()),
            |snapshot, report| {
                let report = report.as_ref().unwrap();
                assert_eq!((report.total.right, report.is_clean()), (300, true), "{report:?}");
                assert_eq!(stored(snapshot).len(), 300);
            },
        )
        .await?;
        assert_eq!(runs.requests, 4);
    }
    Ok(())
}

#[tokio::test]
async fn random_loads_agree_with_a_model() -> TestResult {
    let (server, table) = start().await?;
    let empty = server.snapshot();
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        server.restore(&empty);
        // Existing rows: a few of the keys, some with equal values.
        let mut model = BTreeMap::new();
        let before: Vec<_> = (0..random.below(20)).map(|_| any(&mut random)).collect();
        assert!(Job::upsert(&table, stream::iter(before.clone())).run().await?.is_clean());
        model.extend(before.into_iter().map(|one| ((one.sensor.clone(), one.hour), one.degrees)));

        let all: Vec<_> = (0..random.below(400)).map(|_| any(&mut random)).collect();
        let inserts = random.one_in(2);
        let rows = stream::iter(all.clone());
        let load = if inserts { Job::insert(&table, rows) } else { Job::upsert(&table, rows) };
        let report = load.concurrency(1 + random.below(4) as usize).run().await?;
        let mut right = 0;
        for one in all {
            let stored = model.entry((one.sensor, one.hour));
            right += match (inserts, stored) {
                (true, std::collections::btree_map::Entry::Occupied(stored)) => {
                    u64::from(*stored.get() == one.degrees)
                }
                (_, stored) => {
                    *stored.or_default() = one.degrees;
                    1
                }
            };
        }
        assert_eq!(report.total.right, right);
        assert_eq!(report.total.examined, right + report.total.failed);
        let snapshot = server.snapshot();
        let rows = snapshot.table("readings").unwrap();
        let found: BTreeMap<_, _> = rows
            .entities()
            .map(|row| {
                let Some(Value::Int32(degrees)) = row.get("Degrees") else { panic!("no degrees") };
                ((row.partition_key().to_owned(), row.row_key().parse().unwrap()), degrees)
            })
            .collect();
        assert_eq!(found, model);
    }
    Ok(())
}

/// One of few keys with one of few values.
fn any(random: &mut Random) -> Reading {
    let sensor = ["a", "b", "c"][random.below(3) as usize];
    let degrees = i32::try_from(random.below(2)).unwrap_or_default();
    Reading { degrees, ..reading(sensor, random.below(150)) }
}
