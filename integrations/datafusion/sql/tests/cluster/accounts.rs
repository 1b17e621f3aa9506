//! Plans name accounts: credentials are those of each executor.

use crate::support::{Cluster, SECRET, ends, orders};

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
    let (code, errors) = ends(&mut cluster.distributed(&[], "SELECT COUNT(*) FROM orders"));
    assert_eq!(code, 2, "as on one machine: {errors}");
    assert!(
        errors.starts_with(
            "rowkey-sql: on the cluster: the account shop is not known on this machine; "
        ),
        "{errors}"
    );
    assert!(errors.contains("ROWKEY_CONNECTION_STRING_SHOP"), "{errors}");
}
