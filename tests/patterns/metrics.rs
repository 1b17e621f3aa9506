//! Metrics and receipts of whole programs: what stores, jobs, workers, queues and blobs report, through every
//! failure, and that the page lists all of it.

#![expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "sums of small whole numbers")]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::{Job, Walk};
use rowkey::queue::Body;
use rowkey::store::{Settled, Written};
use rowkey::telemetry::{METRICS, MetricKind, with_receipt};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Attempt, Done, Step, Worker};
use rowkey::{DynamicEntity, ErrorKind, ManualClock, Partition, Receipt, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;

use crate::kept::{self, Kept};
use crate::outbox::{Price, Tell, price, store, tasks, tell};

/// A server with a journal, and an account whose waits take no time.
async fn start() -> TestResult<(Server, StorageAccount, Arc<Kept>)> {
    kept::start(ManualClock::auto_advancing).await
}

const WRITE: &str = "rowkey.store.write.requests db.collection.name=prices rowkey.operation.name";

#[tokio::test]
async fn a_write_reports_the_requests_that_the_server_saw() -> TestResult {
    let (server, account, kept) = start().await?;
    let prices = store(&account)?;
    let chair = price("chair", 2);
    let before = server.journal();
    let inserted = prices.insert(&chair).await?;
    assert_eq!(inserted.receipt.attempts(), 1);
    assert_eq!(server.journal().since(&before).len(), 1);
    assert_eq!(kept.sum(&format!("{WRITE}=Insert rowkey.outcome=done")), 1.0);

    let before = server.journal();
    let submitted = prices
        .transaction()
        .replace_if(&price("chair", 3), inserted.version)
        .task(&tell("chair", 3))
        .submit()
        .await?;
    let seen = server.journal().since(&before).len();
    assert_eq!(submitted.receipt.attempts() as usize, seen);
    assert!(submitted.receipt.request_id().is_some() && submitted.receipt.bytes_sent() > 0);
    assert_eq!(kept.sum(&format!("{WRITE}=Transaction rowkey.outcome=done")), seen as f64);
    let settled = "rowkey.store.settled db.collection.name=prices rowkey.declaration=tell";
    assert_eq!(kept.count(&format!("{settled} rowkey.outcome=done rowkey.settled_by=writer")), 1);

    assert!(!prices.delete(Price::key("leeds", "sofa")).await?);
    assert_eq!(kept.count(&format!("{WRITE}=Delete rowkey.outcome=unchanged")), 1);
    let again = prices.insert(&chair).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let failed = format!("{WRITE}=Insert rowkey.outcome=failed error.type=EntityAlreadyExists");
    assert_eq!(kept.count(&failed), 1, "{}", kept.text());
    let page = prices.query(Price::partition("leeds")).page(10, None).await?;
    assert_eq!((page.entities.len(), page.receipt.attempts()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn receipts_of_writes_are_not_compared() -> TestResult {
    let (_server, account, _) = start().await?;
    let written = store(&account)?.insert(&price("chair", 2)).await?;
    assert_eq!(written, Written { receipt: Receipt::default(), ..written.clone() });
    assert_ne!(written.receipt, Receipt::default());
    Ok(())
}

/// With a 503 at each request in turn: the receipt has the repetition, and nothing stays in flight.
#[tokio::test]
async fn a_repeated_request_of_a_write_counts_in_its_receipt() -> TestResult {
    for nth in 1..=5 {
        let (server, account, kept) = start().await?;
        let prices = store(&account)?;
        let before = server.journal();
        let busy = Fault::any().nth(nth).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(busy);
        let chair = price("chair", 2);
        let submitted =
            prices.transaction().insert(&chair).task(&tell("chair", 2)).submit().await?;
        let hits = injected.hits();
        let seen = server.journal().since(&before).len();
        assert_eq!(submitted.receipt.attempts() as usize, seen, "{nth}");
        let throttled = kept.sum("rowkey.client.throttled error.type=ServerBusy");
        assert_eq!(throttled, hits as f64, "{nth}");
        // What a worker does as well is tried once.
        let retries = kept.sum("rowkey.client.retries error.type=ServerBusy");
        assert!(retries <= throttled, "{nth}");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let active = format!("http.client.active_requests http.request.method={method}");
            assert_eq!(kept.sum(&active), 0.0, "{nth} {method}");
        }
    }
    Ok(())
}

/// Dropped at each request in turn: nothing stays in flight.
#[tokio::test]
async fn a_dropped_write_leaves_nothing_in_flight() -> TestResult {
    for nth in 1..=4 {
        let (server, account, kept) = start().await?;
        let prices = store(&account)?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let chair = price("chair", 2);
        let write = prices.transaction().insert(&chair).task(&tell("chair", 2)).submit();
        let late = tokio::time::timeout(Duration::from_millis(300), write).await;
        assert!(late.is_err(), "{nth}");
        drop(held);
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let active = format!("http.client.active_requests http.request.method={method}");
            assert_eq!(kept.sum(&active), 0.0, "{nth} {method}");
        }
        let text = kept.text();
        assert!(text.contains("error.type=cancelled"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_worker_settles_is_told_apart() -> TestResult {
    let (server, account, kept) = start().await?;
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    let (prices, chair) = (store(&account)?, price("chair", 2));
    let write = prices.transaction().insert(&chair).task(&tell("chair", 2)).submit();
    assert_eq!(write.await?.settled, Settled::Pending);
    assert_eq!(kept.count(&format!("{WRITE}=Transaction rowkey.outcome=pending")), 1);
    drop(down);
    let later = server.clock().now().to_chrono() + Duration::from_secs(120);
    server.clock().advance(Duration::from_secs(120));
    let settler = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::new(later))
        .telemetry(Arc::clone(&kept) as _)
        .build()?;
    assert_eq!(store(&settler)?.drain_backlog().await?.failed, 0);
    let settled = "rowkey.store.settled db.collection.name=prices rowkey.declaration=tell";
    assert_eq!(
        kept.count(&format!("{settled} rowkey.outcome=done rowkey.settled_by=worker")),
        1,
        "{}",
        kept.text()
    );
    Ok(())
}

#[tokio::test]
async fn jobs_report_what_they_did_and_what_is_left() -> TestResult {
    let (server, account, kept) = start().await?;
    let table = account.table("events");
    table.create().await?;
    let rows = (0..250).map(|row| DynamicEntity::new(format!("{}", row % 2), format!("{row:03}")));
    let before = server.journal();
    Job::insert(&table, stream::iter(rows)).run().await?;
    let sent = server.journal().since(&before).len();
    let insert = "rowkey.job=insert db.collection.name=events";
    let reported = kept.sum(&format!("rowkey.job.requests {insert}"));
    assert_eq!(reported, sent as f64, "{}", kept.text());
    assert_eq!(kept.sum(&format!("rowkey.job.entities {insert} rowkey.verdict=right")), 250.0);

    let walk = Walk::keys(&table).split_partitions(["1"]);
    // Rates are measured over a second or more.
    let pace = Pace::background().requests_per_second(1);
    Job::count(walk).pace(pace).run().await?;
    let count = "rowkey.job=count db.collection.name=events";
    assert_eq!(kept.sum(&format!("rowkey.job.requests {count}")), 2.0);
    let pace = kept.greatest(&format!("rowkey.job.pace {count}"));
    assert!(pace > 0.0 && pace <= 2.0, "{pace}");
    assert_eq!(kept.sum(&format!("rowkey.job.backlog {count}")), 0.0);
    assert_eq!(kept.sum(&format!("rowkey.job.progress {count}")), 1.0);
    for gauge in ["rate", "pace"] {
        assert_eq!(kept.sum(&format!("rowkey.job.{gauge} {count}")), 0.0, "it is over");
    }
    Ok(())
}

/// A job that fails, or is dropped, has no rate and no backlog: the program does nothing for it any more.
#[tokio::test]
async fn jobs_that_end_early_have_no_rate_and_no_backlog() -> TestResult {
    for is_dropped in [false, true] {
        let (server, account, kept) = start().await?;
        let table = account.table("events");
        table.create().await?;
        let rows = ["0", "1", "2"].map(|part| DynamicEntity::new(part, "1"));
        Job::insert(&table, stream::iter(rows)).run().await?;
        let third = Fault::on(Operation::QueryEntities).nth(3);
        let third = if is_dropped { third.hold() } else { third.reject(ErrorCode::INVALID_INPUT) };
        let third = server.inject(third);
        let walk = Walk::keys(&table).split_partitions(["1", "2"]);
        let pace = Pace::background().requests_per_second(1);
        let job = Job::count(walk).pace(pace).concurrency(1).run();
        let count = "rowkey.job=count db.collection.name=events";
        if is_dropped {
            match select(pin!(job), pin!(third.wait_until_held())).await {
                Either::Left(_) => panic!("the third request is held"),
                Either::Right(_) => {
                    let backlog = kept.sum(&format!("rowkey.job.backlog {count}"));
                    assert!(backlog > 0.0, "{}", kept.text());
                }
            }
        } else {
            assert!(job.await.is_err());
        }
        assert!(kept.greatest(&format!("rowkey.job.rate {count}")) > 0.0, "{}", kept.text());
        for gauge in ["rate", "pace", "backlog"] {
            let series = format!("rowkey.job.{gauge} {count}");
            assert_eq!(kept.sum(&series), 0.0, "{series} {is_dropped}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn workers_report_how_long_handlers_run() -> TestResult {
    let (server, _, kept) = start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .telemetry(Arc::clone(&kept) as _)
        .build()?;
    let queue = tasks(&account);
    for item in ["chair", "lamp"] {
        queue.put(&tell(item, 2)).await?;
    }
    let worker = Worker::new(queue, move |task: Tell, _: Attempt| {
        let clock = clock.clone();
        async move {
            clock.advance(Duration::from_secs(7));
            if task.item == "lamp" {
                return Err(rowkey::Error::refused(ErrorKind::Unavailable, "no lamps"));
            }
            Ok(Done::Applied)
        }
    });
    for _ in 0..2 {
        assert_ne!(worker.step().await?, Step::Idle);
    }
    let process = "messaging.process.duration messaging.system=azure_queues \
                   messaging.operation.name=process messaging.destination.name=tells";
    assert_eq!((kept.count(process), kept.sum(process)), (1, 7.0), "{}", kept.text());
    let failed = kept.sum(&format!("{process} error.type=Unavailable"));
    assert_eq!(failed, 7.0, "{}", kept.text());
    Ok(())
}

#[tokio::test]
async fn queues_and_blobs_report_their_operations() -> TestResult {
    let (_server, account, kept) = start().await?;
    let queue = account.queue("jobs");
    queue.create().await?;
    for _ in 0..3 {
        queue.put(Body::text("one")).send().await?;
    }
    assert_eq!(queue.peek(2).await?.len(), 2);
    for message in queue.receive(32, Duration::from_secs(30)).await? {
        queue.delete(&message).await?;
    }
    let named = |operation: &str| {
        format!(
            "messaging.system=azure_queues messaging.operation.name={operation} \
             messaging.destination.name=jobs"
        )
    };
    let consumed = |name| kept.sum(&format!("messaging.client.consumed.messages {}", named(name)));
    assert_eq!((consumed("PeekMessages"), consumed("GetMessages")), (2.0, 3.0));
    let sent = format!("messaging.client.sent.messages {}", named("PutMessage"));
    assert_eq!(kept.sum(&sent), 3.0);
    let settled = format!(
        "messaging.client.operation.duration {} messaging.operation.type=settle",
        named("DeleteMessage")
    );
    assert_eq!(kept.count(&settled), 3, "{}", kept.text());

    let photos = account.container("photos");
    photos.create().await?;
    let blob = photos.blob("one");
    let (written, receipt) = with_receipt(blob.put("content").send()).await;
    written?;
    assert_eq!((receipt.attempts(), receipt.bytes_sent()), (1, 7));
    let (read, receipt) = with_receipt(blob.get()).await;
    read?;
    assert_eq!((receipt.attempts(), receipt.bytes_received()), (1, 7));
    let operation = "rowkey.blob.operation.duration rowkey.operation.name";
    assert_eq!(kept.count(&format!("{operation}=PutBlob rowkey.container.name=photos")), 1);
    assert!(!kept.text().contains("one"), "names of blobs are no attributes");
    Ok(())
}

/// Keys and values appear in no attribute of any metric.
#[tokio::test]
async fn no_attribute_has_a_key_or_a_value() -> TestResult {
    let (_server, account, kept) = start().await?;
    let table = account.table("events");
    table.create().await?;
    let mut row = DynamicEntity::new("secret-partition", "secret-row");
    row.set("Secret", "secret-value");
    table.insert(&row).await?;
    let _ = table.insert(&row).await.unwrap_err();
    let partition = Partition::<DynamicEntity>::new("secret-partition");
    assert_eq!(table.query(partition).page(10, None).await?.entities.len(), 1);
    let _ = table.transaction().insert(&row).submit().await.unwrap_err();
    let _ = table.get(row.key()).await?;
    assert!(!kept.text().to_lowercase().contains("secret"), "{}", kept.text());
    assert!(kept.names().contains("db.client.response.returned_rows"));
    Ok(())
}

#[test]
fn the_page_lists_all_metrics() {
    let page = include_str!("../../docs/src/client/telemetry.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"))
        .map(|row| row.split(" | ").collect())
        .filter(|row: &Vec<&str>| row.len() == 4)
        .collect();
    for metric in METRICS {
        let name = format!("{}`", metric.name);
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("{name} is not on the page"));
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::UpDownCounter => "up-down counter",
            _ => panic!("another kind"),
        };
        let attributes: Vec<_> =
            metric.attributes.iter().map(|attribute| format!("`{attribute}`")).collect();
        let unit = format!("`{}`", metric.unit);
        assert_eq!(row[1..], [kind, &unit, &attributes.join(", ")], "{name}");
    }
    assert_eq!(rows.len(), METRICS.len(), "the page has a metric that there is not");
    let most = format!("first {} values", rowkey::telemetry::MAX_NAMES);
    assert!(page.contains(&most));
}
