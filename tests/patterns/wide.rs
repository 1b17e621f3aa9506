//! Wide entities: how they are laid out, that a reader never mixes two versions, and what is refused.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::future::{self, Either};
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, Outcome, StorageAccount, Table};
use rowkey_patterns::wide::{Wide, WideEntity};
use rowkey_server::{Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::random::{Random, Seed};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

/// An entity with so many numbers, all of the same value.
fn numbers(count: u32, value: i32) -> WideEntity {
    let mut entity = WideEntity::new("p", "wide");
    for number in 0..count {
        entity.set(format!("N{number:05}"), value);
    }
    entity
}

/// An entity with so many binary properties of 64,000 bytes.
fn heavy(count: u32) -> WideEntity {
    let mut entity = WideEntity::new("p", "wide");
    for number in 0..count {
        entity.set(format!("B{number:05}"), vec![7_u8; 64_000]);
    }
    entity
}

async fn start() -> Result<(Server, Table), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("wide");
    table.create().await?;
    Ok((server, table))
}

/// The RowKey of each row, and how many properties it has.
fn layout(snapshot: &Snapshot) -> Vec<(String, usize)> {
    let table = snapshot.table("wide").unwrap();
    table.entities().map(|e| (e.row_key().to_owned(), e.properties().count())).collect()
}

/// The numbers that are stored, by name.
fn found(snapshot: &Snapshot) -> BTreeMap<String, i32> {
    let rows = snapshot.table("wide").unwrap().entities();
    let mut all = BTreeMap::new();
    for row in rows {
        for (name, value) in row.properties() {
            if let (false, Value::Int32(value)) = (name.starts_with("Wide"), value) {
                all.insert(name.to_owned(), value);
            }
        }
    }
    all
}

#[tokio::test]
async fn what_is_written_is_read_whatever_its_width() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = Wide::new(table.clone());
    for count in [0, 1, 250, 251, 502, 503, 1000] {
        let entity = numbers(count, 5);
        wide.upsert(&entity).await?;
        let stored = wide.get(entity.key()).await?.unwrap();
        assert_eq!(stored.entity, entity, "{count}");
        let names: Vec<_> = stored.entity.iter().map(|(name, _)| name.to_owned()).collect();
        assert!(names.is_sorted(), "in order");
        assert!(wide.delete_if_exists(entity.key()).await?);
        assert!(!wide.delete_if_exists(entity.key()).await?);
        assert!(wide.get(entity.key()).await?.is_none());
    }
    assert!(table.scan::<DynamicEntity>().all().await?.is_empty(), "nothing is left behind");
    Ok(())
}

#[tokio::test]
async fn rows_are_a_contract() -> TestResult {
    let (server, table) = start().await?;
    Wide::new(table).insert(&numbers(503, 5)).await?;
    let snapshot = server.snapshot();
    let table = snapshot.table("wide").unwrap();
    let rows: Vec<_> = table.entities().collect();
    let keys: Vec<_> = rows.iter().map(|row| (row.partition_key(), row.row_key())).collect();
    assert_eq!(keys, [("p", "wide_00"), ("p", "wide_01"), ("p", "wide_02")]);
    let first: Vec<_> = rows[0].properties().take(3).collect();
    let five = Value::Int32(5);
    assert_eq!(
        first,
        [("WideVersion", Value::Int64(1)), ("WideRows", Value::Int32(3)), ("N00000", five.clone())]
    );
    assert_eq!(rows[0].properties().count(), 252);
    assert_eq!(rows[1].properties().next(), Some(("N00250", five.clone())));
    assert_eq!(rows[2].properties().collect::<Vec<_>>(), [("N00502", five)]);
    Ok(())
}

#[tokio::test]
async fn each_operation_costs_what_the_book_says() -> TestResult {
    let (server, table) = start().await?;
    let wide = Wide::new(table);
    let entity = numbers(600, 5);
    let cost = async |expected: &[(Operation, usize)], begun: rowkey_server::Journal| {
        let sent = server.journal().since(&begun);
        for &(operation, count) in expected {
            assert_eq!(sent.count(operation), count, "{operation:?}");
        }
        assert_eq!(sent.len(), expected.iter().map(|(_, count)| count).sum::<usize>());
    };
    let (egt, query, get) =
        (Operation::Transaction, Operation::QueryEntities, Operation::GetEntity);
    let begun = server.journal();
    wide.insert(&entity).await?;
    cost(&[(egt, 1)], begun).await;
    let begun = server.journal();
    let mut stored = wide.get(entity.key()).await?.unwrap();
    cost(&[(query, 1)], begun).await;
    let begun = server.journal();
    wide.merge(&mut stored, [("N00599", 6)]).await?;
    cost(&[(egt, 1)], begun).await;
    let begun = server.journal();
    wide.replace(&mut stored).await?;
    cost(&[(egt, 1)], begun).await;
    let begun = server.journal();
    wide.upsert(&entity).await?;
    cost(&[(get, 1), (egt, 1)], begun).await;
    let begun = server.journal();
    assert!(wide.delete_if_exists(entity.key()).await?);
    cost(&[(get, 1), (egt, 1)], begun).await;
    wide.insert(&entity).await?;
    let stored = wide.get(entity.key()).await?.unwrap();
    let begun = server.journal();
    wide.delete(&stored).await?;
    cost(&[(egt, 1)], begun).await;
    Ok(())
}

