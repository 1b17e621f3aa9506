//! Wide entities: one version is read and written whichever request fails, rows of others stay as they are, and no
//! row is left behind.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, Match, Outcome, StorageAccount,
};
use rowkey_encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey_server::{Fault, Operation, Pages, Server, Snapshot, Sweep};
use rowkey_store::Store;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

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

async fn start() -> Result<(Server, StorageAccount, Store<Year>), Box<dyn std::error::Error>> {
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

/// What was sent since `begun`, by operation.
fn sent(server: &Server, begun: &rowkey_server::Journal) -> [usize; 4] {
    let sent = server.journal().since(begun);
    let of = |operation| sent.count(operation);
    let (get, query) = (of(Operation::GetEntity), of(Operation::QueryEntities));
    let transactions = of(Operation::Transaction);
    [get, query, transactions, sent.len() - get - query - transactions]
}

#[tokio::test]
async fn what_is_written_is_read_whatever_its_width() -> TestResult {
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
async fn rows_are_a_contract() -> TestResult {
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
async fn each_operation_costs_what_the_book_says() -> TestResult {
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
async fn a_replacement_of_a_wide_entity_keeps_off_other_rows() -> TestResult {
    let replace = async |years: &Store<Year>| {
        let version = years.get(key()).await?.unwrap().version;
        years.replace_if(&year(300, 20.5), &version).await.map(drop)
    };
    beside_another_program("a replacement", replace, true).await
}

/// Issue 8, item 7: a merge of properties that need one row more was written into a row of another program.
#[tokio::test]
async fn a_merge_into_a_wide_entity_keeps_off_other_rows() -> TestResult {
    let update = async |years: &Store<Year>| {
        years.update(key(), |at| at.hours.extend(year(300, 20.5).hours)).await.map(drop)
    };
    beside_another_program("an update", update, true).await
}

/// Issue 8, item 7: an upsert of an entity that needs one row more wrote over a row of another program.
#[tokio::test]
async fn an_upsert_of_a_wide_entity_keeps_off_other_rows() -> TestResult {
    let upsert = async |years: &Store<Year>| years.upsert(&year(300, 20.5)).await.map(drop);
    beside_another_program("an upsert over an entity", upsert, true).await?;
    beside_another_program("an upsert of a new entity", upsert, false).await
}

#[tokio::test]
async fn an_insert_of_a_wide_entity_keeps_off_other_rows() -> TestResult {
    let insert = async |years: &Store<Year>| years.insert(&year(300, 20.5)).await.map(drop);
    beside_another_program("an insert", insert, false).await
}

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
async fn rows_that_others_damaged_are_an_error_and_not_a_guess() -> TestResult {
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
        Ok::<_, Box<dyn std::error::Error>>(())
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
    // What the error says to do.
    table.delete(Key::<DynamicEntity>::new("leeds", "year_2026"), Match::Any).await?;
    let report = years.verify().run().await?;
    assert_eq!(report.part("further rows").orphaned, 2, "{report:?}");
    let report = years.repair().run().await?;
    assert_eq!(report.part("further rows").repaired, 2, "{report:?}");
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

#[tokio::test]
async fn rows_that_were_left_over_stand_in_the_way_of_nothing() -> TestResult {
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
async fn what_exceeds_one_transaction_is_refused_with_the_numbers() -> TestResult {
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
async fn what_a_further_row_may_hold_is_not_compared_in_the_service() -> TestResult {
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
async fn a_type_of_one_row_does_not_take_the_head_for_all() -> TestResult {
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

/// A year with what else a type declares.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, partition = "{city}", row = "station_{id:2}", rename_all = "PascalCase")]
#[entity(index(name = by_owner, row = "owner_{owner}", many, copy(owner, tag)))]
#[entity(index(name = by_tag_anywhere, partition = "tag_{tag}", row = "{city}_{id}", copy(tag)))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Station {
    city: String,
    id: u32,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
    #[entity(encrypt)]
    note: String,
    #[entity(encrypt)]
    plan: Vec<u8>,
    #[entity(blob)]
    photo: Vec<u8>,
    number: u32,
    owner: String,
    tag: String,
}

/// Its declared fields are in the last row.
fn station(id: u32, hours: u32) -> Station {
    Station {
        city: "leeds".into(),
        id,
        hours: (0..hours).map(|hour| (format!("H{hour:05}"), 20.5)).collect(),
        note: "under the mat".into(),
        plan: vec![7; 1000],
        photo: vec![1; 1000],
        number: id,
        owner: "ada".into(),
        tag: "new".into(),
    }
}

fn station_key(id: u32) -> Key<Station> {
    Station::key("leeds", id)
}

fn stations(account: &StorageAccount, key: &str) -> rowkey::Result<Store<Station>> {
    let ring_of = |key| KeyRing::new("stations", key, MacKey::new("records", [1; 32]));
    let old = AesKeyWrap::new("2025", [25; 32]);
    let ring = match key {
        "2025" => ring_of(old),
        _ => ring_of(AesKeyWrap::new("2026", [26; 32])).with(old),
    };
    Store::builder(account.table("stations"))
        .queue(account.queue("stations"))
        .blobs(account.container("stations"))
        .keys(ring)
        .build()
}

/// An account that reads from the secondary where it may.
fn connect(server: &Server) -> rowkey::Result<StorageAccount> {
    let account = account(server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    Ok(account.with_options(options))
}

async fn with_stations() -> Result<(Server, Store<Station>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let stations = stations(&account(&server)?, "2025")?;
    stations.create_if_missing().await?;
    Ok((server, stations))
}

/// Nothing that is encrypted stands in any row.
fn assert_sealed(snapshot: &Snapshot) {
    for row in snapshot.table("stations").unwrap().entities() {
        for (name, value) in row.properties() {
            let is_plain = value == "under the mat".into() || value == vec![7_u8; 1000].into();
            assert!(!is_plain, "{name} of {}", row.row_key());
        }
    }
}

#[tokio::test]
async fn a_wide_entity_has_every_other_declaration() -> TestResult {
    let (server, stations_2025) = with_stations().await?;
    let stations_now = &stations_2025;
    for id in 1..4 {
        stations_now.insert(&station(id, 300 * id)).await?;
    }
    assert_sealed(&server.snapshot());
    let of_ada = stations_now.query(Station::by_owner("leeds", "ada")).all().await?;
    let of_tag = stations_now.query(Station::by_tag("leeds", "new")).all().await?;
    for found in [of_ada, of_tag] {
        let found: Vec<_> = found.into_iter().map(|found| found.entity).collect();
        assert_eq!(found, [station(1, 300), station(2, 600), station(3, 900)]);
    }
    let found = stations_now.find(Station::by_number(3_u32)).await?.unwrap();
    assert_eq!(found.entity, station(3, 900));
    let change = |station: &mut Station| {
        (station.owner, station.tag) = ("lee".into(), "old".into());
        station.hours.retain(|hour, _| hour.as_str() < "H00280");
    };
    stations_now.update(station_key(3), change).await?;
    let of_lee = stations_now.query(Station::by_owner("leeds", "lee")).all().await?;
    assert_eq!(of_lee.len(), 1);
    assert_eq!(of_lee[0].entity.hours.len(), 280);
    let old = Station::by_tag_anywhere("old", "leeds", 3_u32);
    assert!(stations_now.find(old).await?.is_some());
    // Pointers to blobs stay in the head, where a sweep looks for them.
    server.clock().advance(std::time::Duration::from_secs(3 * 86_400));
    let stations_now = &stations(&account(&server)?, "2025")?;
    assert_eq!(stations_now.sweep().run().await?.total.orphaned, 0);
    assert_eq!(stations_now.get(station_key(2)).await?.unwrap().entity, station(2, 600));
    let report = stations_now.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");

    // Values in further rows are sealed anew, once.
    let with_new_key = stations(&account(&server)?, "2026")?;
    let report = with_new_key.reencrypt().run().await?;
    assert_eq!(report.part("encryption").repaired, 3, "{report:?}");
    let report = with_new_key.reencrypt().run().await?;
    assert_eq!((report.part("encryption").right, report.total.repaired), (3, 0), "{report:?}");
    assert_sealed(&server.snapshot());
    let deleted = with_new_key.delete_where(Station::partition("leeds")).run().await?;
    assert_eq!(deleted.total.right, 3);
    let snapshot = server.snapshot();
    let left = snapshot.table("stations").unwrap().entities();
    assert_eq!(left.filter(|row| row.partition_key() == "leeds").count(), 0, "nothing is left");
    Ok(())
}

#[tokio::test]
async fn loads_take_as_many_entities_to_a_transaction_as_fit() -> TestResult {
    let (server, _, years) = start().await?;
    let all = |value| {
        let of = move |number| Year { number, ..year(700, value) };
        stream::iter((0..60).map(of).collect::<Vec<_>>())
    };
    let begun = server.journal();
    let report = years.load(all(1.0)).run().await?;
    assert!(report.is_clean() && report.total.right == 60, "{report:?}");
    // 3 rows each, 33 to a transaction.
    assert_eq!(sent(&server, &begun)[2], 2);
    let report = years.load_over(all(2.0)).run().await?;
    assert!(report.is_clean() && report.total.right == 60, "{report:?}");
    let last = years.get(Year::key("leeds", 59)).await?.unwrap().entity;
    assert_eq!(last, Year { number: 59, ..year(700, 2.0) });
    assert_eq!(layout(&server.snapshot()).len(), 180);
    assert_eq!(years.delete_where(Year::partition("leeds")).run().await?.total.right, 60);
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

#[tokio::test]
async fn neighbours_whose_keys_begin_alike_are_left_alone() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, wide = 5, partition = "all", row = "n_{name}")]
    struct Named {
        name: String,
        #[entity(rest)]
        numbers: BTreeMap<String, i32>,
    }

    let (server, account, _) = start().await?;
    let all = Store::<Named>::builder(account.table("years")).build()?;
    let named = |name: &str, count: i32| {
        let numbers = (0..count).map(|number| (format!("N{number}"), number)).collect();
        Named { name: name.into(), numbers }
    };
    let mut names = vec![("a", 300), ("a_01", 400), ("a_0", 500), ("b", 600), ("a_", 700)];
    for (name, count) in &names {
        all.insert(&named(name, *count)).await?;
    }
    while let Some((name, _)) = names.pop() {
        assert!(all.delete(Named::key(name)).await?);
        for (left, count) in &names {
            let entity = all.get(Named::key(*left)).await?.unwrap().entity;
            assert_eq!(entity, named(left, *count), "{left} after {name}");
        }
    }
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

/// Every request of every write is rejected, lost before, lost after, and the caller dropped at it, with a
/// secondary that lags.
#[tokio::test]
async fn whatever_fails_an_entity_is_of_one_version() -> TestResult {
    let (server, stations_now) = with_stations().await?;
    stations_now.insert(&station(1, 600)).await?;
    let grown = || Station { tag: "old".into(), ..station(1, 900) };
    let shrunk = || Station { owner: "lee".into(), ..station(1, 280) };
    let report = Sweep::new(&server)
        .lagging_secondary()
        .run(
            async |server| Ok(stations(&connect(server)?, "2025")?),
            async |stations| {
                // Inserts and deletions are swept with each pair of declarations.
                let results = [
                    stations.upsert(&grown()).await.map(drop),
                    stations.update(station_key(1), |at| *at = shrunk()).await.map(drop),
                ];
                results.into_iter().collect::<rowkey::Result<()>>()
            },
            async |stations| {
                stations.drain_backlog().await?;
                assert_eq!(stations.work_once().await?.failed, 0);
                Ok(())
            },
            async |server, stations, result| {
                let report = stations.verify().run().await?;
                assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
                // A blob of a write that was just given up is left alone for now.
                assert_eq!(stations.sweep().run().await?.total.orphaned, 0);
                let now = stations.get(station_key(1)).await?.unwrap().entity;
                assert!([station(1, 600), grown(), shrunk()].contains(&now), "one of them");
                assert!(!matches!(result, Some(Ok(()))) || now == shrunk());
                assert_sealed(&server.snapshot());
                Ok(())
            },
        )
        .await?;
    eprintln!("{report}");
    Ok(())
}

#[tokio::test]
async fn a_transaction_takes_wide_entities_beside_others() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{city}", row = "city_{city}")]
    #[entity(index(name = by_mayor, row = "mayor_{mayor}"))]
    struct City {
        city: String,
        mayor: String,
    }

    let (server, account, years) = start().await?;
    let cities = Store::<City>::builder(account.table("years")).build()?;
    let city = City { city: "leeds".into(), mayor: "kim".into() };
    let (one, other) = (year(300, 1.0), Year { number: 2027, ..year(600, 2.0) });
    let begun = server.journal();
    let submitted =
        years.transaction().insert(&one).insert(&other).with(&cities, &city).submit().await?;
    assert_eq!(sent(&server, &begun), [0, 0, 1, 0]);
    let stored = years.get(key()).await?.unwrap();
    assert_eq!((&stored.entity, submitted.versions[0].as_ref()), (&one, Some(&stored.version)));
    assert_eq!(cities.find(City::by_mayor("leeds", "kim")).await?.unwrap().entity, city);
    // All or nothing, under the version of each.
    let next = year(10, 3.0);
    let change = || years.transaction().replace_if(&next, stored.version.clone());
    change()
        .delete_if(&Year::key("leeds", 2027), submitted.versions[1].clone().unwrap())
        .submit()
        .await?;
    assert_eq!(change().submit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(years.get(key()).await?.unwrap().entity, next);
    assert_eq!(layout(&server.snapshot()).len(), 3);
    Ok(())
}
