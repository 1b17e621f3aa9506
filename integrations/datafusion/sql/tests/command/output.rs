//! Each form of the output.

use std::fs::File;
use std::process::{Command, Stdio};

use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rowkey::DynamicEntity;

use crate::support::Account;

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_a_table_csv_json_or_parquet() {
    let account = Account::with_orders().await;
    let sql = "SELECT RowKey, cents, Note FROM orders WHERE PartitionKey = 'customer-1' AND RowKey < '0005' ORDER BY RowKey";
    let form = |form| account.ok(["--output", form, "-c", sql]);
    assert_eq!(
        form("json"),
        "{\"RowKey\":\"0001\",\"cents\":100,\"Note\":null}\n{\"RowKey\":\"0004\",\"cents\":400,\"Note\":\"note 4\"}\n"
    );
    assert_eq!(form("csv"), "RowKey,cents,Note\n0001,100,\n0004,400,note 4\n");
    let table = form("table");
    assert!(table.contains("│ 0004   ┆ 400   ┆ note 4 │"), "{table}");

    let done = account.command(["--output", "parquet", "-c", sql]).output().unwrap();
    assert!(done.status.success());
    std::fs::write(account.path("rows.parquet"), &done.stdout).unwrap();
    let file = File::open(account.path("rows.parquet")).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
    let error = account.fails(2, ["--output", "parquet", "-c", "SELECT 1; SELECT 2"]);
    assert!(error.contains("the rows of one query"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_rows_has_its_columns() {
    let account = Account::with_orders().await;
    let sql = "SELECT RowKey FROM orders WHERE PartitionKey = 'none'";
    assert_eq!(account.ok(["--output", "csv", "-c", sql]), "RowKey\n");
    assert_eq!(account.ok(["--output", "json", "-c", sql]), "");
    assert!(account.ok(["--output", "table", "-c", sql]).contains("│ RowKey │"));
    let done = account.command(["--output", "parquet", "-c", sql]).output().unwrap();
    assert!(done.stdout.starts_with(b"PAR1"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_json_and_csv_cannot_represent_are_text() {
    let account = Account::start().await;
    let mut row = DynamicEntity::new("p", "r");
    row.set("size", f64::NAN);
    row.set("bytes", vec![1_u8, 255]);
    row.set("text", "a,\"b\"\n\u{1b}[2J");
    account.table("odd", [row]).await;
    let ask = |form| {
        account.ok([
            "--output",
            form,
            "-c",
            "SELECT size, bytes, text, make_array(1, 2) AS list FROM odd LIMIT 1",
        ])
    };
    assert_eq!(
        ask("json"),
        "{\"size\":\"NaN\",\"bytes\":\"01ff\",\"text\":\"a,\\\"b\\\"\\n\\u001b[2J\",\"list\":[1,2]}\n"
    );
    assert_eq!(
        ask("csv"),
        "size,bytes,text,list\nNaN,01ff,\"a,\"\"b\"\"\n\u{1b}[2J\",\"[1, 2]\"\n"
    );
    let table = ask("table");
    assert!(!table.contains('\u{1b}') && table.contains("\\n\\u{1b}[2J"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_streams() {
    let account = Account::start().await;
    let sql = "SELECT value FROM generate_series(1, 200000)";
    let out = account.ok(["--output", "csv", "-c", sql]);
    assert_eq!(out.lines().count(), 200_001);
    let out = account.ok(["--output", "table", "-c", "SELECT value FROM generate_series(1, 2500)"]);
    assert_eq!(
        (out.matches("value").count(), out.contains("│ 2500 ")),
        (3, true),
        "a table for each 1,000 rows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_closes_the_output_is_no_failure() {
    let account = Account::start().await;
    for form in ["table", "json", "csv", "parquet"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-sql"));
        command.env_clear().env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
        command.args(["--output", form, "-c", "SELECT value FROM generate_series(1, 200000)"]);
        let mut running = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(running.stdout.take());
        let output = running.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr)),
            (Some(0), "".into()),
            "{form}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_columns_of_one_name_are_refused_where_one_would_be_lost() {
    let account = Account::with_orders().await;
    let twice = "SELECT a.cents, b.cents FROM orders a JOIN orders b ON a.RowKey = b.RowKey WHERE a.PartitionKey = 'customer-1'";
    for form in ["json", "parquet"] {
        let error = account.fails(2, ["--scan", "--output", form, "-c", twice]);
        assert!(error.contains("cents") && error.contains("AS"), "{error}");
    }
    assert!(account.ok(["--scan", "--output", "csv", "-c", twice]).starts_with("cents,cents\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_behind_a_closed_output_are_not_forgotten() {
    let account = Account::with_orders().await;
    let args =
        ["--scan", "-c", "SELECT * FROM generate_series(1, 300000)", "-c", "DROP TABLE orders"];
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_rowkey-sql"))
        .env_clear()
        .env("ROWKEY_CONNECTION_STRING", account.server.connection_string())
        .args(args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{error}");
    assert!(error.contains("the output was closed; 1 further statement was not run"), "{error}");
    assert!(account.server.snapshot().table("orders").is_some());
}
