//! Names and statements.

use rowkey::{DynamicEntity, StorageAccount};

use crate::support::{Account, fill, finish};

#[tokio::test(flavor = "multi_thread")]
async fn tables_columns_and_functions_need_no_quotes_and_no_registration() {
    let account = Account::with_orders().await;
    for (sql, expected) in [
        (
            "SELECT COUNT(*) AS Rows, SUM(cents) AS sum, MIN(PartitionKey) AS First FROM orders",
            r#"{"Rows":30,"sum":43500,"First":"customer-0"}"#,
        ),
        (
            "SELECT RowKey FROM ORDERS WHERE PartitionKey = 'customer-1' AND RowKey < '0003'",
            r#"{"RowKey":"0001"}"#,
        ),
        (
            "SELECT o.Note FROM shop.tables.Orders AS o WHERE o.RowKey = '0004'",
            r#"{"Note":"note 4"}"#,
        ),
        (
            "WITH sums AS (SELECT PartitionKey AS customer, Sum(cents) AS cents FROM orders GROUP BY PartitionKey) \
             SELECT customer FROM sums ORDER BY cents DESC LIMIT 1",
            r#"{"customer":"customer-2"}"#,
        ),
        ("SELECT Note FROM orders WHERE RowKey = '0001'", r#"{"Note":null}"#),
        ("SELECT 1 AS a; SELECT 2 AS b", "{\"a\":1}\n{\"b\":2}"),
    ] {
        assert_eq!(account.sql(sql).trim_end(), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_account_is_a_catalog() {
    let account = Account::with_orders().await;
    let archive = StorageAccount::from_connection_string(&account.archive()).unwrap();
    fill(&archive, "orders", [DynamicEntity::new("old", "1")]).await;
    let sql = "SELECT a.RowKey FROM archive.tables.orders a UNION ALL SELECT RowKey FROM orders WHERE PartitionKey = 'customer-0' AND RowKey = '0000'";
    let mut command = account.command(["--scan", "-c", sql]);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING_OLD", account.archive()));
    let mut rows: Vec<_> = done.out.lines().collect();
    rows.sort_unstable();
    assert_eq!(
        (done.code, rows),
        (0, vec![r#"{"RowKey":"0000"}"#, r#"{"RowKey":"1"}"#]),
        "{}",
        done.err
    );
    // By a flag it is the default.
    let mut command = account.command([
        "--connection-string-env",
        "OLD",
        "--scan",
        "-c",
        "SELECT COUNT(*) AS n FROM orders",
    ]);
    let done = finish(command.env("OLD", account.archive()));
    assert_eq!((done.code, &*done.out), (0, "{\"n\":1}\n"), "{}", done.err);
    let unknown = account.fails(3, ["-c", "SELECT * FROM archive.tables.orders"]);
    assert!(unknown.contains("archive"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn show_tables_lists_the_service_and_the_session() {
    let account = Account::with_orders().await;
    account.table("customers", []).await;
    let out = account
        .ok(["-c", "CREATE VIEW early AS SELECT * FROM orders WHERE RowKey < '0010'; SHOW TABLES"]);
    for expected in [
        r#"{"table_catalog":"shop","table_schema":"tables","table_name":"customers","table_type":"BASE TABLE"}"#,
        r#"{"table_catalog":"shop","table_schema":"tables","table_name":"early","table_type":"VIEW"}"#,
        r#"{"table_catalog":"shop","table_schema":"tables","table_name":"orders","table_type":"BASE TABLE"}"#,
    ] {
        assert!(out.contains(expected), "{out}");
    }
    let out = account.ok(["-c", "DESCRIBE orders"]);
    assert!(
        out.contains(r#"{"column_name":"cents","data_type":"Int64","is_nullable":"YES"}"#),
        "{out}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_a_file_or_stdin() {
    let account = Account::with_orders().await;
    let script = "-- two statements;\nSELECT COUNT(*) AS n FROM orders;\nSELECT ';' AS text";
    std::fs::write(account.path("script.sql"), script).unwrap();
    let expected = "{\"n\":30}\n{\"text\":\";\"}\n";
    assert_eq!(account.ok(["--scan", "-f", "script.sql"]), expected);
    for args in [&["--scan"][..], &["--scan", "-f", "-"]] {
        let done = finish(account.command(args).write_stdin(script));
        assert_eq!((done.code, &*done.out, &*done.err), (0, expected, ""));
    }
    // The first error ends it.
    let done = account.run(["-c", "SELECT 1 AS a; SELECT nothing; SELECT 2 AS b"]);
    assert_eq!((done.code, &*done.out), (2, "{\"a\":1}\n"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_type_fails_or_is_null() {
    let account = Account::start().await;
    let mixed = (0..3_i64).map(|number| {
        let mut entity = DynamicEntity::new("p", number.to_string());
        if number == 0 {
            entity.set("size", "large")
        } else {
            entity.set("size", number)
        };
        entity
    });
    account.table("mixed", mixed).await;
    let sql = "SELECT size FROM mixed WHERE PartitionKey = 'p' ORDER BY RowKey";
    let error = account.fails(1, ["-c", sql]);
    assert!(error.contains("the column size of the table mixed"), "{error}");
    let nulls = account.ok(["--mismatch", "null", "-c", sql]);
    assert_eq!(nulls, "{\"size\":null}\n{\"size\":1}\n{\"size\":2}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_rejects_existing_keys_and_an_upsert_replaces_them() {
    let account = Account::with_orders().await;
    let mut existing = DynamicEntity::new("customer-0", "0000");
    existing.set("cents", 5_i64);
    account.table("copies", [existing]).await;
    let insert = "INSERT INTO copies SELECT PartitionKey, RowKey, NULL, cents FROM orders";
    let error = account.fails(4, ["--scan", "-c", insert]);
    assert!(error.contains("1 of 30 rows") && error.contains("rejected"), "{error}");
    // Rows that are there with the same content are not rejected.
    assert_eq!(account.ok(["--scan", "--rejects", "1", "-c", insert]), "{\"count\":29}\n");
    assert_eq!(account.ok(["--scan", "--write", "upsert", "-c", insert]), "{\"count\":30}\n");
    let sums = "SELECT COUNT(*) AS n, SUM(cents) AS cents FROM copies";
    assert_eq!(account.sql(sums), "{\"n\":30,\"cents\":43500}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_condition_and_a_mark_of_byte_order_are_no_failures() {
    let account = Account::with_orders().await;
    let condition = vec!["(cents = 1 AND Note = 'a')"; 2_000].join(" OR ");
    let text = format!(
        "SELECT count(*) AS n FROM orders WHERE PartitionKey = 'customer-1' AND ({condition})"
    );
    assert_eq!(account.ok(["-c", &text]), "{\"n\":0}\n");
    std::fs::write(account.path("marked.sql"), "\u{feff}SELECT 1 AS one;\r\n").unwrap();
    assert_eq!(account.ok(["-f", "marked.sql"]), "{\"one\":1}\n");
}
