//! Rows of other programs where further rows have to be: left as they are.

use super::*;

/// A row of another program, where the first further row has to be.
fn foreign() -> DynamicEntity {
    let mut row = DynamicEntity::new("leeds", "wide_year_2026_01");
    row.set("Budget", 1_000_000_i64);
    row
}

/// Writes a year that needs a further row, where a row of another program stands.
async fn beside_another_program(
    what: &str,
    write: impl AsyncFn(&Store<Year>) -> rowkey::Result<()>,
    is_there: bool,
) -> TestResult {
    let (server, account, years) = start().await?;
    if is_there {
        years.insert(&year(10, 20.5)).await?;
    }
    let table = account.table("years");
    table.insert(&foreign()).await?;
    let before = layout(&server.snapshot());
    let error = write(&years).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent), "{what}");
    let said = error.to_string();
    assert!(said.contains("another program") && said.contains("move that row"), "{what}: {said}");
    let now = table.get(foreign().key()).await?.map(|stored| stored.entity);
    assert!(now == Some(foreign()), "{what} writes over a row that is not its own");
    assert_eq!(layout(&server.snapshot()), before, "{what}: all or nothing");
    assert!(years.verify().run().await?.is_clean(), "{what}: a row of others is no orphan");
    years.repair().run().await?;
    assert!(table.get(foreign().key()).await?.is_some(), "{what}: and stays");
    Ok(())
}

/// Issue 8, item 7: a replacement of an entity that needs one row more wrote over a row of another program.
#[tokio::test]
async fn replacing_a_wide_entity_leaves_other_rows_unchanged() -> TestResult {
    let replace = async |years: &Store<Year>| {
        let version = years.get(key()).await?.unwrap().version;
        years.replace_if(&year(300, 20.5), &version).await.map(drop)
    };
    beside_another_program("a replacement", replace, true).await
}

/// Issue 8, item 7: a merge of properties that need one row more was written into a row of another program.
#[tokio::test]
async fn merging_into_a_wide_entity_leaves_other_rows_unchanged() -> TestResult {
    let update = async |years: &Store<Year>| {
        years.update(key(), |at| at.hours.extend(year(300, 20.5).hours)).await.map(drop)
    };
    beside_another_program("an update", update, true).await
}

/// Issue 8, item 7: an upsert of an entity that needs one row more wrote over a row of another program.
#[tokio::test]
async fn upserting_a_wide_entity_leaves_other_rows_unchanged() -> TestResult {
    let upsert = async |years: &Store<Year>| years.upsert(&year(300, 20.5)).await.map(drop);
    beside_another_program("an upsert over an entity", upsert, true).await?;
    beside_another_program("an upsert of a new entity", upsert, false).await
}

#[tokio::test]
async fn inserting_a_wide_entity_leaves_other_rows_unchanged() -> TestResult {
    let insert = async |years: &Store<Year>| years.insert(&year(300, 20.5)).await.map(drop);
    beside_another_program("an insert", insert, false).await
}
