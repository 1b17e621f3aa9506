//! Wide entities in transactions that read them, and patches under a version.

use std::pin::pin;

use futures_util::future::{Either, select};
use rowkey::store::Store;
use rowkey::{ErrorKind, Outcome};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, stopped_at_every_request, sweep};

use super::{Year, key, layout, start, store, year};

/// The unit of the year, and the value that all its hours have.
async fn whole(years: &Store<Year>) -> TestResult<(String, String)> {
    let stored = years.get(key()).await?.ok_or("it is there")?.entity;
    let value = stored.hours["H00000"];
    let is_same = |hour: &f64| hour.to_bits() == value.to_bits();
    assert!(stored.hours.len() == 600 && stored.hours.values().all(is_same));
    Ok((stored.unit, value.to_string()))
}

/// Warms all hours by a degree, in three rows, and inserts the year after.
async fn warm(years: &Store<Year>) -> rowkey::Result<rowkey::store::Submitted> {
    let next = Year { number: 2027, ..year(3, 0.0) };
    let warm = years.transaction().update(key(), |year| {
        year.hours.values_mut().for_each(|hour| *hour += 1.0);
    });
    warm.upsert(&next).submit().await
}

#[tokio::test]
async fn a_wide_entity_changes_as_a_whole_beside_another_one() -> TestResult {
    let (server, _, years) = start().await?;
    let version = years.insert(&year(600, 5.0)).await?.version;
    let begun = server.journal();
    warm(&years).await?;
    let since = server.journal().since(&begun);
    let counts = [Operation::GetEntity, Operation::QueryEntities, Operation::Transaction];
    assert_eq!(counts.map(|one| since.count(one)), [2, 1, 1], "two heads and the further rows");
    assert_eq!(whole(&years).await?, ("C".into(), "6".into()));
    assert_eq!(layout(&server.snapshot()).len(), 4);

    let patch = || years.patch(key()).set(Year::UNIT, "F");
    let stale = patch().if_version(&version).send().await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    let version = years.get(key()).await?.unwrap().version;
    patch().if_version(&version).send().await?;
    let stale = years.transaction().patch(patch().if_version(&version)).submit().await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    assert_ne!(stale.outcome(), Outcome::Unknown);
    assert_eq!(whole(&years).await?, ("F".into(), "6".into()));
    Ok(())
}

#[tokio::test]
async fn no_failure_and_no_other_writer_tears_it() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(600, 5.0)).await?;
    let warms = async |account: &rowkey::StorageAccount| warm(&store(account)?).await;
    sweep(
        &server,
        warms,
        async |account, warmed| {
            let (_, value) = whole(&store(account)?).await?;
            match warmed {
                Ok(_) => assert_eq!(value, "6"),
                Err(error) => {
                    assert_ne!(error.outcome(), Outcome::Unknown, "{error}");
                    assert_eq!(value, "5");
                }
            }
            Ok(())
        },
        |_, _| {},
    )
    .await?;
    let is_whole = async |account: &rowkey::StorageAccount| whole(&store(account)?).await.map(drop);
    stopped_at_every_request(&server, warms, is_whole, |_| {}).await?;

    for nth in 1.. {
        let server = Server::builder().manual_clock().start().await?;
        let years = store(&account(&server)?)?;
        years.create_if_missing().await?;
        years.insert(&year(600, 5.0)).await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let mut warming = pin!(warm(&years));
        let rival = async {
            held.wait_until_held().await;
            let warmed = years.update(key(), |year| {
                year.hours.values_mut().for_each(|hour| *hour += 10.0);
            });
            let warmed = warmed.await;
            held.release();
            warmed
        };
        match select(&mut warming, pin!(rival)).await {
            Either::Left(_) => break,
            Either::Right((rival, _)) => {
                rival?;
                warming.await?;
            }
        }
        assert_eq!(whole(&years).await?.1, "16", "request {nth}");
    }
    Ok(())
}
