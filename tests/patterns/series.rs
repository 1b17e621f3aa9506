//! Data series: slots are set without reading, counted exactly once, and read with their gaps.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::edm::Value;
use rowkey::patterns::series::{Period, Series};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, Outcome};
use rowkey_emulator::{Fault, Operation, Pages, Server};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

use rowkey_tests::random::{Random, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{station}", row = "{date:8}", rename_all = "PascalCase")]
struct Day {
    station: String,
    date: u32,
    note: Option<String>,
}

fn day(day: u32) -> Key<Day> {
    Day::key("sea", day)
}

async fn started() -> TestResult<(Server, rowkey::Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("series");
    table.create().await?;
    Ok((server, table))
}

#[tokio::test]
async fn slots_are_set_individually_and_read_with_gaps() -> TestResult {
    let fixture = Fixture::new().await?;
    let hours = Series::<f64>::new(fixture.table().await?, "t", 24)?;
    assert!(hours.get(day(1)).await?.is_none());
    hours.set(day(1), 0, 39.4).await?;
    hours.set(day(1), 23, 41.0).await?;
    hours.set(day(1), 0, 39.5).await?;
    hours.set_all(day(1), [(5, 1.0), (6, 2.0)]).await?;
    hours.clear(day(1), 6).await?;
    hours.clear(day(1), 7).await?;
    hours.clear(day(2), 7).await?;
    let read = hours.get(day(1)).await?.ok_or("there is one")?.entity;
    assert_eq!((read.entity.station.as_str(), read.entity.date), ("sea", 1));
    assert_eq!(read.slots.len(), 24);
    let set: Vec<_> = read.slots.iter().enumerate().filter(|(_, slot)| slot.is_some()).collect();
    assert_eq!(set, [(0, &Some(39.5)), (5, &Some(1.0)), (23, &Some(41.0))]);
    Ok(())
}

/// Another program writes a text in a slot, and a period whose key is no date.
#[tokio::test]
async fn a_period_that_does_not_decode_ends_no_reading() -> TestResult {
    let fixture = Fixture::new().await?;
    let halves = Series::<f64>::new(fixture.table().await?, "t", 2)?;
    for number in [1, 3, 5] {
        halves.set_all(day(number), [(0, 1.0), (1, f64::from(number))]).await?;
    }
    let mut text = DynamicEntity::new("sea", "00000002");
    text.set("t001", "mild");
    halves.table().insert(&text).await?;
    halves.table().insert(&DynamicEntity::new("sea", "0000004")).await?;

    let all = || halves.periods(Day::partition("sea"));
    let rows = |error: &rowkey::Error| {
        assert_eq!(error.kind(), ErrorKind::Decode);
        let rows = error.details().failed_rows.iter().map(|row| row.row_key.to_string());
        rows.collect::<Vec<_>>()
    };
    let read: Vec<_> = all().stream().collect().await;
    let dates = |read: &[rowkey::Result<_>]| {
        let date = |stored: &rowkey::Stored<Period<Day, f64>>| stored.entity.entity.date;
        read.iter().filter_map(|read| read.as_ref().ok().map(date)).collect::<Vec<_>>()
    };
    let failed: Vec<_> = read.iter().filter_map(|read| read.as_ref().err().map(rows)).collect();
    assert_eq!(dates(&read), [1, 3, 5]);
    assert_eq!(failed, [["00000002"], ["0000004"]]);
    let points: Vec<_> = halves.points(Day::partition("sea")).collect().await;
    assert_eq!(points.iter().filter(|point| point.is_ok()).count(), 6);
    assert_eq!(points.len(), 6 + 2);
    assert_eq!(rows(&halves.get(day(2)).await.unwrap_err()), ["00000002"]);

    // Pages: one that fails names all its rows, and results go on.
    assert_eq!(rows(&all().page(5, None).await.unwrap_err()), ["00000002", "0000004"]);
    let (mut found, mut failed, mut next) = (Vec::new(), Vec::new(), None);
    loop {
        let page = all().page_results(2, next.take()).await?;
        for stored in page.entities {
            match stored.entity {
                Ok(period) => found.push(period.entity.date),
                Err(row) => failed.push(row.row_key.into_string()),
            }
        }
        next = page.continuation;
        if next.is_none() {
            break;
        }
    }
    assert_eq!((found, failed), (vec![1, 3, 5], vec!["00000002".into(), "0000004".into()]));
    Ok(())
}

#[tokio::test]
async fn other_properties_of_a_period_are_kept_and_returned() -> TestResult {
    let fixture = Fixture::new().await?;
    let hours = Series::<f64>::new(fixture.table().await?, "t", 24)?;
    let noted = Day { station: "sea".into(), date: 1, note: Some("storm".into()) };
    hours.table().insert(&noted).await?;
    hours.set(day(1), 3, 1.5).await?;
    hours.update(day(1), 3, |old| old.unwrap_or_default() + 1.0).await?;
    let read = hours.get(day(1)).await?.ok_or("there is one")?.entity;
    assert_eq!((read.entity, read.slots[3]), (noted, Some(2.5)));
    Ok(())
}

#[tokio::test]
async fn the_row_format_is_stable() -> TestResult {
    let (server, table) = started().await?;
    let hours = Series::<f64>::new(table.clone(), "t", 24)?;
    hours.set_all(day(20_100_314), [(2, 43.0), (13, 42.2)]).await?;
    let visits = Series::<i64>::new(table, "v", 3)?;
    visits.increment(Day::key("sea", 20_100_315), 1, 5).await?;
    let snapshot = server.snapshot();
    let rows: Vec<_> = snapshot
        .table("series")
        .unwrap()
        .entities()
        .map(|entity| {
            let properties: Vec<_> = entity
                .properties()
                // Which call was the last is written in 16 hexadecimal digits.
                .map(|(name, value)| match value {
                    Value::String(text) if name == "v_by" => {
                        assert!(text.len() == 16 && u64::from_str_radix(&text, 16).is_ok());
                        (name, Value::from(""))
                    }
                    value => (name, value),
                })
                .collect();
            (entity.partition_key(), entity.row_key(), properties)
        })
        .collect();
    let temperatures = vec![("t002", Value::from(43.0)), ("t013", Value::from(42.2))];
    let counts = vec![("v001", Value::from(5_i64)), ("v_by", Value::from(""))];
    assert_eq!(rows, [("sea", "20100314", temperatures), ("sea", "20100315", counts)]);
    Ok(())
}

/// A period with a kind, in its second version.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{station}", row = "{date:8}", kind = "day", version = 2)]
struct Marked {
    station: String,
    date: u32,
    note: Option<String>,
}

#[tokio::test]
async fn periods_with_a_kind_and_a_version_round_trip() -> TestResult {
    let (server, table) = started().await?;
    let hours = Series::<i64>::new(table.clone(), "t", 24)?;
    let [set, counted] = [1, 2].map(|date| Marked::key("sea", date));
    hours.set(set.clone(), 3, 7).await?;
    hours.increment(counted.clone(), 3, 7).await?;
    hours.set(Day::key("sea", 3), 3, 7).await?;
    for key in [set.clone(), counted.clone()] {
        assert_eq!(hours.get(key).await?.ok_or("there is one")?.entity.slots[3], Some(7));
    }
    let days = hours.periods(Marked::partition("sea")).stream().try_collect::<Vec<_>>().await?;
    assert_eq!(days.len(), 2, "a period of another type is not among them");
    hours.clear(set.clone(), 3).await?;
    assert_eq!(table.get(set).await?.map(|day| day.entity.date), Some(1));
    let marks: Vec<_> = server
        .snapshot()
        .table("series")
        .unwrap()
        .entities()
        .map(|row| {
            let marks = row.properties().filter(|(name, _)| name.starts_with("Entity"));
            marks.map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
        })
        .collect();
    let marked = vec![
        ("EntityType".to_owned(), Value::from("day")),
        ("EntityVersion".to_owned(), Value::from(2)),
    ];
    assert_eq!(marks, [marked.clone(), marked, vec![]]);
    Ok(())
}

#[tokio::test]
async fn a_slot_keeps_its_value_when_slots_are_added() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let before = Series::<i64>::new(table.clone(), "t", 10)?;
    before.set(day(1), 3, 7).await?;
    for slots in [24, 120] {
        let more = Series::<i64>::new(table.clone(), "t", slots)?;
        assert_eq!(more.get(day(1)).await?.ok_or("there is one")?.entity.slots[3], Some(7));
        assert_eq!(more.increment(day(1), 3, 0).await?, 7);
    }
    Ok(())
}

