//! Several types in one table: each row decodes as its own type.

mod model;

use futures_util::TryStreamExt as _;
use rowkey::edm::{DateTime, Guid, Value};
use rowkey::store::Store;
use rowkey::{
    DynamicEntity, Entity, EntitySet, ErrorKind, Key, Match, Partition, StorageAccount, Table,
};
use rowkey_emulator::{Operation, Server};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase", version = 3)]
struct Employee {
    department: String,
    id: u32,
    cents: i64,
    title: Option<String>,
}

/// Employees as they were stored at first, before anybody thought of versions.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct EmployeeV1 {
    department: String,
    id: u32,
    salary: f64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase", version = 2)]
struct EmployeeV2 {
    department: String,
    id: u32,
    cents: i64,
}

impl From<EmployeeV1> for Employee {
    #[expect(clippy::cast_possible_truncation, reason = "salaries are far below that")]
    fn from(EmployeeV1 { department, id, salary }: EmployeeV1) -> Self {
        Self { department, id, cents: (salary * 100.0).round() as i64, title: None }
    }
}

impl From<EmployeeV2> for Employee {
    fn from(EmployeeV2 { department, id, cents }: EmployeeV2) -> Self {
        Self { department, id, cents, title: None }
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "review_{employee:6}_{year:4}")]
struct Review {
    department: String,
    employee: u32,
    year: u16,
    rating: i32,
}

/// The one row of this type in a partition.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "department", rename_all = "PascalCase")]
struct Department {
    name: String,
    budget: f64,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Record {
    Department(Department),
    #[entity_set(older(EmployeeV1, EmployeeV2))]
    Employee(Employee),
    Review(Review),
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}

/// The same without a variant for unknown rows.
#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Known {
    Department(Department),
    #[entity_set(older(EmployeeV1))]
    Employee(Employee),
}

/// Types whose rows do not tell them apart.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{team}", row = "{name}", kind = "Person", rename_all = "PascalCase")]
struct Person {
    team: String,
    name: String,
    age: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    partition = "{team}",
    row = "{name}",
    kind = "Robot",
    version = 2,
    rename_all = "PascalCase"
)]
struct Robot {
    team: String,
    name: String,
    arms: i32,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Member {
    Person(Person),
    Robot(Robot),
}

fn employee(id: u32) -> Employee {
    let title = id.is_multiple_of(2).then(|| "Lead".to_owned());
    Employee { department: "sales".into(), id, cents: 100_000, title }
}

fn review(employee: u32, year: u16) -> Review {
    Review { department: "sales".into(), employee, year, rating: 4 }
}

fn department() -> Department {
    Department { name: "sales".into(), budget: 0.5 }
}

/// A row of a type that the sets do not have, with a property of each type.
fn note() -> DynamicEntity {
    let mut note = DynamicEntity::new("sales", "note_1");
    // In the order of the names, as some services keep them.
    note.set("Apple", true);
    note.set("At", "2026-11-20T12:34:56.7654321Z".parse::<DateTime>().unwrap());
    note.set("EntityType", "Note");
    note.set("EntityVersion", 7);
    note.set("Id", "c9da6455-213d-42c9-9a79-3e9149a57833".parse::<Guid>().unwrap());
    note.set("Large", i64::MAX);
    note.set("Nothing", f64::NEG_INFINITY);
    note.set("Share", 8_589_934_592.0);
    note.set("Small", i32::MIN);
    note.set("Text", "O'Neil \"quoted\" \\ / \n 日本 😀 é");
    note.set("Zebra", Value::Binary(vec![0, 255]));
    note
}

async fn bag(table: &Table, row: &str) -> rowkey::Result<DynamicEntity> {
    let key: Key<DynamicEntity> = Key::new("sales", row);
    Ok(table.get(key).await?.expect("the row is there").entity)
}

#[tokio::test]
async fn one_partition_query_returns_each_row_as_its_type() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let operations = table.transaction().insert(&department()).insert(&employee(7));
    operations.insert(&review(7, 2026)).insert(&note()).submit().await?;

    let all = table.query(Employee::partition("sales").whole::<Record>()).all().await?;
    let expected = [
        Record::Department(department()),
        Record::Employee(employee(7)),
        Record::Unknown(note()),
        Record::Review(review(7, 2026)),
    ];
    assert_eq!(all.iter().map(|stored| stored.entity.clone()).collect::<Vec<_>>(), expected);
    for stored in &all {
        let key = Key::of(&stored.entity);
        assert_eq!(table.get(key).await?.as_ref(), Some(stored), "a point read is the same");
    }
    if let Some(server) = &table.fixture.server {
        assert_eq!(server.journal().count(Operation::QueryEntities), 1);
    }
    Ok(())
}

