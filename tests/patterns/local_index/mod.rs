//! Secondary indexes beside their entities: lookups, refusals, stored rows and what they cost.

mod alongside;
mod faults;
mod model;

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use rowkey::edm::Value;
use rowkey::{
    DynamicEntity, Entity, ErrorKind, Match, Outcome, Partition, Projection, StorageAccount, Table,
};
use rowkey_patterns::index_row::IndexRow;
use rowkey_patterns::local_index::{Indexed, IndexedTransaction, LocalIndex};
use rowkey_server::{Operation, Server, Snapshot};
use rowkey_tests::sweep::account;
use rowkey_tests::{Fixture, TestResult};

/// Every kind of index: unique and not, sparse by `None` and by a condition, whole and not.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_manager, row = "mgr_{manager:6}", many, copy(first_name, last_name)),
    index(name = by_badge, row = "badge_{badge}", copy(first_name)),
    index(name = by_pay, row = "pay_{cents:desc}", many, when = "Self::is_active"),
    index(name = by_city, partition = "city_{city}", row = "{department}_{id:6}")
)]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    manager: Option<u32>,
    badge: Option<String>,
    cents: i64,
    city: String,
    active: bool,
}

impl Employee {
    fn is_active(&self) -> bool {
        self.active
    }
}

/// Some of a copy, with the keys of the entity.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Name {
    #[entity(row_key)]
    row: String,
    first_name: String,
}

fn employee(id: u32, last_name: &str, email: &str) -> Employee {
    Employee {
        department: "sales".into(),
        id,
        first_name: "Ada".into(),
        last_name: last_name.into(),
        email: email.into(),
        manager: Some(1),
        badge: None,
        cents: i64::from(id) * 100,
        city: "Leeds".into(),
        active: true,
    }
}

fn key(id: u32) -> rowkey::Key<Employee> {
    Employee::key("sales", id)
}

fn staff(account: &StorageAccount) -> LocalIndex<Employee> {
    LocalIndex::new(account.table("staff"))
}

async fn start() -> Result<(Server, LocalIndex<Employee>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let staff = staff(&account(&server)?);
    staff.table().create().await?;
    Ok((server, staff))
}

fn ids(found: &[Indexed<Employee>]) -> Vec<u32> {
    found.iter().map(|employee| employee.id).collect()
}

/// All rows by key, with their properties by name.
type Rows = BTreeMap<(String, String), BTreeMap<String, Value>>;

fn rows(entities: impl IntoIterator<Item = DynamicEntity>) -> Rows {
    let properties = |entity: &DynamicEntity| {
        entity.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    };
    let rows = entities.into_iter();
    rows.map(|row| ((row.partition_key.clone(), row.row_key.clone()), properties(&row))).collect()
}

fn stored(snapshot: &Snapshot) -> Vec<DynamicEntity> {
    let table = snapshot.table("staff").unwrap();
    let read = |row: rowkey_server::StoredEntity<'_>| {
        let mut entity = DynamicEntity::new(row.partition_key(), row.row_key());
        for (name, value) in row.properties() {
            entity.set(name, value);
        }
        entity
    };
    table.entities().map(read).collect()
}

/// Checks that the copies are those that the entities ask for, and no others; returns the entities.
fn assert_in_step(stored: Vec<DynamicEntity>) -> BTreeMap<u32, Employee> {
    let primary = |row: &&DynamicEntity| row.row_key.starts_with("id_");
    let entities: Vec<Employee> =
        stored.iter().filter(primary).map(|row| row.read_as().unwrap()).collect();
    let mut wanted = Vec::new();
    for entity in &entities {
        wanted.push(DynamicEntity::of(entity).unwrap());
        for position in 0..5 {
            let row = IndexRow::of(entity, position).unwrap();
            wanted.extend(row.map(|row| DynamicEntity::of(&row).unwrap()));
        }
    }
    assert_eq!(rows(stored), rows(wanted), "what is stored, and what the entities ask for");
    entities.into_iter().map(|entity| (entity.id, entity)).collect()
}