#[tokio::test]
async fn a_smaller_one_takes_its_surplus_rows_with_it() -> TestResult {
    let (server, table) = start().await?;
    let wide = Wide::new(table);
    wide.insert(&numbers(1000, 5)).await?;
    let mut stored = wide.get(Key::<WideEntity>::new("p", "wide")).await?.unwrap();
    for number in 251..1000 {
        assert!(stored.entity.remove(&format!("N{number:05}")).is_some());
    }
    wide.replace(&mut stored).await?;
    let rows = [("wide_00".to_owned(), 252), ("wide_01".to_owned(), 1)];
    assert_eq!(layout(&server.snapshot()), rows);
    // The one that was written can be written again, and grow.
    for number in 0..600 {
        stored.entity.set(format!("M{number:05}"), 1);
    }
    wide.replace(&mut stored).await?;
    assert_eq!(layout(&server.snapshot()).len(), 4);
    assert_eq!(wide.get(stored.entity.key()).await?.unwrap(), stored);
    wide.upsert(&numbers(10, 6)).await?;
    assert_eq!(layout(&server.snapshot()), [("wide_00".to_owned(), 12)]);
    Ok(())
}

#[tokio::test]
async fn a_merge_writes_the_rows_it_touches_and_makes_one_when_there_is_no_room() -> TestResult {
    let (server, table) = start().await?;
    let wide = Wide::new(table);
    wide.insert(&numbers(502, 5)).await?;
    let mut stored = wide.get(Key::<WideEntity>::new("p", "wide")).await?.unwrap();
    let etag = stored.etag.clone();
    let untouched = |snapshot: &Snapshot| {
        snapshot.table("wide").unwrap().entity("p", "wide_01").unwrap().timestamp()
    };
    let before = untouched(&server.snapshot());
    wide.merge(&mut stored, [("N00001", 6), ("More", 7)]).await?;
    assert_eq!(untouched(&server.snapshot()), before, "it is not in the second row");
    assert_ne!(stored.etag, etag);
    assert_eq!(layout(&server.snapshot()).last(), Some(&("wide_02".to_owned(), 1)));
    assert_eq!(wide.get(stored.entity.key()).await?.unwrap(), stored);

    // What was read before is out of date; what a merge gave back is not.
    let mut stale = stored.clone();
    stale.etag = etag;
    let error = wide.merge(&mut stale, [("N00300", 8)]).await.unwrap_err();
    assert!(error.is_conflict());
    wide.merge(&mut stored, [("N00300", 8)]).await?;
    assert_eq!(found(&server.snapshot())["N00300"], 8);

    // A row that gets too large is not stored: everything is laid out anew.
    let mut stored = {
        wide.upsert(&heavy(16)).await?;
        wide.get(stored.entity.key()).await?.unwrap()
    };
    let larger = (0..16).map(|n| (format!("B{n:05}"), vec![8_u8; 65_536]));
    wide.merge(&mut stored, larger).await?;
    assert_eq!(layout(&server.snapshot()).len(), 2);
    assert_eq!(wide.get(stored.entity.key()).await?.unwrap(), stored);
    Ok(())
}

