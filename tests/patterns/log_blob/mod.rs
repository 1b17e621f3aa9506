//! Logs in blobs: what is stored under which name, what reading a range opens, what a full buffer
//! does, and when the writer that a task drives flushes.

mod faults;
mod layer;
mod model;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};
use futures_util::TryStreamExt as _;
use futures_util::future::join;
use rowkey::patterns::log_blob::{BlobLog, LogLine, LogWriter};
use rowkey::{Clock as _, ErrorKind, ManualClock, Outcome, StorageAccount};
use rowkey::{Container, blob::BlobType};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::sweep::once;
use rowkey_tests::{Fixture, TestResult, unique_name};

/// Half past two in the afternoon, when the tests begin.
pub(crate) fn begin() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 11, 21, 14, 30, 0).unwrap()
}

/// Some seconds later.
pub(crate) fn after(seconds: i64) -> DateTime<Utc> {
    begin() + TimeDelta::seconds(seconds)
}

/// A server, a clock that the test moves, and a container for logs.
async fn start() -> TestResult<(Server, ManualClock, Container)> {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::new(begin());
    // Requests have to be dated as the server is.
    server.clock().advance((begin() - server.clock().now().to_chrono()).to_std()?);
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let container = account.container("logs");
    container.create().await?;
    Ok((server, clock, container))
}

/// All lines of a day around the time of the tests.
pub(crate) async fn lines(log: &BlobLog) -> rowkey::Result<Vec<LogLine>> {
    log.read(begin() - TimeDelta::hours(24)..begin() + TimeDelta::hours(24)).try_collect().await
}

pub(crate) async fn texts(log: &BlobLog) -> rowkey::Result<Vec<String>> {
    Ok(lines(log).await?.into_iter().map(|line| line.text).collect())
}

async fn names(container: &Container) -> rowkey::Result<Vec<String>> {
    container.blobs().stream().map_ok(|blob| blob.name).try_collect().await
}

/// A log of one writer with a line each ten minutes from two o'clock to four.
async fn two_hours(container: &Container) -> Result<(BlobLog, LogWriter), rowkey::Error> {
    let log = BlobLog::new(container.clone(), "web").period(Duration::from_secs(20 * 60));
    let writer = log.writer()?;
    for minutes in (0..120).step_by(10) {
        writer.log_at(after(minutes * 60 - 1800), &format!("line of {minutes:03}")).await?;
    }
    writer.close().await?;
    Ok((log, writer))
}