#[tokio::test]
async fn each_operation_sends_the_documented_requests() -> TestResult {
    let (server, table) = started().await?;
    let counts = Series::<i64>::new(table, "n", 24)?;
    let mut before = server.journal();
    let mut sent = || {
        let now = server.journal();
        let sent: Vec<_> = now
            .clone()
            .since(&before)
            .iter()
            .map(rowkey_emulator::JournalEntry::operation)
            .collect();
        before = now;
        sent
    };
    counts.set(day(1), 3, 7).await?;
    assert_eq!(sent(), [Operation::InsertOrMergeEntity], "one request and no reading");
    counts.set_all(day(1), (0..24).map(|slot| (slot, 1))).await?;
    assert_eq!(sent(), [Operation::InsertOrMergeEntity]);
    counts.set_numbered(|date| day(u32::try_from(date).unwrap()), [(30, 1), (47, 2)]).await?;
    assert_eq!(sent(), [Operation::InsertOrMergeEntity], "one period");
    counts.set_numbered(|date| day(u32::try_from(date).unwrap()), [(30, 1), (49, 2)]).await?;
    assert_eq!(sent(), [Operation::Transaction]);
    counts.set_numbered(|date| day(u32::try_from(date).unwrap()), []).await?;
    assert_eq!(sent(), []);
    counts.table().delete(day(2), Match::Any).await?;
    sent();
    counts.get(day(1)).await?;
    assert_eq!(sent(), [Operation::GetEntity]);
    assert_eq!(counts.increment(day(1), 3, 2).await?, 3);
    assert_eq!(sent(), [Operation::GetEntity, Operation::MergeEntity]);
    assert_eq!(counts.increment(day(2), 3, 2).await?, 2);
    let (get, make) = (Operation::GetEntity, Operation::InsertOrMergeEntity);
    assert_eq!(sent(), [get, make, get, Operation::MergeEntity], "the first of a period");
    assert_eq!(counts.points(Day::partition("sea")).count().await, 48);
    assert_eq!(sent(), [Operation::QueryEntities]);
    Ok(())
}

