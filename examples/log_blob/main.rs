//! An access log in blobs: two web servers write it, a time range is read by opening only the blobs that it
//! needs, events of `tracing` go to a separate log, and old blobs are deleted.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};
use futures_util::future::join;
use futures_util::{TryStreamExt as _, future};
use rowkey::StorageAccount;
use rowkey::patterns::log_blob::{BlobLog, LogLine};
use rowkey_emulator::{Operation, Server};
use tracing_subscriber::layer::SubscriberExt as _;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let container = account.container("logs");
    container.create().await?;

    // ANCHOR: write
    // Each server has a writer of its own, and the writers have blobs of their own. Lines that are
    // logged wait in memory until they are flushed: every five seconds, or when 256 KiB wait.
    let log = BlobLog::new(container.clone(), "web").flush_every(Duration::from_secs(5));
    let day = Utc.with_ymd_and_hms(2026, 11, 21, 0, 0, 0).unwrap();
    for server in ["ada", "bob"] {
        let writer = log.writer()?;
        for (time, request) in access_of_a_day(day, server) {
            // What happens now is logged with `writer.log(&request)`.
            writer.log_at(time, &request).await?;
        }
        // An orderly end: what waits is written, and the last blob says when its last line was.
        writer.close().await?;
    }
    // ANCHOR_END: write

    // ANCHOR: read
    // Who asked for what between 14:20 and 14:25? The names say which hour a blob is of, and the
    // metadata, which comes with the names, when its first and last line were logged.
    let before = server.journal();
    let from = day + TimeDelta::minutes(14 * 60 + 20);
    let lines: Vec<LogLine> = log.read(from..from + TimeDelta::minutes(5)).try_collect().await?;
    for line in &lines {
        println!("{} {}", line.time.format("%H:%M:%S"), line.text);
    }
    assert_eq!(lines.len(), 10, "one per minute of each server");
    assert!(lines.is_sorted_by_key(|line| line.time), "merged by time");

    // A day of two servers is 48 blobs, two of which were opened.
    let requests = server.journal().since(&before);
    assert_eq!(requests.count(Operation::ListBlobs), 1);
    assert_eq!(requests.count(Operation::GetBlob), 2);
    let blobs = container.blobs().starting_with("web/2026/11/21/").all().await?;
    assert_eq!(blobs.len(), 48);
    println!("read 2 of {} blobs, {} among them", blobs.len(), blobs[28].name);
    // ANCHOR_END: read

    // A stream holds a piece of each open blob, so reading a whole day needs little memory.
    let day_long = log.read(day..day + TimeDelta::days(1));
    let failed = |line: &LogLine| future::ready(line.text.ends_with(" 404"));
    let missing = day_long.try_filter(failed).try_fold(0, async |sum, _| Ok(sum + 1)).await?;
    println!("{missing} of 2880 requests found nothing");
    assert_eq!(missing, 2 * 1440 / 10);

    // ANCHOR: events
    // What a program traces goes to a log of its own, a line of JSON each. Nothing waits for it: an
    // event that finds the buffer full is dropped and counted.
    let events = BlobLog::new(container.clone(), "web-events");
    let writer = events.writer()?;
    let subscriber = tracing_subscriber::registry().with(writer.layer());
    let serve = async {
        let _default = tracing::subscriber::set_default(subscriber);
        tracing::warn!(path = "/menu", "took 3 seconds");
    };
    // A task must drive the writer; at the end of the work it writes the remaining lines.
    let done = tokio::sync::Notify::new();
    let work = async {
        serve.await;
        done.notify_one();
    };
    join(writer.run_until(done.notified()), work).await.0?;
    let now = account.clock().now();
    let hour = TimeDelta::hours(1);
    let traced: Vec<_> = events.read(now - hour..now + hour).try_collect().await?;
    assert!(traced[0].text.contains(r#""path":"/menu""#));
    println!("{}", traced[0].text);
    // ANCHOR_END: events

    // Deletes logs that are no longer needed.
    let deleted = log.delete_before(day + TimeDelta::hours(12)).await?;
    println!("deleted {deleted} blobs of the morning");
    assert_eq!(deleted, 24);
    assert_eq!(log.read(day..day + TimeDelta::hours(12)).try_next().await?, None);
    Ok(())
}

/// One request per minute; every tenth is for a missing resource.
fn access_of_a_day(
    day: DateTime<Utc>,
    server: &str,
) -> impl Iterator<Item = (DateTime<Utc>, String)> {
    (0..1440).map(move |minute| {
        let time = day + TimeDelta::seconds(minute * 60);
        let (path, status) = if minute % 10 == 7 { ("/gone", 404) } else { ("/menu", 200) };
        (time, format!("{server} GET {path} {status}"))
    })
}
