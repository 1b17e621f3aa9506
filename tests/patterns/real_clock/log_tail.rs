//! A tail of a log that is idle, written to, or far behind.

use std::time::Duration;

use chrono::TimeDelta;
use rowkey::patterns::log_tail::{EntryId, LogTail};
use rowkey::{Entity, Partition};
use rowkey_tests::TestResult;

use super::{requests_of, start};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{service}", row = "{id}")]
struct Line {
    service: String,
    id: EntryId,
    number: u32,
}

fn web() -> Partition<Line> {
    Line::partition("web")
}

fn line(id: EntryId, number: u32) -> Line {
    Line { service: "web".into(), id, number }
}

#[tokio::test]
async fn an_idle_tail_sends_one_request_and_returns_none() -> TestResult {
    let (server, account) = start().await?;
    let log = LogTail::new(account.table("log"));
    log.table().create().await?;
    for settle in [Duration::ZERO, Duration::from_secs(10)] {
        let mut tail = log.tail(web(), settle);
        for _ in 0..5 {
            let (batch, sent) = requests_of(&server, tail.next_batch()).await;
            assert!(batch?.is_none());
            assert_eq!(sent.len(), 1, "a look costs a request");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_tail_returns_all_entries_and_then_none() -> TestResult {
    let (server, account) = start().await?;
    let log = LogTail::new(account.table("log"));
    log.table().create().await?;
    let mut tail = log.tail(web(), Duration::ZERO).batch_size(10);
    let mut seen = Vec::new();
    for round in 0..3 {
        for number in 0..4 {
            log.append(&line(log.next_id(), 4 * round + number)).await?;
        }
        // Nothing settles while the clock shows the tick of the last id.
        let (read, sent) = requests_of(&server, async {
            let mut read = Vec::new();
            while read.len() < 4 {
                match tail.next_batch().await? {
                    Some(batch) => read.extend(batch.entries),
                    None => tokio::task::yield_now().await,
                }
            }
            let rest = tail.next_batch().await?;
            Ok::<_, rowkey::Error>((read, rest))
        })
        .await;
        let (read, rest) = read?;
        assert!(rest.is_none());
        assert!(sent.len() <= 10, "{} requests for four entries", sent.len());
        seen.extend(read.into_iter().map(|entry| entry.entity.number));
    }
    assert_eq!(seen, (0..12).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn reading_a_backlog_costs_at_most_about_two_passes() -> TestResult {
    let (server, account) = start().await?;
    let log = LogTail::new(account.table("log"));
    log.table().create().await?;
    let now = account.clock().now();
    for number in 0..100 {
        let at = now - TimeDelta::seconds(1000 - i64::from(number));
        log.append(&line(EntryId::new(at, "w"), number)).await?;
    }
    let mut tail = log.tail(web(), Duration::from_secs(1)).batch_size(10);
    let (seen, sent) = requests_of(&server, async {
        let mut seen = Vec::new();
        while let Some(batch) = tail.next_batch().await? {
            seen.extend(batch.entries.into_iter().map(|entry| entry.entity.number));
        }
        Ok::<_, rowkey::Error>(seen)
    })
    .await;
    assert_eq!(seen?, (0..100).collect::<Vec<_>>());
    assert!(sent.len() <= 40, "{} requests for ten batches", sent.len());
    Ok(())
}
