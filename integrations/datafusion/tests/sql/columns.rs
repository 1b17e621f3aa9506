//! The columns of a table: inferred, declared, and what does not fit.

use rowkey::Entity;
use rowkey::edm::{DateTime, Guid, Type};
use rowkey_datafusion::{Mismatch, TableSource, of};

use crate::support::{Account, entity};

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_a_column_and_its_conditions_find_it() {
    let account = Account::start().await;
    let at: DateTime = "2026-11-28T05:14:00.1234567Z".parse().unwrap();
    let guid: Guid = "0f8fad5b-d9cb-469f-a165-70867728950e".parse().unwrap();
    let row = entity("p", "r", |row| {
        row.set("text", "it's");
        row.set("small", 7_i32);
        row.set("big", i64::MAX);
        row.set("real", 1.25);
        row.set("open", true);
        row.set("at", at);
        row.set("id", guid);
        row.set("bytes", vec![1_u8, 2, 255]);
        row.set("none", Vec::<u8>::new());
    });
    account.with("all", vec![row, entity("p", "other", |_| ())]).await;
    let (rows, _) = account
        .ask("SELECT text, small, big, real, open, at, id, bytes, none FROM all WHERE RowKey = 'r'")
        .await;
    let expected = "it's 7 9223372036854775807 1.25 true 2026-11-28T05:14:00.123456700Z 0f8fad5b-d9cb-469f-a165-70867728950e 0102ff";
    assert_eq!(rows, [format!("{expected} ")]);
    for condition in [
        "text = 'it''s'",
        "small = 7",
        "big = 9223372036854775807",
        "real = 1.25",
        "real BETWEEN 1 AND 2",
        "open",
        "at = TIMESTAMP '2026-11-28 05:14:00.1234567'",
        "at < TIMESTAMP '2026-11-28 05:14:01'",
        "at >= '2026-11-28T05:14:00Z'",
        "id = '0f8fad5b-d9cb-469f-a165-70867728950e'",
        "bytes = X'0102ff'",
        "none = X''",
        "\"Timestamp\" > TIMESTAMP '2020-01-01 00:00:00'",
    ] {
        let (rows, _) = account.ask(&format!("SELECT RowKey FROM all WHERE {condition}")).await;
        assert!(rows.contains(&"r".to_owned()), "{condition}: {rows:?}");
    }
    for condition in [
        "at <> TIMESTAMP '2026-11-28 05:14:00.1234567'",
        "id = '0F8FAD5B-D9CB-469F-A165-70867728950E'",
    ] {
        let (rows, _) = account.ask(&format!("SELECT RowKey FROM all WHERE {condition}")).await;
        assert!(rows.is_empty(), "{condition}: {rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_an_error_that_names_it_or_null() {
    let account = Account::start().await;
    let rows = (0..12).map(|number: i32| {
        entity("p", &format!("{number:02}"), |row| {
            match number {
                0 => row.set("code", "secret"),
                1 => row.set("code", 2.5),
                _ => row.set("code", number),
            };
        })
    });
    let table = account.table("mixed", rows.collect()).await;
    let opened = TableSource::open(&table).column("code", Type::Int32);
    account.register("mixed", opened.clone().await.unwrap());
    let error = account.fails("SELECT sum(code) FROM mixed").await;
    assert!(
        error.contains("column code of the table mixed is Edm.Int32")
            && error.contains("Mismatch::Null"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    // A query that does not read the column does not fail.
    assert_eq!(account.ask("SELECT count(*) FROM mixed").await.0, ["12"]);
    account.register("lenient", opened.mismatch(Mismatch::Null).await.unwrap());
    assert_eq!(account.ask("SELECT sum(code), count(code) FROM lenient").await.0, ["65 10"]);
}

#[derive(Entity)]
#[entity(partition = "{customer}", row = "order_{number:6}")]
#[allow(dead_code, reason = "only its schema is used")]
struct Order {
    customer: String,
    number: u32,
    cents: i64,
    note: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_reads_its_rows_alone() {
    let account = Account::start().await;
    let order = |number: u32| {
        entity("contoso", &format!("order_{number:06}"), |row| {
            row.set("cents", i64::from(number));
        })
    };
    let other = entity("contoso", "customer", |row| {
        row.set("cents", "none");
    });
    let table = account.table("orders", (0..5).map(order).chain([other]).collect()).await;
    account.register("orders", TableSource::open(&table).schema(of::<Order>()).await.unwrap());
    let (rows, _) = account.ask("SELECT sum(cents), count(note), count(*) FROM orders").await;
    assert_eq!(rows, ["10 0 5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_exist_is_said_when_it_is_opened() {
    let account = Account::start().await;
    let error = TableSource::open(&account.storage.table("absent")).await.unwrap_err().to_string();
    assert!(error.contains("absent") && error.contains("TableNotFound"), "{error}");
}
