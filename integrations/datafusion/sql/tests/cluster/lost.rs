//! Schedulers and executors that are not there, or are something else: what happened, and what to do.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Stdio;

use rowkey_emulator::{Fault, Operation};

use crate::support::{Cluster, ends, orders};

const QUERY: &str = "SELECT COUNT(*) FROM orders";

/// A text without words of protocols or of the forms for debugging.
fn is_plain(error: &str) {
    for word in
        ["h2", "tonic", "transport", "rpc", "Error", "Status", "Job ", "{", "os error", "panicked"]
    {
        assert!(!error.contains(word), "{word} in {error}");
    }
}

/// Fails with this scheduler, and returns the error.
fn fails(cluster: &Cluster, scheduler: &str, expected: i32) -> String {
    let (code, error) = ends(&mut cluster.client(&["--scheduler", scheduler], QUERY));
    assert_eq!(code, expected, "{scheduler}: {error}");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_none_is_wrong_usage_and_nothing_is_sent() {
    let cluster = Cluster::without_executors(&[]).await;
    cluster.table("orders", orders().take(10)).await;
    let before = cluster.server.journal();
    for wrong in ["localhost", "http://127.0.0.1:50050", "localhost:0", ":50050", "localhost:x"] {
        let error = fails(&cluster, wrong, 2);
        assert!(error.contains("localhost:50050") && error.contains("--scheduler"), "{error}");
    }
    let sent = cluster.server.journal().since(&before);
    assert_eq!(sent.count(Operation::QueryEntities) + sent.count(Operation::QueryTables), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_scheduler_is_said() {
    let cluster = Cluster::without_executors(&[]).await;
    cluster.table("orders", orders().take(10)).await;
    let error = fails(&cluster, "127.0.0.1:1", 6);
    assert!(
        error.contains("the scheduler 127.0.0.1:1 does not answer; start `rowkey-sql scheduler`"),
        "{error}"
    );
    is_plain(&error);
    let error = fails(&cluster, "scheduler.invalid:50050", 6);
    assert!(
        error.contains("no machine has the name in the address scheduler.invalid:50050"),
        "{error}"
    );
    is_plain(&error);
    // A server of another protocol, and one that says nothing.
    let text = cluster.server.connection_string();
    let server = text.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for other in [server.to_owned(), silent.local_addr().unwrap().to_string()] {
        let error = fails(&cluster, &other, 6);
        assert!(
            error.contains(&format!("what listens at {other} does not answer as a scheduler does")),
            "{error}"
        );
        is_plain(&error);
    }
}

/// The query runs in the middle of its requests when `lose` is called.
async fn ends_when(cluster: &mut Cluster, lose: impl FnOnce(&mut Cluster)) -> (i32, String) {
    cluster.table("orders", orders()).await;
    let before = cluster.server.journal();
    cluster.rows(&[], &format!("EXPLAIN {QUERY}"));
    let planning = cluster.server.journal().since(&before).count(Operation::QueryEntities);
    let first = u64::try_from(planning + 1).unwrap();
    let all = Fault::on(Operation::QueryEntities).resource("orders").nth(first).times(1_000);
    let held = cluster.server.inject(all.hold());
    let mut client = cluster.distributed(&[], QUERY);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    held.wait_until_held().await;
    lose(cluster);
    let output = client.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_is_lost_in_the_middle_is_said() {
    let mut cluster = Cluster::start().await;
    let (code, error) = ends_when(&mut cluster, Cluster::kill_scheduler).await;
    assert_eq!(code, 6, "{error}");
    assert!(
        error.contains("does not answer any more") && error.contains("run the statement again"),
        "{error}"
    );
    is_plain(&error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_that_are_lost_or_never_come_are_said() {
    let mut cluster = Cluster::without_executors(&["--patience", "3"]).await;
    cluster.table("few", orders().take(10)).await;
    let (code, error) = ends(&mut cluster.distributed(&[], "SELECT COUNT(*) FROM few"));
    let start = format!("start `rowkey-sql executor --scheduler {}`", cluster.address);
    assert_eq!(code, 6, "{error}");
    assert!(error.contains(&start) && error.contains("--patience"), "{error}");
    is_plain(&error);
    cluster.add(true);
    let (code, error) = ends_when(&mut cluster, Cluster::kill).await;
    assert_eq!(code, 6, "{error}");
    assert!(error.contains("all executors of the scheduler") && error.contains(&start), "{error}");
    is_plain(&error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_is_too_large_for_a_message_is_said() {
    let cluster = Cluster::without_executors(&[]).await;
    cluster.table("orders", orders().take(10)).await;
    let mut script = tempfile::NamedTempFile::new().unwrap();
    let values: Vec<_> =
        (0..20).map(|number| format!("'{number}{}'", "x".repeat(1 << 20))).collect();
    write!(script, "SELECT COUNT(*) FROM orders WHERE airport IN ({})", values.join(",")).unwrap();
    // A file, because an argument may not be so long.
    let mut other = cluster.command(&["--scheduler", &cluster.address, "-f"]);
    other.arg(script.path());
    let (code, error) = ends(&mut other);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("MiB") && error.contains("without --scheduler"), "{error}");
}
