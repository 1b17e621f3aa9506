//! Log tail: what is appended is there once, what is newest comes first, and what settled in time is
//! handed over, oldest first, through every failure.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::edm::Value;
use rowkey::patterns::log_tail::{EntryId, LogTail, Position};
use rowkey::{
    Clock as _, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Outcome, StorageAccount, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Pages, Server, Snapshot};
use rowkey_tests::sweep::{account, is_brief, once, sweep};
use rowkey_tests::{Fixture, TestResult};

use rowkey_tests::random::{Random, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{service}", row = "{id}", rename_all = "PascalCase")]
struct Line {
    service: String,
    id: EntryId,
    text: String,
}

/// A tie-breaker of one's own, beside rows of other types.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{service}", row = "seen_{at:desc}_{seq}")]
struct Seen {
    service: String,
    at: DateTime<Utc>,
    seq: u32,
}

const START: &str = "2026-01-01T00:00:00Z";

fn start() -> DateTime<Utc> {
    START.parse().unwrap()
}

fn after(seconds: i64) -> DateTime<Utc> {
    start() + TimeDelta::seconds(seconds)
}

fn line(id: EntryId, text: impl Into<String>) -> Line {
    Line { service: "web".into(), id, text: text.into() }
}

fn texts<'a>(entries: impl IntoIterator<Item = &'a rowkey::Stored<Line>>) -> Vec<&'a str> {
    entries.into_iter().map(|stored| stored.entity.text.as_str()).collect()
}

/// A server whose clock stands, an account that sees the same time, and an empty table.
async fn standing() -> TestResult<(Server, ManualClock, LogTail)> {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(start());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let log = LogTail::new(account.table("log")).with_writer("w");
    log.table().create().await?;
    Ok((server, clock, log))
}

#[tokio::test]
async fn newest_entries_come_first_and_can_be_limited_by_time() -> TestResult {
    let fixture = Fixture::new().await?;
    let log = LogTail::new(fixture.table().await?);
    for second in 0..20 {
        log.append(&line(EntryId::new(after(second), "a"), format!("{second}"))).await?;
    }
    let partition = || Line::partition("web");
    assert_eq!(texts(&log.latest(partition(), 3).await?), ["19", "18", "17"]);
    assert_eq!(log.latest(partition(), 100).await?.len(), 20);
    assert_eq!(log.latest(Line::partition("other"), 3).await?, []);
    assert_eq!(texts(&log.since(partition(), after(17)).all().await?), ["19", "18", "17"]);
    let between = log.between(partition(), after(3)..after(6)).all().await?;
    assert_eq!(texts(&between), ["5", "4", "3"]);
    let tick = TimeDelta::nanoseconds(100);
    assert_eq!(log.between(partition(), after(3) + tick..after(4)).all().await?, []);
    assert_eq!(log.between(partition(), after(4)..after(3)).all().await?, []);
    Ok(())
}

