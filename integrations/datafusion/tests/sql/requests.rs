//! What a query costs in requests.

use rowkey::DynamicEntity;

use crate::support::{Account, entity};

/// Orders of 200 customers.
fn orders(count: usize) -> Vec<DynamicEntity> {
    let order = |number: usize| {
        entity(&format!("customer-{:03}", number % 200), &format!("{number:06}"), |row| {
            row.set("airport", format!("A{:02}", number % 50));
            row.set("cents", i64::try_from(number).unwrap());
        })
    };
    (0..count).map(order).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_all_rows_reads_each_page_once() {
    let account = Account::start().await;
    account.with("orders", orders(100_000)).await;
    let sql = "SELECT airport, count(*), sum(cents) FROM orders GROUP BY airport";
    let (rows, sent) = account.ask(sql).await;
    assert_eq!(rows.len(), 50);
    assert!(rows.iter().any(|row| row.starts_with("A00 2000 ")), "{rows:?}");
    assert!(sent <= 110, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_takes_one_request_and_a_limit_two() {
    let account = Account::start().await;
    account.with("orders", orders(20_000)).await;
    let point =
        "SELECT cents FROM orders WHERE PartitionKey = 'customer-007' AND RowKey = '000207'";
    assert_eq!(account.ask(point).await, (vec!["207".to_owned()], 1));
    let none = "SELECT cents FROM orders WHERE PartitionKey = 'customer-007' AND RowKey = 'x'";
    assert_eq!(account.ask(none).await, (vec![], 1));
    let (rows, sent) = account.ask("SELECT * FROM orders LIMIT 5").await;
    assert_eq!((rows.len(), sent), (5, 1));
    let (rows, sent) = account.ask("SELECT cents FROM orders LIMIT 1500").await;
    assert_eq!((rows.len(), sent), (1500, 2));
    let never = "SELECT * FROM orders WHERE PartitionKey = 'a' AND PartitionKey = 'b'";
    assert_eq!(account.ask(never).await, (vec![], 0));
    let three = "SELECT cents FROM orders WHERE (PartitionKey = 'customer-001' AND RowKey = '000001') \
                 OR (PartitionKey = 'customer-002' AND RowKey IN ('000002', '000202'))";
    assert_eq!(account.ask(three).await.1, 3);
    let partition =
        "SELECT count(*) FROM orders WHERE PartitionKey IN ('customer-001', 'customer-199')";
    assert_eq!(account.ask(partition).await, (vec!["200".to_owned()], 2));
    let prefix = "SELECT count(*) FROM orders WHERE PartitionKey LIKE 'customer-01%'";
    let (rows, sent) = account.ask(prefix).await;
    assert!(rows == ["1000"] && sent <= 10, "{rows:?} {sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_reads_the_partitions_that_it_needs() {
    let account = Account::start().await;
    let flight = |number: usize| {
        entity(&format!("A{:02}", number % 50), &format!("{number:06}"), |row| {
            row.set("minutes", i32::try_from(number % 300).unwrap());
        })
    };
    account.with("flights", (0..100_000).map(flight).collect()).await;
    let airport = |number: usize| {
        entity("airport", &format!("A{number:02}"), |row| {
            row.set("country", if number.is_multiple_of(17) { "NO" } else { "SE" });
        })
    };
    account.with("airports", (0..50).map(airport).collect()).await;
    let sql = "SELECT a.RowKey, count(*), sum(f.minutes) FROM flights f JOIN airports a ON f.PartitionKey = a.RowKey \
               WHERE a.country = 'NO' GROUP BY a.RowKey ORDER BY a.RowKey";
    let (rows, sent) = account.ask(sql).await;
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[0].starts_with("A00 2000 "), "{rows:?}");
    assert!(sent <= 16, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_with_a_limit_does_not_wait_for_itself() {
    let account = Account::start().await;
    account.with("orders", orders(5_000)).await;
    let sql = "SELECT cents FROM orders ORDER BY cents DESC LIMIT 3";
    assert_eq!(account.ask(sql).await.0, ["4999", "4998", "4997"]);
    let sql = "SELECT o.cents FROM orders o JOIN (SELECT PartitionKey AS p FROM orders ORDER BY cents LIMIT 2) best \
               ON o.PartitionKey = best.p ORDER BY o.cents LIMIT 3";
    assert_eq!(account.ask(sql).await.0, ["0", "1", "200"]);
    // Each round of a recursive query joins with other rows.
    let sql = "WITH RECURSIVE chain AS (SELECT '000001' AS k, 0 AS depth UNION ALL \
               SELECT lpad(CAST(o.cents + 1 AS VARCHAR), 6, '0'), chain.depth + 1 FROM chain JOIN orders o ON o.RowKey = chain.k WHERE chain.depth < 4) \
               SELECT k FROM chain ORDER BY depth";
    assert_eq!(account.ask(sql).await.0, ["000001", "000002", "000003", "000004", "000005"]);
}