#[tokio::test]
async fn periods_are_returned_in_order() -> TestResult {
    let fixture = Fixture::new().await?;
    let counts = Series::<i64>::new(fixture.table().await?, "n", 4)?;
    // Numbers roll over from one period to the next; period 2 is never written.
    for number in [0, 3, 4, 7, 12, 14] {
        let (period, slot) = counts.place(number);
        counts.set(day(u32::try_from(period)?), slot, i64::try_from(number)?).await?;
    }
    let chaos = fixture.server.as_ref().map(|server| server.chaos(Pages::seeded(7)));
    let all: Vec<_> = counts.points(Day::partition("sea")).try_collect().await?;
    drop(chaos);
    let found: Vec<_> =
        all.iter().map(|point| (point.entity.date, point.slot, point.value)).collect();
    let expected: Vec<_> = [0, 1, 3]
        .into_iter()
        .flat_map(|period| (0..4).map(move |slot| (period, slot, i64::from(period) * 4 + slot)))
        .map(|(period, slot, number)| {
            let is_set = [0, 3, 4, 7, 12, 14].contains(&number);
            (period, usize::try_from(slot).unwrap(), is_set.then_some(number))
        })
        .collect();
    assert_eq!(found, expected);
    let some = counts.periods(Day::partition("sea").range(day(1)..day(3)));
    assert_eq!(some.stream().count().await, 1);
    let all = counts.periods(Day::partition("sea")).stream().try_collect::<Vec<_>>().await?;
    let first = counts.periods(Day::partition("sea")).page(2, None).await?;
    let text = first.continuation.as_ref().ok_or("there is another")?.to_string();
    let second = counts.periods(Day::partition("sea")).page(2, Some(text.parse()?)).await?;
    assert!(second.continuation.is_none());
    let paged: Vec<_> = first.entities.into_iter().chain(second.entities).collect();
    assert_eq!(paged, all);
    Ok(())
}

