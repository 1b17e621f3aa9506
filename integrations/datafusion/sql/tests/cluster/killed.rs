//! An executor is killed in the middle and another one is started: no row is lost or doubled.

use std::process::Stdio;

use rowkey::DynamicEntity;
use rowkey_emulator::{Fault, Operation};

use crate::support::{Cluster, ORDERS, orders, rows};

/// How often the scheduler gave tasks of a lost executor to others: it had work.
fn resets(cluster: &Cluster) -> usize {
    cluster.logged().matches("on lost Executor").count()
}

/// All requests from one in the middle on are held while an executor is killed, so the kill is in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_goes_on_when_an_executor_is_killed() {
    const QUERY: &str =
        "SELECT PartitionKey, COUNT(*), SUM(cents) FROM orders GROUP BY PartitionKey";
    let mut cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let before = cluster.server.journal();
    let expected = cluster.rows(&["--splits", "8"], QUERY);
    let sent = cluster.server.journal().since(&before).count(Operation::QueryEntities);

    let middle = u64::try_from(sent - 8).unwrap();
    let held = cluster.server.inject(
        Fault::on(Operation::QueryEntities).resource("orders").nth(middle).times(1_000).hold(),
    );
    let client = cluster
        .distributed(&["--splits", "8"], QUERY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    held.wait_until_held().await;
    cluster.kill();
    cluster.lose(2);
    assert!(resets(&cluster) > 0, "{}", cluster.logged());
    cluster.add(true);
    held.release();
    assert_eq!(rows(&client.wait_with_output().unwrap()), expected);
}

/// What the killed executor has written is written again: an upsert replaces it, and an insert finds that it is what it should be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_goes_on_when_an_executor_is_killed() {
    const COLUMNS: &str = "PartitionKey, RowKey, cents, airport";
    let mut cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let expected = cluster.rows_here(&format!("SELECT {COLUMNS} FROM orders"));
    for mode in ["upsert", "insert"] {
        let mut template = DynamicEntity::new("template", "1");
        template.set("cents", 1_i64);
        template.set("airport", "A1");
        cluster.table(mode, [template]).await;

        // A transaction has at most 100 entities, so 20 transactions are a small part of them.
        let middle = Fault::on(Operation::Transaction).resource(mode).nth(20).times(1_000);
        let held = cluster.server.inject(middle.hold());
        let insert = format!("INSERT INTO {mode} ({COLUMNS}) SELECT {COLUMNS} FROM orders");
        let mut client = cluster.distributed(&["--splits", "8", "--write", mode], &insert);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        held.wait_until_held().await;
        let before = resets(&cluster);
        cluster.kill();
        cluster.lose(2);
        assert!(resets(&cluster) > before, "{}", cluster.logged());
        cluster.add(true);
        held.release();
        assert_eq!(rows(&client.wait_with_output().unwrap()), [ORDERS.to_string()], "{mode}");
        let written = format!("SELECT {COLUMNS} FROM {mode} WHERE PartitionKey <> 'template'");
        assert_eq!(cluster.rows_here(&written), expected, "{mode}");
    }
}
