//! One table per period: routing, names, reading over periods, and dropping them while others write.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, future};
use rowkey::patterns::rollover::{Period, Rollover};
use rowkey::{Entity, ErrorCode, ManualClock, Outcome, Result, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult, unique_name};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{service}", row = "{number:4}", rename_all = "PascalCase")]
struct Line {
    service: String,
    number: u32,
    text: String,
}

fn line(service: &str, number: u32) -> Line {
    Line { service: service.into(), number, text: format!("line {number}") }
}

const DAY: Duration = Duration::from_secs(86_400);

fn day(text: &str) -> DateTime<Utc> {
    format!("{text}T12:00:00Z").parse().unwrap()
}

fn midnight(time: DateTime<Utc>) -> DateTime<Utc> {
    time.date_naive().and_time(chrono::NaiveTime::MIN).and_utc()
}

/// A server at noon of 2030-11-21.
async fn start() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let now = server.clock().now().to_chrono();
    let until = (day("2030-11-21") - now).to_std()?;
    server.clock().advance(until);
    Ok(server)
}

fn log(server: &Server) -> Result<Rollover> {
    Ok(Rollover::new(account(server)?, "log", Period::Day))
}

fn tables(snapshot: &Snapshot) -> Vec<String> {
    snapshot.tables().map(|table| table.name().to_owned()).collect()
}

async fn all(log: &Rollover) -> Result<Vec<(String, u32)>> {
    let lines = log.query(.., Table::scan::<Line>).await?;
    lines.map_ok(|line| (line.entity.service, line.entity.number)).try_collect().await
}

#[tokio::test]
async fn the_first_write_of_a_period_creates_its_table() -> TestResult {
    let server = start().await?;
    let log = log(&server)?;
    let before = server.journal();
    log.now().insert(&line("web", 1)).await?;
    let journal = server.journal().since(&before);
    let sent: Vec<_> = journal.iter().map(rowkey_emulator::JournalEntry::operation).collect();
    let insert = Operation::InsertEntity;
    assert_eq!(sent, [insert, Operation::CreateTable, insert]);

    let before = server.journal();
    log.now().insert(&line("web", 2)).await?;
    Rollover::new(account(&server)?, "log", Period::Day).now().upsert(&line("web", 1)).await?;
    assert_eq!(server.journal().since(&before).len(), 2, "one request each");

    log.at(day("2030-11-20")).upsert(&line("web", 9)).await?;
    assert_eq!(tables(&server.snapshot()), ["logx20301120", "logx20301121"]);
    let stored = log.now().get(Line::key("web", 2)).await?.unwrap();
    assert_eq!(stored.entity, line("web", 2));
    assert!(log.at(day("2030-11-20")).get(Line::key("web", 9)).await?.is_some());
    assert!(log.at(day("2030-11-20")).get(Line::key("web", 1)).await?.is_none());
    assert!(log.at(day("2030-11-19")).get(Line::key("web", 1)).await?.is_none(), "no table");
    Ok(())
}

#[tokio::test]
async fn row_and_table_names_are_stable() -> TestResult {
    let server = start().await?;
    for (period, name) in [
        (Period::Hour, "logx2030112112"),
        (Period::Day, "logx20301121"),
        (Period::Month, "logx203011"),
        (Period::Year, "logx2030"),
    ] {
        let log = Rollover::new(account(&server)?, "log", period);
        log.now().insert(&line("web", 1)).await?;
        let snapshot = server.snapshot();
        let row = snapshot.table(name).unwrap().entity("web", "0001").unwrap();
        assert_eq!(row.properties().collect::<Vec<_>>(), [("Text", "line 1".into())]);
        let tables = log.tables().await?;
        assert_eq!(tables.len(), 1, "the tables of other periods are not this one's");
        assert_eq!(tables[0].table.name(), name);
        let noon = day("2030-11-21");
        assert!(tables[0].start <= noon && noon < tables[0].end);
    }
    Ok(())
}

#[tokio::test]
async fn rollover_works_on_every_server() -> TestResult {
    let fixture = Fixture::new().await?;
    let log = Rollover::new(fixture.account.clone(), &format!("{}y", unique_name()), Period::Day);
    for (day, numbers) in [("2030-01-03", [1, 4]), ("2030-01-01", [2, 5]), ("2030-01-02", [3, 6])] {
        for number in numbers {
            log.at(self::day(day)).insert(&line("web", number)).await?;
        }
    }
    let numbers: Vec<_> = all(&log).await?.into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    let some = log
        .query(day("2030-01-02").., |table| table.query(Line::partition("web")).page_size(1))
        .await?;
    let some: Vec<_> = some.map_ok(|line| line.entity.number).try_collect().await?;
    assert_eq!(some, [1, 3, 4, 6]);
    for table in log.tables().await? {
        table.table.delete_table().await?;
    }
    Ok(())
}

