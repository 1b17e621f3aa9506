//! Bulk writing: what is packed together, what each guarantee means when something fails, and that
//! the report is true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, future, stream};
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, ErrorCode, ErrorKind, Outcome, StorageAccount, Table};
use rowkey_patterns::bulk::{Atomic, BestEffort, Bulk, PerPartitionOrdered, Progress, Report};
use rowkey_server::{Fault, Operation, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{Mode, account, once, sweep};
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

/// So many readings of each sensor, hour by hour.
fn readings(sensors: &[&str], hours: u32) -> Vec<Reading> {
    (0..hours).flat_map(|hour| sensors.iter().map(move |sensor| reading(sensor, hour))).collect()
}

/// An entity that takes so many bytes as binary.
fn large(row: u32, bytes: usize) -> DynamicEntity {
    let mut entity = DynamicEntity::new("p", format!("{row:04}"));
    for (at, part) in vec![7_u8; bytes].chunks(64 * 1024).enumerate() {
        entity.set(format!("Part{at:02}"), part.to_vec());
    }
    entity
}

async fn start() -> Result<(Server, Table), Box<dyn std::error::Error>> {
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

/// The keys of all readings that a report says were not written, or may not have been.
fn missing<E>(report: &Report<E>) -> Vec<(u64, String)> {
    let failures = report.failures.iter().flat_map(|failure| &failure.entities);
    failures.map(|(position, key)| (*position, key.parts().unwrap().1.to_owned())).collect()
}

#[tokio::test]
async fn a_stream_is_packed_by_partition_into_as_few_transactions_as_it_takes() -> TestResult {
    let (server, table) = start().await?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let report = Bulk::new(table.clone(), PerPartitionOrdered)
        .on_progress(move |progress| sink.lock().unwrap().push(progress))
        .upsert(stream::iter(readings(&["a", "b", "c"], 250)))
        .await;
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(transactions(&server), 9, "100, 100 and 50 of each");
    assert_eq!(server.snapshot().table("readings").unwrap().len(), 750);
    let all = report.progress;
    assert_eq!((all.read, all.written, all.missing(), all.transactions), (750, 750, 0, 9));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), seen.last()), (9, Some(&all)));
    assert!(seen.is_sorted_by_key(|progress| progress.written));
    Ok(())
}

#[tokio::test]
async fn every_guarantee_works_on_every_server() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let report =
        Bulk::new(table.clone(), BestEffort).insert(stream::iter(readings(&["a", "b"], 120))).await;
    assert!(report.is_complete(), "{report:?}");
    let report = Bulk::new(table.clone(), PerPartitionOrdered)
        .upsert_merge(stream::iter(readings(&["b", "c"], 120)))
        .await;
    assert!(report.is_complete(), "{report:?}");
    let etags =
        Bulk::new(table.clone(), Atomic).upsert(stream::iter(readings(&["d"], 100))).await?;
    assert_eq!(etags.len(), 100);
    let last = table.get(Reading::key("d", 99)).await?.unwrap();
    assert_eq!(etags.last(), Some(&last.etag), "the ETags are those of the entities, in order");
    assert_eq!(table.scan::<Reading>().all().await?.len(), 460);
    let again = Bulk::new(table.clone(), BestEffort).insert(stream::iter([reading("a", 7)])).await;
    assert_eq!(again.failures[0].error.kind(), ErrorKind::AlreadyExists);
    Ok(())
}

#[tokio::test]
async fn rows_are_stored_as_they_are() -> TestResult {
    let (server, table) = start().await?;
    let report =
        Bulk::new(table, PerPartitionOrdered).insert(stream::iter([reading("a", 7)])).await;
    assert!(report.is_complete());
    let snapshot = server.snapshot();
    let row = snapshot.table("readings").unwrap().entity("a", "0007").unwrap();
    let properties: Vec<_> = row.properties().collect();
    assert_eq!(properties, [("Degrees", Value::Int32(20))]);
    Ok(())
}

