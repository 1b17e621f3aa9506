//! Sessions over accounts: tables that need no registration.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use rowkey::DynamicEntity;
use rowkey_datafusion::{
    Accounts, Catalog, SessionOptions, refresh, requests, service_error, session, session_of,
    table_scans,
};
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, entity};

fn rows(count: i64) -> Vec<DynamicEntity> {
    let row = |number: i64| {
        entity("p", &format!("{number:04}"), |row| {
            row.set("cents", number);
        })
    };
    (0..count).map(row).collect()
}

/// An account whose session knows its tables by a catalog.
async fn with_catalog() -> Account {
    let account = Account::start().await;
    let accounts = Accounts::of([account.storage.clone()]).unwrap();
    let session = session_of(&accounts, SessionOptions::default()).unwrap();
    Account { session, ..account }
}

async fn scans(session: &SessionContext, sql: &str) -> Vec<String> {
    table_scans(&session.sql(sql).await.unwrap().create_physical_plan().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_sampled_when_it_is_first_named() {
    let account = with_catalog().await;
    let table = account.table("orders", rows(3)).await;
    let sql = "SELECT SUM(cents) FROM Orders WHERE PartitionKey = 'p'";
    assert_eq!(account.ask(sql).await, (vec!["3".to_owned()], 2));
    assert_eq!(account.ask(&sql.replace("Orders", "ORDERS")).await, (vec!["3".to_owned()], 1));
    // A property that another program adds is a column after a refresh.
    table
        .insert(&entity("p", "new", |row| {
            row.set("Note", "new");
        }))
        .await
        .unwrap();
    let note = "SELECT Note FROM orders WHERE PartitionKey = 'p' AND RowKey = 'new'";
    assert!(account.fails(note).await.contains("Note"));
    refresh(&account.session);
    assert_eq!(account.ask(note).await.0, ["new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_listed_on_any_runtime_and_an_error_is_not_an_empty_list() {
    let account = with_catalog().await;
    account.table("orders", rows(1)).await;
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'tables'";
    assert_eq!(account.rows(sql).await, ["orders"]);
    let storage = account.storage.clone();
    let on_one_thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = session();
            let config = session.copied_config().with_information_schema(true);
            let session = rowkey_datafusion::session_with(config);
            session.register_catalog("shop", Arc::new(Catalog::of(&storage)));
            session.sql("SHOW TABLES").await.unwrap().collect().await.unwrap()
        })
    });
    assert!(on_one_thread.join().unwrap().iter().any(|batch| batch.num_rows() > 0));
    let _fault = account
        .server
        .inject(Fault::on(Operation::QueryTables).reject(ErrorCode::AUTHORIZATION_FAILURE));
    let error = account.session.sql(sql).await.unwrap().collect().await.unwrap_err();
    assert_eq!(service_error(&error).unwrap().kind(), rowkey::ErrorKind::Auth);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_are_of_the_session_and_tables_of_the_service() {
    let account = with_catalog().await;
    account.table("orders", rows(3)).await;
    account.ask("CREATE VIEW early AS SELECT * FROM orders WHERE RowKey < '0002'").await;
    assert_eq!(account.rows("SELECT COUNT(*) FROM EARLY").await, ["2"]);
    let exists = account.fails("CREATE VIEW orders AS SELECT 1").await;
    assert!(exists.contains("already exists"), "{exists}");
    account.ask("DROP VIEW early").await;
    assert!(account.fails("SELECT * FROM early").await.contains("not found"));
    assert!(account.fails("SELECT * FROM \"no-table-of-the-service\"").await.contains("not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_of_whole_tables_are_found_anywhere_in_a_plan() {
    let account = with_catalog().await;
    account.table("orders", rows(3)).await;
    account.table("items", rows(3)).await;
    for (sql, expected) in [
        ("SELECT * FROM orders WHERE PartitionKey = 'p'", &[][..]),
        ("SELECT * FROM orders LIMIT 1000", &[]),
        ("SELECT * FROM orders LIMIT 1001", &["orders"]),
        ("SELECT * FROM orders WHERE cents > 1 LIMIT 3", &["orders"]),
        ("SELECT * FROM orders WHERE RowKey = '0001'", &["orders"]),
        ("SELECT * FROM orders WHERE PartitionKey LIKE 'p%' LIMIT 3", &[]),
        ("SELECT * FROM orders o JOIN items i ON o.RowKey = i.RowKey", &["items", "orders"]),
        (
            "SELECT COUNT(*) FROM items WHERE cents IN (SELECT cents FROM orders WHERE PartitionKey = 'p')",
            &["items"],
        ),
        ("SELECT * FROM (SELECT * FROM orders LIMIT 5) ORDER BY cents", &[]),
    ] {
        assert_eq!(scans(&account.session, sql).await, expected, "{sql}");
    }
    let plan =
        account.session.sql("SELECT * FROM orders WHERE PartitionKey = 'hidden'").await.unwrap();
    let found = requests(&plan.create_physical_plan().await.unwrap());
    assert!(!format!("{found:?}").contains("hidden"), "{found:?}");
    assert!(found[0].to_string().contains("PartitionKey = 'hidden'"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_tables_opens_none_and_a_function_is_no_table() {
    let account = with_catalog().await;
    for number in 0..10 {
        account.table(&format!("orders{number}"), rows(1)).await;
    }
    let (names, sent) = account
        .ask("SELECT table_name FROM information_schema.tables WHERE table_schema = 'tables'")
        .await;
    assert_eq!((names.len(), sent), (10, 0));
    let (shown, sent) = account.ask("SHOW TABLES").await;
    assert!(shown.iter().filter(|line| line.contains("orders")).count() == 10, "{shown:?}");
    assert_eq!(sent, 0);
    let before = account.server.journal();
    assert_eq!(account.rows("SELECT COUNT(*) FROM generate_series(1, 5)").await, ["5"]);
    assert!(account.fails("SELECT * FROM \"no/such/file.parquet\"").await.contains("not found"));
    assert_eq!(account.server.journal().since(&before).len(), 0);
    // The empty path is not the folder of the process.
    assert!(account.fails("SELECT * FROM \"\"").await.contains("not found"));
}