#[tokio::test]
async fn only_expired_tables_are_deleted() -> TestResult {
    let server = start().await?;
    let log = log(&server)?;
    for day in ["2030-11-18", "2030-11-19", "2030-11-20", "2030-11-21", "2030-11-22"] {
        log.at(self::day(day)).insert(&line("web", 1)).await?;
    }
    account(&server)?.table("logbook").create().await?;
    let before = server.journal();
    // It is noon: two days after its end a day is dropped at midnight, not before.
    assert_eq!(log.expire(2 * DAY).await?, ["logx20301118"]);
    assert_eq!(server.journal().since(&before).len(), 2, "a listing and a request per table");
    assert_eq!(log.expire(2 * DAY).await?, Vec::<String>::new());
    assert_eq!(log.expire(Duration::ZERO).await?.len(), 2, "the day that lasts stays");
    assert_eq!(
        tables(&server.snapshot()),
        ["logbook", "logx20301121", "logx20301122"],
        "and so does what is of another owner"
    );
    Ok(())
}

#[tokio::test]
async fn writers_with_different_clocks_share_a_table() -> TestResult {
    for (boundary, apart) in [
        // The period has ended for one clock and not for the other; then it has ended for both.
        ("2030-11-22T00:00:00Z", 1),
        ("2030-11-22T00:00:00Z", 0),
        ("2031-02-01T10:00:00Z", 1),
        ("2031-02-01T10:00:00Z", 600),
    ] {
        let server = start().await?;
        let boundary: DateTime<Utc> = boundary.parse()?;
        server.clock().advance((boundary - day("2030-11-21")).to_std()?);
        let writer = |now: DateTime<Utc>| -> Result<Rollover> {
            let account = StorageAccount::builder()
                .connection_string(server.connection_string())?
                .clock(ManualClock::new(now))
                .build()?;
            Ok(Rollover::new(account, "log", Period::Day))
        };
        let behind = writer(boundary - TimeDelta::milliseconds(1) - TimeDelta::seconds(apart))?;
        let ahead = writer(boundary)?;
        let time = day("2030-11-21");
        for number in 0..5 {
            let [one, two] =
                ["one", "two"].map(|text| Line { text: text.to_owned(), ..line("web", number) });
            let (one, two) =
                future::join(behind.at(time).insert(&one), ahead.at(time).insert(&two)).await;
            let lost = match (&one, &two) {
                (Ok(_), Err(lost)) | (Err(lost), Ok(_)) => lost,
                both => panic!("one of two inserts of a key succeeds: {both:?}"),
            };
            assert!(lost.kind() == rowkey::ErrorKind::AlreadyExists, "{lost}");
            let read = behind.at(time).get(Line::key("web", number)).await?.unwrap();
            let same = ahead.at(time).get(Line::key("web", number)).await?.unwrap();
            assert_eq!(read.entity, same.entity);
            assert_eq!(read.entity.text, if one.is_ok() { "one" } else { "two" });
        }
        assert_eq!(tables(&server.snapshot()), ["logx20301121"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_period_rejects_writes_while_its_table_is_being_deleted() -> TestResult {
    let server = start().await?;
    let (log, other) = (log(&server)?, log(&server)?);
    log.now().insert(&line("web", 1)).await?;
    account(&server)?.table("logx20301121").delete_table().await?;
    for log in [&log, &other] {
        let error = log.now().insert(&line("web", 2)).await.unwrap_err();
        assert_eq!(error.code(), Some(&ErrorCode::TABLE_BEING_DELETED));
        assert_eq!(error.outcome(), Outcome::Rejected);
        assert!(error.to_string().contains("40 seconds"), "{error}");
        assert!(log.now().get(Line::key("web", 1)).await?.is_none());
    }
    assert_eq!(tables(&server.snapshot()), Vec::<String>::new(), "no second table");
    server.clock().advance(Duration::from_secs(61));
    log.now().insert(&line("web", 2)).await?;
    assert!(
        other.now().insert(&line("web", 2)).await.unwrap_err().kind()
            == rowkey::ErrorKind::AlreadyExists
    );
    assert_eq!(all(&other).await?, [("web".to_owned(), 2)]);
    Ok(())
}

#[tokio::test]
async fn a_prefix_that_ends_in_digits_matches_only_its_own_tables() -> TestResult {
    let server = start().await?;
    let account = account(&server)?;
    let log = Rollover::new(account.clone(), "log", Period::Hour);
    let log20 = Rollover::new(account, "log20", Period::Day);
    // 2020-12-10, 11 o'clock: 2020121011, of which 20 and the day 2012-10-11 could be read.
    log.at("2020-12-10T11:00:00Z".parse()?).insert(&line("web", 1)).await?;
    assert_eq!((log.tables().await?.len(), log20.tables().await?.len()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_table_deleted_during_a_read_ends_the_read() -> TestResult {
    let server = start().await?;
    let log = log(&server)?;
    for number in 0..6 {
        log.at(day("2030-11-01")).insert(&line("web", number)).await?;
        log.now().insert(&line("web", 10 + number)).await?;
    }
    let query = |table: &Table| table.query(Line::partition("web")).page_size(2);
    let mut lines = log.query(.., query).await?;
    let first = lines.try_next().await?.unwrap();
    assert_eq!(first.entity.number, 0);
    assert_eq!(log.expire(DAY).await?.len(), 1);
    let rest: Vec<_> = lines.map_ok(|line| line.entity.number).try_collect().await?;
    assert_eq!(rest, [1, 10, 11, 12, 13, 14, 15]);
    Ok(())
}

#[tokio::test]
async fn concurrent_first_writers_of_a_period_share_its_table() -> TestResult {
    let server = start().await?;
    let (one, two) = (log(&server)?, log(&server)?);
    let writes = (0..20).map(|number| {
        let log = if number % 2 == 0 { &one } else { &two };
        let line = line("web", number);
        async move { log.now().insert(&line).await }
    });
    future::try_join_all(writes).await?;
    assert_eq!(tables(&server.snapshot()), ["logx20301121"]);
    assert_eq!(all(&one).await?.len(), 20);
    Ok(())
}

#[tokio::test]
async fn other_errors_are_returned_to_the_caller() -> TestResult {
    let server = start().await?;
    let log = log(&server)?;
    log.now().insert(&line("web", 1)).await?;
    let error = log.now().insert(&line("web", 1)).await.unwrap_err();
    assert!(error.kind() == rowkey::ErrorKind::AlreadyExists);
    let bad = Rollover::new(account(&server)?, "no-table", Period::Day);
    assert_eq!(bad.now().insert(&line("web", 1)).await.unwrap_err().details().attempts, 0);
    let refused =
        server.inject(Fault::on(Operation::CreateTable).reject(ErrorCode::AUTHORIZATION_FAILURE));
    let error = log.at(day("2030-12-01")).insert(&line("web", 1)).await.unwrap_err();
    assert_eq!((error.code(), refused.hits()), (Some(&ErrorCode::AUTHORIZATION_FAILURE), 1));
    Ok(())
}

async fn write_all(log: &Rollover) -> Result<()> {
    for number in [1, 2] {
        log.now().upsert(&line("web", number)).await?;
        log.at(day("2030-11-20")).upsert(&line("web", 10 + number)).await?;
    }
    Ok(())
}

fn written(snapshot: &Snapshot) -> usize {
    snapshot.tables().map(rowkey_emulator::StoredTable::len).sum()
}

#[tokio::test]
async fn writes_survive_every_single_failure() -> TestResult {
    let server = start().await?;
    for patient in [true, false] {
        sweep(
            &server,
            async |account| {
                let account = if patient { account.clone() } else { once(account) };
                write_all(&Rollover::new(account, "log", Period::Day)).await
            },
            async |account, first| {
                assert!(first.is_ok() || !patient, "{first:?}");
                write_all(&Rollover::new(account.clone(), "log", Period::Day)).await?;
                let log = Rollover::new(account.clone(), "log", Period::Day);
                assert_eq!(all(&log).await?.len(), 4);
                Ok(())
            },
            |snapshot, _| {
                assert_eq!((tables(snapshot).len(), written(snapshot)), (2, 4), "two tables");
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_expiry_can_be_repeated() -> TestResult {
    let server = start().await?;
    let log = log(&server)?;
    for day in ["2030-11-01", "2030-11-02", "2030-11-03", "2030-11-21"] {
        log.at(self::day(day)).insert(&line("web", 1)).await?;
    }
    let expire = async |account: &StorageAccount| {
        Rollover::new(account.clone(), "log", Period::Day).expire(DAY).await
    };
    let runs = sweep(
        &server,
        async |account| expire(&once(account)).await,
        async |account, _| expire(account).await.map(drop).map_err(Into::into),
        |snapshot, _| assert_eq!(tables(snapshot), ["logx20301121"]),
    )
    .await?;
    assert_eq!(runs.requests, 4);
    Ok(())
}

#[tokio::test]
async fn random_writes_and_expiries_agree_with_a_model() -> TestResult {
    let server = start().await?;
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = server.fork().await?;
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let mut model: BTreeMap<(u32, u32), DateTime<Utc>> = BTreeMap::new();
        for _ in 0..40 {
            let log = log(&server)?;
            let now = server.clock().now().to_chrono();
            match random.below(8) {
                0 => server.clock().advance(Duration::from_secs(random.below(40_000).into())),
                1 => {
                    let keep = DAY * random.below(4);
                    log.expire(keep).await?;
                    // Until then their names are blocked.
                    server.clock().advance(Duration::from_secs(61));
                    model.retain(|_, time| {
                        let end = midnight(*time) + DAY;
                        (now - end).to_std().map_or(true, |age| age < keep)
                    });
                }
                _ => {
                    let (service, number) = (random.below(3), random.below(1000));
                    if let Entry::Vacant(new) = model.entry((service, number)) {
                        let time = now - DAY * random.below(6);
                        log.at(time).upsert(&line(&service.to_string(), number)).await?;
                        new.insert(time);
                    }
                }
            }
        }
        let log = log(&server)?;
        let page = 1 + random.below(5);
        let lines = log.query(.., |table| table.scan::<Line>().page_size(page)).await?;
        let found: Vec<_> = lines
            .map(|line| line.map(|line| (line.entity.service.parse().unwrap(), line.entity.number)))
            .try_collect()
            .await?;
        assert_eq!(found, model.into_keys().collect::<Vec<_>>());
    }
    Ok(())
}
