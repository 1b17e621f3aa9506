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
    let parser = account.fails(2, ["-c", "SELEKT 1"]);
    assert!(
        parser.starts_with("rowkey-sql: Expected: an SQL statement, found: SELEKT"),
        "{parser}"
    );
    account.fails(2, ["--output", "xml", "-c", "SELECT 1"]);
    account.fails(2, ["-f", "nothing.sql"]);
    account.fails(2, ["-c", "SELECT RowKey LIKE '1!%' ESCAPE '!' FROM orders LIMIT 1"]);
    let constant = account.fails(2, ["-c", "SELECT CAST('x1' AS BIGINT)"]);
    assert!(!constant.contains("x1") && !constant.contains("ptimizer"), "{constant}");
    let case = account.fails(2, ["-c", "SELECT partitionkey FROM orders LIMIT 1"]);
    assert!(case.contains("\"PartitionKey\"") && !case.contains("normalization"), "{case}");
    account.fails(1, ["-c", "SELECT 1 / 0"]);
    let content = account.fails(1, ["--scan", "-c", "SELECT CAST(Note AS BIGINT) FROM orders"]);
    assert!(content.contains("Cannot cast") && !content.contains("note"), "{content}");
    let exists = account.fails(4, ["-c", "CREATE TABLE orders (PartitionKey TEXT, RowKey TEXT)"]);
    assert!(exists.contains("CREATE TABLE IF NOT EXISTS"), "{exists}");
    account.ok(["-c", "CREATE TABLE IF NOT EXISTS orders (PartitionKey TEXT, RowKey TEXT)"]);
    let absent = account.fails(3, ["-c", "DROP TABLE nothing"]);
    assert!(absent.contains("DROP TABLE IF EXISTS"), "{absent}");
    account.ok(["-c", "DROP TABLE IF EXISTS nothing"]);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_answer_has_its_code() {
    let account = Account::start().await;
    // Nothing listens at this port.
    let place = "http://127.0.0.1:9/shop";
    let text =
        format!("AccountName=shop;AccountKey={SECRET};TableEndpoint={place};BlobEndpoint={place}");
    for statement in
        ["SELECT * FROM orders LIMIT 1", "COPY (SELECT 1 AS a) TO 'az://exports/a.parquet'"]
    {
        let mut command = account.command(["-c", statement]);
        let done = finish(command.env("ROWKEY_CONNECTION_STRING", &text));
        assert_eq!((done.code, &*done.out), (6, ""), "{done:?}");
        assert!(done.err.contains("could not be reached; try again later"), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_or_a_file_that_is_missing_is_named() {
    let account = Account::with_orders().await;
    let copy = "COPY (SELECT 1 AS a) TO 'az://exports/a.parquet'";
    let error = account.fails(3, ["-c", copy]);
    assert!(error.contains("az://exports@shop") && error.contains("create it first"), "{error}");
    assert!(!error.contains("http") && !error.contains('<'), "{error}");
    account.storage.container("exports").create().await.unwrap();
    account.ok(["-c", copy]);
    for file in ["az://exports/b.parquet", "nothing/b.parquet", "b.csv"] {
        let error = account.fails(3, ["-c", &format!("SELECT * FROM '{file}'")]);
        assert!(error.contains(&format!("no file {file} ")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_does_not_suffice_is_an_error_and_sorts_use_files() {
    let account = Account::start().await;
    let sorted = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY v) AS n FROM \
                  (SELECT lpad(CAST(value * 7919 % 1000003 AS TEXT), 40, '0') AS v FROM generate_series(1, 400000)))";
    let rows = account.ok(["--memory-limit", "24", "-c", sorted]);
    assert!(rows.contains("400000"), "{rows}");
    let joined = "SELECT count(*) FROM (SELECT lpad(CAST(value AS TEXT), 400, '0') AS v FROM generate_series(1, 50000)) AS a \
                  JOIN (SELECT lpad(CAST(value AS TEXT), 400, '0') AS v FROM generate_series(1, 50000)) AS b ON a.v = b.v";
    let error = account.fails(1, ["--memory-limit", "1", "-c", joined]);
    assert!(error.contains("--memory-limit"), "{error}");
}
