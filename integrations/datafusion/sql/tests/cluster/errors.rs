//! A cluster fails with the words and the exit codes of one process.

use std::process::Command;

use rowkey::DynamicEntity;
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Cluster, ends, orders};

/// Fails on the cluster as it does on one machine, and returns how.
fn fails(cluster: &Cluster, args: &[&str], query: &str) -> (i32, String) {
    // Each request has another number.
    let ends = |mut command| {
        let (code, error) = ends(&mut command);
        (code, error.split(" (request ").next().unwrap().to_owned())
    };
    let (code, here) = ends(cluster.client(args, query));
    let (there_code, there) = ends(cluster.distributed(args, query));
    let reason = there.strip_prefix("rowkey-sql: on the cluster: ").unwrap_or_default();
    assert_eq!(
        (there_code, reason),
        (code, here.strip_prefix("rowkey-sql: ").unwrap()),
        "{query}: {there}"
    );
    (code, here)
}

/// Rejects what executes a query, and nothing that plans it.
fn rejected(cluster: &Cluster, code: &ErrorCode) -> (i32, String) {
    const QUERY: &str = "SELECT RowKey FROM orders WHERE cents = 17";
    let run = |client: &dyn Fn(&str) -> Command| {
        let before = cluster.server.journal();
        let (planned, _) = ends(&mut client(&format!("EXPLAIN {QUERY}")));
        assert_eq!(planned, 0);
        let planning = cluster.server.journal().since(&before).count(Operation::QueryEntities);
        let first = u64::try_from(planning + 1).unwrap();
        let all = Fault::on(Operation::QueryEntities).resource("orders").nth(first).times(1_000);
        let _rejected = cluster.server.inject(all.reject(code.clone()));
        ends(&mut client(QUERY))
    };
    let (here, _) = run(&|query| cluster.client(&[], query));
    let (there, errors) = run(&|query| cluster.distributed(&[], query));
    assert_eq!(there, here, "{errors}");
    assert!(
        errors.starts_with("rowkey-sql: on the cluster: ") && errors.contains("orders"),
        "{errors}"
    );
    (there, errors)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_has_the_words_and_the_exit_code_of_one_process() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let mut row = DynamicEntity::new("customer '1'", "00001");
    row.set("cents", 99_999_i64);
    cluster.table("copies", [row]).await;

    // Of the engine.
    let (code, error) = fails(&cluster, &[], "SELECT 1 / (cents - cents) FROM orders");
    assert_eq!((code, &*error), (1, "rowkey-sql: Divide by zero error\n"));
    let (code, error) = fails(
        &cluster,
        &["--splits", "1"],
        "SELECT CAST(airport AS BIGINT) FROM orders WHERE RowKey = '00003'",
    );
    assert_eq!(code, 1);
    assert!(error.contains("Cannot cast a string to a value of Int64 type"), "{error}");
    // Of the service.
    for (expected, code) in [
        (3, ErrorCode::TABLE_NOT_FOUND),
        (5, ErrorCode::AUTHORIZATION_FAILURE),
        (6, ErrorCode::SERVER_BUSY),
    ] {
        let (code, error) = rejected(&cluster, &code);
        assert_eq!(code, expected, "{error}");
        assert!(!error.contains("Job") && !error.contains("Error {"), "{error}");
    }
    // Of a write.
    let insert = "INSERT INTO copies (PartitionKey, RowKey, cents) SELECT PartitionKey, RowKey, cents FROM orders WHERE RowKey = '00001'";
    let (_, error) = fails(&cluster, &["--splits", "1"], insert);
    assert!(error.contains("it exists already"), "{error}");
    let keys = "INSERT INTO copies (PartitionKey, RowKey, cents) SELECT 'a/b', RowKey, cents FROM orders WHERE PartitionKey = 'customer ''1'''";
    let (_, error) = fails(&cluster, &["--splits", "1"], keys);
    assert!(error.contains("rejected"), "{error}");
}

/// What Ballista and executors write around the text of an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_content_of_a_row_chooses_no_exit_code() {
    const FORGED: &str = "rowkey-sql exit 5: no\"))\nJob failed due to stage 1 failed: Task failed due to runtime execution error: \
                          DataFusionError(Execution(\"rowkey-sql exit 5: no\"))";
    let cluster = Cluster::start().await;
    let mut row = DynamicEntity::new("a", "b");
    row.set("text", FORGED);
    cluster.table("forged", [row]).await;
    let (code, error) = fails(&cluster, &[], "SELECT CAST(text AS BIGINT) FROM forged");
    assert_eq!(code, 1, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subquery_with_several_rows_in_the_place_of_a_value_is_refused() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let several = "SELECT (SELECT RowKey FROM orders) AS r FROM orders";
    let (code, error) = ends(&mut cluster.distributed(&[], several));
    assert!(code == 2 && error.contains("LIMIT 1"), "{error}");
    let one = "SELECT count(*) FROM orders WHERE cents < (SELECT max(cents) FROM orders)";
    assert_eq!(cluster.rows(&[], one), cluster.rows_here(one));
}
