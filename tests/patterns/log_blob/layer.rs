//! Events of `tracing` as lines of a log.

use rowkey::patterns::log_blob::BlobLog;
use rowkey_emulator::Operation;
use rowkey_tests::TestResult;
use rowkey_tests::traces::subscribe;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{start, texts};

#[tokio::test]
async fn events_are_json_lines_with_their_spans() -> TestResult {
    let (_server, _, container) = start().await?;
    let log = BlobLog::new(container, "web");
    let writer = log.writer()?;
    let subscriber = tracing_subscriber::registry().with(writer.layer());
    let subscribed = subscribe(subscriber);
    tracing::info_span!("request", path = "/menu").in_scope(|| {
        tracing::info!(guests = 3, "two\nlines");
    });
    drop(subscribed);
    writer.close().await?;
    let texts = texts(&log).await?;
    let event: serde_json::Value = serde_json::from_str(&texts[0])?;
    assert_eq!(event["level"], "INFO");
    assert_eq!(event["fields"]["message"], "two\nlines");
    assert_eq!(event["fields"]["guests"], 3);
    assert_eq!(event["span"]["path"], "/menu");
    assert_eq!(event["target"], module_path!());
    assert!(event.get("timestamp").is_none(), "the line has it");
    Ok(())
}

#[tokio::test]
async fn dropped_events_are_counted_in_an_event() -> TestResult {
    let (_server, _, container) = start().await?;
    let log = BlobLog::new(container, "web").capacity(400).flush_bytes(400);
    let writer = log.writer()?;
    let subscriber = tracing_subscriber::registry().with(writer.layer());
    let _subscribed = subscribe(subscriber);
    for number in 0..10 {
        tracing::info!(number, "event");
    }
    let dropped = writer.dropped();
    assert!((1..10).contains(&dropped), "{dropped}");
    writer.flush().await?;
    tracing::info!("after");
    writer.close().await?;
    let texts = texts(&log).await?;
    let events: Vec<serde_json::Value> =
        texts.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
    let told = &events[events.len() - 2]["fields"];
    assert_eq!(
        (&told["message"], &told["events"]),
        (&"events were dropped".into(), &dropped.into())
    );
    assert_eq!(events.len() as u64, 10 - dropped + 2, "none is lost silently");
    Ok(())
}

#[tokio::test]
async fn the_logs_own_requests_are_not_logged() -> TestResult {
    let (server, _, container) = start().await?;
    let log = BlobLog::new(container.clone(), "web");
    let writer = log.writer()?;
    // At every level, including traces of the HTTP library in its own tasks.
    let subscriber = tracing_subscriber::registry().with(writer.layer());
    let _subscribed = subscribe(subscriber);
    tracing::info!("one");
    for _ in 0..5 {
        writer.flush().await?;
    }
    assert_eq!(server.journal().count(Operation::AppendBlock), 1, "nothing follows from a flush");
    // A failure that the client reports as an event.
    let refused = container.blob("no lease").put("x").metadata(&[("1", "")]).send().await;
    assert!(refused.is_err());
    let table = container.account().table("missing");
    let missing = table.insert(&rowkey::DynamicEntity::new("p", "r")).await;
    assert!(missing.is_err());
    writer.close().await?;
    let texts = texts(&log).await?;
    assert!(texts[0].contains(r#""message":"one""#));
    assert!(texts.len() > 1, "the failed insert is an event of the program");
    assert!(texts[1..].iter().all(|text| text.contains(r#""target":"rowkey""#)), "{texts:?}");
    Ok(())
}

#[tokio::test]
async fn an_event_first_emitted_by_another_thread_is_logged() -> TestResult {
    let (_server, _, container) = start().await?;
    let log = BlobLog::new(container, "web");
    let writer = log.writer()?;
    let _subscribed = subscribe(tracing_subscriber::registry().with(writer.layer()));
    let happens = || tracing::info!("met first by a thread without a subscriber");
    std::thread::spawn(happens).join().unwrap();
    happens();
    writer.close().await?;
    assert_eq!(texts(&log).await?.len(), 1);
    Ok(())
}
