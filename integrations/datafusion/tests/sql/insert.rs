//! `INSERT INTO`: which rows are written, with which requests, and what is said about the others.

use rowkey::edm::{DateTime, Guid, Type};
use rowkey::{DynamicEntity, Key};
use rowkey_datafusion::{TableSource, WriteMode};
use rowkey_emulator::Operation;

use crate::support::{Account, entity, numbers};

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_partition_are_one_transaction() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    let before = account.server.journal();
    assert_eq!(account.count(&format!("INSERT INTO numbers {}", numbers(100))).await, 100);
    let sent = account.server.journal().since(&before);
    assert_eq!((sent.len(), sent.count(Operation::Transaction)), (1, 1));
    let sql = "SELECT count(*), sum(number), min(RowKey), max(PartitionKey) FROM numbers";
    assert_eq!(account.ask(sql).await.0, ["100 4950 000000 p0000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timestamp_is_left_to_the_service() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    let with = "INSERT INTO numbers (PartitionKey, RowKey, Timestamp) VALUES ('p', '1', TIMESTAMP '1999-01-01 00:00:00')";
    assert_eq!(account.count(with).await, 1);
    assert_eq!(
        account
            .count("INSERT INTO numbers (RowKey, number, PartitionKey) VALUES ('2', 2, 'p')")
            .await,
        1
    );
    assert_eq!(account.count("INSERT INTO numbers VALUES ('p', '3', NULL, 3)").await, 1);
    let sql = "SELECT RowKey, coalesce(number, 0) FROM numbers WHERE Timestamp > TIMESTAMP '2020-01-01 00:00:00' ORDER BY RowKey";
    assert_eq!(account.ask(sql).await.0, ["1 0", "2 2", "3 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_key_exists_is_rejected_and_the_others_are_written() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    account.count("INSERT INTO numbers VALUES ('p0000', '000007', NULL, -1), ('p0002', '000200', NULL, -1)").await;
    let error = account.fails(&format!("INSERT INTO numbers {}", numbers(300))).await;
    let expected =
        "2 of 300 rows for the table numbers were rejected; 298 are written; first reason: ";
    assert!(error.contains(expected) && error.contains("EntityAlreadyExists"), "{error}");
    assert!(
        !error.contains("000007") && !error.contains("000200") && !error.contains("p000"),
        "{error}"
    );
    let sql = "SELECT count(*), count(CASE WHEN number = -1 THEN 1 END) FROM numbers";
    assert_eq!(account.ask(sql).await.0, ["300 2"]);
    // Once more: what is stored as it is to be counts as written.
    let error = account.fails(&format!("INSERT INTO numbers {}", numbers(300))).await;
    assert!(error.contains("2 of 300 rows"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_that_are_allowed_are_not_counted_as_written() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 2).await;
    account.count("INSERT INTO numbers VALUES ('p0000', '000007', NULL, -1), ('p0002', '000200', NULL, -1)").await;
    let insert = format!("INSERT INTO numbers {}", numbers(300));
    assert_eq!(account.count(&insert).await, 298);
    let analyzed = account.ask(&format!("EXPLAIN ANALYZE {insert}")).await.0.join("\n");
    assert!(analyzed.contains("rejected=2") && analyzed.contains("written=298"), "{analyzed}");
    account.count("REPLACE INTO numbers VALUES ('p0001', '000100', NULL, -1)").await;
    assert!(account.fails(&insert).await.contains("3 of 300 rows"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_leaves_the_same_rows_when_it_is_run_again() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Upsert, 0).await;
    for more in [0, 0, 1] {
        let rows = numbers(250).replace("NULL, value", &format!("NULL, value + {more}"));
        assert_eq!(account.count(&format!("INSERT INTO numbers {rows}")).await, 250);
        let sum = 249 * 250 / 2 + more * 250;
        assert_eq!(
            account.ask("SELECT count(*), sum(number) FROM numbers").await.0,
            [format!("250 {sum}")]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replace_into_upserts_and_overwrite_says_what_to_do() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    account.count("INSERT INTO numbers VALUES ('p', '1', NULL, 1), ('p', '2', NULL, 2)").await;
    assert_eq!(account.count("REPLACE INTO numbers VALUES ('p', '2', NULL, 22)").await, 1);
    assert_eq!(account.ask("SELECT number FROM numbers ORDER BY RowKey").await.0, ["1", "22"]);
    let error = account.fails("INSERT OVERWRITE numbers VALUES ('p', '2', NULL, 22)").await;
    assert!(error.contains("the table numbers") && error.contains("REPLACE INTO"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_stored_are_rejected_without_their_values() {
    let account = Account::start().await;
    let table = account.table("texts", Vec::new()).await;
    account
        .register("texts", TableSource::open(&table).column("text", Type::String).await.unwrap());
    for (bad, reason) in [
        ("'p/secret', 'r', NULL, 'secret'", "keys must not contain U+002F"),
        ("'p', 'secret#', NULL, 'secret'", "keys must not contain U+0023"),
        ("'p', 'secret', NULL, repeat('secret', 11000)", "64 KiB"),
        ("repeat('secret', 200), 'r', NULL, 'secret'", "1 KiB"),
    ] {
        let error = account
            .fails(&format!("INSERT INTO texts VALUES ('p', 'good', NULL, 'text'), ({bad})"))
            .await;
        let expected = "1 of 2 rows for the table texts were rejected; 1 is written";
        assert!(error.contains(expected) && error.contains(reason), "{error}");
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(account.stored("texts"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_null_or_left_out_is_an_error() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 1000).await;
    for insert in [
        "INSERT INTO numbers VALUES ('p', NULL, NULL, 1)",
        "INSERT INTO numbers (PartitionKey, number) VALUES ('p', 1)",
        "INSERT INTO numbers SELECT 'p', nullif(CAST(value AS VARCHAR), '3'), NULL, 1 FROM generate_series(0, 5)",
    ] {
        let planned = rowkey_datafusion::sql(&account.session, insert).await;
        let error = match planned {
            Ok(frame) => frame.collect().await.unwrap_err(),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains("table numbers") && error.contains("NULL"), "{insert}: {error}");
    }
    assert_eq!(account.stored("numbers"), 0);
    let error = account.fails("INSERT INTO numbers VALUES ('p', '1', NULL, 'many')").await;
    assert!(error.contains("Cannot cast"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_copied_exactly() {
    let account = Account::start().await;
    let at: DateTime = "2026-11-28T05:14:00.1234567Z".parse().unwrap();
    let guid: Guid = "0f8fad5b-d9cb-469f-a165-70867728950e".parse().unwrap();
    let all = entity("p'ü\u{10000}", "", |row| {
        row.set("text", "it's \u{e000}");
        row.set("empty", "");
        row.set("small", i32::MIN);
        row.set("big", i64::MAX);
        row.set("real", -0.1);
        row.set("open", false);
        row.set("at", at);
        row.set("id", guid);
        row.set("bytes", vec![1_u8, 2, 255]);
        row.set("none", Vec::<u8>::new());
    });
    let odd = entity("p", "odd", |row| {
        row.set("small", 0);
        row.set("real", f64::INFINITY);
        row.set("at", "1700-01-01T00:00:00.0000001Z".parse::<DateTime>().unwrap());
    });
    let nan = entity("p", "nan", |row| {
        row.set("real", f64::NAN);
    });
    let rows = vec![all, odd, nan, entity("p", "nothing", |_| ())];
    account.with("orders", rows.clone()).await;
    let copy = account.table("copy", Vec::new()).await;
    let mut source = TableSource::open(&copy);
    for (name, edm) in [
        ("text", Type::String),
        ("empty", Type::String),
        ("small", Type::Int32),
        ("big", Type::Int64),
        ("real", Type::Double),
        ("open", Type::Boolean),
        ("at", Type::DateTime),
        ("id", Type::Guid),
        ("bytes", Type::Binary),
        ("none", Type::Binary),
    ] {
        source = source.column(name, edm);
    }
    account.register("copy", source.await.unwrap());
    let columns =
        "PartitionKey, RowKey, Timestamp, text, empty, small, big, real, open, at, id, bytes, none";
    assert_eq!(
        account.count(&format!("INSERT INTO copy ({columns}) SELECT {columns} FROM orders")).await,
        4
    );
    for row in rows {
        let key = Key::<DynamicEntity>::new(row.partition_key.as_str(), row.row_key.as_str());
        let found = copy.get(key).await.unwrap().unwrap().entity;
        // As text, because NaN is not equal to itself.
        let properties = |entity: &DynamicEntity| {
            let mut properties: Vec<_> =
                entity.iter().map(|property| format!("{property:?}")).collect();
            properties.sort();
            properties
        };
        assert_eq!(properties(&found), properties(&row));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_written_from_itself() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    account.count(&format!("INSERT INTO numbers {}", numbers(3_000))).await;
    // Opened again, so that it is read by several streams.
    account
        .register("numbers", TableSource::open(&account.storage.table("Numbers")).await.unwrap());
    // Each new row is behind the one from which it is made: a scan would find it, and make another one of it.
    let insert = "INSERT INTO numbers SELECT PartitionKey || 'x', RowKey || 'x', NULL, number + 1 FROM numbers";
    let plan = account.ask(&format!("EXPLAIN {insert}")).await.0.join("\n");
    assert!(plan.contains("SortExec"), "{plan}");
    assert_eq!(account.count(insert).await, 3_000);
    assert_eq!(account.stored("numbers"), 6_000);
    let insert = "INSERT INTO numbers SELECT PartitionKey, n.RowKey || 'y', NULL, 0 FROM numbers n WHERE n.PartitionKey LIKE 'p0000%'";
    assert_eq!(account.count(insert).await, 200);
    assert_eq!(account.stored("numbers"), 6_200);
    let update = "REPLACE INTO numbers SELECT PartitionKey, RowKey, NULL, number * 2 FROM numbers";
    assert_eq!(account.count(update).await, 6_200);
    let sum = 2 * (2 * (3_000 * 2_999 / 2) + 3_000);
    assert_eq!(
        account.ask("SELECT count(*), sum(number) FROM numbers").await.0,
        [format!("6200 {sum}")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_table_is_copied_by_several_streams() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    account.numbers("copy", WriteMode::Insert, 0).await;
    account.count(&format!("INSERT INTO numbers {}", numbers(20_000))).await;
    account
        .register("numbers", TableSource::open(&account.storage.table("numbers")).await.unwrap());
    let insert = "INSERT INTO copy SELECT * FROM numbers";
    let plan = account.ask(&format!("EXPLAIN {insert}")).await.0.join("\n");
    assert!(
        plan.contains("WriteExec: table=copy, mode=Insert") && !plan.contains("SortExec"),
        "{plan}"
    );
    assert_eq!(account.count(insert).await, 20_000);
    let sum = 20_000_u64 * 19_999 / 2;
    assert_eq!(
        account.ask("SELECT count(*), sum(number) FROM copy").await.0,
        [format!("20000 {sum}")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_program_are_matched_by_name() {
    let account = Account::start().await;
    account.numbers("numbers", WriteMode::Insert, 0).await;
    let write = async |sql: &str| {
        let frame = account.session.sql(sql).await.unwrap();
        frame.write_table("numbers", datafusion::dataframe::DataFrameWriteOptions::new()).await
    };
    write("SELECT arrow_cast(7, 'Int16') AS number, arrow_cast('r', 'Utf8View') AS RowKey, 'p' AS PartitionKey").await.unwrap();
    assert_eq!(account.ask("SELECT PartitionKey, RowKey, number FROM numbers").await.0, ["p r 7"]);
    let error = write("SELECT 'p' AS PartitionKey, 'r' AS RowKey, 1 AS other")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the table numbers has no column other"), "{error}");
    let error = write("SELECT 'p' AS PartitionKey, 1 AS number").await.unwrap_err().to_string();
    assert!(error.contains("a row for the table numbers needs a RowKey"), "{error}");
}
