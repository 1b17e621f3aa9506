//! Meters beside the server's journal: retries, errors, dropped futures, panics and the secondary.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select;
use rowkey::cost::{Class, Meter, Usage};
use rowkey::queue::Body;
use rowkey::telemetry::{Telemetry, with_receipt};
use rowkey::{DynamicEntity, ErrorCode, Key, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::server::{billed, transactions};

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("orders").create().await?;
    Ok((server, account))
}

fn key(row: &str) -> Key<DynamicEntity> {
    Key::new("contoso", row)
}

fn row(row: &str) -> DynamicEntity {
    DynamicEntity::new("contoso", row)
}

#[tokio::test]
async fn a_meter_counts_what_the_server_counts() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let meter = Meter::new();
    let account = account(&server)?.with_meter(&meter);
    let (orders, jobs, files) =
        (account.table("orders"), account.queue("jobs"), account.container("files"));
    orders.create().await?;
    orders.insert(&row("1")).await?;
    assert!(orders.insert(&row("1")).await.is_err(), "a conflict is billed");
    orders.upsert(&row("2")).await?;
    orders.upsert_merge(&row("2")).await?;
    orders.get(key("1")).await?;
    assert!(orders.get(key("missing")).await?.is_none(), "a 404 is billed");
    orders.scan::<DynamicEntity>().all().await?;
    orders.transaction().insert(&row("3")).insert(&row("4")).submit().await?;
    let refused = orders.transaction().insert(&row("5")).insert(&row("4")).submit().await;
    assert!(refused.is_err(), "a transaction that is refused is billed");
    orders.delete(key("4"), rowkey::Match::Any).await?;
    jobs.create().await?;
    jobs.put(Body::text("a")).send().await?;
    jobs.peek(1).await?;
    files.create().await?;
    files.blob("a").put(vec![7; 1000]).send().await?;
    let before = meter.usage();
    assert_eq!(files.blob("a").get().await?.ok_or("just put")?.bytes.len(), 1000);
    assert!((meter.usage() - before).received() >= 1000);
    files.blob("a").delete_if_exists().await?;
    assert_eq!(transactions(&meter.usage()), billed(&server.journal()), "{}", meter.usage());
    assert_eq!(meter.usage().unbilled(), 0);
    assert_eq!(meter.usage().requests(), server.journal().len() as u64);
    Ok(())
}

