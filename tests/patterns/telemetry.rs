//! Telemetry: the trace of a write reaches the worker that does its task, and numbers say what became of
//! each.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::queue::Body;
use rowkey::store::Settled;
use rowkey::telemetry::TraceParent;
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Attempt, Done, Step, Worker};
use rowkey::{ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use tokio::sync::Barrier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::kept::{self, Kept};
use crate::outbox::{Price, store, tasks, tell};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A server, and an account with its clock and telemetry.
async fn start() -> TestResult<(Server, StorageAccount, Arc<Kept>)> {
    kept::start(ManualClock::new).await
}

fn price(item: &str) -> Price {
    Price { shop: "leeds".into(), item: item.into(), cents: 2 }
}

#[tokio::test]
async fn the_trace_of_a_write_is_propagated_to_the_handler_and_its_tasks() -> TestResult {
    let (server, account, kept) = start().await?;
    let trace: TraceParent = TRACE.parse()?;
    // The queue of the tasks is down, so the op row keeps the task, and the trace with it.
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    let prices = store(&account)?;
    let chair = price("chair");
    let write = prices.transaction().insert(&chair).task(&tell("chair", 2)).submit();
    assert_eq!(trace.scope(write).await?.settled, Settled::Pending);
    drop(down);

    // Another program settles it, and another one does the task.
    let later = server.clock().now().to_chrono() + Duration::from_secs(120);
    server.clock().advance(Duration::from_secs(120));
    let settler = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::new(later))
        .telemetry(Arc::clone(&kept) as _)
        .build()?;
    let drained = store(&settler)?.drain_backlog().await?;
    assert_eq!((drained.failed, drained.waiting), (0, 1), "its op row stays for a while");
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let worker = {
        let (seen, tasks) = (Arc::clone(&seen), tasks(&settler));
        Worker::new(tasks.clone(), move |task: crate::outbox::Tell, _: Attempt| {
            let (seen, tasks, task) = (Arc::clone(&seen), tasks.clone(), task.clone());
            async move {
                seen.lock().unwrap().push(TraceParent::current());
                if task.item == "chair" {
                    tasks.put(&tell("table", 3)).await?;
                }
                Ok(Done::Applied)
            }
        })
    };
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(*seen.lock().unwrap(), [Some(trace); 2]);
    // Settled, and two attempts.
    assert_eq!(kept.followed(), [trace; 3]);
    Ok(())
}

#[tokio::test]
async fn messages_with_a_missing_or_damaged_trace_are_processed() -> TestResult {
    let (_server, account, kept) = start().await?;
    let queue = tasks(&account);
    queue.put(&tell("chair", 2)).await?;
    let text = r#"{"kind":"tell","task":{"item":"sofa","cents":3},"traceparent":"00-no"}"#;
    account.queue("tells").put(Body::text(text)).send().await?;
    let worker = Worker::new(queue, |_: crate::outbox::Tell, _: Attempt| async {
        assert_eq!(TraceParent::current(), None);
        Ok(Done::Applied)
    });
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Handled);
    assert!(kept.followed().is_empty());
    Ok(())
}

#[tokio::test]
async fn counters_and_gauges_report_the_results_of_tasks_and_writes() -> TestResult {
    let (server, account, kept) = start().await?;
    let prices = store(&account)?;
    for item in ["chair", "lamp", "sofa"] {
        prices.transaction().insert(&price(item)).task(&tell(item, 2)).submit().await?;
    }
    let declaration = "db.collection.name=prices rowkey.declaration=tell";
    let settled = format!("rowkey.store.settled {declaration} rowkey.outcome=done");
    assert_eq!(kept.count(&format!("{settled} rowkey.settled_by=writer")), 3);
    assert_eq!(kept.last(&format!("rowkey.store.lag {declaration}")), Some(0.0));

    let clock = ManualClock::new(server.clock().now().to_chrono() + Duration::from_secs(90));
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock)
        .telemetry(Arc::clone(&kept) as _)
        .build()?;
    server.clock().advance(Duration::from_secs(90));
    let worker = Worker::new(tasks(&account), |task: crate::outbox::Tell, _: Attempt| async move {
        match &*task.item {
            "chair" => Ok(Done::Applied),
            "lamp" => {
                Err(rowkey::Error::refused(ErrorKind::Unavailable, "the lamps cannot be asked"))
            }
            _ => panic!("no sofa"),
        }
    });
    for _ in 0..3 {
        let _ = worker.step().await?;
    }
    let counted = |series: &str| kept.count(&format!("rowkey.worker.{series}"));
    let ended =
        |outcome| format!("ended messaging.destination.name=tells rowkey.outcome={outcome}");
    assert_eq!(counted("attempts messaging.destination.name=tells"), 3);
    assert_eq!(counted(&ended("handled")), 1);
    assert_eq!(counted(&ended("deferred")), 1);
    assert_eq!(counted(&ended("retried")), 1);
    assert_eq!(counted("failed messaging.destination.name=tells error.type=Unavailable"), 1);
    assert_eq!(counted("failed messaging.destination.name=tells error.type=Panic"), 1);
    assert_eq!(kept.last("rowkey.worker.in_flight messaging.destination.name=tells"), Some(0.0));
    assert_eq!(kept.last("rowkey.worker.oldest messaging.destination.name=tells"), Some(90.0));
    Ok(())
}