#[tokio::test]
async fn what_exceeds_one_transaction_is_refused_with_the_numbers() -> TestResult {
    let (server, table) = start().await?;
    let wide = Wide::new(table);
    wide.insert(&numbers(25_198, 5)).await?;
    assert_eq!(layout(&server.snapshot()).len(), 100);
    assert!(wide.delete_if_exists(Key::<WideEntity>::new("p", "wide")).await?);

    let begun = server.journal();
    let error = wide.insert(&numbers(25_199, 5)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    let said = error.to_string();
    for number in ["25199 properties", "604776 bytes", "101 rows", "100"] {
        assert!(said.contains(number), "{number}: {said}");
    }
    let error = wide.insert(&heavy(60)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(error.to_string().contains("4194304 are allowed"), "{error}");
    let mut reserved = numbers(1, 1);
    reserved.set("WideRows", 7);
    assert_eq!(wide.insert(&reserved).await.unwrap_err().kind(), ErrorKind::Invalid);
    let bad = WideEntity::new("p/q", "r");
    assert_eq!(wide.upsert(&bad).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(server.journal().since(&begun).len(), 0, "nothing is sent");
    Ok(())
}

#[tokio::test]
async fn who_loses_a_race_is_told_and_an_upsert_goes_on() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = Wide::new(table.clone());
    wide.insert(&numbers(300, 1)).await?;
    assert!(wide.insert(&numbers(300, 2)).await.unwrap_err().is_already_exists());
    let mut one = wide.get(numbers(0, 0).key()).await?.unwrap();
    let two = one.clone();
    wide.merge(&mut one, [("N00007", 3)]).await?;
    let mut late = two.clone();
    assert!(wide.replace(&mut late).await.unwrap_err().is_conflict());
    assert!(wide.delete(&two).await.unwrap_err().is_conflict());
    wide.delete(&one).await?;
    assert!(wide.replace(&mut one).await.unwrap_err().is_not_found());
    let all = (0..8_i32).map(|value| {
        let (wide, entity) = (wide.clone(), numbers(100 * (1 + value.cast_unsigned()), value));
        async move { wide.upsert(&entity).await }
    });
    future::try_join_all(all).await?;
    let last = wide.get(numbers(0, 0).key()).await?.unwrap().entity;
    let value = last.iter().next().unwrap().1.clone();
    assert!(last.iter().all(|(_, each)| *each == value), "one of them, and whole");
    let Value::Int32(value) = value else { panic!("not a number") };
    assert_eq!(last, numbers(100 * (1 + value.cast_unsigned()), value));
    Ok(())
}

#[tokio::test]
async fn a_reader_never_mixes_two_versions() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("wide");
    table.create().await?;
    let wide = Wide::new(table);
    wide.insert(&numbers(10_000, 1)).await?;
    // Pages of a few rows, and a version written between the first and the second.
    let few = Pages { seed: 3, cut: true, empty: false, partition_only: false };
    let _chaos = server.chaos(few);
    let held = server.inject(Fault::on(Operation::QueryEntities).nth(2).hold());
    let (read, second) = (pin!(wide.get(numbers(0, 0).key())), pin!(held.wait_until_held()));
    let Either::Right(((), read)) = future::select(read, second).await else {
        panic!("the reading took one answer")
    };
    wide.upsert(&numbers(600, 2)).await?;
    held.release();
    assert_eq!(read.await?.unwrap().entity, numbers(600, 2));
    Ok(())
}

#[tokio::test]
async fn neighbours_whose_keys_begin_alike_are_left_alone() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = Wide::new(table.clone());
    let mut names = vec!["a", "a_00", "a_0", "b", "a_"];
    for (name, count) in names.iter().zip([300, 400, 500, 600, 700]) {
        let mut entity = WideEntity::new("p", *name);
        for number in 0..count {
            entity.set(format!("N{number}"), number);
        }
        wide.insert(&entity).await?;
    }
    let single = DynamicEntity::new("p", "a_001");
    table.insert(&single).await?;
    while let Some(name) = names.pop() {
        assert!(wide.delete_if_exists(Key::<WideEntity>::new("p", name)).await?);
        for (left, count) in names.iter().zip([300, 400, 500, 600]) {
            let entity = wide.get(Key::<WideEntity>::new("p", *left)).await?.unwrap().entity;
            assert_eq!(entity.len(), count, "{left} after {name}");
        }
    }
    table.delete(single.key(), Match::Any).await?;
    assert!(table.scan::<DynamicEntity>().all().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn rows_that_others_damaged_are_an_error_and_not_a_guess() -> TestResult {
    let (_server, table) = start().await?;
    let wide = Wide::new(table.clone());
    wide.insert(&numbers(600, 1)).await?;
    let row = |number: u32| Key::<DynamicEntity>::new("p", format!("wide_{number:02}"));
    table.delete(row(1), Match::Any).await?;
    let error = wide.get(numbers(0, 0).key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("3 rows, and 2 are there"), "{error}");
    table.delete(row(0), Match::Any).await?;
    assert_eq!(wide.get(numbers(0, 0).key()).await.unwrap_err().kind(), ErrorKind::Decode);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{meter}", row = "year_{year:4}")]
struct Winter {
    meter: String,
    year: u16,
    january: f64,
    february: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{meter}", row = "year_{year:4}")]
struct Summer {
    meter: String,
    year: u16,
    july: f64,
}

#[tokio::test]
async fn several_types_make_one_wide_entity() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = Wide::new(table.clone());
    let winter = Winter { meter: "m".into(), year: 2010, january: 1.5, february: None };
    let summer = Summer { meter: "m".into(), year: 2010, july: 20.5 };
    let mut year = WideEntity::new("m", "year_2010");
    year.add(&winter)?;
    year.add(&summer)?;
    wide.insert(&year).await?;
    let stored = wide.get(Winter::key("m", 2010)).await?.unwrap().entity;
    assert_eq!(stored.read_as::<Winter>()?, winter);
    assert_eq!(stored.read_as::<Summer>()?, summer);
    let other = Summer { year: 2011, ..summer };
    assert_eq!(year.add(&other).unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn every_write_happens_wholly_or_not_at_all_whichever_request_fails() -> TestResult {
    let (server, table) = start().await?;
    Wide::new(table).insert(&numbers(600, 1)).await?;
    let old = found(&server.snapshot());
    let key = || Key::<WideEntity>::new("p", "wide");
    for write in ["merge", "replace", "upsert", "delete"] {
        for patient in [true, false] {
            let new: BTreeMap<_, _> = match write {
                "merge" => {
                    let mut new = old.clone();
                    new.extend([("N00000".to_owned(), 2), ("N00599".to_owned(), 2)]);
                    new
                }
                "delete" => BTreeMap::new(),
                _ => (0..300).map(|number| (format!("N{number:05}"), 2)).collect(),
            };
            let run = async |account: &StorageAccount| -> rowkey::Result<()> {
                let wide = Wide::new(account.table("wide"));
                match write {
                    "merge" => {
                        let mut stored = wide.get(key()).await?.unwrap();
                        wide.merge(&mut stored, [("N00000", 2), ("N00599", 2)]).await
                    }
                    "replace" => {
                        let mut stored = wide.get(key()).await?.unwrap();
                        for number in 0..600 {
                            let name = format!("N{number:05}");
                            if number < 300 {
                                stored.entity.set(name, 2);
                            } else {
                                stored.entity.remove(&name);
                            }
                        }
                        wide.replace(&mut stored).await
                    }
                    "upsert" => wide.upsert(&numbers(300, 2)).await.map(drop),
                    _ => wide.delete_if_exists(key()).await.map(drop),
                }
            };
            let runs = sweep(
                &server,
                async |account| {
                    let account = if patient { account.clone() } else { once(account) };
                    run(&account).await
                },
                async |account, _| {
                    // Whatever happened, what is there is read as one version.
                    let wide = Wide::new(account.table("wide"));
                    wide.get(key()).await?;
                    Ok(())
                },
                |snapshot, result| {
                    let now = found(snapshot);
                    match result.as_ref().map_err(rowkey::Error::outcome) {
                        Ok(()) => assert_eq!(now, new, "{write}"),
                        Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(now, old),
                        Err(Outcome::Unknown) => assert!(now == old || now == new, "{write}"),
                    }
                },
            )
            .await?;
            assert_eq!(runs.requests, 2, "{write}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn random_changes_leave_what_a_model_says() -> TestResult {
    let (server, table) = start().await?;
    let empty = server.snapshot();
    let wide = Wide::new(table);
    let key = || Key::<WideEntity>::new("p", "wide");
    for seed in 0..60 {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        server.restore(&empty);
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let mut model: Option<BTreeMap<String, i32>> = None;
        for value in 0..12 {
            let some = |random: &mut Random| -> Vec<(String, i32)> {
                let count = if random.one_in(2) { random.below(10) } else { random.below(600) };
                (0..count).map(|_| (format!("N{:04}", random.below(900)), value)).collect()
            };
            match (random.below(5), wide.get(key()).await?) {
                (0, _) => {
                    let existed = wide.delete_if_exists(key()).await?;
                    assert_eq!(existed, model.take().is_some());
                }
                (1, _) | (_, None) => {
                    let mut entity = WideEntity::new("p", "wide");
                    for (name, value) in some(&mut random) {
                        entity.set(name, value);
                    }
                    wide.upsert(&entity).await?;
                    model = Some(some_model(&entity));
                }
                (2, Some(mut stored)) => {
                    let gone: Vec<_> =
                        stored.entity.iter().map(|(name, _)| name.to_owned()).collect();
                    for name in gone.iter().filter(|_| random.one_in(3)) {
                        stored.entity.remove(name);
                    }
                    for (name, value) in some(&mut random) {
                        stored.entity.set(name, value);
                    }
                    wide.replace(&mut stored).await?;
                    model = Some(some_model(&stored.entity));
                }
                (_, Some(mut stored)) => {
                    let changes = some(&mut random);
                    wide.merge(&mut stored, changes.clone()).await?;
                    model.get_or_insert_default().extend(changes);
                }
            }
            let read = wide.get(key()).await?.map(|stored| some_model(&stored.entity));
            assert_eq!(read, model);
            assert_eq!(found(&server.snapshot()), model.clone().unwrap_or_default());
        }
    }
    Ok(())
}

fn some_model(entity: &WideEntity) -> BTreeMap<String, i32> {
    let number = |value: &Value| match value {
        Value::Int32(number) => *number,
        _ => panic!("not a number"),
    };
    entity.iter().map(|(name, value)| (name.to_owned(), number(value))).collect()
}
