//! A cluster has the rows of one process.

use std::process::Command;

use rowkey::DynamicEntity;
use rowkey_emulator::Operation;

use crate::support::{Cluster, ORDERS, orders};

fn airports() -> impl Iterator<Item = DynamicEntity> {
    (0..3).map(|number| {
        let mut airport = DynamicEntity::new("airport", format!("A{number}"));
        airport.set("country", ["SE", "DE", "CL"][number]);
        airport
    })
}

const QUERIES: [&str; 18] = [
    "SELECT COUNT(*), SUM(cents), MIN(RowKey), MAX(RowKey), COUNT(DISTINCT PartitionKey) FROM orders",
    "SELECT PartitionKey, COUNT(*), SUM(cents) FROM orders GROUP BY PartitionKey",
    "SELECT airport, COUNT(*) FROM orders WHERE cents >= 500 GROUP BY airport",
    "SELECT country, COUNT(*), SUM(cents) FROM orders JOIN airports ON airport = airports.RowKey GROUP BY country",
    "SELECT COUNT(*) FROM orders LEFT JOIN airports ON airport = airports.RowKey WHERE country IS NULL",
    "SELECT PartitionKey, RowKey, cents FROM orders WHERE PartitionKey = 'customer ''3''' AND RowKey BETWEEN '00100' AND '00109'",
    "SELECT PartitionKey, RowKey, cents FROM orders ORDER BY cents DESC, PartitionKey, RowKey LIMIT 20 OFFSET 5",
    "SELECT COUNT(*) FROM orders WHERE airport NOT IN (SELECT RowKey FROM airports)",
    "SELECT COUNT(*) FROM orders WHERE cents > (SELECT AVG(cents) FROM orders)",
    "SELECT COUNT(*) FROM (SELECT RowKey FROM orders UNION ALL SELECT RowKey FROM airports)",
    "SELECT RowKey, id FROM orders WHERE id = '00000000-0000-0000-0000-00000000002a'",
    // Joins that have rows of the smaller side alone, whose larger side is one range with `--splits 1`.
    "SELECT COUNT(*) FROM airports LEFT JOIN orders ON airports.RowKey = airport",
    "SELECT COUNT(*) FROM airports FULL JOIN orders ON airports.RowKey = airport",
    "SELECT COUNT(*) FROM airports WHERE NOT EXISTS (SELECT 1 FROM orders WHERE airport = airports.RowKey)",
    "SELECT COUNT(*) FROM airports WHERE RowKey IN (SELECT airport FROM orders)",
    // A part of a stage may have some branches of a union.
    "SELECT COUNT(*) FROM (SELECT RowKey FROM orders UNION ALL SELECT 'x')",
    "SELECT RowKey FROM orders WHERE PartitionKey = 'a' AND PartitionKey = 'b' UNION ALL SELECT RowKey FROM airports",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.PartitionKey = b.PartitionKey AND a.RowKey = b.RowKey",
];

/// Each row is there exactly once, however a scan is divided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_has_the_rows_of_one_process() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    cluster.table("airports", airports()).await;
    let counted = cluster.rows_here("SELECT COUNT(*) FROM orders");
    assert_eq!(counted, [ORDERS.to_string()]);
    for query in QUERIES {
        let expected = cluster.rows_here(query);
        assert!(!expected.is_empty(), "{query}");
        for splits in ["1", "2", "5", "8"] {
            assert_eq!(
                cluster.rows(&["--splits", splits], query),
                expected,
                "{query} with {splits}"
            );
        }
    }
    // A LIMIT has any rows, but as many.
    assert_eq!(cluster.rows(&[], "SELECT RowKey FROM orders LIMIT 7").len(), 7);
    // What reads no table runs in the client.
    assert_eq!(cluster.rows(&[], "SHOW TABLES").len(), cluster.rows_here("SHOW TABLES").len());
    assert_eq!(cluster.rows(&[], "SELECT 1 + 1"), ["2"]);
    // A file is one of the machine of the client.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sums.parquet").display().to_string();
    let sums = "SELECT airport, SUM(cents) AS cents FROM orders GROUP BY airport";
    cluster.rows(&[], &format!("COPY ({sums}) TO '{file}' STORED AS PARQUET"));
    assert_eq!(
        cluster.rows_here(&format!("SELECT airport, cents FROM '{file}'")),
        cluster.rows_here(sums)
    );
    let analyzed = format!("EXPLAIN ANALYZE COPY ({sums}) TO '{file}' STORED AS PARQUET");
    let analyzed = cluster.distributed(&[], &analyzed).output().unwrap();
    assert!(String::from_utf8_lossy(&analyzed.stdout).contains("RemoteExec"), "{analyzed:?}");
    assert_eq!(
        cluster.rows(&[], &format!("SELECT COUNT(*) FROM '{file}'")).len(),
        1,
        "a file is read by its path"
    );
    let copy = "CREATE TABLE copies AS SELECT * FROM airports";
    assert_eq!(cluster.rows(&[], copy), ["3"]);
    assert_eq!(cluster.rows_here("SELECT COUNT(*) FROM copies"), ["3"]);
    let analyzed = cluster.distributed(&[], &format!("EXPLAIN ANALYZE {sums}")).output().unwrap();
    assert!(String::from_utf8_lossy(&analyzed.stdout).contains("RemoteExec"), "{analyzed:?}");
}

/// The requests that execute a query: without those that plan it.
fn requests(cluster: &Cluster, client: impl Fn(&str) -> Command, query: &str) -> usize {
    let sent = |query: &str| {
        let before = cluster.server.journal();
        let output = client(query).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        cluster.server.journal().since(&before).count(Operation::QueryEntities)
    };
    let planning = sent(&format!("EXPLAIN {query}"));
    sent(query) - planning
}

/// A scan waits for the join in its process, and reads what the join needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_prunes_the_scan_of_its_larger_side() {
    const JOIN: &str = "SELECT COUNT(*), SUM(cents) FROM orders JOIN customers ON orders.PartitionKey = customers.RowKey WHERE country = 'SE'";
    const TWO: &str = "SELECT country, airport, COUNT(*) FROM orders JOIN customers ON orders.PartitionKey = customers.RowKey \
                       JOIN airports ON airport = airports.RowKey WHERE country = 'SE' GROUP BY country, airport";
    const ANTI: &str = "SELECT COUNT(*) FROM orders WHERE PartitionKey NOT IN (SELECT RowKey FROM customers WHERE country = 'SE')";
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let airports = airports().map(|mut airport| {
        airport.remove("country");
        airport
    });
    cluster.table("airports", airports).await;
    let customers = (0..8).map(|number| {
        let mut customer = DynamicEntity::new("customer", format!("customer '{number}'"));
        customer.set("country", if number == 2 { "SE" } else { "DE" });
        customer
    });
    cluster.table("customers", customers).await;
    for query in [JOIN, TWO, ANTI] {
        let expected = cluster.rows_here(query);
        for splits in ["1", "2", "5", "8"] {
            assert_eq!(
                cluster.rows(&["--splits", splits], query),
                expected,
                "{query} with {splits}"
            );
        }
    }
    let whole =
        requests(&cluster, |query| cluster.distributed(&[], query), "SELECT COUNT(*) FROM orders");
    assert!(whole >= 12, "{whole}");
    // One partition of 1,000 rows, and a table of 8.
    let pruned = requests(&cluster, |query| cluster.distributed(&[], query), JOIN);
    assert!(pruned <= 5, "{pruned} of {whole}");
    let pruned = requests(&cluster, |query| cluster.distributed(&[], query), TWO);
    assert!(pruned <= 6, "{pruned} of {whole}");
}
