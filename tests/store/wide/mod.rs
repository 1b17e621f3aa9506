//! Wide entities: one version is read and written if any request fails, rows of others stay as they are, and no
//! row is left behind.
//!
//! - this file: rows of entities, concurrent reads, and rejected entities
//! - `changing`: transactions that read them, and patches under a version
//! - `foreign`: rows of other programs where further rows have to be
//! - `lost_answers`: writes whose answer is lost
//! - `parts`: properties in known rows, which are read and patched alone
//! - `patched`: patches beside other writers and copies
//! - `declarations`: everything else that a type declares, beside further rows

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::Store;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, Match, Outcome, StorageAccount,
};
use rowkey_emulator::{Fault, Operation, Pages, Server, Snapshot, Sweep};
use rowkey_tests::sweep::{account, brief};
use rowkey_tests::{TestError, TestResult};

mod changing;
mod declarations;
mod foreign;
mod lost_answers;
mod parts;
mod patched;

/// Numbers of a year under names that are data.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    store,
    wide = 98,
    partition = "{city}",
    row = "year_{number:4}",
    rename_all = "PascalCase"
)]
struct Year {
    city: String,
    number: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

/// A year with this number of hours, of one value.
fn year(hours: u32, value: f64) -> Year {
    let hours = (0..hours).map(|hour| (format!("H{hour:05}"), value)).collect();
    Year { city: "leeds".into(), number: 2026, unit: "C".into(), hours }
}

fn key() -> Key<Year> {
    Year::key("leeds", 2026)
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Year>> {
    Store::builder(account.table("years")).build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<Year>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let years = store(&account)?;
    years.create_if_missing().await?;
    Ok((server, account, years))
}

/// The RowKey of each row, and how many properties it has.
fn layout(snapshot: &Snapshot) -> Vec<(String, usize)> {
    let table = snapshot.table("years").unwrap();
    table.entities().map(|row| (row.row_key().to_owned(), row.properties().count())).collect()
}

fn shown(rows: &[(&str, usize)]) -> Vec<(String, usize)> {
    rows.iter().map(|(row_key, properties)| ((*row_key).to_owned(), *properties)).collect()
}

/// The requests since `begun`, by operation.
fn sent(server: &Server, begun: &rowkey_emulator::Journal) -> [usize; 4] {
    let sent = server.journal().since(begun);
    let of = |operation| sent.count(operation);
    let (get, query) = (of(Operation::GetEntity), of(Operation::QueryEntities));
    let transactions = of(Operation::Transaction);
    [get, query, transactions, sent.len() - get - query - transactions]
}

#[tokio::test]
async fn entities_of_any_width_round_trip() -> TestResult {
    let (server, _, years) = start().await?;
    for hours in [0, 1, 249, 250, 251, 498, 499, 1000, 8760] {
        let whole = year(hours, 20.5);
        years.upsert(&whole).await?;
        assert_eq!(years.get(key()).await?.unwrap().entity, whole, "{hours}");
        let all = years.query(Year::partition("leeds")).all().await?;
        assert_eq!(all.len(), 1, "further rows are no entities");
        assert_eq!(all[0].entity, whole);
        assert_eq!(years.get_many([key()]).await?[0].as_ref().unwrap().entity, whole);
        assert_eq!(years.count(Year::partition("leeds")).await?, 1);
        assert!(years.delete(key()).await?);
        assert_eq!(layout(&server.snapshot()), [], "nothing is left behind");
    }
    Ok(())
}

#[tokio::test]
async fn the_row_format_is_stable() -> TestResult {
    let (server, _, years) = start().await?;
    // The unit, 250 hours and the mark are one row.
    years.insert(&year(250, 5.0)).await?;
    assert_eq!(layout(&server.snapshot()), shown(&[("year_2026", 252)]));
    years.delete(key()).await?;
    years.insert(&year(600, 5.0)).await?;
    let rows = [("wide_year_2026_01", 252), ("wide_year_2026_02", 105), ("year_2026", 252)];
    assert_eq!(layout(&server.snapshot()), shown(&rows));
    let snapshot = server.snapshot();
    let table = snapshot.table("years").unwrap();
    let head = table.entity("leeds", "year_2026").unwrap();
    assert_eq!(head.get("EntityRows"), Some(Value::Int32(3)));
    let first: Vec<_> = head.properties().take(2).collect();
    assert_eq!(first, [("Unit", Value::from("C")), ("H00000", 5.0.into())]);
    let further = table.entity("leeds", "wide_year_2026_01").unwrap();
    assert_eq!(further.get("EntityOp"), head.get("EntityOp"));
    assert_eq!(further.get("PrimaryRowKey"), Some("year_2026".into()));
    assert_eq!(further.get("RowFormat"), Some(Value::Int32(1)));
    assert_eq!(further.get("H00249"), Some(5.0.into()));
    Ok(())
}

#[tokio::test]
async fn each_operation_sends_the_documented_requests() -> TestResult {
    let (server, _, years) = start().await?;
    // The hours, and what insert, get, update and delete send: point reads, queries, transactions.
    let narrow = (10, [[0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]);
    let wide = (600, [[0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]]);
    for (hours, expected) in [narrow, wide] {
        let begun = server.journal();
        years.insert(&year(hours, 5.0)).await?;
        assert_eq!(sent(&server, &begun), expected[0], "insert of {hours}");
        let begun = server.journal();
        years.get(key()).await?;
        assert_eq!(sent(&server, &begun), expected[1], "get of {hours}");
        let begun = server.journal();
        years.update(key(), |year| year.unit = "F".into()).await?;
        assert_eq!(sent(&server, &begun), expected[2], "update of {hours}");
        let begun = server.journal();
        years.delete(key()).await?;
        assert_eq!(sent(&server, &begun), expected[3], "delete of {hours}");
    }
    Ok(())
}

#[tokio::test]
async fn an_entity_grows_and_shrinks_with_its_rows() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(1000, 5.0)).await?;
    assert_eq!(layout(&server.snapshot()).len(), 5);
    years.update(key(), |year| year.hours.retain(|hour, _| hour.as_str() < "H00260")).await?;
    let rows = [("wide_year_2026_01", 14), ("year_2026", 252)];
    assert_eq!(layout(&server.snapshot()), shown(&rows), "surplus rows go");
    let version = years.get(key()).await?.unwrap().version;
    years.replace_if(&year(3, 6.0), &version).await?;
    assert_eq!(layout(&server.snapshot()), shown(&[("year_2026", 5)]));
    let error = years.replace_if(&year(300, 7.0), &version).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "that version is no more");
    years.upsert(&year(700, 8.0)).await?;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(700, 8.0));
    let plan = years.explain().update(key(), |at| *at = year(300, 8.0)).await?;
    assert_eq!(plan.operations(), 3, "the head, a row that stays and one that goes");
    assert!(plan.to_string().contains("delete the further row of the entity"), "{plan}");
    assert!(years.rewrite(key()).await?);
    years.patch(key()).set(Year::UNIT, "F").send().await?;
    let now = years.get(key()).await?.unwrap();
    assert_eq!((now.entity.unit.as_str(), now.entity.hours.len()), ("F", 700));
    years.delete_if(key(), &now.version).await?;
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