#[tokio::test]
async fn the_row_format_is_stable() -> TestResult {
    let (server, _, log) = standing().await?;
    log.append(&line(log.next_id(), "one")).await?;
    log.append(&line(log.next_id(), "two")).await?;
    log.append(&Seen { service: "web".into(), at: start(), seq: 7 }).await?;
    let snapshot = server.snapshot();
    let rows: Vec<_> = snapshot
        .table("log")
        .unwrap()
        .entities()
        .map(|entity| {
            let properties: Vec<_> = entity.properties().collect();
            (entity.partition_key().to_owned(), entity.row_key().to_owned(), properties)
        })
        .collect();
    // 3155378975999999999 - 639028224000000000, the ticks of 2026-01-01.
    let text = |text: &str| vec![("Text", Value::from(text))];
    assert_eq!(
        rows,
        [
            ("web".to_owned(), "2516350751999999998_w".to_owned(), text("two")),
            ("web".to_owned(), "2516350751999999999_w".to_owned(), text("one")),
            ("web".to_owned(), "seen_2516350751999999999_0000000007".to_owned(), vec![]),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn rows_of_dotnet_programs_are_read_too() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    // `(DateTime.MaxValue.Ticks - time.Ticks).ToString("D19")`, alone or followed by a GUID.
    for (row_key, text) in [
        ("2516350751999999999", "ticks alone"),
        ("2516350751989999999-9c5b94b1-35ad-49bb-b118-8e8fc24abf80", "with a GUID"),
    ] {
        let mut row = DynamicEntity::new("web", row_key);
        row.set("Text", text);
        table.insert(&row).await?;
    }
    let log = LogTail::new(table).with_writer("w");
    log.append(&line(EntryId::new(start() + TimeDelta::milliseconds(50), "w"), "ours")).await?;
    let all = log.latest(Line::partition("web"), 10).await?;
    assert_eq!(texts(&all), ["with a GUID", "ours", "ticks alone"]);
    let millisecond = TimeDelta::milliseconds(1);
    let times: Vec<_> = all.iter().map(|stored| stored.entity.id.at() - start()).collect();
    assert_eq!(times, [millisecond * 1000, millisecond * 50, TimeDelta::zero()]);
    // The other way round: a row that was read is written where it was.
    for stored in all {
        log.table().replace(&stored).await?;
    }
    Ok(())
}

#[tokio::test]
async fn newest_costs_one_request_per_page() -> TestResult {
    let (server, _, log) = standing().await?;
    for n in 0..60 {
        log.append(&line(log.next_id(), format!("{n}"))).await?;
    }
    let before = server.journal();
    assert_eq!(before.count(Operation::InsertEntity), 60, "one request an entry");
    assert_eq!(log.latest(Line::partition("web"), 10).await?.len(), 10);
    assert_eq!(server.journal().since(&before).len(), 1, "ten of one page");

    let expected: Vec<_> = (50..60).rev().map(|n| n.to_string()).collect();
    let mut cuts = 0;
    for seed in seeds(50) {
        let chaos = server.chaos(Pages::seeded(seed));
        let newest = log.latest(Line::partition("web"), 10).await?;
        assert_eq!(texts(&newest), expected, "seed {seed}");
        cuts += chaos.cuts();
    }
    assert!(is_brief() || cuts > 50, "{cuts} pages of 50 readings were cut");
    Ok(())
}

#[tokio::test]
async fn entries_of_one_tick_are_all_kept() -> TestResult {
    let (_server, _, log) = standing().await?;
    let other = LogTail::new(log.table().clone()).with_writer("v");
    for n in 0..5 {
        log.append(&line(log.next_id(), format!("w{n}"))).await?;
        other.append(&line(other.next_id(), format!("v{n}"))).await?;
    }
    let all = log.latest(Line::partition("web"), 100).await?;
    let ours: Vec<_> = texts(&all).into_iter().filter(|text| text.starts_with('w')).collect();
    assert_eq!((all.len(), ours), (10, vec!["w4", "w3", "w2", "w1", "w0"]));
    Ok(())
}

#[tokio::test]
async fn an_entry_is_appended_once_after_a_lost_response() -> TestResult {
    let (server, _, log) = standing().await?;
    let entry = line(log.next_id(), "once");
    let _lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_after_commit());
    log.append(&entry).await?;
    assert_eq!(server.journal().count(Operation::InsertEntity), 2, "it was repeated");
    assert_eq!(server.journal().count(Operation::GetEntity), 1, "and compared");
    log.append(&entry).await?;
    assert_eq!(log.latest(Line::partition("web"), 10).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn another_entry_under_the_same_key_is_an_error() -> TestResult {
    let (server, _, log) = standing().await?;
    let entry = line(EntryId::new(start(), "a"), "one");
    log.append(&entry).await?;
    let other = Line { text: "another".into(), ..entry.clone() };
    let error = log.append(&other).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Rejected));

    // Also when the end of the first attempt is unknown.
    let _lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_before_commit());
    let error = log.append(&other).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Unknown));
    assert_eq!(texts(&log.latest(Line::partition("web"), 10).await?), ["one"]);

    // When the comparison fails, too, the doubt stays.
    let _lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_after_commit());
    let _down = server.inject(Fault::on(Operation::GetEntity).reject(ErrorCode::ENTITY_TOO_LARGE));
    let error = log.append(&line(log.next_id(), "x")).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    Ok(())
}