/// Each worker adds its handlers: one that ends does not hide those of the other.
#[tokio::test]
async fn handlers_of_two_workers_of_a_queue_add_up() -> TestResult {
    let (_server, account, kept) = start().await?;
    for item in ["chair", "lamp"] {
        tasks(&account).put(&tell(item, 2)).await?;
    }
    let (begun, ended) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let worker = || {
        let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
        Worker::new(tasks(&account), move |_: crate::outbox::Tell, _: Attempt| {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            async move {
                begun.wait().await;
                ended.wait().await;
                Ok(Done::Applied)
            }
        })
    };
    let series = "rowkey.worker.in_flight messaging.destination.name=tells";
    let (one, other) = (worker(), worker());
    let meet = async {
        begun.wait().await;
        let level = kept.last(series);
        ended.wait().await;
        level
    };
    let (one, other, level) = futures_util::future::join3(one.step(), other.step(), meet).await;
    assert_eq!((one?, other?, level), (Step::Handled, Step::Handled, Some(2.0)));
    assert_eq!(kept.last(series), Some(0.0));
    Ok(())
}

/// A message can name any cause: each new one would be another series.
#[tokio::test]
async fn causes_that_messages_name_are_one_series() -> TestResult {
    let (_server, account, kept) = start().await?;
    for cause in ["Panic", "made up", "another"] {
        let given_up = format!(r#"{{"cause":"{cause}","reason":"r"}}"#);
        let text = format!(r#"{{"kind":"tell","givenUp":{given_up},"task":{{}}}}"#);
        account.queue("tells").put(Body::text(text)).send().await?;
    }
    let worker = Worker::new(tasks(&account), |_: crate::outbox::Tell, _: Attempt| async {
        Ok(Done::Applied)
    });
    while worker.step().await? != Step::Idle {}
    assert_eq!(
        kept.count("rowkey.worker.failed messaging.destination.name=tells error.type=Panic"),
        1
    );
    assert_eq!(
        kept.count("rowkey.worker.failed messaging.destination.name=tells error.type=_OTHER"),
        2
    );
    Ok(())
}

/// Writes down the fields of spans.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "task"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn event(&self, _: &Event<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_span_of_an_attempt_contains_the_trace_id() -> TestResult {
    let (_server, account, _) = start().await?;
    let trace: TraceParent = TRACE.parse()?;
    trace.scope(tasks(&account).put(&tell("chair", 2))).await?;
    let long = "i".repeat(1_000);
    let foreign = format!(r#"{{"kind":"tell","id":"{long}","task":{{}}}}"#);
    account.queue("tells").put(Body::text(foreign)).send().await?;
    let notes = Notes::default();
    let subscribed = rowkey_tests::traces::subscribe(notes.clone());
    let worker = Worker::new(tasks(&account), |_: crate::outbox::Tell, _: Attempt| async {
        Ok(Done::Applied)
    });
    assert_eq!(worker.step().await?, Step::Handled);
    let _ = worker.step().await?;
    drop(subscribed);
    let notes = notes.0.lock().unwrap();
    for field in [
        "kind=\"tell\"",
        "messaging.destination.name=\"tells\"",
        "attempt=1",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
        "parent_id=00f067aa0ba902b7",
    ] {
        assert!(notes.contains(field), "{field} not in {notes}");
    }
    assert!(notes.contains(&long[..64]) && !notes.contains(&long[..65]), "{notes}");
    Ok(())
}