#[tokio::test]
async fn a_reader_never_mixes_two_versions() -> TestResult {
    // A version is written between the head and the further rows, and between pages of these.
    for (next, nth) in [(2000, 1), (2000, 2), (600, 1), (600, 2), (10, 1), (10, 2)] {
        let (server, _, years) = start().await?;
        years.insert(&year(2000, 1.0)).await?;
        let held = server.inject(Fault::on(Operation::QueryEntities).nth(nth).hold());
        let chaos = server.chaos(Pages { seed: 3, cut: true, empty: false, partition_only: false });
        let (read, second) = (pin!(years.get(key())), pin!(held.wait_until_held()));
        let Either::Right(((), read)) = select(read, second).await else {
            panic!("the reading took fewer queries")
        };
        drop(chaos);
        store(&account(&server)?)?.upsert(&year(next, 2.0)).await?;
        held.release();
        assert_eq!(read.await?.unwrap().entity, year(next, 2.0), "{next} {nth}");
    }
    // An entity that is deleted meanwhile is gone.
    let (server, _, years) = start().await?;
    years.insert(&year(600, 1.0)).await?;
    let held = server.inject(Fault::on(Operation::QueryEntities).nth(1).hold());
    let (read, first) = (pin!(years.get(key())), pin!(held.wait_until_held()));
    let Either::Right(((), read)) = select(read, first).await else { panic!("no query") };
    store(&account(&server)?)?.delete(key()).await?;
    held.release();
    assert!(read.await?.is_none());
    Ok(())
}

