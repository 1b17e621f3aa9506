//! Queries that make the service read whole tables.

use rowkey_emulator::Operation;

use crate::support::Account;

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_reads_a_whole_table_needs_a_flag() {
    let account = Account::with_orders().await;
    for sql in [
        "SELECT COUNT(*) FROM orders",
        "SELECT * FROM orders WHERE cents > 5",
        "SELECT * FROM orders WHERE cents > 5 LIMIT 5",
        "SELECT * FROM orders WHERE PartitionKey > 'customer-1'",
        "SELECT * FROM orders LIMIT 1001",
        "SELECT * FROM orders ORDER BY cents LIMIT 1",
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM orders",
        "COPY (SELECT * FROM orders) TO 'orders.parquet' STORED AS PARQUET",
        "CREATE TABLE copies AS SELECT * FROM orders",
    ] {
        let before = account.server.journal();
        let error = account.fails(2, ["-c", sql]);
        assert!(
            error.contains("whole table orders") && error.contains("add --scan"),
            "{sql}: {error}"
        );
        // The sample of the columns, and whether a new table exists.
        let sent = account.server.journal().since(&before).count(Operation::QueryEntities);
        assert_eq!(sent, if sql.starts_with("CREATE") { 2 } else { 1 }, "{sql}");
    }
    assert!(!account.path("orders.parquet").exists());
    for sql in [
        "SELECT * FROM orders LIMIT 1000",
        "SELECT * FROM orders WHERE PartitionKey = 'customer-1'",
        "SELECT * FROM orders WHERE PartitionKey IN ('customer-1', 'customer-2') AND cents > 5",
        "SELECT * FROM orders WHERE PartitionKey = 'customer-1' AND RowKey = '0001'",
        "SELECT * FROM orders WHERE PartitionKey = 'a' AND PartitionKey = 'b'",
        "EXPLAIN SELECT COUNT(*) FROM orders",
        "CREATE VIEW cheap AS SELECT * FROM orders WHERE cents < 5",
    ] {
        account.ok(["-c", sql]);
    }
}