#[tokio::test]
async fn setting_other_slots_does_not_affect_increments() -> TestResult {
    let fixture = Fixture::new().await?;
    let counts = Series::<i64>::new(fixture.table().await?, "n", 24)?;
    let writers = (0..6).map(async |writer| {
        for value in 1..=5 {
            counts.increment(day(1), 9, 1).await?;
            counts.set(day(1), writer, value).await?;
        }
        Ok::<(), rowkey::Error>(())
    });
    for result in join_all(writers).await {
        result?;
    }
    let slots = counts.get(day(1)).await?.ok_or("there is one")?.entity.slots;
    assert_eq!((slots[9], &slots[..6]), (Some(30), &[Some(5); 6][..]));
    Ok(())
}

#[tokio::test]
async fn eight_concurrent_writers_lose_no_increment() -> TestResult {
    let fixture = Fixture::new().await?;
    let counts = Series::<i64>::new(fixture.table().await?, "n", 24)?;
    let key = day(1);
    let results: Vec<_> = stream::iter((0..60).map(|_| counts.increment(key.clone(), 9, 1)))
        .buffer_unordered(8)
        .try_collect()
        .await?;
    let mut seen = results;
    seen.sort_unstable();
    assert_eq!(seen, (1..=60).collect::<Vec<i64>>(), "each saw a count of its own");
    Ok(())
}

#[tokio::test]
async fn an_increment_with_a_lost_response_is_applied_once() -> TestResult {
    let (server, table) = started().await?;
    let counts = Series::<i64>::new(table.clone(), "n", 24)?;
    counts.increment(day(1), 0, 1).await?;
    let lost = server.inject(Fault::on(Operation::MergeEntity).times(1).close_after_commit());
    assert_eq!(counts.increment(day(1), 0, 1).await?, 2);
    assert_eq!(lost.hits(), 1);

    // Also when it is not repeated.
    let _lost = server.inject(Fault::on(Operation::MergeEntity).times(1).close_after_commit());
    let hasty = account(&server)?;
    let hasty = Series::<i64>::new(once(&hasty).table("series"), "n", 24)?;
    assert_eq!(hasty.increment(day(1), 0, 1).await?, 3);

    // It was not applied, which is not certain, for it may still arrive.
    let _lost = server.inject(Fault::on(Operation::MergeEntity).times(1).close_before_commit());
    let error = hasty.increment(day(1), 0, 1).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    Ok(())
}