#[tokio::test]
async fn damaged_rows_are_an_error() -> TestResult {
    let (server, account, years) = start().await?;
    years.insert(&year(800, 1.0)).await?;
    let table = account.table("years");
    let row =
        |number: u32| Key::<DynamicEntity>::new("leeds", format!("wide_year_2026_{number:02}"));
    // One is of another write.
    let mut second = table.get(row(2)).await?.unwrap();
    let mark = second.entity.set("EntityOp", "0000000000000000");
    table.replace(&second).await?;
    let is_damaged = async || {
        let error = years.get(key()).await.unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Decode, "{said}");
        assert!(said.contains("2 are as") && said.contains("restore them"), "{said}");
        let report = years.verify().run().await?;
        let found = (report.part("further rows").missing, report.total.orphaned);
        assert_eq!(found, (1, 0), "{report:?}");
        Ok::<_, TestError>(())
    };
    is_damaged().await?;
    let mut second = table.get(row(2)).await?.unwrap();
    second.entity.set("EntityOp", mark.unwrap());
    table.replace(&second).await?;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(800, 1.0), "it was restored");
    // One is missing.
    table.delete(row(2), Match::Any).await?;
    is_damaged().await?;
    let error = years.update(key(), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "nothing is written over what is not known");
    let begun = server.journal();
    years.repair().run().await?;
    assert_eq!(server.journal().since(&begun).count(Operation::Transaction), 0, "nor guessed");
    // The action that the error advises.
    table.delete(Key::<DynamicEntity>::new("leeds", "year_2026"), Match::Any).await?;
    let report = years.verify().run().await?;
    assert_eq!(report.part("further rows").orphaned, 2, "{report:?}");
    let report = years.repair().run().await?;
    assert_eq!(report.part("further rows").repaired, 2, "{report:?}");
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

/// Another program damages the number of rows in the head. All rows have the mark of the head.
#[tokio::test]
async fn a_repair_restores_the_number_of_rows_and_deletes_none() -> TestResult {
    for damaged in [None, Some(2), Some(3)] {
        let (server, account, years) = start().await?;
        years.insert(&year(800, 1.0)).await?;
        let table = account.table("years");
        let mut head =
            table.get(Key::<DynamicEntity>::new("leeds", "year_2026")).await?.unwrap().entity;
        match damaged {
            None => head.remove("EntityRows"),
            Some(rows) => head.set("EntityRows", rows),
        };
        table.replace((&head, Match::Any)).await?;
        let report = years.verify().run().await?;
        let found = report.part("further rows");
        assert_eq!((found.stale, found.orphaned), (1, 0), "{damaged:?}: {report:?}");
        let report = years.repair().run().await?;
        assert_eq!(report.part("further rows").repaired, 1, "{damaged:?}: {report:?}");
        assert_eq!(layout(&server.snapshot()).len(), 4, "{damaged:?}");
        assert_eq!(years.get(key()).await?.unwrap().entity, year(800, 1.0), "{damaged:?}");
        assert!(years.verify().run().await?.is_clean());
    }
    Ok(())
}

#[tokio::test]
async fn what_is_left_of_a_damaged_entity_can_be_deleted() -> TestResult {
    let (server, account, years) = start().await?;
    years.insert(&year(800, 1.0)).await?;
    let error = years.delete_remains(key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "it is complete: {error}");
    let table = account.table("years");
    let row =
        |number: u32| Key::<DynamicEntity>::new("leeds", format!("wide_year_2026_{number:02}"));
    table.delete(row(2), Match::Any).await?;
    let mut third = table.get(row(3)).await?.unwrap();
    third.entity.set("EntityOp", "0000000000000000");
    table.replace(&third).await?;
    let report = years.verify().run().await?;
    assert_eq!(report.part("further rows").missing, 1, "{report:?}");
    let said = &report.problems[0].error;
    assert!(said.contains("of 3 further rows"), "{said}");
    assert!(said.contains("1 are gone") && said.contains("1 come from another"), "{said}");
    assert!(said.contains("delete_remains") && !said.contains("leeds"), "{said}");

    assert!(years.delete_remains(key()).await?);
    assert!(!years.delete_remains(key()).await?, "there is none");
    assert_eq!(layout(&server.snapshot()), []);
    years.insert(&year(10, 2.0)).await?;
    assert!(years.verify().run().await?.is_clean());
    Ok(())
}

/// A row that was written with the head is missing between others: the number of rows proves nothing.
#[tokio::test]
async fn rows_written_with_a_head_are_never_deleted_by_a_repair() -> TestResult {
    let (server, account, years) = start().await?;
    years.insert(&year(800, 1.0)).await?;
    let table = account.table("years");
    let mut head = DynamicEntity::new("leeds", "year_2026");
    head.set("EntityRows", 2);
    table.merge((&head, Match::Any)).await?;
    table.delete(Key::<DynamicEntity>::new("leeds", "wide_year_2026_02"), Match::Any).await?;
    let report = years.repair().run().await?;
    assert_eq!(report.part("further rows").missing, 1, "{report:?}");
    assert_eq!((report.total.orphaned, report.is_clean()), (0, false), "{report:?}");
    assert_eq!(layout(&server.snapshot()).len(), 3);
    Ok(())
}