async fn all_rows(table: &Table, partition: &str) -> rowkey::Result<Vec<DynamicEntity>> {
    let rows = table.query(Partition::<DynamicEntity>::new(partition)).all().await?;
    Ok(rows.into_iter().map(|row| row.entity).collect())
}

#[tokio::test]
async fn entities_are_found_by_every_index() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    let ada = Employee { badge: Some("B_7/1".into()), ..employee(7, "King", "Ada@Contoso.com") };
    let bob = Employee { manager: None, ..employee(8, "Kingsley", "bob@contoso.com") };
    let cy = Employee { active: false, ..employee(9, "King", "cy@contoso.com") };
    for employee in [&ada, &bob, &cy] {
        staff.insert(employee).await?;
    }

    let found = staff.find(Employee::by_email("sales", "aDA@contoso.COM")).await?.unwrap();
    assert_eq!((&*found, found.key()), (&ada, key(7)), "the case is that of the entity");
    let found = staff.find(Employee::by_badge("sales", "B_7/1")).await?.unwrap();
    assert_eq!(*found, ada, "a copy of some properties leads to the entity");
    assert!(staff.find(Employee::by_email("sales", "dan@contoso.com")).await?.is_none());
    assert!(staff.find(Employee::by_badge("sales", "B_7")).await?.is_none());
    assert!(staff.find(Employee::by_email("elsewhere", "ada@contoso.com")).await?.is_none());

    let of = async |range| Ok::<_, rowkey::Error>(ids(&staff.query(range).all().await?));
    assert_eq!(of(Employee::by_last_name("sales", "King")).await?, [7, 9]);
    assert_eq!(of(Employee::by_last_name_all("sales").prefix("King")).await?, [7, 9, 8]);
    assert_eq!(of(Employee::by_last_name_all("sales")).await?, [7, 9, 8]);
    assert_eq!(of(Employee::by_manager("sales", 1_u32)).await?, [7, 9], "None is in no index");
    assert_eq!(of(Employee::by_pay_all("sales")).await?, [8, 7], "most first, active ones only");
    let middle = Employee::by_pay("sales", 750_i64)..=Employee::by_pay("sales", 900_i64);
    assert_eq!(of(Employee::by_pay_all("sales").range(middle)).await?, [8]);
    let emails = Employee::by_email("sales", "B")..Employee::by_email("sales", "D");
    assert_eq!(of(Employee::by_email_all("sales").range(emails)).await?, [8, 9]);
    assert_eq!(of(Employee::by_email_all("sales").prefix("BOB@")).await?, [8]);
    Ok(())
}

#[tokio::test]
async fn queries_are_narrowed_cut_and_projected() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    for id in 1..=30 {
        let email = format!("e{id:02}@contoso.com");
        staff.insert(&employee(id, if id % 2 == 0 { "Even" } else { "Odd" }, &email)).await?;
    }
    let even = || staff.query(Employee::by_last_name("sales", "Even"));
    assert_eq!(ids(&even().page_size(4).all().await?), (1..=15).map(|i| 2 * i).collect::<Vec<_>>());
    assert_eq!(ids(&even().page_size(2).take(3).all().await?), [2, 4, 6]);
    assert_eq!(ids(&even().filter(Employee::CENTS.gt(2500)).all().await?), [26, 28, 30]);
    assert_eq!(even().first().await?.map(|first| first.id), Some(2));

    let managed = || staff.query(Employee::by_manager("sales", 1_u32));
    assert_eq!(ids(&managed().all().await?), (1..=30).collect::<Vec<_>>(), "in order, read apart");
    assert_eq!(ids(&managed().take(2).all().await?), [1, 2]);
    let names: Vec<_> = managed().take(1).stream_as::<Name>().try_collect().await?;
    let name = Name { row: "id_000001".into(), first_name: "Ada".into() };
    assert_eq!(names[0].entity, name, "with the key of the entity");
    let name = staff.find_as::<Name>(Employee::by_email("sales", "e01@contoso.com")).await?;
    assert_eq!(name.unwrap().entity.row, "id_000001");
    Ok(())
}