#[tokio::test]
async fn versions_and_kinds_are_stored_in_two_properties() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let old = EmployeeV1 { department: "sales".into(), id: 1, salary: 0.5 };
    let robot = Robot { team: "sales".into(), name: "R2".into(), arms: 3 };
    table.insert(&old).await?;
    table.insert(&employee(2)).await?;
    table.insert(&robot).await?;

    let mut golden = DynamicEntity::new("sales", "id_000001");
    golden.set("Salary", 0.5);
    assert_eq!(bag(&table, "id_000001").await?, golden, "version 1 is what has no version");
    let mut golden = DynamicEntity::new("sales", "id_000002");
    golden.set("EntityVersion", 3);
    golden.set("Cents", 100_000_i64);
    golden.set("Title", "Lead");
    assert_eq!(sorted(&bag(&table, "id_000002").await?), sorted(&golden));
    let mut golden = DynamicEntity::new("sales", "R2");
    golden.set("EntityType", "Robot");
    golden.set("EntityVersion", 2);
    golden.set("Arms", 3);
    assert_eq!(sorted(&bag(&table, "R2").await?), sorted(&golden));
    Ok(())
}

/// A service may keep properties in an order of its own.
fn sorted(entity: &DynamicEntity) -> Vec<(String, Value)> {
    let mut all: Vec<_> =
        entity.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

#[tokio::test]
async fn an_older_version_is_converted_on_read_and_stored_as_the_newest() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&EmployeeV1 { department: "sales".into(), id: 1, salary: 1000.0 }).await?;
    table.insert(&EmployeeV2 { department: "sales".into(), id: 2, cents: 7 }).await?;

    // All versions of one type: its own rows, read as the set.
    let all = table.query(Employee::partition("sales").cast::<Record>()).all().await?;
    let cents: Vec<_> = all
        .iter()
        .map(|stored| match &stored.entity {
            Record::Employee(employee) => employee.cents,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cents, [100_000, 7]);
    for stored in &all {
        table.replace(stored).await?;
    }
    let all = table.query(Employee::partition("sales")).all().await?;
    assert_eq!(all.len(), 2, "both can be read as the newest version alone");
    assert_eq!(bag(&table, "id_000001").await?.get("Salary"), None, "the old form is gone");
    Ok(())
}

#[tokio::test]
async fn a_type_reads_only_its_own_version() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let old = EmployeeV2 { department: "sales".into(), id: 2, cents: 7 };
    table.insert(&old).await?;
    let error = table.get(Employee::key("sales", 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("of version 2 and the type of version 3"), "{error}");
    let error = table.query(Employee::partition("sales")).all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "nothing is left out silently");

    let first = EmployeeV1 { department: "sales".into(), id: 1, salary: 1000.0 };
    table.insert(&first).await?;
    let error = table.get(Employee::key("sales", 1)).await.unwrap_err();
    assert!(error.to_string().contains("of version 1 and the type of version 3"), "{error}");
    Ok(())
}

#[tokio::test]
async fn unknown_rows_are_kept_and_written_back_unchanged() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    // A type that is not of the set, a newer version of one that is, a version that is no number,
    // and a row with the head of a type but of no version of it.
    let mut newer = DynamicEntity::new("sales", "id_000009");
    newer.set("EntityVersion", 4);
    newer.set("Pay", "100 EUR");
    let mut text = DynamicEntity::new("sales", "id_000010");
    text.set("EntityVersion", "3");
    let mut large = DynamicEntity::new("sales", "department_2");
    large.set("EntityVersion", 1_i64);
    for entity in [note(), newer, text, large] {
        table.insert(&entity).await?;
        let stored = table.get(entity.key().cast::<Record>()).await?.unwrap();
        assert_eq!(stored.entity, Record::Unknown(entity.clone()));
        table.replace(&stored).await?;
        table.upsert(&stored.entity).await?;
        table.update(Key::of(&stored.entity), |_: &mut Record| {}).await?;
        assert_eq!(table.get(entity.key()).await?.unwrap().entity, entity);
    }
    Ok(())
}