#[tokio::test]
async fn what_is_read_of_a_body_counts_when_it_is_read() -> TestResult {
    let (_server, account) = start().await?;
    let meter = Meter::new();
    let files = account.with_meter(&meter).container("files");
    files.create().await?;
    files.blob("a").put(vec![7; 1 << 20]).send().await?;
    meter.take();
    let (read, receipt) = with_receipt(async {
        let mut blob = files.blob("a").read().open().await?.ok_or("just put")?;
        Ok::<_, Box<dyn std::error::Error>>(blob.next().await?.ok_or("not empty")?.len() as u64)
    })
    .await;
    let read = read.map_err(|error| error.to_string())?;
    assert!(read < 1 << 20, "the rest is not read");
    assert_eq!((meter.usage().received(), receipt.bytes_received()), (read, read));
    assert_eq!((meter.usage().requests(), receipt.attempts()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn receiving_is_class_1_only_if_it_returns_messages() -> TestResult {
    let (_server, account) = start().await?;
    let jobs = account.queue("jobs");
    jobs.create().await?;
    let (empty, full) = (Meter::new(), Meter::new());
    let hidden = Duration::from_secs(30);
    assert!(jobs.with_meter(&empty).receive(1, hidden).await?.is_empty());
    jobs.put(Body::text("a")).send().await?;
    assert_eq!(jobs.with_meter(&full).receive(32, hidden).await?.len(), 1);
    assert_eq!(transactions(&empty.usage()), Usage::of(Class::QueueClass2, 1));
    assert_eq!(transactions(&full.usage()), Usage::of(Class::QueueClass1, 1));
    Ok(())
}

#[tokio::test]
async fn each_attempt_counts_and_a_throttled_one_is_not_billed() -> TestResult {
    let (server, account) = start().await?;
    let orders = account.table("orders");
    let _busy = server
        .inject(Fault::on(Operation::GetEntity).nth(1).times(2).reject(ErrorCode::SERVER_BUSY));
    let meter = Meter::new();
    meter.scope(orders.get(key("1"))).await?;
    let usage = meter.take();
    assert_eq!((usage.requests(), usage.unbilled()), (3, 2));
    assert_eq!(usage.transactions(Class::TableRead), 1);
    assert!(meter.usage().is_empty());

    // The service may have carried out a request whose response is lost.
    let _lost = server.inject(Fault::on(Operation::GetEntity).nth(1).close_after_commit());
    meter.scope(orders.get(key("1"))).await?;
    let usage = meter.usage();
    assert_eq!((usage.requests(), usage.unbilled()), (2, 0));
    assert_eq!(usage.transactions(Class::TableRead), 2);
    Ok(())
}

#[tokio::test]
async fn what_is_not_authenticated_is_not_billed() -> TestResult {
    let (server, _) = start().await?;
    let wrong = server.connection_string().replace("AccountKey=", "AccountKey=AAAA");
    let meter = Meter::new();
    let account = StorageAccount::from_connection_string(&wrong)?.with_meter(&meter);
    assert!(account.table("orders").get(key("1")).await.is_err());
    assert_eq!((meter.usage().requests(), meter.usage().unbilled()), (1, 1));

    // Nothing was sent: the port is closed.
    let meter = Meter::new();
    let nowhere = "AccountName=a;AccountKey=YQ==;TableEndpoint=http://127.0.0.1:1/a";
    let nowhere = StorageAccount::from_connection_string(nowhere)?;
    let retry = rowkey::RetryOptions { max_attempts: 1, ..nowhere.options().retry.clone() };
    let options = rowkey::ClientOptions { retry, ..nowhere.options().clone() };
    let nowhere = nowhere.with_options(options).with_meter(&meter);
    assert!(nowhere.table("orders").get(key("1")).await.is_err());
    assert!(meter.usage().is_empty(), "{}", meter.usage());
    Ok(())
}

#[tokio::test]
async fn two_meters_count_one_request_once_each() -> TestResult {
    let (_server, account) = start().await?;
    let (one, other) = (Meter::new(), Meter::new());
    let orders = account.with_meter(&one).with_meter(&other).with_meter(&one).table("orders");
    let call = other.scope(one.scope(other.scope(orders.get(key("1")))));
    call.await?;
    assert_eq!((one.usage().requests(), other.usage().requests()), (1, 1));
    // A handle with other options keeps its meters, and another handle of the account has none.
    orders.with_options(orders.account().options().clone()).get(key("1")).await?;
    account.table("orders").get(key("1")).await?;
    assert_eq!((one.usage().requests(), other.usage().requests()), (2, 2));
    // Spawned tasks do not inherit a scope.
    let orders = account.table("orders");
    #[expect(clippy::disallowed_methods, reason = "a task of the program")]
    let spawn = |task| tokio::spawn(task);
    one.scope(async { spawn(async move { orders.get(key("1")).await }).await }).await??;
    assert_eq!(one.usage().requests(), 2);
    Ok(())
}

#[tokio::test]
async fn a_dropped_future_counts_what_was_sent() -> TestResult {
    let (server, account) = start().await?;
    let orders = account.table("orders");
    let meter = Meter::new();
    let held = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    {
        let one = row("1");
        let insert = pin!(meter.scope(orders.insert(&one)));
        select(insert, pin!(held.wait_until_held())).await;
        assert!(meter.usage().is_empty(), "it is not over");
    }
    assert_eq!(meter.usage().transactions(Class::TableWrite), 1);
    held.release();
    // Outside of the scope, nothing is counted.
    orders.get(key("1")).await?;
    assert_eq!(meter.usage().requests(), 1);
    Ok(())
}

#[tokio::test]
async fn a_panic_in_a_scope_ends_it() -> TestResult {
    let (_server, account) = start().await?;
    let orders = account.table("orders");
    let meter = Meter::new();
    let panics = async {
        orders.get(key("1")).await.unwrap();
        panic!("the program's code");
    };
    assert!(AssertUnwindSafe(meter.scope(panics)).catch_unwind().await.is_err());
    orders.get(key("1")).await?;
    assert_eq!(meter.usage().requests(), 1);
    Ok(())
}

/// Telemetry that sums a counter.
#[derive(Default)]
struct Counters(Mutex<Vec<String>>);

impl Telemetry for Counters {
    fn count(&self, name: &'static str, labels: &[(&'static str, &str)], add: u64) {
        if name == "rowkey.client.transactions" {
            self.0.lock().unwrap().push(format!("{labels:?} {add}"));
        }
    }
}

#[tokio::test]
async fn transactions_are_a_metric() -> TestResult {
    let server = Server::start().await?;
    let counters = Arc::new(Counters::default());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .telemetry(counters.clone())
        .build()?;
    account.table("orders").create().await?;
    account.table("orders").get(key("1")).await?;
    let of = |class: &str| {
        format!(r#"[("rowkey.billing.service", "table"), ("rowkey.billing.class", "{class}")] 1"#)
    };
    assert_eq!(*counters.0.lock().unwrap(), [of("write"), of("read")], "it needs no meter");
    Ok(())
}
