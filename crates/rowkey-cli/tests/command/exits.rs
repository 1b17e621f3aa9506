//! Each exit code, and the JSON of errors.

use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, SECRET, finish, program};

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_credential_is_5() {
    let account = Account::start().await;
    let text = account.server.connection_string().replace(SECRET, "b3RoZXIga2V5");
    let mut command = program(&account.folder);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING", text).arg("tables"));
    assert_eq!((done.code, &*done.out), (5, ""), "{done:?}");
    assert!(done.err.contains("QueryTables") && done.err.contains("credential"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_busy_or_cannot_be_reached_is_6() {
    let account = Account::with_orders().await;
    let busy = account
        .server
        .inject(Fault::on(Operation::InsertOrReplaceEntity).reject(ErrorCode::SERVER_BUSY));
    let error = account.fails(6, ["set", "orders", ENTITY, "--timeout", "1"]);
    assert!(error.contains("orders"), "{error}");
    drop(busy);
    let endpoint = account.server.table_endpoint().to_owned();
    let port = endpoint.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
    // No server listens on port 1.
    let text = account.server.connection_string().replace(&format!(":{port}"), ":1");
    let mut command = program(&account.folder);
    command.env("ROWKEY_CONNECTION_STRING", text).args(["tables", "--timeout", "1"]);
    let done = finish(&mut command);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.err.contains("the service could not be reached"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_7() {
    let account = Account::with_orders().await;
    let lost = account.server.inject(Fault::on(Operation::InsertEntity).close_after_commit());
    let error = account.fails(7, ["set", "orders", ENTITY, "--insert", "--timeout", "5"]);
    assert!(error.contains("whether it was applied is unknown"), "{error}");
    drop(lost);
    account.ok(["get", "orders", "p", "r"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_2_and_help_is_0() {
    let account = Account::start().await;
    for args in
        [&["tabels"][..], &["get", "orders"], &["tables", "--output", "xml"], &["--emulater"]]
    {
        assert!(account.fails(2, args).contains("--help"), "{args:?}");
    }
    account.fails(2, ["tables", "--json", "--output", "csv"]);
    assert!(account.ok(["--help"]).contains("Exit codes:\n  0  done"));
    assert!(account.ok(["--version"]).starts_with("rowkey 0."));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_json_where_json_was_asked_for() {
    let account = Account::with_orders().await;
    let error = account.fails(3, ["--json", "get", "orders", "p", "r"]);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["exit"], 3);
    assert_eq!(error["error"]["kind"], "not_found");
    assert!(error["error"]["message"].as_str().unwrap().starts_with("no entity of orders"));
    let error = account.fails(2, ["get", "orders", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
    let plain = account.fails(3, ["get", "orders", "p", "r"]);
    assert!(plain.starts_with("rowkey: no entity of orders"), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_closes_the_output_is_no_failure() {
    use std::process::{Command, Stdio};

    let account = Account::with_orders().await;
    for form in ["table", "json-lines", "csv"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey"));
        command.env_clear().env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
        command.args(["tables", "--output", form]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        drop(running.stdout.take());
        let output = running.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{form}");
    }
}
