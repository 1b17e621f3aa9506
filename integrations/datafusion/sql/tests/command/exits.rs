//! Exit codes and errors.

use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, SECRET, finish};

#[tokio::test(flavor = "multi_thread")]
async fn each_exit_code_has_its_cause() {
    let account = Account::with_orders().await;
    let missing = account.fails(3, ["-c", "SELECT * FROM nothing"]);
    assert!(missing.contains("nothing") && missing.contains("SHOW TABLES"), "{missing}");
    let column = account.fails(2, ["-c", "SELECT size FROM orders LIMIT 1"]);
    assert!(column.contains("size") && column.contains("cents"), "{column}");
    account.fails(2, ["-c", "SELEKT 1"]);
    account.fails(2, ["--output", "xml", "-c", "SELECT 1"]);
    account.fails(2, ["-f", "nothing.sql"]);
    account.fails(1, ["-c", "SELECT 1 / 0"]);
    assert!(account.ok(["--help"]).starts_with("Examples:\n"));
    assert!(account.ok(["--version"]).starts_with("rowkey-sql 0."));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_errors_have_the_codes_of_rowkey() {
    let account = Account::with_orders().await;
    let text = account.server.connection_string().replace(SECRET, "b3RoZXIga2V5");
    let mut command = account.command(["-c", "SELECT * FROM orders LIMIT 1"]);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING", &text));
    assert_eq!((done.code, &*done.out), (5, ""), "{done:?}");
    let mut command = account.command(["-c", "SHOW TABLES"]);
    let done = finish(command.env("ROWKEY_CONNECTION_STRING", &text));
    assert_eq!((done.code, &*done.out), (5, ""), "a list that fails is not empty: {done:?}");
    let _forbidden = account
        .server
        .inject(Fault::on(Operation::QueryEntities).reject(ErrorCode::AUTHORIZATION_FAILURE));
    let error = account.fails(5, ["-c", "SELECT * FROM orders LIMIT 1"]);
    assert!(error.contains("orders"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_account_the_error_says_what_to_set() {
    let account = Account::start().await;
    let done = finish(account.command(["-c", "SELECT 1"]).env_remove("ROWKEY_CONNECTION_STRING"));
    assert_eq!(done.code, 2, "{done:?}");
    for expected in ["ROWKEY_CONNECTION_STRING", "--connection-string-env NAME", "--emulator"] {
        assert!(done.err.contains(expected), "{done:?}");
    }
    let done = finish(
        account.command(["--connection-string-env", "NONE", "-c", "SELECT 1"]).env("NONE", ""),
    );
    assert!(
        done.code == 2 && done.err.contains("the environment variable NONE is not set"),
        "{done:?}"
    );
}
