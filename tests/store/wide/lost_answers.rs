//! Writes of wide entities whose answer is lost: settled without another writer.

use super::*;

/// Loses the answer to the transaction of a write without concurrent writers.
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

/// Issue 8, item 5: an upsert of a new entity did not know whether it was applied.
#[tokio::test]
async fn an_upsert_of_a_new_wide_entity_is_settled() -> TestResult {
    let (server, _, years) = start().await?;
    lose_answer(&server, "an upsert of a new entity", years.upsert(&year(300, 1.0))).await;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(300, 1.0));
    Ok(())
}

/// Issue 8, item 5: an upsert over an entity met its own write and said `Conflict`.
#[tokio::test]
async fn an_upsert_over_a_wide_entity_is_settled() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(300, 1.0)).await?;
    lose_answer(&server, "an upsert over an entity", years.upsert(&year(310, 2.0))).await;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(310, 2.0));
    Ok(())
}

/// Issue 8, item 5: a replacement met its own write.
#[tokio::test]
async fn a_replacement_of_a_wide_entity_is_settled() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(300, 1.0)).await?;
    let version = years.get(key()).await?.unwrap().version;
    lose_answer(&server, "a replacement", years.replace_if(&year(300, 2.0), &version)).await;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(300, 2.0));
    Ok(())
}

/// Issue 8, item 5: a merge met its own write.
#[tokio::test]
async fn a_merge_into_a_wide_entity_is_settled() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(300, 1.0)).await?;
    let correct = |year: &mut Year| {
        year.hours.insert("H00299".into(), 21.5);
    };
    let update = Box::pin(years.update(key(), correct));
    lose_answer(&server, "an update", update).await;
    assert_eq!(years.get(key()).await?.unwrap().entity.hours.get("H00299"), Some(&21.5));
    Ok(())
}
