//! Item 5: one lost answer and no other writer make a write fail, although it was applied.

use std::future::Future;

use rowkey::StorageAccount;
use rowkey_patterns::wide::{Wide, WideEntity};
use rowkey_server::{Fault, Operation, Server};

use crate::start;

/// Loses the answer to the transaction of a write without concurrent writers, and panics with the
/// error if the write fails.
async fn lose_answer<T>(
    server: &Server,
    what: &str,
    write: impl Future<Output = rowkey::Result<T>> + Send,
) {
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let written = write.await;
    assert_eq!(lost.hits(), 1, "{what} sends a transaction");
    if let Err(error) = written {
        panic!("{what} fails with one lost answer: {:?}, {:?}", error.kind(), error.outcome());
    }
}

/// A wide entity with this number of properties.
fn year(properties: u32) -> WideEntity {
    let mut year = WideEntity::new("leeds", "2026");
    for day in 0..properties {
        year.set(format!("D{day:03}"), 20.5);
    }
    year
}

async fn years(account: &StorageAccount) -> Wide {
    let table = account.table("years");
    table.create().await.unwrap();
    Wide::new(table)
}

/// Item 5: `Wide::upsert` of a new entity does not know whether it was applied.
#[tokio::test]
#[should_panic(
    expected = "`Wide::upsert` of a new entity fails with one lost answer: Unavailable, Unknown"
)]
async fn an_upsert_of_a_new_wide_entity_is_settled() {
    let (server, account) = start().await;
    let years = years(&account).await;
    let year = year(300);
    lose_answer(&server, "`Wide::upsert` of a new entity", years.upsert(&year)).await;
}

/// Item 5: `Wide::upsert` over an entity meets its own write and says `Conflict`, which an upsert
/// never is.
#[tokio::test]
#[should_panic(
    expected = "`Wide::upsert` over an entity fails with one lost answer: Conflict, Unknown"
)]
async fn an_upsert_over_a_wide_entity_is_settled() {
    let (server, account) = start().await;
    let years = years(&account).await;
    years.insert(&year(300)).await.unwrap();
    let year = year(310);
    lose_answer(&server, "`Wide::upsert` over an entity", years.upsert(&year)).await;
}

/// Item 5: `Wide::replace` meets its own write.
#[tokio::test]
#[should_panic(expected = "`Wide::replace` fails with one lost answer: Conflict, Unknown")]
async fn a_replacement_of_a_wide_entity_is_settled() {
    let (server, account) = start().await;
    let years = years(&account).await;
    years.insert(&year(300)).await.unwrap();
    let mut stored = years.get(year(0).key()).await.unwrap().unwrap();
    stored.entity.set("D000", 21.5);
    lose_answer(&server, "`Wide::replace`", years.replace(&mut stored)).await;
}

/// Item 5: `Wide::merge` meets its own write.
#[tokio::test]
#[should_panic(expected = "`Wide::merge` fails with one lost answer: Conflict, Unknown")]
async fn a_merge_into_a_wide_entity_is_settled() {
    let (server, account) = start().await;
    let years = years(&account).await;
    years.insert(&year(300)).await.unwrap();
    let mut stored = years.get(year(0).key()).await.unwrap().unwrap();
    lose_answer(&server, "`Wide::merge`", years.merge(&mut stored, [("D299", 21.5)])).await;
}