#[tokio::test]
async fn an_unknown_row_without_a_catch_all_variant_is_an_error_without_content() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let read = async |entity: &DynamicEntity| {
        table.upsert(entity).await?;
        let one = table.get(entity.key().cast::<Known>()).await.unwrap_err();
        let all = table.query(Department::partition("sales").whole::<Known>()).all().await;
        assert_eq!(one.kind(), ErrorKind::Decode);
        assert_eq!(all.unwrap_err().kind(), ErrorKind::Decode);
        table.delete(entity.key(), Match::Any).await?;
        Ok::<_, rowkey::Error>(format!("{one} {one:?}"))
    };
    let error = read(&note()).await?;
    assert!(error.contains("it is \"Note\", version 7, which `Known` does not have"), "{error}");
    assert!(!error.contains("O'Neil") && !error.contains("note_1"), "{error}");
    let mut untyped = DynamicEntity::new("sales", "secret_1");
    untyped.set("Secret", "secret");
    let error = read(&untyped).await?;
    assert!(error.contains("heads: \"department\", \"id_\""), "{error}");
    assert!(!error.to_lowercase().contains("secret"), "{error}");
    // A row of a known type without a required property is damaged, not unknown.
    let mut damaged = DynamicEntity::new("sales", "id_000001");
    damaged.set("EntityVersion", 3);
    let error = read(&damaged).await?;
    assert!(error.contains("`Cents`"), "{error}");
    table.upsert(&damaged).await?;
    let error = table.get(damaged.key().cast::<Record>()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "not even where there is a place");
    Ok(())
}

