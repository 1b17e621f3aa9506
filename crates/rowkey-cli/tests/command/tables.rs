//! `rowkey tables`.

use crate::support::Account;

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_created_listed_and_dropped() {
    let account = Account::start().await;
    assert_eq!(account.ok(["tables"]), "");
    assert_eq!(
        account.ok(["tables", "create", "orders"]),
        "{\"table\":\"orders\",\"created\":true}\n"
    );
    account.ok(["tables", "create", "logs"]);
    assert_eq!(account.ok(["tables"]), "{\"table\":\"logs\"}\n{\"table\":\"orders\"}\n");
    assert_eq!(account.ok(["tables", "--prefix", "o"]), "{\"table\":\"orders\"}\n");
    assert_eq!(account.ok(["tables", "--output", "csv"]), "table\nlogs\norders\n");
    let shown = account.ok(["tables", "--output", "table"]);
    assert!(shown.contains("│ orders │") && shown.contains('┌'), "{shown}");

    assert_eq!(
        account.ok(["tables", "drop", "orders", "--yes", "--json"]),
        "{\"table\":\"orders\",\"dropped\":true}\n"
    );
    assert_eq!(account.ok(["tables"]), "{\"table\":\"logs\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_exists_or_is_missing_is_an_error_unless_a_flag_allows_it() {
    let account = Account::with_orders().await;
    let error = account.fails(4, ["tables", "create", "orders"]);
    assert!(error.contains("CreateTable on orders: it exists already"), "{error}");
    assert!(error.contains("add --if-missing"), "{error}");
    let found = account.ok(["tables", "create", "orders", "--if-missing"]);
    assert_eq!(found, "{\"table\":\"orders\",\"created\":false}\n");

    let error = account.fails(3, ["tables", "drop", "absent", "--yes"]);
    assert!(error.contains("absent"), "{error}");
    let absent = account.ok(["tables", "drop", "absent", "--yes", "--if-exists"]);
    assert_eq!(absent, "{\"table\":\"absent\",\"dropped\":false}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_not_dropped_without_a_confirmation() {
    let account = Account::with_orders().await;
    let error = account.fails(2, ["tables", "drop", "orders"]);
    assert!(error.contains("refused to drop table orders"), "{error}");
    assert!(error.contains("add --yes"), "{error}");
    // Text on stdin is not an answer.
    assert_eq!(account.fed("yes\n", ["tables", "drop", "orders"]).code, 2);
    assert_eq!(account.ok(["tables"]), "{\"table\":\"orders\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_names_and_flags_are_wrong_usage() {
    let account = Account::start().await;
    account.fails(2, ["tables", "create", "no-hyphens"]);
    let error = account.fails(2, ["tables", "--prefix", "x", "create", "orders"]);
    assert!(error.contains("--prefix"), "{error}");
    let error = account.fails(2, ["tables", "crate", "orders"]);
    assert!(error.contains("'create'"), "suggests the right one: {error}");
}
