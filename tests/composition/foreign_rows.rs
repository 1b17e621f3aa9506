//! Item 7: rows that a helper takes for its own.

use rowkey::{DynamicEntity, StorageAccount, Stored};
use rowkey_patterns::wide::{Wide, WideEntity};

use crate::start;

/// A row of another program, where the second row of the wide entity `2026` would be.
fn foreign() -> DynamicEntity {
    let mut row = DynamicEntity::new("leeds", "2026_01");
    row.set("Budget", 1_000_000_i64);
    row
}

/// A wide entity with this number of properties: 10 take one row, 300 take two.
fn year(properties: u32) -> WideEntity {
    let mut year = WideEntity::new("leeds", "2026");
    for day in 0..properties {
        year.set(format!("D{day:03}"), 20.5);
    }
    year
}

/// A wide entity of one row, as it was read before the row of the other program was written.
async fn beside_another_program(account: &StorageAccount) -> (Wide, Stored<WideEntity>) {
    let table = account.table("years");
    table.create().await.unwrap();
    let years = Wide::new(table.clone());
    years.insert(&year(10)).await.unwrap();
    let stored = years.get(year(0).key()).await.unwrap().unwrap();
    table.insert(&foreign()).await.unwrap();
    (years, stored)
}

/// What is stored where the other program has its row.
async fn neighbour(account: &StorageAccount) -> Option<DynamicEntity> {
    let stored = account.table("years").get(foreign().key()).await.unwrap();
    stored.map(|stored| stored.entity)
}

/// Item 7: `Wide::replace` of an entity that needs one row more writes over a row of another program.
#[tokio::test]
#[should_panic(expected = "`Wide::replace` writes over a row that is not its own")]
async fn a_replacement_of_a_wide_entity_keeps_off_other_rows() {
    let (_server, account) = start().await;
    let (years, mut stored) = beside_another_program(&account).await;
    for day in 10..300 {
        stored.entity.set(format!("D{day:03}"), 20.5);
    }
    let _ = years.replace(&mut stored).await;
    let now = neighbour(&account).await;
    assert!(now == Some(foreign()), "`Wide::replace` writes over a row that is not its own");
}

/// Item 7: `Wide::merge` of properties that need one row more merges them into a row of another
/// program.
#[tokio::test]
#[should_panic(expected = "`Wide::merge` writes into a row that is not its own")]
async fn a_merge_into_a_wide_entity_keeps_off_other_rows() {
    let (_server, account) = start().await;
    let (years, mut stored) = beside_another_program(&account).await;
    let more = (10..300).map(|day| (format!("D{day:03}"), 20.5));
    let _ = years.merge(&mut stored, more).await;
    let now = neighbour(&account).await;
    assert!(now == Some(foreign()), "`Wide::merge` writes into a row that is not its own");
}

/// Item 7: `Wide::upsert` of an entity that needs one row more writes over a row of another program.
#[tokio::test]
#[should_panic(expected = "`Wide::upsert` writes over a row that is not its own")]
async fn an_upsert_of_a_wide_entity_keeps_off_other_rows() {
    let (_server, account) = start().await;
    let (years, _) = beside_another_program(&account).await;
    let _ = years.upsert(&year(300)).await;
    let now = neighbour(&account).await;
    assert!(now == Some(foreign()), "`Wide::upsert` writes over a row that is not its own");
}