/// The first attempt of one increment is lost before the service, another increment writes the very
/// same count, and the repetition is refused. Without a mark the first would take that for its own.
#[tokio::test]
async fn an_increment_is_distinguished_from_an_equal_concurrent_one() -> TestResult {
    let (server, table) = started().await?;
    let counts = Series::<i64>::new(table.clone(), "n", 24)?;
    counts.set(day(1), 0, 5).await?;
    let lost = server.inject(Fault::on(Operation::MergeEntity).times(1).close_before_commit());
    let repeated = server.inject(Fault::on(Operation::MergeEntity).times(1).hold());
    let key = day(1);
    let (one, other) = futures_util::join!(counts.increment(key.clone(), 0, 1), async {
        repeated.wait_until_held().await;
        assert_eq!(lost.hits(), 1);
        let other = counts.increment(key.clone(), 0, 1).await;
        repeated.release();
        other
    });
    assert_eq!(other?, 6);
    assert_eq!(one.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(counts.get(key).await?.ok_or("there is one")?.entity.slots[0], Some(6));
    Ok(())
}

#[tokio::test]
async fn invalid_slots_are_rejected_before_sending() -> TestResult {
    let (server, table) = started().await?;
    let before = server.journal();
    let error = Series::<f64>::new(table.clone(), "t", 253).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("wide entities"), "{error}");
    let hours = Series::<f64>::new(table.clone(), "t", 24)?;
    let counts = Series::<i64>::new(table.clone(), "n", 252)?;
    let maybe = Series::<Option<i64>>::new(table, "n", 24)?;
    let errors = [
        hours.set(day(1), 24, 1.0).await.unwrap_err(),
        hours.set_all(day(1), [(0, 1.0), (99, 1.0)]).await.unwrap_err(),
        hours.clear(day(1), 24).await.unwrap_err(),
        hours.set(Day::key("a\tb", 1), 0, 1.0).await.unwrap_err(),
        counts.increment(day(1), 0, 1).await.unwrap_err(),
        maybe.set(day(1), 0, None).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    let of_date = |date: u64| day(u32::try_from(date).unwrap());
    let many = hours.set_numbered(of_date, (0..101).map(|period| (24 * period, 1.0)));
    assert_eq!(many.await.unwrap_err().kind(), ErrorKind::TooLarge);
    let elsewhere = |period: u64| Day::key(period.to_string(), 1);
    let apart = hours.set_numbered(elsewhere, [(0, 1.0), (24, 1.0)]).await.unwrap_err();
    assert_eq!((apart.kind(), apart.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(server.journal().since(&before).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_period_of_252_slots_fits_and_one_of_251_counts() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let full = Series::<i64>::new(table.clone(), "n", 252)?;
    full.set_all(day(1), (0..252).map(|slot| (slot, 1))).await?;
    assert_eq!(full.get(day(1)).await?.ok_or("it fits")?.entity.slots, vec![Some(1); 252]);
    let counting = Series::<i64>::new(table, "n", 251)?;
    counting.set_all(day(2), (0..251).map(|slot| (slot, 1))).await?;
    assert_eq!(counting.increment(day(2), 250, 1).await?, 2);
    Ok(())
}

#[tokio::test]
async fn slots_of_another_type_and_sums_that_overflow_are_errors() -> TestResult {
    let (_server, table) = started().await?;
    let counts = Series::<i64>::new(table.clone(), "n", 24)?;
    let mut row = DynamicEntity::new("sea", "00000001");
    row.set("n000", "many");
    table.insert(&row).await?;
    assert_eq!(counts.get(day(1)).await.unwrap_err().kind(), ErrorKind::Decode);
    assert_eq!(counts.increment(day(1), 0, 1).await.unwrap_err().kind(), ErrorKind::Decode);
    counts.set(day(2), 0, i64::MAX).await?;
    let error = counts.increment(day(2), 0, 1).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn a_slot_is_changed_once_or_the_outcome_is_unknown_after_any_fault() -> TestResult {
    let (server, _) = started().await?;
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let counts = Series::<i64>::new(account.table("series"), "n", 24)?;
                let set = counts.set(day(1), 1, 10).await;
                let first = counts.increment(day(2), 1, 1).await;
                let second = counts.increment(day(1), 1, 1).await;
                Ok::<_, rowkey::Error>((set, first, second))
            },
            async |account, _| {
                // Setting is done again without harm.
                let counts = Series::<i64>::new(account.table("series"), "n", 24)?;
                counts.set(day(1), 2, 20).await?;
                Ok(())
            },
            |snapshot, result| {
                let slot = |row: &str, name: &str| {
                    let table = snapshot.table("series").unwrap();
                    table.entity("sea", row).and_then(|entity| entity.get(name))
                };
                let count = |row| match slot(row, "n001") {
                    Some(Value::Int64(count)) => count,
                    None => 0,
                    other => panic!("{other:?}"),
                };
                let (set, first, second) = result.as_ref().unwrap();
                assert_eq!(slot("00000001", "n002"), Some(Value::from(20_i64)));
                let first_counted = match first.as_ref().map_err(rowkey::Error::outcome) {
                    Ok(new) => {
                        assert_eq!(*new, 1);
                        vec![1]
                    }
                    Err(Outcome::Unknown) => vec![0, 1],
                    Err(_) => vec![0],
                };
                assert!(first_counted.contains(&count("00000002")));
                let before = match set.as_ref().map_err(rowkey::Error::outcome) {
                    Ok(()) => vec![10],
                    Err(Outcome::Unknown) => vec![0, 10],
                    Err(_) => vec![0],
                };
                let counted = match second.as_ref().map_err(rowkey::Error::outcome) {
                    Ok(_) => vec![1],
                    Err(Outcome::Unknown) => vec![0, 1],
                    Err(_) => vec![0],
                };
                let possible: Vec<_> =
                    before.iter().flat_map(|b| counted.iter().map(move |c| b + c)).collect();
                assert!(possible.contains(&count("00000001")), "{possible:?}");
                if repeats {
                    assert!(set.is_ok() && first.is_ok() && second.is_ok(), "{result:?}");
                }
            },
        )
        .await?;
        assert_eq!(runs.requests, 7);
    }
    Ok(())
}

#[tokio::test]
async fn values_of_several_periods_are_set_together_or_not_at_all_after_any_fault() -> TestResult {
    let (server, _) = started().await?;
    let of_date = |date: u64| day(u32::try_from(date).unwrap());
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let counts = Series::<i64>::new(account.table("series"), "n", 24)?;
                counts.set_numbered(of_date, [(25, 1), (50, 2), (75, 3)]).await
            },
            async |_, _| Ok(()),
            |snapshot, result| {
                let table = snapshot.table("series").unwrap();
                let set = [("00000001", "n001"), ("00000002", "n002"), ("00000003", "n003")];
                let set =
                    set.map(|(row, name)| table.entity("sea", row).and_then(|row| row.get(name)));
                let all = [1_i64, 2, 3].map(|value| Some(Value::from(value)));
                match result.as_ref().map_err(rowkey::Error::outcome) {
                    Ok(()) => assert_eq!(set, all),
                    Err(Outcome::Unknown) => assert!(set == all || set == [None, None, None]),
                    Err(_) => assert_eq!(set, [None, None, None]),
                }
                assert!(!repeats || result.is_ok());
            },
        )
        .await?;
        assert_eq!(runs.requests, 1);
    }
    Ok(())
}