#[tokio::test]
async fn rows_without_a_prefix_are_distinguished_by_the_properties_of_dotnet_programs() -> TestResult
{
    let table = Fixture::new().await?.table_with_server().await?;
    let mut person = DynamicEntity::new("blue", "Ada");
    person.set("Age", 36);
    person.set("EntityType", "Person");
    let mut robot = DynamicEntity::new("blue", "R2");
    robot.set("Arms", 3);
    robot.set("EntityType", "Robot");
    robot.set("EntityVersion", 2);
    table.transaction().insert(&person).insert(&robot).submit().await?;

    let all = table.query(Person::partition("blue").whole::<Member>()).all().await?;
    let ada = Person { team: "blue".into(), name: "Ada".into(), age: 36 };
    let r2 = Robot { team: "blue".into(), name: "R2".into(), arms: 3 };
    assert_eq!(all[0].entity, Member::Person(ada.clone()));
    assert_eq!(all[1].entity, Member::Robot(r2.clone()));
    // One type alone: by a filter on its kind.
    assert_eq!(table.query(Person::partition("blue")).first().await?.unwrap().entity, ada);
    assert_eq!(table.query(Robot::partition("blue")).first().await?.unwrap().entity, r2);

    // What .NET did not version is of version 1, and this set has no such robot.
    robot.remove("EntityVersion");
    table.upsert(&robot).await?;
    let error = table.get(Robot::key("blue", "R2").cast::<Member>()).await.unwrap_err();
    assert!(error.to_string().contains("\"Robot\", version 1"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_record_of_any_variant_is_updated_replaced_and_deleted() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let operations = table.transaction().insert(&Record::Department(department()));
    let operations = operations.insert(&Record::Employee(employee(7)));
    operations.insert(&Record::Unknown(note())).submit().await?;

    let whole = || Employee::partition("sales").whole::<Record>();
    let mut stream = table.query(whole()).page_size(1).stream();
    let mut seen = 0;
    while let Some(stored) = stream.try_next().await? {
        let etag = table.replace(&stored).await?;
        let stale = table.replace(&stored).await.unwrap_err();
        assert!(stale.kind() == ErrorKind::Conflict);
        let stale = table.delete(Key::of(&stored.entity), &stored).await.unwrap_err();
        assert!(stale.kind() == ErrorKind::Conflict);
        table.delete(Key::of(&stored.entity), Match::ETag(etag)).await?;
        seen += 1;
    }
    assert_eq!(seen, 3);
    assert!(table.query(whole()).first().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn index_copies_are_skipped() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut transaction = table.transaction();
    for id in 1..=5 {
        let mut copy = DynamicEntity::new("sales", format!("email_{id}@contoso.com"));
        copy.set("PrimaryRowKey", format!("id_{id:06}"));
        copy.set("RowFormat", 1_i32);
        transaction = transaction.insert(&employee(id)).insert(&copy);
    }
    transaction.submit().await?;
    let whole = || table.query(Employee::partition("sales").whole::<Record>());
    let expected: Vec<_> = (1..=5).map(|id| Record::Employee(employee(id))).collect();
    for query in [whole(), whole().page_size(1), whole().page_size(3)] {
        let found = query.all().await?.into_iter().map(|stored| stored.entity).collect::<Vec<_>>();
        assert_eq!(found, expected);
    }
    // All copies come first, and `take` does not count them.
    assert_eq!(whole().first().await?.unwrap().entity, expected[0]);
    assert_eq!(whole().take(2).page_size(2).all().await?.len(), 2);
    let copy: Key<Record> = Key::new("sales", "email_1@contoso.com");
    let error = table.get(copy).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(error.to_string().contains("a copy that an index keeps"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_entity_and_rows_that_extend_its_key_are_one_range() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut transaction = table.transaction().insert(&department());
    for id in [6, 7, 8] {
        transaction = transaction.insert(&employee(id));
        for suffix in ["_2025", "_2026", "~", "\u{FFFF}"] {
            let mut row = DynamicEntity::new("sales", format!("id_{id:06}{suffix}"));
            row.set("EntityType", "other");
            row.set("EntityVersion", 9);
            transaction = transaction.insert(&row);
        }
    }
    transaction.submit().await?;
    let family = Partition::<Record>::beginning_with(Employee::key("sales", 7));
    let found = table.query(family).all().await?;
    assert_eq!(found.len(), 5);
    let keys: Vec<_> = found.iter().map(|stored| Key::of(&stored.entity)).collect();
    assert!(keys.iter().all(|key| key.parts().unwrap().1.starts_with("id_000007")), "{keys:?}");
    let impossible = Partition::<Record>::beginning_with(Employee::key("a/b", 7_000_000));
    assert_eq!(table.query(impossible).all().await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn a_conversion_that_changes_the_key_is_rejected() -> TestResult {
    #[derive(Clone, Debug, Entity)]
    #[entity(partition = "{department}", row = "id_{id:6}", version = 2)]
    struct Moved {
        department: String,
        id: u32,
    }
    impl From<EmployeeV1> for Moved {
        fn from(old: EmployeeV1) -> Self {
            Self { department: old.department, id: old.id + 1 }
        }
    }
    #[derive(Clone, Debug, EntitySet)]
    enum Set {
        #[entity_set(older(EmployeeV1))]
        Moved(Moved),
    }
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&EmployeeV1 { department: "sales".into(), id: 1, salary: 1.0 }).await?;
    let error = table.get(Moved::key("sales", 1).cast::<Set>()).await.unwrap_err();
    assert!(error.to_string().contains("alters a part of the key"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_upgrading_update_is_atomic_if_any_request_fails() -> TestResult {
    let server = Server::start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    table.insert(&EmployeeV1 { department: "sales".into(), id: 1, salary: 1000.0 }).await?;
    let raise = |record: &mut Record| match record {
        Record::Employee(employee) => employee.title = Some("Lead".into()),
        other => panic!("{other:?}"),
    };
    let key = || Employee::key("sales", 1).cast::<Record>();
    let scenario = async |account: &StorageAccount| {
        account.table("staff").update(key(), raise).await.map(drop)
    };
    // The same again: it reads every version.
    let recover = async |account: &StorageAccount, _: &rowkey::Result<()>| {
        account.table("staff").update(key(), raise).await?;
        Ok(())
    };
    let invariants = |snapshot: &rowkey_emulator::Snapshot, _: &rowkey::Result<()>| {
        let row = snapshot.table("staff").unwrap().entity("sales", "id_000001").unwrap();
        assert_eq!(row.get("EntityVersion"), Some(Value::Int32(3)));
        assert_eq!(row.get("Cents"), Some(Value::Int64(100_000)));
        assert_eq!(row.get("Salary"), None);
    };
    let runs = sweep(&server, scenario, recover, invariants).await?;
    assert_eq!(runs.requests, 2, "one read and one write");
    let alone = async |account: &StorageAccount| scenario(&once(account)).await;
    sweep(&server, alone, recover, invariants).await?;
    Ok(())
}

#[tokio::test]
async fn an_indexed_type_is_read_in_a_set_without_its_copies() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{department}", row = "contact_{id:6}")]
    #[entity(index(name = by_email, row = "email_{email:lower}"))]
    struct Contact {
        department: String,
        id: u32,
        email: String,
    }
    #[derive(Clone, Debug, PartialEq, EntitySet)]
    enum Indexed {
        Contact(Contact),
        Department(Department),
    }
    let table = Fixture::new().await?.table_with_server().await?;
    let ada = Contact { department: "sales".into(), id: 7, email: "Ada@contoso.com".into() };
    table.insert(&department()).await?;
    Store::<Contact>::builder(Table::clone(&table)).build()?.insert(&ada).await?;

    let rows = table.query(Contact::partition("sales").whole::<DynamicEntity>()).all().await?;
    assert_eq!(rows.len(), 3, "the contact, its copy, and the department");
    let found = table.query(Contact::partition("sales").whole::<Indexed>()).all().await?;
    let found: Vec<_> = found.into_iter().map(|stored| stored.entity).collect();
    assert_eq!(found, [Indexed::Contact(ada), Indexed::Department(department())]);
    Ok(())
}