/// A copy that lacks a property does not answer for it.
#[tokio::test]
async fn what_copies_do_not_have_is_refused_before_anything_is_sent() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    let ada = Employee { badge: Some("B1".into()), ..employee(7, "King", "ada@contoso.com") };
    staff.insert(&ada).await?;
    let managed = || staff.query(Employee::by_manager("sales", 1_u32));
    let check = |error: rowkey::Error, index: &str| {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains(index), "{error}");
    };
    check(managed().filter(Employee::CENTS.ge(1)).all().await.unwrap_err(), "`by_manager`");
    check(managed().filter(Employee::CENTS.ge(1)).first().await.unwrap_err(), "`by_manager`");
    let whole = managed().stream_as::<Employee>().try_collect::<Vec<_>>().await;
    check(whole.unwrap_err(), "`by_manager`");
    let whole = staff.find_as::<Employee>(Employee::by_badge("sales", "B1")).await;
    check(whole.unwrap_err(), "`by_badge`");
    assert_eq!(managed().filter(Employee::LAST_NAME.is("King")).all().await?.len(), 1);
    assert!(staff.find_as::<Name>(Employee::by_badge("sales", "B1")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_changed_value_moves_the_copy_whichever_row_it_was_read_through() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let change = |e: &mut Employee| {
        e.last_name.push('y');
        e.email.insert(0, 'x');
        e.cents += 1;
        e.manager = e.manager.map_or(Some(2), |_| None);
        e.badge = e.badge.as_ref().map_or(Some("B1".into()), |_| None);
        e.active = !e.active;
    };
    let mut email = "ada@contoso.com".to_owned();
    let mut name = "King".to_owned();
    for through in 0..8 {
        let read = match through % 4 {
            0 => staff.get(key(7)).await?,
            1 => staff.find(Employee::by_email("sales", &email)).await?,
            2 => staff.query(Employee::by_last_name("sales", &name)).first().await?,
            _ => staff.query(Employee::by_last_name_all("sales")).first().await?,
        };
        let read = read.unwrap();
        let stale = read.clone();
        staff.replace(&read.map(change)).await?;
        assert_in_step(all_rows(&table, "sales").await?);
        let refused = staff.replace(&stale).await.unwrap_err();
        assert_eq!((refused.kind(), through), (ErrorKind::Conflict, through), "{refused}");
        let refused = staff.delete(&stale).await.unwrap_err();
        assert_eq!((refused.kind(), through), (ErrorKind::Conflict, through), "{refused}");
        email.insert(0, 'x');
        name.push('y');
    }
    let read = staff.query(Employee::by_last_name("sales", &name)).first().await?.unwrap();
    staff.delete(&read).await?;
    assert_eq!(all_rows(&table, "sales").await?, []);
    assert_eq!(staff.replace(&read).await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn a_copy_that_stays_carries_the_condition_too() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let stale = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
    let now = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
    staff.replace(&now.map(|e| e.first_name = "Augusta".into())).await?;
    let refused = staff.replace(&stale.map(|e| e.cents = 1)).await.unwrap_err();
    assert!(refused.is_conflict() && refused.outcome() == Outcome::Rejected, "{refused}");
    let entities = assert_in_step(all_rows(&table, "sales").await?);
    assert_eq!(entities[&7].first_name, "Augusta");
    Ok(())
}

#[tokio::test]
async fn a_unique_value_belongs_to_one_entity() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;

    let refused = staff.insert(&employee(8, "King", "ADA@contoso.com")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(refused.to_string().contains("the index `by_email`"), "{refused}");
    assert!(!refused.to_string().contains("contoso"), "{refused}");
    let refused = staff.insert(&employee(7, "King", "new@contoso.com")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.operation_index()), (ErrorKind::AlreadyExists, Some(0)));
    assert!(!refused.to_string().contains("index `"), "the entity exists: {refused}");

    staff.insert(&employee(8, "King", "bob@contoso.com")).await?;
    let taken = |e: &mut Employee| e.email = "ada@contoso.com".into();
    let refused = staff.update(key(8), taken).await.unwrap_err();
    assert!(refused.to_string().contains("the index `by_email`"), "{refused}");
    let refused = staff.upsert(&employee(8, "King", "ada@contoso.com")).await.unwrap_err();
    assert!(refused.is_already_exists(), "{refused}");
    let entities = assert_in_step(all_rows(&table, "sales").await?);
    assert_eq!(entities[&8].email, "bob@contoso.com");

    // The case of an address may change, for its row stays the same.
    staff.update(key(7), |e| e.email = "ADA@contoso.com".into()).await?;
    // What one gives up another may take, in one transaction or after it.
    let ada = staff.get(key(7)).await?.unwrap().map(|e| e.email = "bob@contoso.com".into());
    let bob = staff.get(key(8)).await?.unwrap().map(|e| e.email = "ada@contoso.com".into());
    staff.transaction().replace(&ada).replace(&bob).submit().await?;
    let entities = assert_in_step(all_rows(&table, "sales").await?);
    assert_eq!(entities[&7].email, "bob@contoso.com");
    Ok(())
}

#[tokio::test]
async fn upserts_and_deletes_know_the_copies_that_are_there() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    staff.upsert(&employee(7, "King", "ada@contoso.com")).await?;
    let other = Employee { manager: None, ..employee(7, "Noel", "augusta@contoso.com") };
    staff.upsert(&other).await?;
    let entities = assert_in_step(all_rows(&table, "sales").await?);
    assert_eq!(entities[&7], other);
    assert!(staff.delete_if_exists(key(7)).await?);
    assert!(!staff.delete_if_exists(key(7)).await?);
    assert_eq!(all_rows(&table, "sales").await?, []);
    let absent = staff.update(key(7), |_| ()).await.unwrap_err();
    assert!(absent.is_not_found(), "{absent}");
    Ok(())
}

