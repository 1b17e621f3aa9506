//! Plans name accounts: credentials are those of each executor.

use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Cluster, SECRET, orders};

/// Searched are all logs, which have the plans on the level `debug`, and all that the scheduler's API says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_plan_log_or_answer_has_a_credential() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    cluster.table("copies", []).await;
    cluster.rows(&[], "SELECT airport, COUNT(*) FROM orders WHERE cents > 17 GROUP BY airport");
    let jobs = cluster.get("/api/jobs");
    let job = jobs.split("\"job_id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let said: String = ["/api/jobs", "/api/state", "/api/executors", "/api/metrics"]
        .map(str::to_owned)
        .into_iter()
        .chain(["", "/stages", "/dot"].map(|part| format!("/api/job/{job}{part}")))
        .map(|path| cluster.get(&path))
        .collect();
    // The search would find nothing in nothing.
    assert!(said.contains("azure-table") && said.contains("orders"), "{said}");
    let logged = cluster.logged();
    assert!(logged.contains("azure-table"));
    for text in [&said, &logged] {
        assert!(
            !text.contains(SECRET) && !text.contains("AccountKey") && !text.contains("panicked")
        );
    }
}

/// The query fails with what to do, instead of hanging or running elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_without_the_account_fails_the_query_and_names_it() {
    let mut cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    cluster.kill();
    cluster.kill();
    cluster.lose(1);
    cluster.add(false);
    let output = cluster.distributed(&[], "SELECT COUNT(*) FROM orders").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        errors.starts_with(
            "rowkey-sql: on the cluster: the account shop is not known on this machine; "
        ),
        "{errors}"
    );
    assert!(errors.contains("ROWKEY_CONNECTION_STRING_SHOP"), "{errors}");
}

/// A cluster has the errors of one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_service_is_that_of_the_client() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let query = "SELECT RowKey FROM orders WHERE cents = 17";
    let before = cluster.server.journal();
    cluster.rows(&[], query);
    let sent = cluster.server.journal().since(&before).count(Operation::QueryEntities);
    let last = Fault::on(Operation::QueryEntities)
        .resource("orders")
        .nth(u64::try_from(sent).unwrap())
        .times(1_000);
    let _denied = cluster.server.inject(last.reject(ErrorCode::AUTHORIZATION_FAILURE));
    let output = cluster.distributed(&[], query).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("AuthorizationFailure"), "{errors}");
    assert!(
        errors.starts_with("rowkey-sql: on the cluster: ")
            && !errors.contains("Job")
            && !errors.contains("Error {"),
        "{errors}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_does_not_run_is_said() {
    let cluster = Cluster::start().await;
    cluster.table("orders", orders()).await;
    let mut client = cluster.client(&["--scheduler", "127.0.0.1:1"], "SELECT COUNT(*) FROM orders");
    let output = client.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        errors.contains("the scheduler does not answer; start `rowkey-sql scheduler`"),
        "{errors}"
    );
}