/// Random settings, counts and clearings of several days against a plain map.
#[tokio::test]
async fn a_series_agrees_with_a_model() -> TestResult {
    let (server, table) = started().await?;
    let counts = Series::<i64>::new(table, "n", 5)?;
    for seed in seeds(250) {
        let mut random = Random(seed);
        let station = format!("s{seed}");
        let key = |day: u32| Day::key(&station, day);
        let mut model = BTreeMap::<u32, BTreeMap<usize, i64>>::new();
        let _chaos = random.one_in(3).then(|| server.chaos(Pages::seeded(seed)));
        for _ in 0..random.within(14) {
            let day = u32::try_from(random.within(3))?;
            let slot = usize::try_from(random.within(5))?;
            let value = i64::try_from(random.within(100))?;
            match random.within(6) {
                5 => {
                    let values = [(0, value), (3, value + 1), (7, value + 2)];
                    let values = values.map(|(number, value)| (u64::from(day) * 5 + number, value));
                    counts.set_numbered(|day| key(u32::try_from(day).unwrap()), values).await?;
                    model.entry(day).or_default().extend([(0, value), (3, value + 1)]);
                    model.entry(day + 1).or_default().insert(2, value + 2);
                }
                0 => {
                    counts.set(key(day), slot, value).await?;
                    model.entry(day).or_default().insert(slot, value);
                }
                1 => {
                    let values = [(slot, value), ((slot + 1) % 5, value + 1)];
                    counts.set_all(key(day), values).await?;
                    model.entry(day).or_default().extend(values);
                }
                2 => {
                    counts.clear(key(day), slot).await?;
                    if let Some(slots) = model.get_mut(&day) {
                        slots.remove(&slot);
                    }
                }
                3 => {
                    let new = counts.increment(key(day), slot, value).await?;
                    let count = model.entry(day).or_default().entry(slot).or_insert(0);
                    *count += value;
                    assert_eq!(new, *count, "seed {seed}");
                }
                _ => {
                    counts.table().delete_if_exists(key(day), Match::Any).await?;
                    model.remove(&day);
                }
            }
        }
        let points: Vec<_> = counts.points(Day::partition(&station)).try_collect().await?;
        let found: Vec<_> = points.iter().map(|p| (p.entity.date, p.slot, p.value)).collect();
        let expected: Vec<_> = model
            .iter()
            .flat_map(|(day, slots)| (0..5).map(|slot| (*day, slot, slots.get(&slot).copied())))
            .collect();
        assert_eq!(found, expected, "seed {seed}");
    }
    Ok(())
}