#[tokio::test]
async fn an_update_returns_what_is_stored_and_can_be_changed_again() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let updated = staff.update(key(7), |e| e.last_name = "Noel".into()).await?;
    let read = staff.get(key(7)).await?.unwrap();
    assert_eq!((&*updated, updated.etag()), (&*read, read.etag()));
    staff.replace(&updated.map(|e| e.last_name = "Byron".into())).await?;
    assert_in_step(stored(&server.snapshot()));
    Ok(())
}

#[tokio::test]
async fn several_entities_change_at_once_or_not_at_all() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    let all: Vec<_> =
        (1..=4).map(|id| employee(id, "King", &format!("e{id}@contoso.com"))).collect();
    let transaction = all.iter().fold(staff.transaction(), IndexedTransaction::insert);
    assert_eq!(transaction.submit().await?.iter().flatten().count(), 4);

    let (one, two) = (staff.get(key(1)).await?.unwrap(), staff.get(key(2)).await?.unwrap());
    let three = employee(3, "King", "e1@contoso.com");
    let refused = staff.transaction().delete(&two).insert(&three).submit().await.unwrap_err();
    assert!(refused.is_already_exists(), "{refused}");
    assert_eq!(assert_in_step(all_rows(&table, "sales").await?).len(), 4);

    // The new one takes the address of the one that goes.
    let five = employee(5, "King", "e1@contoso.com");
    let etags = staff.transaction().delete(&one).insert(&five).submit().await?;
    assert_eq!(etags.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    let entities = assert_in_step(all_rows(&table, "sales").await?);
    assert_eq!(entities.keys().copied().collect::<Vec<_>>(), [2, 3, 4, 5]);

    let elsewhere = Employee { department: "it".into(), ..employee(6, "King", "e6@contoso.com") };
    let refused = staff.transaction().insert(&elsewhere).delete(&two).submit().await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn a_transaction_over_stale_reads_has_lost_a_race() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    staff.insert(&employee(8, "King", "bob@contoso.com")).await?;
    // Between the two reads the address goes from one to the other.
    let stale = staff.get(key(7)).await?.unwrap();
    staff.update(key(7), |e| e.email = "augusta@contoso.com".into()).await?;
    staff.update(key(8), |e| e.email = "ada@contoso.com".into()).await?;
    let fresh = staff.get(key(8)).await?.unwrap();
    let renamed =
        |read: &Indexed<Employee>, email: &str| read.clone().map(|e| e.email = email.to_owned());
    let (one, two) = (renamed(&stale, "x@contoso.com"), renamed(&fresh, "y@contoso.com"));
    let kept = stale.clone().map(|e| e.city = "York".into());
    let new = employee(9, "King", "ada@contoso.com");
    let before = server.journal();
    for transaction in [
        staff.transaction().replace(&one).replace(&two),
        staff.transaction().replace(&kept).replace(&two),
        staff.transaction().replace(&two).delete(&stale),
        staff.transaction().delete(&stale).delete(&fresh),
        staff.transaction().delete(&stale).delete(&fresh).insert(&new),
    ] {
        let lost = transaction.submit().await.unwrap_err();
        assert!(lost.is_conflict(), "{lost}");
        assert_eq!(lost.outcome(), Outcome::NotSent);
    }
    // Where only one of them knows of the row, the service decides.
    let moved = renamed(&stale, "bob@contoso.com");
    let lost = staff.transaction().replace(&moved).submit().await.unwrap_err();
    assert!(lost.is_conflict() && lost.outcome() == Outcome::Rejected, "{lost}");
    assert_eq!(server.journal().since(&before).len(), 1);

    // A value that another entity of the transaction has and keeps is taken, as it is for one alone.
    let wants = renamed(&staff.get(key(7)).await?.unwrap(), "ada@contoso.com");
    let keeps = fresh.map(|e| e.city = "York".into());
    let taken = staff.transaction().replace(&wants).replace(&keeps).submit().await.unwrap_err();
    assert!(taken.is_already_exists() && taken.to_string().contains("`by_email`"), "{taken}");
    // And one entity twice is a mistake.
    let twice = staff.transaction().replace(&keeps).delete(&keeps).submit().await.unwrap_err();
    assert_eq!((twice.kind(), twice.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_before_anything_is_sent() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let read = staff.get(key(7)).await?.unwrap();
    let before = server.journal();
    let refused = staff.replace(&read.clone().map(|e| e.id = 8)).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let refused = staff.insert(&employee(8, &"x".repeat(600), "bob@contoso.com")).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(refused.to_string().contains("the index `by_last_name`"), "{refused}");
    let refused = staff.insert(&employee(8, "King", "bob\n")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let large = Employee { first_name: "x".repeat(40_000), ..employee(8, "King", "b@contoso.com") };
    let refused = staff.insert(&large).await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, staff) = start().await?;
    let ada = Employee { badge: Some("B1".into()), ..employee(7, "King_Noel", "Ada@Contoso.com") };
    staff.insert(&ada).await?;
    let whole = [
        ("Active", Value::from(true)),
        ("Badge", "B1".into()),
        ("Cents", 700_i64.into()),
        ("City", "Leeds".into()),
        ("Email", "Ada@Contoso.com".into()),
        ("FirstName", "Ada".into()),
        ("LastName", "King_Noel".into()),
        ("Manager", 1_i64.into()),
    ];
    let own = |row: &str| (row.to_owned(), whole.to_vec());
    let copy = |row: &str, names: &[&str]| {
        let of = |name: &str| names.is_empty() || names.contains(&name);
        let mut properties: Vec<_> = whole.iter().filter(|(name, _)| of(name)).cloned().collect();
        properties.push(("PrimaryRowKey", "id_000007".into()));
        (row.to_owned(), properties)
    };
    let expected = [
        copy("badge_B1", &["FirstName"]),
        copy("email_ada@contoso.com", &[]),
        own("id_000007"),
        copy("last_King^~Noel_id_000007", &[]),
        copy("mgr_000001_id_000007", &["FirstName", "LastName"]),
        copy("pay_-9999999999999999299_id_000007", &[]),
    ];
    let found: Vec<_> = stored(&server.snapshot())
        .into_iter()
        .map(|row| {
            assert_eq!(row.partition_key, "sales");
            let properties: BTreeMap<_, _> =
                row.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
            (row.row_key, properties)
        })
        .collect();
    let expected = expected.map(|(row, properties)| {
        let named = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
        (row, named.collect::<BTreeMap<_, _>>())
    });
    assert_eq!(found, expected);
    Ok(())
}

#[tokio::test]
async fn requests_are_as_many_as_promised() -> TestResult {
    let (server, staff) = start().await?;
    let mut before = server.journal();
    // Transactions, point queries, range queries; and nothing else.
    let mut spent = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        let operations = [Operation::Transaction, Operation::GetEntity, Operation::QueryEntities];
        let counts = operations.map(|operation| journal.count(operation));
        assert_eq!(journal.len(), counts.iter().sum::<usize>());
        counts
    };
    let ada = Employee { badge: Some("B1".into()), ..employee(7, "King", "ada@contoso.com") };
    staff.insert(&ada).await?;
    assert_eq!(spent(), [1, 0, 0], "insert");
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
    assert_eq!(spent(), [0, 1, 0], "find");
    staff.replace(&found.map(|e| e.last_name = "Noel".into())).await?;
    assert_eq!(spent(), [1, 0, 0], "replace");
    staff.find(Employee::by_badge("sales", "B1")).await?.unwrap();
    assert_eq!(spent(), [0, 2, 0], "find by a copy of some properties");
    staff.find_as::<Name>(Employee::by_badge("sales", "B1")).await?.unwrap();
    assert_eq!(spent(), [0, 1, 0], "find what the copy has");
    staff.query(Employee::by_last_name("sales", "Noel")).all().await?;
    assert_eq!(spent(), [0, 0, 1], "query");
    staff.query(Employee::by_manager("sales", 1_u32)).all().await?;
    assert_eq!(spent(), [0, 1, 1], "query of copies of some properties, one entity");
    staff.update(key(7), |e| e.cents = 1).await?;
    assert_eq!(spent(), [1, 1, 0], "update");
    staff.upsert(&ada).await?;
    assert_eq!(spent(), [1, 1, 0], "upsert");
    let other = employee(8, "King", "ADA@contoso.com");
    assert!(staff.insert(&other).await.is_err());
    assert_eq!(spent(), [1, 2, 0], "insert that is refused: the row in the way, and its entity");
    let read = staff.get(key(7)).await?.unwrap();
    assert_eq!(spent(), [0, 1, 0], "get");
    staff.delete(&read).await?;
    assert_eq!(spent(), [1, 0, 0], "delete");
    staff.insert(&ada).await?;
    assert!(staff.delete_if_exists(key(7)).await?);
    assert_eq!(spent(), [2, 1, 0], "insert, and delete by key");
    Ok(())
}

#[tokio::test]
async fn rows_that_others_left_out_of_step_are_mended_on_the_way() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = LocalIndex::<Employee>::new(table.clone());
    let ada = employee(7, "King", "ada@contoso.com");

    // An entity that was deleted without its copies: another one takes its value.
    staff.insert(&ada).await?;
    table.delete(key(7), Match::Any).await?;
    let eight = employee(8, "King", "ada@contoso.com");
    staff.insert(&eight).await?;
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
    assert_eq!(found.id, 8);
    // The same one again finds its old copies.
    staff.insert(&employee(7, "King", "augusta@contoso.com")).await?;
    assert_in_step(all_rows(&table, "sales").await?);

    // Copies that are gone are written anew, or need not be deleted.
    let delete_copy = async |row: &str| table.delete(copy(row), Match::Any).await;
    delete_copy("email_ada@contoso.com").await?;
    delete_copy("last_King_id_000008").await?;
    delete_copy("pay_-9999999999999999199_id_000008").await?;
    staff.update(key(8), |e| e.last_name = "Noel".into()).await?;
    assert_in_step(all_rows(&table, "sales").await?);
    delete_copy("last_Noel_id_000008").await?;
    delete_copy("mgr_000001_id_000008").await?;
    assert!(staff.delete_if_exists(key(8)).await?);
    assert_in_step(all_rows(&table, "sales").await?);

    // A copy that its entity does not ask for any more stands in nobody's way.
    staff.insert(&eight).await?;
    let changed = Employee { email: "bob@contoso.com".into(), ..eight };
    table.replace((&changed, Match::Any)).await?;
    staff.update(key(7), |e| e.email = "ada@contoso.com".into()).await?;
    staff.update(key(8), |e| e.cents = 5).await?;
    assert_in_step(all_rows(&table, "sales").await?);

    // A row that is no copy does.
    let mut foreign = DynamicEntity::new("sales", "email_dan@contoso.com");
    foreign.set("What", "not ours");
    table.insert(&foreign).await?;
    let refused = staff.insert(&employee(9, "King", "dan@contoso.com")).await.unwrap_err();
    assert!(refused.to_string().contains("the index `by_email`"), "{refused}");
    assert_eq!(table.get(foreign.key()).await?.unwrap().entity, foreign);
    Ok(())
}