#[tokio::test]
async fn a_line_with_a_future_time_does_not_change_later_times() -> TestResult {
    let (_server, clock, container) = start().await?;
    let log = BlobLog::new(container, "web");
    let writer = log.writer()?;
    for (ahead, text) in [(30 * 86_400, "in a month"), (120, "in two minutes")] {
        writer.log_at(after(ahead), text).await?;
        clock.advance(Duration::from_secs(1));
        writer.log(&format!("after {text}")).await?;
    }
    writer.close().await?;
    let lines: Vec<_> = lines(&log).await?;
    let shown: Vec<_> = lines.iter().map(|line| (line.time, line.text.as_str())).collect();
    assert_eq!(
        shown,
        [
            (after(1), "after in a month"),
            (after(2), "after in two minutes"),
            (after(120), "in two minutes"),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_change_the_order_of_the_lines() -> TestResult {
    // By less than the minute that a line may be ahead, by more, over the hour, and over the day.
    for back in [30, 61, 600, 3_600, 86_400] {
        for flushes in [false, true] {
            let (_server, clock, container) = start().await?;
            let log = BlobLog::new(container, "web").max_blob(100);
            let writer = log.writer()?;
            let mut logged = Vec::new();
            for (step, text) in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().enumerate() {
                match step {
                    2 | 5 => clock.set_date(clock.now() - TimeDelta::seconds(back)),
                    _ => clock.advance(Duration::from_secs(1)),
                }
                match step % 3 {
                    0 => writer.log(text).await?,
                    1 => assert!(writer.try_log(text)?),
                    _ => writer.log_or_drop(text),
                }
                logged.push(text);
                if flushes {
                    // Dated as the server is, and not by the writer's clock.
                    let shown = clock.now();
                    clock.set_date(begin());
                    writer.flush().await?;
                    clock.set_date(shown);
                }
            }
            clock.set_date(begin());
            writer.close().await?;
            let read: Vec<_> = log
                .read(begin() - TimeDelta::days(3)..begin() + TimeDelta::days(1))
                .try_collect()
                .await?;
            let texts: Vec<_> = read.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(texts, logged, "{back} s, flushes: {flushes}");
            assert!(read.is_sorted_by_key(|line| line.time), "{back} s: {read:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_line_with_a_future_time_does_not_change_the_order_after_the_clock_was_set_back()
-> TestResult {
    let (_server, clock, container) = start().await?;
    let log = BlobLog::new(container, "web");
    let writer = log.writer()?;
    writer.log("a").await?;
    writer.log_at(after(7_200), "in two hours").await?;
    clock.set_date(after(-3_600));
    writer.log("b").await?;
    writer.log_at(after(-3_000), "of another machine").await?;
    writer.log("c").await?;
    clock.set_date(begin());
    writer.close().await?;
    assert_eq!(texts(&log).await?, ["a", "b", "of another machine", "c", "in two hours"]);
    Ok(())
}

#[tokio::test]
async fn two_writers_with_clocks_15_minutes_apart_are_merged_by_their_clocks() -> TestResult {
    let (_server, clock, container) = start().await?;
    let log = BlobLog::new(container, "web");
    // The second is a program that was started again with a clock behind, or runs at the same time.
    let (first, second) = (log.writer()?, log.writer()?);
    for text in ["1", "2"] {
        first.log(&format!("first {text}")).await?;
        clock.set_date(clock.now() - TimeDelta::minutes(15));
        second.log(&format!("second {text}")).await?;
        clock.set_date(clock.now() + TimeDelta::minutes(15));
        clock.advance(Duration::from_secs(1));
    }
    clock.set_date(begin());
    first.close().await?;
    second.close().await?;
    assert_eq!(texts(&log).await?, ["second 1", "second 2", "first 1", "first 2"]);
    Ok(())
}

#[tokio::test]
async fn lines_round_trip() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = fixture.account.container(&unique_name());
    container.create().await?;
    let log = BlobLog::new(container.clone(), "web");
    let writer = log.writer()?;
    let logged = ["GET / 200", "", "  'quoted' \\ \"{}\" \u{1f980}\t"];
    for text in logged {
        writer.log(text).await?;
    }
    assert_eq!(writer.waiting().lines, 3);
    let now = fixture.account.clock().now();
    let day = now - TimeDelta::hours(12)..now + TimeDelta::hours(12);
    let read: Vec<_> = log.read(day.clone()).try_collect().await?;
    assert_eq!(read, [], "nothing is flushed yet");
    writer.close().await?;
    assert_eq!(writer.waiting().lines, 0);
    let read: Vec<_> = log.read(day.clone()).try_collect().await?;
    assert_eq!(read.iter().map(|line| &*line.text).collect::<Vec<_>>(), logged);
    assert!(read.iter().all(|line| day.contains(&line.time)));
    assert!(read.is_sorted_by_key(|line| line.time));
    let other: Vec<_> = BlobLog::new(container.clone(), "we").read(day).try_collect().await?;
    assert_eq!(other, [], "another service");
    assert_eq!(log.delete_before(now + TimeDelta::hours(12)).await?, 1);
    container.delete().await?;
    Ok(())
}

#[tokio::test]
async fn the_blob_format_is_stable() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web");
    let writer = log.writer()?;
    writer.log_at(after(1) + TimeDelta::microseconds(250_000), "GET / 200").await?;
    writer.log_at(after(2), "GET /x 404").await?;
    writer.flush().await?;
    let name = "web/2026/11/21/1400/000001.log";
    let stored = |name: &str| {
        server.snapshot().blob("logs", name).map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let content = "2026-11-21T14:30:01.250000Z GET / 200\n2026-11-21T14:30:02.000000Z GET /x 404\n";
    assert_eq!(stored(name).as_deref(), Some(content));
    let properties = container.blob(name).properties().await?.ok_or("it exists")?;
    assert_eq!(properties.kind, Some(BlobType::Append));
    assert_eq!(properties.headers.content_type.as_deref(), Some("text/plain; charset=utf-8"));
    let metadata = async |name: &str| -> TestResult<Vec<_>> {
        let properties = container.blob(name).properties().await?.ok_or("it exists")?;
        Ok(properties.metadata.into_iter().collect())
    };
    let pairs = |start: &str, end: &str| {
        let day = |time| format!("2026-11-21T{time}Z");
        vec![("endtime".to_owned(), day(end)), ("starttime".to_owned(), day(start))]
    };
    // Until the blob is closed, its end is that of its period.
    assert_eq!(metadata(name).await?, pairs("14:30:01.250000", "14:59:59.999999"));
    writer.log_at(after(1800), "POST / 201").await?;
    writer.close().await?;
    assert_eq!(metadata(name).await?, pairs("14:30:01.250000", "14:30:02.000000"));
    let next = "web/2026/11/21/1500/000001.log";
    assert_eq!(stored(next).as_deref(), Some("2026-11-21T15:00:00.000000Z POST / 201\n"));
    assert_eq!(metadata(next).await?, pairs("15:00:00.000000", "15:00:00.000000"));
    assert_eq!(names(&container).await?, [name, next]);
    Ok(())
}

#[tokio::test]
async fn a_range_reads_only_the_blobs_that_it_overlaps() -> TestResult {
    let (server, _, container) = start().await?;
    let (log, _) = two_hours(&container).await?;
    assert_eq!(names(&container).await?.len(), 6);
    let read = async |from: i64, to: i64| -> rowkey::Result<(String, usize, usize)> {
        let before = server.journal();
        let two = after(-1800);
        let range = two + TimeDelta::minutes(from)..two + TimeDelta::minutes(to);
        let lines: Vec<_> = log.read(range).try_collect().await?;
        let minutes: Vec<_> = lines.iter().map(|line| &line.text[8..]).collect();
        let since = server.journal().since(&before);
        let (lists, gets) = (since.count(Operation::ListBlobs), since.count(Operation::GetBlob));
        assert_eq!(since.len(), lists + gets);
        Ok((minutes.join(" "), lists, gets))
    };
    assert_eq!(read(20, 21).await?, ("020".into(), 1, 1));
    assert_eq!(read(10, 30).await?, ("010 020".into(), 1, 2));
    assert_eq!(read(31, 60).await?, ("040 050".into(), 1, 1));
    assert_eq!(read(30, 30).await?, (String::new(), 0, 0), "an empty range");
    assert_eq!(read(51, 60).await?, (String::new(), 1, 0), "after the last line of its blob");
    assert_eq!(read(50, 80).await?, ("050 060 070".into(), 1, 2), "two hours of a day");
    assert_eq!(read(-1000, 1000).await?.1, 3, "two days and the first hour of a third");
    assert_eq!(read(-100_000, 11).await?, ("000 010".into(), 3, 1), "three months");
    Ok(())
}

#[tokio::test]
async fn a_flush_costs_one_request_and_a_new_blob_two_more() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web");
    let mut before = server.journal();
    let mut requests = || {
        let since = server.journal().since(&before);
        before = server.journal();
        since.iter().map(rowkey_emulator::JournalEntry::operation).collect::<Vec<_>>()
    };
    let first = log.writer()?;
    first.flush().await?;
    first.close().await?;
    assert_eq!(requests(), [], "there is nothing to write");
    first.log("a").await?;
    first.log("b").await?;
    first.flush().await?;
    assert_eq!(requests(), [Operation::PutBlob, Operation::AppendBlock]);
    first.log("c").await?;
    first.flush().await?;
    assert_eq!(requests(), [Operation::AppendBlock]);
    // Another writer finds the number in use, and the last number.
    let second = log.writer()?;
    second.log("d").await?;
    second.flush().await?;
    let taken = [Operation::PutBlob, Operation::ListBlobs, Operation::PutBlob];
    assert_eq!(requests(), [&taken[..], &[Operation::AppendBlock]].concat());
    first.close().await?;
    assert_eq!(requests(), [Operation::SetBlobMetadata]);
    assert_eq!(texts(&log).await?, ["a", "b", "c", "d"]);
    Ok(())
}

#[tokio::test]
async fn lines_of_several_writers_are_merged_by_time_and_keep_the_order_of_each() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web").max_blob(100);
    let writers = [log.writer()?, log.writer()?, log.writer()?];
    // All writers log at each second, more than a blob takes, and some across the hour.
    for second in 0..60 {
        for (number, writer) in (0..).zip(&writers) {
            writer.log_at(after(1770 + second), &format!("{second:02} {number}a")).await?;
            writer.log_at(after(1770 + second), &format!("{second:02} {number}b")).await?;
            if second % (number + 1) == 0 {
                writer.flush().await?;
            }
        }
    }
    for writer in &writers {
        writer.close().await?;
    }
    let before = server.journal();
    let read = lines(&log).await?;
    let blobs = names(&container).await?.len();
    assert_eq!(server.journal().since(&before).count(Operation::GetBlob), blobs);
    assert!(blobs > 50, "{blobs}");
    assert_eq!(read.len(), 360);
    assert!(read.is_sorted_by_key(|line| line.time));
    for number in 0..3 {
        let of = |line: &&LogLine| line.text[3..].starts_with(&number.to_string());
        let own: Vec<_> = read.iter().filter(of).map(|line| &*line.text).collect();
        assert_eq!(own.len(), 120);
        assert!(own.is_sorted(), "{own:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_full_blob_is_followed_by_a_new_one() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web").max_blob(100);
    let writer = log.writer()?;
    // Lines of 50 bytes, and one that is larger than a blob should be.
    for length in [21, 21, 21, 200, 21] {
        writer.log(&"x".repeat(length)).await?;
        writer.flush().await?;
    }
    let snapshot = server.snapshot();
    let sizes: Vec<_> = names(&container)
        .await?
        .iter()
        .map(|name| snapshot.blob("logs", name).unwrap_or_default().len())
        .collect();
    assert_eq!(sizes, [100, 50, 229, 50]);
    assert_eq!(texts(&log).await?.len(), 5);
    Ok(())
}

#[tokio::test]
async fn a_full_buffer_waits_fails_or_drops_as_configured() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web").capacity(100).flush_bytes(100);
    let writer = log.writer()?;
    let fifty = |c: &str| c.repeat(21);
    assert!(writer.try_log(&fifty("a"))? && writer.try_log(&fifty("b"))?);
    assert!(!writer.try_log("")?, "it is full");
    writer.log_or_drop(&fifty("c"));
    writer.log_or_drop("two\nlines");
    assert_eq!((writer.dropped(), writer.waiting().bytes), (2, 100));
    assert!(names(&container).await?.is_empty(), "nothing is sent by these two");
    writer.log(&fifty("d")).await?;
    assert_eq!(writer.waiting().lines, 1, "it has flushed the others");
    writer.close().await?;
    writer.log("e").await?;
    writer.close().await?;
    let expected = [&*fifty("a"), &fifty("b"), &fifty("d"), "2 lines were dropped", "e"];
    assert_eq!(texts(&log).await?, expected, "what was dropped is told of once");

    // A full buffer that cannot be written refuses the line and keeps the others.
    let down = server.inject(Fault::any().reject(ErrorCode::AUTHENTICATION_FAILED));
    for text in ["f", "g", "h"] {
        writer.log(text).await?;
    }
    let error = writer.log(&fifty("i")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert_eq!(writer.waiting().lines, 3);
    drop(down);
    writer.close().await?;
    assert_eq!(texts(&log).await?[5..], ["f", "g", "h"]);
    Ok(())
}

#[tokio::test]
async fn invalid_options_are_rejected_before_sending() -> TestResult {
    let (server, _, container) = start().await?;
    let sent = server.journal().len();
    let log = || BlobLog::new(container.clone(), "web");
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let wrong = [
        log().period(minutes(0)),
        log().period(minutes(7)),
        log().period(minutes(120)),
        log().period(Duration::from_secs(90)),
        log().capacity(0),
        log().flush_bytes(0),
        log().capacity(100).flush_bytes(101),
        log().flush_every(Duration::ZERO),
    ];
    for log in wrong {
        assert_eq!(log.writer().unwrap_err().kind(), ErrorKind::Invalid);
    }
    for service in ["", "a/b", "..", "\u{e4}", &"x".repeat(65)] {
        let log = BlobLog::new(container.clone(), service);
        for error in [
            log.writer().map(|_| ()).unwrap_err(),
            log.read(begin()..after(1)).try_next().await.unwrap_err(),
            log.delete_before(begin()).await.unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        }
    }
    let writer = log().capacity(1 << 21).writer()?;
    for text in ["two\nlines", &"x".repeat((1 << 20) + 1)] {
        let error = writer.log(text).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::TooLarge), "{error}");
        assert!(!format!("{error} {error:?}").contains("lines\""), "{error:?}");
    }
    let far = Utc.with_ymd_and_hms(10_000, 1, 1, 0, 0, 0).unwrap();
    assert_eq!(writer.log_at(far, "x").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(writer.waiting().lines, 0);
    assert_eq!(server.journal().len(), sent);
    Ok(())
}

#[tokio::test]
async fn only_old_blobs_are_deleted() -> TestResult {
    let (server, _, container) = start().await?;
    let (log, _) = two_hours(&container).await?;
    let other = BlobLog::new(container.clone(), "web2").writer()?;
    other.log_at(after(-1800), "of another service").await?;
    other.close().await?;
    // One that was never closed, so that lines may still come until its period ends.
    let open = log.writer()?;
    open.log_at(after(-1800), "open").await?;
    open.flush().await?;

    assert_eq!(log.delete_before(after(-1800)).await?, 0);
    assert_eq!(log.delete_before(after(-1200)).await?, 0, "the last line is of 14:10");
    assert_eq!(log.delete_before(after(-1199)).await?, 1);
    assert_eq!(log.delete_before(after(-600)).await?, 1, "what was not closed may go on to 14:20");
    let before = server.journal();
    assert_eq!(log.delete_before(after(1800)).await?, 2);
    let since = server.journal().since(&before);
    assert_eq!((since.count(Operation::ListBlobs), since.len()), (1, 3));
    assert_eq!(log.delete_before(after(24 * 3600)).await?, 3);
    assert_eq!(names(&container).await?, ["web2/2026/11/21/1400/000001.log"]);
    // The writer whose blob is gone begins another.
    open.log_at(after(-1700), "later").await?;
    open.close().await?;
    assert_eq!(texts(&log).await?, ["later"]);
    Ok(())
}

#[tokio::test]
async fn foreign_blobs_are_ignored_and_an_invalid_line_is_an_error() -> TestResult {
    let (_server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web");
    for name in ["web/2026/11/21/1400/notes.txt", "web/2026/11/21/1400/1.log", "web/readme"] {
        container.blob(name).put("no line").send().await?;
    }
    assert_eq!(texts(&log).await?, [""; 0]);
    assert_eq!(log.delete_before(after(99_999)).await?, 0);
    // Without metadata, its name says when it is of.
    let blob = container.blob("web/2026/11/21/1400/000001.log");
    for content in ["private", "private\n", "2026-11-21T14:30:00.000000Z cut off"] {
        blob.put(content).send().await?;
        let error = texts(&log).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(!error.to_string().contains(content), "{error}");
    }
    blob.put("2026-11-21T14:30:00.000000Z whole\n").send().await?;
    assert_eq!(texts(&log).await?, ["whole"]);
    // A writer passes it by.
    let writer = log.writer()?;
    writer.log("mine").await?;
    writer.close().await?;
    assert_eq!(texts(&log).await?, ["whole", "mine"]);
    Ok(())
}

#[tokio::test]
async fn drive_flushes_by_time_by_size_and_on_shutdown() -> TestResult {
    let (server, clock, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web").flush_bytes(100);
    let writer = log.writer()?;
    let stop = tokio::sync::Notify::new();
    let appended = async |count: usize| {
        while server.journal().count(Operation::AppendBlock) < count {
            tokio::task::yield_now().await;
        }
    };
    let slept = async |count: usize| {
        while clock.slept().len() < count {
            tokio::task::yield_now().await;
        }
    };
    let test = async {
        slept(1).await;
        writer.log("by time").await?;
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert_eq!(writer.waiting().lines, 1, "not yet");
        clock.advance(Duration::from_secs(1));
        appended(1).await;
        slept(2).await;
        writer.log(&"x".repeat(100)).await?;
        appended(2).await;
        // What fails is tried again when the time has passed, however much waits.
        slept(3).await;
        let down = server.inject(Fault::any().reject(ErrorCode::AUTHENTICATION_FAILED));
        writer.log(&"y".repeat(100)).await?;
        slept(4).await;
        assert_eq!(down.hits(), 1);
        drop(down);
        clock.advance(Duration::from_secs(5));
        appended(3).await;
        writer.log("at the end").await?;
        stop.notify_one();
        Ok::<_, rowkey::Error>(())
    };
    let (ran, tested) = join(writer.run_until(stop.notified()), test).await;
    tested?;
    ran?;
    let texts = texts(&log).await?;
    assert_eq!((&*texts[0], &*texts[3], texts.len()), ("by time", "at the end", 4));
    assert_eq!(server.journal().count(Operation::SetBlobMetadata), 1, "it is closed");
    Ok(())
}

#[tokio::test]
async fn a_blob_changed_by_another_writer_is_abandoned_without_duplicates() -> TestResult {
    let (server, _, container) = start().await?;
    let container = once(container.account()).container("logs");
    let log = BlobLog::new(container.clone(), "web");
    let writer = log.writer()?;
    let blob = |number: u32| container.blob(&format!("web/2026/11/21/1400/{number:06}.log"));
    let line = |text: &str| format!("2026-11-21T14:30:00.000000Z {text}\n");
    writer.log("one").await?;
    writer.flush().await?;
    // Written by another client.
    blob(1).append(line("foreign")).send().await?;
    writer.log("two").await?;
    writer.flush().await?;
    // Leased by another client.
    let lease = blob(2).acquire_lease(None).await?.ok_or("another holder has it")?;
    writer.log("three").await?;
    writer.flush().await?;
    assert_eq!(names(&container).await?.len(), 3);
    // An append is done and its answer lost; and before it is repeated, another client writes or takes
    // a lease.
    for meddle in ["write", "lease"] {
        let lost = server.inject(Fault::on(Operation::AppendBlock).nth(1).close_after_commit());
        writer.log(meddle).await?;
        assert_eq!(writer.flush().await.unwrap_err().outcome(), Outcome::Unknown);
        drop(lost);
        let lease = if meddle == "write" {
            blob(3).append(line("foreign")).send().await?;
            None
        } else {
            blob(3).acquire_lease(None).await?
        };
        writer.flush().await?;
        if let Some(lease) = lease {
            writer.log("leased").await?;
            writer.flush().await?;
            lease.release().await?;
        }
    }
    writer.close().await?;
    lease.release().await?;
    let mut own = texts(&log).await?;
    own.retain(|text| text != "foreign");
    assert_eq!(own, ["one", "two", "three", "write", "lease", "leased"]);
    // Without the container, all operations fail.
    container.delete().await?;
    writer.log("later").await?;
    assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(writer.waiting().lines, 1);
    Ok(())
}

#[tokio::test]
async fn a_growing_blob_is_read_over_a_broken_connection() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web");
    let writer = log.writer()?;
    let long = "x".repeat(300_000);
    for number in 0..4 {
        writer.log(&format!("{number}{long}")).await?;
    }
    writer.flush().await?;
    let cut = server.inject(Fault::on(Operation::GetBlob).nth(1).truncate(100_000));
    let mut read = log.read(begin()..after(60));
    let held = server.inject(Fault::on(Operation::GetBlob).nth(1).hold());
    let (first, ()) = join(read.try_next(), async {
        held.wait_until_held().await;
        writer.log("later").await.unwrap();
        writer.flush().await.unwrap();
        held.release();
    })
    .await;
    assert_eq!(cut.hits(), 1);
    let rest: Vec<_> = read.try_collect().await?;
    let all: Vec<_> = first?.into_iter().chain(rest).map(|line| line.text.len()).collect();
    assert_eq!(all, [300_001; 4], "as it was when it was opened");
    Ok(())
}