#[tokio::test]
async fn an_entry_without_a_time_in_its_key_is_rejected() -> TestResult {
    let (server, _, log) = standing().await?;
    let before = server.journal();
    let error = log.append(&DynamicEntity::new("web", "2026-01-01_w")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("{at:desc}"), "{error}");
    let error = log.append(&line(EntryId::new(start(), "a/b"), "x")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(server.journal().since(&before).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_tail_with_an_infinite_delay_returns_nothing() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let log = LogTail::new(account.table("log"));
    let mut tail = log.tail(Line::partition("web"), Duration::MAX);
    assert!(tail.next_batch().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_tail_returns_settled_entries_and_resumes_in_another_process() -> TestResult {
    let (server, clock, log) = standing().await?;
    for second in 0..10 {
        log.append(&line(EntryId::new(after(second), "w"), format!("{second}"))).await?;
    }
    clock.advance(Duration::from_secs(15));
    let settle = Duration::from_secs(10);
    let mut tail = log.tail(Line::partition("web"), settle).batch_size(4);
    let mut stored = tail.position().to_string();
    let mut seen = Vec::new();
    while let Some(batch) = tail.next_batch().await? {
        assert!(!batch.entries.is_empty() && batch.entries.len() <= 4);
        seen.extend(texts(&batch.entries).into_iter().map(str::to_owned));
        stored = batch.position.to_string();
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"], "those older than ten seconds");

    // One that is late, but not later than `settle`, comes in its place.
    log.append(&line(EntryId::new(after(5), "v"), "5, late")).await?;
    clock.advance(Duration::from_secs(60));
    let mut tail = log.tail(Line::partition("web"), settle).resume(stored.parse()?);
    let batch = tail.next_batch().await?.ok_or("there is more")?;
    assert_eq!(texts(&batch.entries), ["5, late", "5", "6", "7", "8", "9"]);

    // Nothing new costs one request, and one that comes too late does not come.
    let before = server.journal();
    clock.advance(Duration::from_secs(1));
    assert!(tail.next_batch().await?.is_none());
    assert_eq!(server.journal().since(&before).len(), 1);
    log.append(&line(EntryId::new(after(9), "late"), "too late")).await?;
    clock.advance(Duration::from_secs(60));
    assert!(tail.next_batch().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_tail_returns_the_entries_of_a_writer_once_and_in_order_if_the_clock_is_set_back()
-> TestResult {
    let (_server, clock, log) = standing().await?;
    // As long as the clock may be behind, and some seconds for the write itself.
    let mut tail = log.tail(Line::partition("web"), Duration::from_secs(300));
    let mut seen = Vec::new();
    for (back, texts_now) in [(0, ["a", "b"]), (200, ["c", "d"]), (50, ["e", "f"])] {
        // The same clock is that of the writer and that of the reader.
        clock.set_date(clock.now() - TimeDelta::seconds(back));
        for text in texts_now {
            log.append(&line(log.next_id(), text)).await?;
            clock.advance(Duration::from_secs(1));
        }
        assert!(tail.next_batch().await?.is_none(), "nothing has settled");
    }
    clock.set_date(after(400));
    while let Some(batch) = tail.next_batch().await? {
        seen.extend(texts(&batch.entries).into_iter().map(str::to_owned));
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e", "f"]);
    Ok(())
}

#[tokio::test]
async fn a_tail_rejects_a_foreign_position_and_a_batch_size_of_zero() -> TestResult {
    let (server, _, log) = standing().await?;
    let before = server.journal();
    let position = log.tail(Line::partition("other"), Duration::ZERO).position().clone();
    let mut tail = log.tail(Line::partition("web"), Duration::ZERO).resume(position);
    let error = tail.next_batch().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let mut tail = log.tail(Line::partition("web"), Duration::ZERO).batch_size(0);
    assert_eq!(tail.next_batch().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(server.journal().since(&before).is_empty());
    Ok(())
}

/// Other programs write a row that is not an entry, and entries without the text, among them in every place of a tick
/// that has more than a batch.
#[tokio::test]
async fn rows_that_cannot_be_read_are_returned_once_and_end_no_tail() -> TestResult {
    for batch_size in [1, 2, 3, 100] {
        let (_server, clock, log) = standing().await?;
        let mut expected = Vec::new();
        for second in 0..4 {
            log.append(&line(EntryId::new(after(second), "m"), format!("{second}"))).await?;
            expected.push(format!("{second}"));
        }
        // In the tick of the first entry: two before it, and three behind it.
        let tick = EntryId::new(start(), "m");
        let row_key = |id| Key::of(&line(id, "")).parts().unwrap().1.to_owned();
        let tick = row_key(tick);
        let tick = tick.strip_suffix("m").ok_or("no tie-breaker")?;
        let newest = row_key(EntryId::new(after(3), "x"));
        let bad = [
            format!("{tick}a"),
            format!("{tick}b"),
            format!("{tick}x"),
            format!("{tick}y"),
            format!("{tick}z"),
            newest,
            // Behind the ticks of all entries, where no tick is.
            format!("{}x", &tick[..17]),
        ];
        for row_key in &bad {
            log.table().insert(&DynamicEntity::new("web", row_key)).await?;
        }
        clock.advance(Duration::from_secs(10));
        let (mut seen, mut failed) = (Vec::new(), Vec::new());
        let mut position = None::<String>;
        loop {
            // Each batch in a process of its own.
            let mut tail = log.tail(Line::partition("web"), Duration::ZERO).batch_size(batch_size);
            if let Some(position) = position.take() {
                tail = tail.resume(position.parse()?);
            }
            let Some(batch) = tail.next_batch().await? else { break };
            let rows = batch.entries.len() + batch.failed_rows.len();
            assert!((1..=batch_size).contains(&rows), "{rows} rows");
            seen.extend(texts(&batch.entries).into_iter().map(str::to_owned));
            failed.extend(batch.failed_rows.into_iter().map(|row| row.row_key.into_string()));
            position = Some(batch.position.to_string());
        }
        assert_eq!(seen, expected, "batches of {batch_size}");
        let mut bad = bad.to_vec();
        failed.sort();
        bad.sort();
        assert_eq!(failed, bad, "batches of {batch_size}");
    }
    Ok(())
}

#[tokio::test]
async fn a_tick_with_more_entries_than_a_batch_is_read_in_parts() -> TestResult {
    let (server, clock, log) = standing().await?;
    for n in 0..25 {
        let id = EntryId::new(start(), &format!("{n:03}"));
        log.append(&line(id, format!("{n:03}"))).await?;
    }
    clock.advance(Duration::from_secs(1));
    let (mut seen, mut position) = (Vec::new(), None::<Position>);
    loop {
        // Each batch in a process of its own.
        let mut tail = log.tail(Line::partition("web"), Duration::ZERO).batch_size(10);
        if let Some(position) = position.take() {
            tail = tail.resume(position.to_string().parse()?);
        }
        let Some(batch) = tail.next_batch().await? else { break };
        assert!(batch.entries.len() <= 10);
        seen.extend(texts(&batch.entries).into_iter().map(str::to_owned));
        position = Some(batch.position);
    }
    assert_eq!(seen, (0..25).map(|n| format!("{n:03}")).collect::<Vec<_>>());
    // Every page that was asked for is at most a batch and one more.
    assert!(server.journal().count(Operation::QueryEntities) > 3);
    Ok(())
}

#[tokio::test]
async fn years_without_entries_are_crossed_in_a_few_requests() -> TestResult {
    let (server, clock, log) = standing().await?;
    for (year, month) in [(1999, 1), (2010, 3), (2025, 12)] {
        for n in 0..30 {
            let at: DateTime<Utc> = format!("{year}-{month:02}-01T00:00:00.{n:03}Z").parse()?;
            log.append(&line(EntryId::new(at, "w"), format!("{year} {n}"))).await?;
        }
    }
    clock.advance(Duration::from_secs(1));
    let before = server.journal();
    let mut tail = log.tail(Line::partition("web"), Duration::ZERO).batch_size(10);
    let mut seen = Vec::new();
    while let Some(batch) = tail.next_batch().await? {
        seen.extend(texts(&batch.entries).into_iter().map(str::to_owned));
    }
    assert_eq!(seen.len(), 90);
    assert!(seen.windows(2).all(|pair| pair[0][..4] <= pair[1][..4]), "{seen:?}");
    let requests = server.journal().since(&before).len();
    // Back to the oldest and forward again, a batch a request, and a century that is halved.
    assert!(requests <= 20, "{requests} requests for 90 entries in batches of 10");
    Ok(())
}

#[tokio::test]
async fn an_entry_is_stored_once_or_can_be_appended_again_after_any_fault() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    account(&server)?.table("log").create().await?;
    let entries = || (0..3).map(|n| line(EntryId::new(after(n), "w"), n.to_string()));
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let log = LogTail::new(account.table("log"));
                let mut results = Vec::new();
                for entry in entries() {
                    results.push(log.append(&entry).await);
                }
                results
            },
            async |account, results| {
                // The program appends again after an error, and sometimes after success.
                let log = LogTail::new(account.table("log"));
                for (entry, result) in entries().zip(results) {
                    if repeats {
                        result.as_ref().map_err(ToString::to_string)?;
                    }
                    log.append(&entry).await?;
                }
                Ok(())
            },
            |snapshot, _| {
                let texts: Vec<_> = stored_texts(snapshot);
                assert_eq!(texts, ["2", "1", "0"]);
            },
        )
        .await?;
        assert_eq!(runs.requests, 3);
    }
    Ok(())
}

fn stored_texts(snapshot: &Snapshot) -> Vec<String> {
    let table = snapshot.table("log").unwrap();
    table
        .entities()
        .map(|entity| match entity.get("Text") {
            Some(Value::String(text)) => text,
            other => panic!("no text: {other:?}"),
        })
        .collect()
}

/// The stored state of a consumer: its results and its position, together.
async fn consume(
    table: Table,
    mut stored: (Vec<String>, Option<String>),
) -> (Vec<String>, Option<String>) {
    let log = LogTail::new(table);
    let mut tail = log.tail(Line::partition("web"), Duration::from_secs(10)).batch_size(5);
    if let Some(position) = stored.1.as_ref().and_then(|text| text.parse().ok()) {
        tail = tail.resume(position);
    }
    while let Ok(Some(batch)) = tail.next_batch().await {
        stored.0.extend(texts(&batch.entries).into_iter().map(str::to_owned));
        stored.1 = Some(batch.position.to_string());
    }
    stored
}

#[tokio::test]
async fn a_consumer_receives_each_entry_in_order_after_any_fault() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("log");
    table.create().await?;
    let log = LogTail::new(table);
    for n in 0..12 {
        log.append(&line(EntryId::new(after(n) - TimeDelta::hours(1), "w"), n.to_string())).await?;
    }
    let expected: Vec<_> = (0..12).map(|n| n.to_string()).collect();
    let runs = sweep(
        &server,
        async |account| consume(once(account).table("log"), (Vec::new(), None)).await,
        async |account, stored| {
            assert!(expected.starts_with(&stored.0), "{:?}", stored.0);
            let (seen, _) = consume(account.table("log"), stored.clone()).await;
            assert_eq!(seen, expected);
            Ok(())
        },
        |_, _| {},
    )
    .await?;
    assert!(runs.requests > 3, "{runs}");
    Ok(())
}

/// Random entries, some late, some of one tick, against a plain map; a consumer that polls, dies and
/// continues at random. The entries that it received equal the map.
#[tokio::test]
async fn a_tail_agrees_with_a_model_under_any_schedule() -> TestResult {
    let (server, clock, log) = standing().await?;
    let settle = Duration::from_secs(20);
    for seed in seeds(200) {
        let mut random = Random(seed);
        let service = format!("s{seed}");
        let partition = || Line::partition(&service);
        let mut model = BTreeMap::new();
        let mut seen: Vec<(DateTime<Utc>, String)> = Vec::new();
        let mut position: Option<String> = None;
        let _chaos = random.one_in(4).then(|| server.chaos(Pages::seeded(seed)));
        let now = || rowkey::Clock::now(&clock);
        let begin = now();
        for step in 0..14 {
            match random.within(3) {
                0 => clock.advance(Duration::from_millis(random.within(40_000))),
                // Some writers' clocks are behind, some are ahead, and some write late.
                1 => {
                    let mut entries = log.table().transaction();
                    let count = random.within(8);
                    for n in 0..count {
                        let skew = i64::try_from(random.within(30_000))? - 19_900;
                        let skew = if random.one_in(3) { -1000 } else { skew };
                        let at = now() + TimeDelta::milliseconds(skew);
                        let id = EntryId::new(at, &format!("{step:02}{n}"));
                        let text = format!("{step}.{n}");
                        model.insert((at, format!("{step:02}{n}")), text.clone());
                        entries = entries.insert(&Line { service: service.clone(), id, text });
                    }
                    if count > 0 {
                        entries.submit().await?;
                    }
                }
                _ => {
                    let batch = usize::try_from(random.within(4) + 1)?;
                    let mut tail = log.tail(partition(), settle).batch_size(batch);
                    if let Some(position) = &position {
                        tail = tail.resume(position.parse()?);
                    }
                    for _ in 0..=random.within(4) {
                        let Some(batch) = tail.next_batch().await? else { break };
                        for stored in batch.entries {
                            seen.push((stored.entity.id.at(), stored.entity.text));
                        }
                        // Dying before the position is stored would read these again.
                        position = Some(batch.position.to_string());
                    }
                    position = position.or_else(|| Some(tail.position().to_string()));
                }
            }
        }
        clock.advance(Duration::from_secs(60));
        server.clock().advance((now() - begin).to_std()?);
        let mut tail = log.tail(partition(), settle).batch_size(3);
        if let Some(position) = &position {
            tail = tail.resume(position.parse()?);
        }
        while let Some(batch) = tail.next_batch().await? {
            seen.extend(batch.entries.into_iter().map(|s| (s.entity.id.at(), s.entity.text)));
        }
        let expected: Vec<_> = model.iter().map(|((at, _), text)| (*at, text.clone())).collect();
        assert_eq!(seen, expected, "seed {seed}");

        // The newest of it, and the times between.
        let n = random.within(20);
        let newest = log.latest(partition(), n).await?;
        let mut times: Vec<_> = newest.iter().map(|stored| stored.entity.id.at()).collect();
        times.reverse();
        let skipped = expected.len().saturating_sub(usize::try_from(n)?);
        assert_eq!(times, expected[skipped..].iter().map(|(at, _)| *at).collect::<Vec<_>>());
        let from = begin + TimeDelta::milliseconds(i64::try_from(random.within(100_000))?);
        let to = from + TimeDelta::milliseconds(i64::try_from(random.within(100_000))?);
        let between = log.between(partition(), from..to).all().await?.len();
        let in_model = expected.iter().filter(|(at, _)| (from..to).contains(at)).count();
        assert_eq!(between, in_model, "seed {seed}");
    }
    Ok(())
}
