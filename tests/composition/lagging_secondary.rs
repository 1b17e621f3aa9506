//! Item 4: with `read_from_secondary`, one 503 of the primary lets a pattern decide by old data.
//!
//! The secondary is held back before the change that matters. The read that decides is refused once
//! by the primary, and is answered by the secondary then.

use rowkey::{Entity, ErrorCode, Key, StorageAccount, Table};
use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
use rowkey_eventual::source::Source;
use rowkey_eventual::steps::{self, Steps};
use rowkey_eventual::unique::{Claimed, Unique};
use rowkey_eventual::view::View;
use rowkey_eventual::worker::Step;
use rowkey_server::{Fault, Injected, Operation, Server};

use crate::{Employee, copies_in, employee, key, reading_secondary, settle, source, staff, start};

/// Refuses the `nth` point query of a table once.
fn refuse_read(server: &Server, table: &str, nth: u64) -> Injected {
    let reads = Fault::on(Operation::GetEntity).resource(table);
    server.inject(reads.nth(nth).reject(ErrorCode::SERVER_BUSY))
}

/// Item 4: a worker reads an old entity at the secondary, reports the change as handled, and the
/// index keeps no copy of the entity.
#[tokio::test]
#[should_panic(expected = "a change was handled, and the index has 0 copies of the entity")]
async fn an_index_elsewhere_follows_the_primary() {
    let (server, account) = start().await;
    let writer = source(&account);
    writer.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    settle(&writer).await;
    let behind = server.hold_back_secondary();
    writer.update(key(7), |employee| employee.city = "York".into()).await.unwrap();
    // The first point query reads the intent, the second the entity for its new city.
    let busy = refuse_read(&server, "staff", 2);
    let step = source(&reading_secondary(&account)).worker().step().await.unwrap();
    assert_eq!(busy.hits(), 1);
    drop((busy, behind));

    // A change that is not handled yet is handled now.
    settle(&source(&account)).await;
    let copies = copies_in(&server, "York");
    let done = if step == Step::Handled { "handled" } else { "not handled at once" };
    assert!(copies == 1, "a change was {done}, and the index has {copies} copies of the entity");
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{country}", row = "user_{id:6}", rename_all = "PascalCase")]
struct User {
    country: String,
    id: u32,
    email: String,
}

fn user(id: u32, email: &str) -> User {
    User { country: "uk".into(), id, email: email.into() }
}

fn users(account: &StorageAccount) -> Unique<User> {
    let (users, reservations) = (account.table("users"), account.table("reservations"));
    Unique::new(users, reservations, "email", |user: &User| Some(user.email.clone()))
}

/// Item 4: a claimant reads at the secondary that the owner of a value does not have it, takes the
/// value over, and two users have one address.
#[tokio::test]
#[should_panic(expected = "users with one address: [1, 2]")]
async fn a_taken_value_is_refused_by_the_primary() {
    let (server, account) = start().await;
    let first = users(&account);
    first.table().create().await.unwrap();
    account.table("reservations").create().await.unwrap();
    let _ = first.insert(&user(1, "ada@fabrikam.com")).await.unwrap();
    let behind = server.hold_back_secondary();
    let change = |user: &mut User| user.email = "ada@contoso.com".into();
    let changed = first.update(User::key("uk", 1), change).await.unwrap();
    assert!(matches!(changed, Claimed::Written(_)));
    let busy = refuse_read(&server, "users", 1);
    let _ = users(&reading_secondary(&account)).insert(&user(2, "ada@contoso.com")).await;
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let all = first.table().query(User::partition("uk")).all().await.unwrap();
    let owners = all.iter().filter(|user| user.entity.email == "ada@contoso.com");
    let owners: Vec<_> = owners.map(|user| user.entity.id).collect();
    assert!(owners == [1], "users with one address: {owners:?}");
}

/// Item 4: an insert reads at the secondary that the owner of a row of a unique index does not demand
/// it, writes over the row, and two employees have one address.
#[tokio::test]
#[should_panic(expected = "employees with one address: [7, 8]")]
async fn a_taken_row_of_an_index_is_refused_by_the_primary() {
    let (server, account) = start().await;
    let first = staff(&account);
    first.insert(&employee(7, "ada@fabrikam.com")).await.unwrap();
    let behind = server.hold_back_secondary();
    let change = |employee: &mut Employee| employee.email = "ada@contoso.com".into();
    first.update(key(7), change).await.unwrap();
    // The first point query reads the row in the way, the second its owner.
    let busy = refuse_read(&server, "staff", 2);
    let _ = staff(&reading_secondary(&account)).insert(&employee(8, "ada@contoso.com")).await;
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let all = first.table().query(Employee::partition("sales")).all().await.unwrap();
    let owners = all.iter().filter(|employee| employee.entity.email == "ada@contoso.com");
    let owners: Vec<_> = owners.map(|employee| employee.entity.id).collect();
    assert!(owners == [7], "employees with one address: {owners:?}");
}

/// How many employees live in a town.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Town {
    name: String,
    people: i64,
}