#[tokio::test]
async fn leftover_rows_do_not_affect_later_writes() -> TestResult {
    let (server, account, years) = start().await?;
    years.insert(&year(800, 1.0)).await?;
    let head = Key::<DynamicEntity>::new("leeds", "year_2026");
    account.table("years").delete(head.clone(), Match::Any).await?;
    // The first two are written over, the third is behind the last row.
    years.insert(&year(600, 2.0)).await?;
    assert_eq!(layout(&server.snapshot()).len(), 4);
    assert_eq!(years.get(key()).await?.unwrap().entity, year(600, 2.0));
    years.update(key(), |at| *at = year(800, 3.0)).await?;
    assert_eq!(years.get(key()).await?.unwrap().entity, year(800, 3.0));
    let report = years.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
    assert_eq!(report.part("further rows").right, 1);
    // One that is behind the last row is an orphan, which repair removes.
    account.table("years").delete(head, Match::Any).await?;
    years.insert(&year(10, 4.0)).await?;
    let report = years.verify().run().await?;
    assert_eq!(report.part("further rows").orphaned, 3, "{report:?}");
    years.repair().run().await?;
    assert_eq!(layout(&server.snapshot()), shown(&[("year_2026", 12)]));
    Ok(())
}

#[tokio::test]
async fn an_entity_too_large_for_a_transaction_is_rejected_with_size_and_limit() -> TestResult {
    /// A type of few rows.
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, wide = 4, partition = "all", row = "bag_{id}")]
    struct Bag {
        id: u32,
        #[entity(rest)]
        entries: BTreeMap<String, Value>,
    }

    let (server, account, years) = start().await?;
    // 250 in the head and 249 in each of 97 others.
    years.insert(&year(249 + 97 * 249, 5.0)).await?;
    assert_eq!(layout(&server.snapshot()).len(), 98);
    assert!(years.delete(key()).await?);
    let begun = server.journal();
    let refused = |error: rowkey::Error, numbers: &[&str]| {
        let said = error.to_string();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
        for number in numbers {
            assert!(said.contains(number), "{number}: {said}");
        }
    };
    let error = years.insert(&year(250 + 97 * 249, 5.0)).await.unwrap_err();
    refused(error, &["24404 properties", "99 rows", "allows 98", "bytes in all"]);
    let bags = Store::<Bag>::builder(account.table("years")).build()?;
    let bag = |entries: u32, value: &Value| {
        let entries = (0..entries).map(|entry| (format!("E{entry}"), value.clone())).collect();
        Bag { id: 1, entries }
    };
    let error = bags.insert(&bag(1050, &1.into())).await.unwrap_err();
    refused(error, &["1050 properties", "5 rows", "allows 4", "raise the number"]);
    // Four rows of bytes, which become longer as JSON.
    let bytes = Value::from(vec![7_u8; 65_000]);
    let error = bags.insert(&bag(50, &bytes)).await.unwrap_err();
    refused(error, &["50 properties", "4 rows", "4194304 bytes", "in blobs"]);
    let mut taken = year(300, 1.0);
    taken.hours.insert("EntityRows".into(), 1.0);
    let error = years.insert(&taken).await.unwrap_err();
    assert!(error.to_string().contains("`EntityRows`"), "{error}");
    assert_eq!(server.journal().since(&begun).len(), 0, "nothing is sent");
    bags.insert(&bag(40, &bytes)).await?;
    assert_eq!(bags.get(Bag::key(1)).await?.unwrap().entity, bag(40, &bytes));
    Ok(())
}

#[tokio::test]
async fn a_filter_on_a_property_of_further_rows_is_rejected() -> TestResult {
    let (server, _, years) = start().await?;
    years.insert(&year(300, 5.0)).await?;
    let begun = server.journal();
    let of_leeds = || years.query(Year::partition("leeds"));
    let error = of_leeds().filter(Year::UNIT.is("C")).all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("further row"), "{error}");
    assert_eq!(server.journal().since(&begun).len(), 0);
    Ok(())
}

/// The same rows, in a program whose type has one row.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{city}", row = "year_{number:4}", rename_all = "PascalCase")]
struct Narrow {
    city: String,
    number: u16,
    unit: String,
}

#[tokio::test]
async fn a_type_of_one_row_rejects_a_wide_entity() -> TestResult {
    let (_server, account, years) = start().await?;
    let narrow = Store::<Narrow>::builder(account.table("years")).build()?;
    years.insert(&year(3, 5.0)).await?;
    assert_eq!(narrow.get(Narrow::key("leeds", 2026)).await?.unwrap().entity.unit, "C");
    years.upsert(&year(300, 5.0)).await?;
    for error in [
        narrow.get(Narrow::key("leeds", 2026)).await.unwrap_err(),
        narrow.update(Narrow::key("leeds", 2026), |_| ()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains("has 2 rows"), "{error}");
    }
    Ok(())
}
