//! `EXPLAIN`: what a query costs.

use rowkey_emulator::Operation;

use crate::support::Account;

fn requests(account: &Account, sql: &str) -> String {
    let out = account.ok(["-c", &format!("EXPLAIN {sql}")]);
    let row = out
        .lines()
        .find(|row| row.contains(r#""plan_type":"requests""#))
        .unwrap_or_else(|| panic!("{out}"));
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    row["plan"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_cost_class_and_what_is_sent() {
    let account = Account::with_orders().await;
    let point = requests(
        &account,
        "SELECT cents FROM orders WHERE PartitionKey = 'customer-1' AND RowKey = 'it''s'",
    );
    for expected in [
        "orders: point query",
        "at least 1,",
        "PartitionKey = 'customer-1' and RowKey = 'it''s'",
        "$select:  PartitionKey,RowKey,Timestamp,cents\n",
    ] {
        assert!(point.contains(expected), "{point}");
    }
    let range = requests(
        &account,
        "SELECT * FROM orders WHERE PartitionKey = 'customer-1' AND RowKey >= '0005' AND RowKey < '0009'",
    );
    assert!(
        range.contains("range query") && range.contains("RowKey >= '0005' and RowKey < '0009'"),
        "{range}"
    );
    let partitions = requests(
        &account,
        "SELECT * FROM orders WHERE PartitionKey IN ('customer-1', 'customer-2') AND Note = 'note 4'",
    );
    assert!(
        partitions.contains("partition scan") && partitions.contains("at least 2,"),
        "{partitions}"
    );
    assert!(partitions.contains("$filter:  Note eq 'note 4'"), "{partitions}");
    let all = requests(&account, "SELECT COUNT(*) FROM orders");
    assert!(all.contains("table scan"), "{all}");
    let limited = requests(&account, "SELECT * FROM orders LIMIT 5");
    assert!(limited.contains("at least 1,") && limited.contains("limit:    5"), "{limited}");
    let copied =
        requests(&account, "COPY (SELECT * FROM orders) TO 'orders.parquet' STORED AS PARQUET");
    assert!(copied.contains("table scan"), "{copied}");
    assert!(!account.path("orders.parquet").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_sends_nothing_but_the_sample() {
    let account = Account::with_orders().await;
    let before = account.server.journal();
    requests(&account, "SELECT COUNT(*) FROM orders");
    let sent = account.server.journal().since(&before);
    assert_eq!(sent.count(Operation::QueryEntities), 1);
    let out = account.ok([
        "--output",
        "table",
        "-c",
        "EXPLAIN SELECT * FROM orders WHERE PartitionKey = 'customer-1'",
    ]);
    assert!(
        out.contains("\nrequests\n  orders: partition scan\n    requests: at least 1,"),
        "{out}"
    );
    assert!(out.contains("physical_plan\n  DataSourceExec:"), "{out}");
}
