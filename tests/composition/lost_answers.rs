//! Item 5: one lost answer and no other writer make a write fail, although it was applied.

use rowkey::{Entity, Key, StorageAccount};
use rowkey_patterns::denormalized::Denormalized;
use rowkey_patterns::index_entity::IndexEntity;
use rowkey_patterns::wide::{Wide, WideEntity};
use rowkey_server::{Fault, Operation, Server};
use std::future::Future;

use crate::{employee, staff, start};

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

/// Item 5: `LocalIndex::upsert` of a new entity does not know whether it was applied.
#[tokio::test]
#[should_panic(
    expected = "`LocalIndex::upsert` of a new entity fails with one lost answer: Unavailable, Unknown"
)]
async fn an_upsert_of_a_new_indexed_entity_is_settled() {
    let (server, account) = start().await;
    let staff = staff(&account);
    let ada = employee(7, "ada@contoso.com");
    lose_answer(&server, "`LocalIndex::upsert` of a new entity", staff.upsert(&ada)).await;
}

/// Item 5: `LocalIndex::upsert` over an entity meets its own write and says `Conflict`, which an
/// upsert never is.
#[tokio::test]
#[should_panic(
    expected = "`LocalIndex::upsert` over an entity fails with one lost answer: Conflict, Unknown"
)]
async fn an_upsert_over_an_indexed_entity_is_settled() {
    let (server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let mut ada = employee(7, "ada@contoso.com");
    ada.last_name = "Lovelace".into();
    lose_answer(&server, "`LocalIndex::upsert` over an entity", staff.upsert(&ada)).await;
}

/// A person who is listed by name, and whose name a department shows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Person {
    department: String,
    id: u32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "department", rename_all = "PascalCase")]
struct Department {
    name: String,
    manager: Option<String>,
}

fn person(id: u32, name: &str) -> Person {
    Person { department: "sales".into(), id, name: name.into() }
}

fn person_key(id: u32) -> Key<Person> {
    Person::key("sales", id)
}

/// People by name. There are lists of both names already.
async fn listed(account: &StorageAccount) -> IndexEntity<Person, String> {
    let table = account.table("people");
    table.create().await.unwrap();
    let people = IndexEntity::new(table, "name", |person: &Person| Some(person.name.clone()));
    people.insert(&person(1, "Jones")).await.unwrap();
    people.insert(&person(2, "King")).await.unwrap();
    people
}

/// Item 5: `IndexEntity::update` meets its own write.
#[tokio::test]
#[should_panic(expected = "`IndexEntity::update` fails with one lost answer: Conflict, Unknown")]
async fn an_update_of_a_listed_entity_is_settled() {
    let (server, account) = start().await;
    let people = listed(&account).await;
    people.insert(&person(7, "Jones")).await.unwrap();
    let update = people.update(person_key(7), |person| person.name = "King".into());
    lose_answer(&server, "`IndexEntity::update`", update).await;
}

/// Item 5: `IndexEntity::index` meets its own write.
#[tokio::test]
#[should_panic(expected = "`IndexEntity::index` fails with one lost answer: Conflict, Unknown")]
async fn listing_an_entity_that_was_there_is_settled() {
    let (server, account) = start().await;
    let people = listed(&account).await;
    people.table().insert(&person(7, "Jones")).await.unwrap();
    lose_answer(&server, "`IndexEntity::index`", people.index(person_key(7))).await;
}

/// People whose name their department shows.
async fn shown(account: &StorageAccount) -> Denormalized<Person> {
    let table = account.table("people");
    table.create().await.unwrap();
    table.insert(&Department { name: "sales".into(), manager: None }).await.unwrap();
    Denormalized::new(table).copy(
        |person: &Person| Some(Department::key(&person.department)),
        |person| person.name.clone(),
        |department: &mut Department, name| department.manager = name.cloned(),
    )
}

/// Item 5: `Denormalized::update` meets its own write.
#[tokio::test]
#[should_panic(expected = "`Denormalized::update` fails with one lost answer: Conflict, Unknown")]
async fn an_update_of_a_copied_entity_is_settled() {
    let (server, account) = start().await;
    let people = shown(&account).await;
    people.insert(&person(7, "Jones")).await.unwrap();
    let update = people.update(person_key(7), |person| person.name = "King".into());
    lose_answer(&server, "`Denormalized::update`", update).await;
}

/// Item 5: `Denormalized::refresh` meets its own write.
#[tokio::test]
#[should_panic(expected = "`Denormalized::refresh` fails with one lost answer: Conflict, Unknown")]
async fn refreshing_copies_is_settled() {
    let (server, account) = start().await;
    let people = shown(&account).await;
    people.table().insert(&person(7, "Jones")).await.unwrap();
    lose_answer(&server, "`Denormalized::refresh`", people.refresh(person_key(7))).await;
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