fn towns(account: &StorageAccount) -> View<Employee, Town> {
    let (staff, towns) = (account.table("staff"), account.table("towns"));
    View::new("towns", staff, towns, |e: &Employee| Some(Town::key(&e.city))).count(Town::PEOPLE)
}

/// The employees, and how many live in each town.
fn counted(account: &StorageAccount) -> Source<Employee> {
    let (table, queue) = (account.table("staff"), account.queue("staff-changes"));
    Source::new(table, queue, [towns(account).follower()]).unwrap()
}

/// Item 4: a view reads an old entity at the secondary and does not count it in its new town.
#[tokio::test]
#[should_panic(expected = "employees that move to York, and are counted there: 0")]
async fn a_view_counts_what_the_primary_has() {
    let (server, account) = start().await;
    let writer = counted(&account);
    account.table("towns").create().await.unwrap();
    writer.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    settle(&writer).await;
    let behind = server.hold_back_secondary();
    writer.update(key(7), |employee| employee.city = "York".into()).await.unwrap();
    // The first point query reads the intent, the second the entity for its new town.
    let busy = refuse_read(&server, "staff", 2);
    settle(&counted(&reading_secondary(&account))).await;
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let york = account.table("towns").get(Town::key("York")).await.unwrap();
    let people = york.map_or(0, |york| york.entity.people);
    assert!(people == 1, "employees that move to York, and are counted there: {people}");
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "order_{number:6}", rename_all = "PascalCase")]
struct Order {
    shop: String,
    number: u32,
    cents: i64,
}

fn order() -> Key<Order> {
    Order::key("leeds", 7)
}

/// Moves the order to the archive, as a worker does when its message comes.
async fn archive(account: &StorageAccount) {
    let (orders, archive) = (account.table("orders"), account.table("archive"));
    let done = steps::run(account, async || {
        let there = archive.get(order()).await?;
        let Some(stored) = orders.get(order()).await? else { return Ok(None) };
        let steps = Steps::new()
            .write(&archive, there.as_ref(), stored.entity.clone())
            .delete(&orders, &stored);
        Ok(Some(steps))
    });
    done.await.unwrap();
}

/// Item 4: a message that comes twice lets the archive program read at the secondary an order that
/// is archived already, and write the old one over the new one.
#[tokio::test]
#[should_panic(expected = "the archived order is of 100 cents, and was of 995")]
async fn an_archive_keeps_what_the_primary_had() {
    let (server, account) = start().await;
    let (orders, archived) = (account.table("orders"), account.table("archive"));
    orders.create().await.unwrap();
    archived.create().await.unwrap();
    orders.insert(&Order { shop: "leeds".into(), number: 7, cents: 100 }).await.unwrap();
    let behind = server.hold_back_secondary();
    orders.update(order(), |order| order.cents = 995).await.unwrap();
    archive(&account).await;
    let busy = refuse_read(&server, "orders", 1);
    archive(&reading_secondary(&account)).await;
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let cents = archived.get(order()).await.unwrap().unwrap().entity.cents;
    assert!(cents == 995, "the archived order is of {cents} cents, and was of 995");
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
}

fn patient(number: u32) -> Patient {
    Patient { ward: "north".into(), number, name: format!("Patient {number}") }
}

fn wrap(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("20{year}"), [year; 32])
}

fn patients(table: Table, ring: KeyRing) -> Encrypted<Patient> {
    Encrypted::new(table, ring)
}

/// Item 4: re-encryption reads a page at the secondary, misses a row, and reports that nothing was
/// refused: the row is lost with the old key.
#[tokio::test]
#[should_panic(expected = "re-encryption refuses 0 rows, and 1 of 2 is under the old key")]
async fn re_encryption_reads_the_primary() {
    let (server, account) = start().await;
    let table = account.table("patients");
    table.create().await.unwrap();
    let before = patients(table.clone(), KeyRing::new(wrap(26)));
    before.insert(&patient(1)).await.unwrap();
    let behind = server.hold_back_secondary();
    before.insert(&patient(2)).await.unwrap();
    let busy =
        server.inject(Fault::on(Operation::QueryEntities).nth(1).reject(ErrorCode::SERVER_BUSY));
    let lagging = reading_secondary(&account).table("patients");
    let ring = KeyRing::new(wrap(27)).with(wrap(26));
    let refused = patients(lagging, ring).reencryption().run().await.unwrap().refused.len();
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let after = patients(table, KeyRing::new(wrap(27)));
    let mut lost = 0;
    for number in 1..=2 {
        lost += usize::from(after.get(Patient::key("north", number)).await.is_err());
    }
    assert!(
        lost == refused,
        "re-encryption refuses {refused} rows, and {lost} of 2 is under the old key"
    );
}
