//! Ctrl-C stops a statement in the client and on the cluster.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use rowkey::DynamicEntity;
use rowkey_emulator::{Fault, Injected, Operation};

use crate::support::{Cluster, orders};

const QUERY: &str = "SELECT COUNT(*) FROM orders";

/// Holds the requests that execute a query, and those of all others from then on.
async fn held(cluster: &Cluster) -> Injected {
    cluster.table("orders", orders()).await;
    let before = cluster.server.journal();
    cluster.rows(&[], &format!("EXPLAIN {QUERY}"));
    let planning = cluster.server.journal().since(&before).count(Operation::QueryEntities);
    let first = u64::try_from(planning + 1).unwrap();
    let all = Fault::on(Operation::QueryEntities).resource("orders").nth(first).times(1_000);
    cluster.server.inject(all.hold())
}

/// The one job is cancelled, and its tasks send no further requests.
fn is_cancelled(cluster: &Cluster, held: &Injected) {
    cluster.rest();
    let jobs = cluster.get("/api/jobs");
    assert!(jobs.contains("Cancelled"), "{jobs}");
    let before = cluster.server.journal();
    held.release();
    // The tasks of a statement that runs still would take their turn beside these.
    assert_eq!(cluster.rows(&["--splits", "8"], QUERY).len(), 1);
    let together = cluster.server.journal().since(&before).count(Operation::QueryEntities);
    let before = cluster.server.journal();
    cluster.rows(&["--splits", "8"], QUERY);
    let alone = cluster.server.journal().since(&before).count(Operation::QueryEntities);
    // Those that were held are answered now, at most one for each range. The others would be more.
    assert!(alone > 30 && together <= alone + 8, "{together} beside {alone}");
}

fn send(signal: &str, client: &Child) {
    let done = Command::new("kill").args([signal, &client.id().to_string()]).status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_a_command_and_its_job() {
    stops("-INT", "Ctrl-C").await;
}

/// As `timeout` and the supervisors of services send it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_stops_a_command_and_its_job() {
    stops("-TERM", "SIGTERM").await;
}

async fn stops(signal: &str, name: &str) {
    let cluster = Cluster::start().await;
    let held = held(&cluster).await;
    let mut client = cluster.distributed(&["--splits", "8"], QUERY);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    held.wait_until_held().await;
    send(signal, &client);
    let output = client.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert_eq!(error, format!("rowkey-sql: stopped by {name}\n"));
    is_cancelled(&cluster, &held);
}

/// Some rows of an interrupted INSERT are there, each of them whole, and another run writes the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_is_stopped_can_be_run_again() {
    const COLUMNS: &str = "PartitionKey, RowKey, cents";
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let mut template = DynamicEntity::new("template", "1");
    template.set("cents", 1_i64);
    cluster.table("copies", [template]).await;
    let insert = format!("INSERT INTO copies ({COLUMNS}) SELECT {COLUMNS} FROM orders");
    let middle = Fault::on(Operation::Transaction).resource("copies").nth(20).times(1_000);
    let held = cluster.server.inject(middle.hold());
    let mut client = cluster.distributed(&[], &insert);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    held.wait_until_held().await;
    send("-INT", &client);
    assert_eq!(client.wait_with_output().unwrap().status.code(), Some(130));
    cluster.rest();
    held.release();
    let written = format!("SELECT {COLUMNS} FROM copies WHERE PartitionKey <> 'template'");
    let all = cluster.rows_here(&format!("SELECT {COLUMNS} FROM orders"));
    let rows = cluster.rows_here(&written);
    assert!(rows.len() >= 100 && rows.len() < all.len(), "{}", rows.len());
    assert!(rows.iter().all(|row| all.binary_search(row).is_ok()));
    cluster.rows(&[], &insert);
    assert_eq!(cluster.rows_here(&written), all);
}

/// Waits until a terminal has shown a text.
fn shows(out: &mut ChildStdout, text: &str) {
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    while !shown.contains(text) {
        let length = out.read(&mut buffer).unwrap();
        assert!(length > 0, "the program has ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
}

/// On a pseudoterminal that `script` makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_at_the_prompt_stops_the_job_and_not_the_prompt() {
    let cluster = Cluster::start().await;
    let held = held(&cluster).await;
    let home = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_rowkey-sql");
    let start = format!("exec {program} --scan --splits 8 --scheduler {}", cluster.address);
    let mut prompt = Command::new("script");
    prompt.env_clear().env("HOME", home.path()).env("TERM", "xterm").env("SHELL", "/bin/sh");
    prompt.env("ROWKEY_CONNECTION_STRING", cluster.server.connection_string());
    prompt.args(["-qefc", &start, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut prompt = prompt.spawn().unwrap();
    let (mut typed, mut out) = (prompt.stdin.take().unwrap(), prompt.stdout.take().unwrap());
    let mut types = |text: &str| typed.write_all(text.as_bytes()).unwrap();
    shows(&mut out, "sql> ");
    types(&format!("{QUERY};\r"));
    held.wait_until_held().await;
    types("\u{3}");
    shows(&mut out, "stopped by Ctrl-C");
    types("SELECT 41 + 1 AS answer;\r");
    shows(&mut out, "│ 42     │");
    is_cancelled(&cluster, &held);
    types(".quit\r");
    assert!(prompt.wait().unwrap().success());
}