#[tokio::test]
async fn a_merge_keeps_what_it_does_not_write_and_a_replacement_does_not() -> TestResult {
    let (_server, table) = start().await?;
    for (merges, kept) in [(true, true), (false, false)] {
        let mut more = DynamicEntity::new("a", "0001");
        more.set("Note", "calibrated");
        table.upsert(&more).await?;
        let bulk = Bulk::new(table.clone(), BestEffort);
        let entities = stream::iter([reading("a", 1)]);
        let report =
            if merges { bulk.upsert_merge(entities).await } else { bulk.upsert(entities).await };
        assert!(report.is_complete());
        assert_eq!(table.get(more.key()).await?.unwrap().entity.get("Note").is_some(), kept);
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_is_sent_before_it_is_too_large() -> TestResult {
    let (server, table) = start().await?;
    let rows = (0..20).map(|row| large(row, 900 * 1024));
    let report = Bulk::new(table, BestEffort).upsert(stream::iter(rows)).await;
    assert!(report.is_complete(), "{report:?}");
    // Base64 makes 1.2 MB of 900 KiB, and three of them are less than 4 MiB.
    assert_eq!((report.progress.transactions, transactions(&server)), (7, 7));
    Ok(())
}

#[tokio::test]
async fn an_entity_that_comes_again_comes_in_another_transaction_and_the_last_one_stays()
-> TestResult {
    let (server, table) = start().await?;
    let thrice = (0..3).map(|degrees| Reading { degrees, ..reading("a", 1) });
    let report = Bulk::new(table.clone(), PerPartitionOrdered).upsert(stream::iter(thrice)).await;
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(transactions(&server), 3);
    assert_eq!(table.get(Reading::key("a", 1)).await?.unwrap().entity.degrees, 2);
    Ok(())
}

#[tokio::test]
async fn no_more_partitions_are_open_than_allowed() -> TestResult {
    let (server, table) = start().await?;
    let run = async |partitions| {
        let before = server.journal();
        let report = Bulk::new(table.clone(), PerPartitionOrdered)
            .open_partitions(partitions)
            .upsert(stream::iter(readings(&["a", "b", "c"], 4)))
            .await;
        assert!(report.is_complete());
        server.journal().since(&before).count(Operation::Transaction)
    };
    assert_eq!([run(3).await, run(2).await, run(1).await], [3, 12, 12]);
    Ok(())
}

#[tokio::test]
async fn atomic_writes_all_or_nothing() -> TestResult {
    let (server, table) = start().await?;
    let bulk = || Bulk::new(table.clone(), Atomic);
    table.insert(&reading("a", 60)).await?;
    let before = server.snapshot();
    let error = bulk().insert(stream::iter(readings(&["a"], 100))).await.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::AlreadyExists, Some(60)));
    assert_eq!(stored(&server.snapshot()), stored(&before));
    assert_eq!(bulk().upsert_merge(stream::iter(readings(&["a"], 100))).await?.len(), 100);
    assert_eq!(bulk().upsert(stream::iter(Vec::<Reading>::new())).await?, []);
    assert_eq!(transactions(&server), 2, "nothing is sent for nothing");
    Ok(())
}