fn copy(row_key: &str) -> rowkey::Key<DynamicEntity> {
    rowkey::Key::new("sales", row_key)
}

/// As many indexes as an entity may have in its partition, all of the same value.
macro_rules! of_49_indexes {
    ($($name:ident $row:literal)*) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(partition = "all", row = "id_{id}")]
        $(#[entity(index(name = $name, row = $row))])*
        struct Wide {
            id: u8,
            value: String,
        }
    };
}

of_49_indexes! {
    i10 "10_{value}" i11 "11_{value}" i12 "12_{value}" i13 "13_{value}" i14 "14_{value}"
    i15 "15_{value}" i16 "16_{value}" i17 "17_{value}" i18 "18_{value}" i19 "19_{value}"
    i20 "20_{value}" i21 "21_{value}" i22 "22_{value}" i23 "23_{value}" i24 "24_{value}"
    i25 "25_{value}" i26 "26_{value}" i27 "27_{value}" i28 "28_{value}" i29 "29_{value}"
    i30 "30_{value}" i31 "31_{value}" i32 "32_{value}" i33 "33_{value}" i34 "34_{value}"
    i35 "35_{value}" i36 "36_{value}" i37 "37_{value}" i38 "38_{value}" i39 "39_{value}"
    i40 "40_{value}" i41 "41_{value}" i42 "42_{value}" i43 "43_{value}" i44 "44_{value}"
    i45 "45_{value}" i46 "46_{value}" i47 "47_{value}" i48 "48_{value}" i49 "49_{value}"
    i50 "50_{value}" i51 "51_{value}" i52 "52_{value}" i53 "53_{value}" i54 "54_{value}"
    i55 "55_{value}" i56 "56_{value}" i57 "57_{value}" i58 "58_{value}"
}

#[tokio::test]
async fn all_of_49_indexes_move_in_one_transaction() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = LocalIndex::<Wide>::new(table.clone());
    assert_eq!(LocalIndex::<Wide>::OPERATIONS, 99);
    wide.insert(&Wide { id: 1, value: "a".into() }).await?;
    let read = wide.find(Wide::i58("a")).await?.unwrap();
    wide.replace(&read.map(|wide| wide.value = "b".into())).await?;
    assert!(wide.find(Wide::i10("a")).await?.is_none());
    assert_eq!(wide.find(Wide::i10("b")).await?.unwrap().id, 1);
    assert_eq!(all_rows(&table, "all").await?.len(), 50);
    Ok(())
}
