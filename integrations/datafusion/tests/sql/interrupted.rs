//! `INSERT INTO` that meets errors, waits, or is interrupted: no row is lost, and no more are in memory than need be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{Array as _, AsArray as _};
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::exec_err;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use rowkey_datafusion::WriteMode;
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, numbers};

impl Account {
    /// A function that returns its argument, counts the rows that it has seen, and fails at a value.
    fn counted(&self, fails_at: i64) -> Arc<AtomicUsize> {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let function = move |values: &[ColumnarValue]| {
            let ColumnarValue::Array(array) = &values[0] else { return exec_err!("no rows") };
            count.fetch_add(array.len(), Ordering::Relaxed);
            if array.as_primitive::<Int64Type>().values().contains(&fails_at) {
                return exec_err!("the select failed");
            }
            Ok(values[0].clone())
        };
        let (types, volatile) = (vec![DataType::Int64], Volatility::Volatile);
        self.session.register_udf(create_udf(
            "counted",
            types,
            DataType::Int64,
            volatile,
            Arc::new(function),
        ));
        seen
    }
}

fn counted_numbers(rows: usize) -> String {
    numbers(rows).replace("NULL, value", "NULL, counted(value)")
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_as_they_are_written() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    let seen = account.counted(-1);
    account.session.sql("SET datafusion.execution.target_partitions = 2").await.unwrap();
    let held = account.server.inject(Fault::on(Operation::Transaction).hold());
    let insert = format!("INSERT INTO numbers {}", counted_numbers(200_000));
    let running = tokio::spawn(account.session.sql(&insert).await.unwrap().collect());
    held.wait_until_held().await;
    // It stops reading when its transactions and buffers are full.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = seen.load(Ordering::Relaxed);
        if now == before {
            break;
        }
        before = now;
    }
    // Of each of the two streams: three batches of 8,192 rows, and the transactions of its job.
    assert!(before <= 100_000, "{before} rows are in memory");
    held.release();
    let rows = running.await.unwrap().unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<UInt64Type>().value(0), 200_000);
    assert_eq!((seen.load(Ordering::Relaxed), account.stored("numbers")), (200_000, 200_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_select_is_the_error() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    account.counted(50_000);
    let error = account.fails(&format!("INSERT INTO numbers {}", counted_numbers(100_000))).await;
    assert!(error.contains("the select failed") && !error.contains("numbers"), "{error}");
    assert!(account.stored("numbers") < 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_service_loses_no_row() {
    let account = Account::start().await;
    let insert = |table: &str| format!("INSERT INTO {table} {}", numbers(500));
    for nth in 1..=5 {
        for (number, busy) in [
            Fault::on(Operation::Transaction).nth(nth).reject(ErrorCode::SERVER_BUSY),
            Fault::on(Operation::Transaction).nth(nth).close_before_commit(),
            // Whether the transaction was applied is looked up.
            Fault::on(Operation::Transaction).nth(nth).close_after_commit(),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("numbers{nth}{number}");
            account.numbers(&name, WriteMode::Insert, 0).await;
            let busy = account.server.inject(busy);
            assert_eq!(account.count(&insert(&name)).await, 500, "{:?}", busy.fault());
            assert_eq!(busy.hits(), 1, "{:?}", busy.fault());
            busy.remove();
            assert_eq!(
                account.ask(&format!("SELECT count(*), sum(number) FROM {name}")).await.0,
                ["500 124750"]
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_dropped_sends_nothing_more() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    let held = account.server.inject(Fault::on(Operation::Transaction).nth(20).times(1_000).hold());
    let insert = format!("INSERT INTO numbers {}", numbers(20_000));
    let running = tokio::spawn(account.session.sql(&insert).await.unwrap().collect());
    held.wait_until_held().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    // The requests that are held lose their clients.
    while held.held() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.remove();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(account.stored("numbers"), 1_900);
    // What was written is as it is to be, so the statement can be run again.
    assert_eq!(account.count(&insert).await, 20_000);
    assert_eq!(account.stored("numbers"), 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_service_ends_the_statement() {
    let account = Account::start().await;
    let table = account.numbers("numbers", WriteMode::Insert, 1000).await;
    table.delete_table().await.unwrap();
    let error = account.fails(&format!("INSERT INTO numbers {}", numbers(500))).await;
    assert!(
        error.contains("INSERT INTO numbers, with 0 rows") && error.contains("TableNotFound"),
        "{error}"
    );
}