#[tokio::test]
async fn atomic_refuses_what_does_not_fit_one_transaction_before_sending_it() -> TestResult {
    let (server, table) = start().await?;
    let mut bad = DynamicEntity::new("p", "9999");
    bad.set("Text", "x".repeat(40_000));
    let cases = [
        ("101", (0..101).map(|row| large(row, 1)).collect(), ErrorKind::TooLarge, None),
        ("4 MiB", (0..4).map(|row| large(row, 900 * 1024)).collect(), ErrorKind::TooLarge, None),
        ("twice", vec![large(1, 1), large(2, 1), large(1, 2)], ErrorKind::Invalid, Some(2)),
        (
            "two partitions",
            vec![large(1, 1), DynamicEntity::new("q", "1")],
            ErrorKind::Invalid,
            Some(1),
        ),
        ("a bad property", vec![large(1, 1), bad], ErrorKind::TooLarge, Some(1)),
        (
            "a bad key",
            vec![large(1, 1), DynamicEntity::new("p", "a/b")],
            ErrorKind::Invalid,
            Some(1),
        ),
    ];
    for (name, entities, kind, index) in cases {
        let error =
            Bulk::new(table.clone(), Atomic).upsert(stream::iter(entities)).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotSent), "{name}: {error}");
        assert_eq!(error.operation_index(), index, "{name}: {error}");
    }
    assert_eq!(transactions(&server), 0);

    // It stops reading at the first that is too many.
    let endless = stream::iter((0..).map(|hour| reading("a", hour)));
    let error = Bulk::new(table, Atomic).upsert(endless).await.unwrap_err();
    assert!(error.to_string().contains("101 operations; 100 are allowed"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_failure_ends_its_partition_where_order_matters_and_no_other() -> TestResult {
    let (server, table) = start().await?;
    table.insert(&reading("a", 150)).await?;
    let report = Bulk::new(table, PerPartitionOrdered)
        .insert(stream::iter(readings(&["a", "b"], 400)))
        .await;
    assert_eq!(report.failures.len(), 1);
    let failure = &report.failures[0];
    assert_eq!(failure.error.code(), Some(&ErrorCode::ENTITY_ALREADY_EXISTS));
    assert_eq!(failure.error.operation_index(), Some(50));
    let rows: Vec<_> = missing(&report);
    assert_eq!(rows.len(), 100, "the transaction as a whole");
    assert_eq!((rows[0].clone(), rows[99].clone()), ((200, "0100".into()), (398, "0199".into())));
    assert_eq!(failure.skipped, 200);
    let all = report.progress;
    assert_eq!((all.read, all.written, all.failed, all.skipped), (800, 500, 100, 200));
    assert_eq!((all.unknown, all.transactions), (0, 6));
    let keys = stored(&server.snapshot());
    assert_eq!(keys.iter().filter(|(partition, _)| partition == "a").count(), 101);
    assert_eq!(keys.iter().filter(|(partition, _)| partition == "b").count(), 400);
    Ok(())
}

#[tokio::test]
async fn best_effort_finds_the_entities_that_are_refused_and_writes_the_others() -> TestResult {
    let (server, table) = start().await?;
    for hour in [3, 50, 99] {
        table.insert(&reading("a", hour)).await?;
    }
    let report = Bulk::new(table, BestEffort).insert(stream::iter(readings(&["a"], 100))).await;
    assert_eq!(missing(&report), [(3, "0003".into()), (50, "0050".into()), (99, "0099".into())]);
    assert!(report.failures.iter().all(|f| f.error.is_already_exists()));
    let all = report.progress;
    assert_eq!((all.written, all.failed, all.skipped), (97, 3, 0));
    assert_eq!((all.transactions, transactions(&server)), (4, 4), "one more for each of them");
    assert_eq!(stored(&server.snapshot()).len(), 100);
    let shown = format!("{report:?}");
    assert!(shown.contains("positions: [50]") && !shown.contains("0050"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn an_entity_that_cannot_be_sent_is_reported_and_costs_nothing() -> TestResult {
    let (server, table) = start().await?;
    let mut bad = DynamicEntity::new("p", "0001");
    bad.set("Text", "x".repeat(40_000));
    let rows = || {
        let rows = vec![large(0, 1), bad.clone(), large(2, 1), DynamicEntity::new("p/q", "0")];
        stream::iter(rows.into_iter().chain([DynamicEntity::new("q", "0")]))
    };
    let report = Bulk::new(table.clone(), BestEffort).upsert(rows()).await;
    let found: Vec<_> =
        report.failures.iter().map(|f| (f.entities[0].0, f.error.kind(), f.skipped)).collect();
    assert_eq!(found, [(1, ErrorKind::TooLarge, 0), (3, ErrorKind::Invalid, 0)]);
    assert_eq!((report.progress.written, transactions(&server)), (3, 2));

    let report = Bulk::new(table, PerPartitionOrdered).upsert(rows()).await;
    let found: Vec<_> =
        report.failures.iter().map(|f| (f.entities[0].0, f.error.kind(), f.skipped)).collect();
    assert_eq!(found, [(1, ErrorKind::TooLarge, 1), (3, ErrorKind::Invalid, 0)]);
    let all = report.progress;
    assert_eq!((all.written, all.failed, all.skipped), (2, 2, 1), "what came before is written");
    Ok(())
}

#[tokio::test]
async fn an_insert_whose_answer_is_lost_is_neither_confirmed_nor_denied() -> TestResult {
    let (server, table) = start().await?;
    for guarantee in 0..2 {
        let lost = server.inject(Fault::on(Operation::Transaction).nth(2).close_after_commit());
        let sensor = format!("sensor-{guarantee}");
        let rows = stream::iter(readings(&[&sensor], 300));
        let table = table.clone();
        let report = if guarantee == 0 {
            Bulk::new(table, PerPartitionOrdered).insert(rows).await
        } else {
            Bulk::new(table, BestEffort).in_flight(1).insert(rows).await
        };
        drop(lost);
        let all = report.progress;
        assert_eq!((all.unknown, all.failed), (100, 0));
        assert_eq!(report.failures[0].error.outcome(), Outcome::Unknown);
        assert_eq!(missing(&report)[0], (100, "0100".into()));
        let rest = if guarantee == 0 { (100, 100) } else { (200, 0) };
        assert_eq!((all.written, all.skipped), rest);
    }
    Ok(())
}

#[tokio::test]
async fn a_load_that_cannot_succeed_stops_reading() -> TestResult {
    let (_server, table) = start().await?;
    let nowhere = table.account().table("nowhere");
    let endless = || stream::iter((0..).map(|hour| reading("a", hour % 10_000)));
    let report = Bulk::new(nowhere.clone(), BestEffort).stop_after(500).upsert(endless()).await;
    assert!(report.stopped && !report.is_complete());
    let all = report.progress;
    assert!((500..2000).contains(&all.read), "{all:?}");
    assert_eq!((all.failed, all.written), (all.read, 0), "what was read is accounted for");
    assert_eq!(report.failures[0].error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));
    assert_eq!(report.failures[0].entities.len(), 100, "no entity is to blame: none is sought");

    let report = Bulk::new(nowhere, PerPartitionOrdered).upsert(endless()).await;
    let all = report.progress;
    assert!(report.stopped && (1000..2000).contains(&all.read), "{all:?}");
    assert_eq!((report.failures.len(), all.failed + all.skipped), (1, all.read));
    Ok(())
}

#[tokio::test]
async fn one_transaction_of_a_partition_is_in_flight_and_others_pass_it() -> TestResult {
    let server = Server::start().await?;
    // With a clock of its own: on one that moves when somebody waits, what is held times out.
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("readings");
    table.create().await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let others =
        stream::once(held.wait_until_held()).flat_map(|()| stream::iter(readings(&["b"], 100)));
    let rows = stream::iter(readings(&["a"], 200)).chain(others);
    let load = Bulk::new(table, PerPartitionOrdered).in_flight(4).upsert(rows);
    let meanwhile = async {
        held.wait_until_held().await;
        // The other partition is written, and nothing more of the one that is held.
        while stored(&server.snapshot()).len() < 100 {
            tokio::task::yield_now().await;
        }
        assert!(stored(&server.snapshot()).iter().all(|(partition, _)| partition == "b"));
        assert_eq!(transactions(&server), 2);
        held.release();
    };
    let (report, ()) = future::join(load, meanwhile).await;
    assert!(report.is_complete());
    assert_eq!(stored(&server.snapshot()).len(), 300);
    Ok(())
}

#[tokio::test]
async fn upserts_survive_every_single_failure() -> TestResult {
    let (server, _) = start().await?;
    let runs = sweep(
        &server,
        async |account| {
            let rows = stream::iter(readings(&["a", "b"], 150));
            Bulk::new(account.table("readings"), PerPartitionOrdered)
                .in_flight(1)
                .upsert(rows)
                .await
        },
        async |_, _| Ok(()),
        |snapshot, report| {
            assert!(report.is_complete(), "{report:?}");
            assert_eq!(stored(snapshot).len(), 300);
        },
    )
    .await?;
    assert_eq!(runs.requests, 4);
    Ok(())
}

/// What was stored must be what the report says: all that is written, nothing that failed, and of
/// what is unknown whole transactions or nothing.
fn check(snapshot: &Snapshot, report: &Report<Reading>, ordered: bool) {
    let stored = stored(snapshot);
    let all = report.progress;
    assert_eq!(all.read, all.written + all.missing(), "{report:?}");
    let found = stored.len() as u64;
    assert!((all.written..=all.written + all.unknown).contains(&found), "{report:?}");
    for failure in &report.failures {
        let there = failure.entities.iter().filter(|(_, key)| {
            let (partition, row) = key.parts().unwrap();
            stored.contains(&(partition.to_owned(), row.to_owned()))
        });
        let there = there.count();
        match failure.error.outcome() {
            Outcome::Unknown => assert!(there == 0 || there == failure.entities.len()),
            Outcome::NotSent | Outcome::Rejected => assert_eq!(there, 0),
        }
    }
    for sensor in ["a", "b"] {
        let rows: Vec<_> = stored.iter().filter(|(partition, _)| partition == sensor).collect();
        let prefix = (0..rows.len()).map(|hour| format!("{hour:04}"));
        assert!(!ordered || rows.iter().map(|(_, row)| row.clone()).eq(prefix), "{rows:?}");
    }
}

/// The stored rows once more, as a careful caller does after a failure: what is missing, upserted.
async fn write_again(account: &StorageAccount) -> TestResult {
    let rows = stream::iter(readings(&["a", "b"], 150));
    let report = Bulk::new(account.table("readings"), BestEffort).upsert(rows).await;
    assert!(report.is_complete(), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn the_report_is_true_whichever_request_fails_and_a_second_load_completes_it() -> TestResult {
    let (server, _) = start().await?;
    for ordered in [true, false] {
        for again in [false, true] {
            let runs = sweep(
                &server,
                async |account| {
                    let table = once(account).table("readings");
                    let rows = stream::iter(readings(&["a", "b"], 150));
                    if ordered {
                        Bulk::new(table, PerPartitionOrdered).in_flight(1).insert(rows).await
                    } else {
                        Bulk::new(table, BestEffort).in_flight(1).insert(rows).await
                    }
                },
                async |account, _| if again { write_again(account).await } else { Ok(()) },
                |snapshot, report| {
                    if again {
                        assert_eq!(stored(snapshot).len(), 300);
                    } else {
                        check(snapshot, report, ordered);
                    }
                },
            )
            .await?;
            assert_eq!((runs.requests, runs.failures), (4, 4 * Mode::ALL.len() as u64));
        }
    }
    Ok(())
}

#[tokio::test]
async fn atomic_is_atomic_whichever_way_its_request_fails() -> TestResult {
    let (server, _) = start().await?;
    sweep(
        &server,
        async |account| {
            let rows = stream::iter(readings(&["a"], 100));
            Bulk::new(once(account).table("readings"), Atomic).insert(rows).await
        },
        async |_, _| Ok(()),
        |snapshot, result| {
            let found = stored(snapshot).len();
            match result.as_ref().map_err(rowkey::Error::outcome) {
                Ok(etags) => assert_eq!((etags.len(), found), (100, 100)),
                Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(found, 0),
                Err(Outcome::Unknown) => assert!(found == 0 || found == 100, "{found}"),
            }
        },
    )
    .await?;
    Ok(())
}

/// What random loads are compared with: what is stored, in plain memory.
type Model = BTreeMap<(String, u32), i32>;

/// Random readings, some of them twice and some of them impossible.
fn random_rows(random: &mut Random) -> Vec<Reading> {
    let (sensors, hours) = (1 + random.below(3), 1 + random.below(40));
    (0..random.below(60))
        .map(|degrees| {
            let bad = random.one_in(40);
            let sensor = format!("s{}{}", random.below(sensors), if bad { "\u{1}" } else { "" });
            let hour = if random.one_in(40) { 10_000 } else { random.below(hours) };
            Reading { sensor, hour, degrees: degrees.cast_signed() }
        })
        .collect()
}

fn possible(row: &Reading) -> bool {
    row.hour < 10_000 && !row.sensor.ends_with('\u{1}')
}

fn found(snapshot: &Snapshot) -> Model {
    let table = snapshot.table("readings").unwrap();
    let row = |entity: rowkey_server::StoredEntity<'_>| {
        let Some(Value::Int32(degrees)) = entity.get("Degrees") else { panic!("no degrees") };
        ((entity.partition_key().to_owned(), entity.row_key().parse().unwrap()), degrees)
    };
    table.entities().map(row).collect()
}

#[tokio::test]
async fn random_loads_store_what_a_model_says() -> TestResult {
    let (server, table) = start().await?;
    let empty = server.snapshot();
    for seed in seeds(150) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        server.restore(&empty);
        let mut model = Model::new();
        let begun = (0..random.below(20)).map(|hour| reading("s0", hour));
        model.extend(begun.clone().map(|row| ((row.sensor, row.hour), row.degrees)));
        Bulk::new(table.clone(), Atomic).insert(stream::iter(begun)).await?;
        let rows = random_rows(&mut random);
        let in_flight = 1 + random.below(4) as usize;
        let open = 1 + random.below(4) as usize;
        let keys = |report: &Report<Reading>| -> BTreeSet<u64> {
            report.failures.iter().flat_map(|f| &f.entities).map(|(at, _)| *at).collect()
        };
        let all: Progress = if random.one_in(2) {
            // Order: of each partition everything up to the first that is impossible.
            let mut ended = BTreeSet::new();
            let mut written = 0;
            for row in &rows {
                if row.sensor.ends_with('\u{1}') || ended.contains(&row.sensor) {
                    continue;
                }
                if possible(row) {
                    model.insert((row.sensor.clone(), row.hour), row.degrees);
                    written += 1;
                } else {
                    ended.insert(row.sensor.clone());
                }
            }
            let report = Bulk::new(table.clone(), PerPartitionOrdered)
                .in_flight(in_flight)
                .open_partitions(open)
                .upsert(stream::iter(rows.clone()))
                .await;
            assert_eq!(report.progress.written, written);
            assert!(keys(&report).iter().all(|at| !possible(&rows[usize::try_from(*at).unwrap()])));
            report.progress
        } else {
            // Best effort: one of each key that is possible and was not there; which one is open.
            let report = Bulk::new(table.clone(), BestEffort)
                .in_flight(in_flight)
                .open_partitions(open)
                .insert(stream::iter(rows.clone()))
                .await;
            let failed = keys(&report);
            for (at, row) in (0..).zip(&rows) {
                if !failed.contains(&at) {
                    assert!(possible(row));
                    let before = model.insert((row.sensor.clone(), row.hour), row.degrees);
                    assert_eq!(before, None, "inserted over something");
                }
            }
            let refused = failed.iter().map(|at| &rows[usize::try_from(*at).unwrap()]);
            for row in refused.filter(|row| possible(row)) {
                assert!(model.contains_key(&(row.sensor.clone(), row.hour)), "refused for nothing");
            }
            report.progress
        };
        assert_eq!(all.read, rows.len() as u64);
        assert_eq!((all.read, all.unknown), (all.written + all.missing(), 0));
        assert_eq!(found(&server.snapshot()), model);
    }
    Ok(())
}
