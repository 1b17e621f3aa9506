//! Secondary indexes elsewhere: lookups that verify and lookups that do not, stored rows, costs.

mod drift;
mod faults;
mod model;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::edm::Value;
use rowkey::index::Scope;
use rowkey::{DynamicEntity, Entity, Error, ErrorKind, Projection, Result, StorageAccount};
use rowkey_eventual::remote_index::RemoteIndex;
use rowkey_eventual::source::{Follower, Source};
use rowkey_eventual::worker::{Done, Step};
use rowkey_patterns::index_row::IndexRow;
use rowkey_server::{Fault, Operation, Server, Snapshot};
use rowkey_tests::sweep::account;
use rowkey_tests::{Fixture, TestResult};

/// An index beside the entity, and elsewhere all kinds: unique and not, sparse by `None` and by a
/// condition, whole and not, in a table of its own and in that of the entities.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_email, partition = "email", row = "{email:lower}"),
    index(name = by_city, partition = "city_{city}", row = "{last_name}", many),
    index(name = by_badge, partition = "badge", row = "{badge}", copy(first_name)),
    index(name = by_pay, partition = "pay", row = "{cents:desc}", many, copy(last_name), when = "Self::is_active")
)]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    city: String,
    badge: Option<String>,
    cents: i64,
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

/// The tables with rows of the type: that of the entities and that of some indexes.
const TABLES: [&str; 2] = ["staff", "others"];

fn employee(department: &str, id: u32, last_name: &str, email: &str) -> Employee {
    Employee {
        department: department.into(),
        id,
        first_name: "Ada".into(),
        last_name: last_name.into(),
        email: email.into(),
        city: "Leeds".into(),
        badge: None,
        cents: 100,
        active: true,
    }
}

fn key(department: &str, id: u32) -> rowkey::Key<Employee> {
    Employee::key(department, id)
}

fn index(account: &StorageAccount) -> RemoteIndex<Employee> {
    let index = RemoteIndex::new(account.table("staff"));
    index.index_table(["by_email", "by_badge"], account.table("others")).unwrap()
}

fn source(account: &StorageAccount) -> Source<Employee> {
    let followers = [index(account).follower()];
    Source::new(account.table("staff"), account.queue("staff-changes"), followers).unwrap()
}

async fn start() -> Result<(Server, StorageAccount, Source<Employee>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let source = source(&account);
    source.create_if_missing().await?;
    index(&account).create_if_missing().await?;
    Ok((server, account, source))
}

/// Carries on what messages tell of.
async fn settle(source: &Source<Employee>) -> Result<()> {
    let worker = source.worker();
    while worker.step().await? != Step::Idle {}
    Ok(())
}

/// What a program does that starts anew.
async fn work_off(account: &StorageAccount) -> TestResult {
    let source = source(account);
    settle(&source).await?;
    let drained = source.drain(Duration::ZERO).run().await?;
    assert_eq!(drained.failed, 0);
    Ok(())
}

/// Rows by table, PartitionKey and RowKey, with their properties by name.
type Rows = BTreeMap<(String, String, String), BTreeMap<String, Value>>;

fn row(table: &str, row: &DynamicEntity) -> ((String, String, String), BTreeMap<String, Value>) {
    let properties = row.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    ((table.to_owned(), row.partition_key.clone(), row.row_key.clone()), properties)
}

fn stored(snapshot: &Snapshot) -> Vec<(&'static str, DynamicEntity)> {
    let mut rows = Vec::new();
    for name in TABLES {
        for row in snapshot.table(name).unwrap().entities() {
            let mut entity = DynamicEntity::new(row.partition_key(), row.row_key());
            for (name, value) in row.properties() {
                entity.set(name, value);
            }
            rows.push((name, entity));
        }
    }
    rows
}

/// The entities that are stored, by department and id.
fn entities(snapshot: &Snapshot) -> BTreeMap<(String, u32), Employee> {
    let stored = stored(snapshot).into_iter();
    let own = stored.filter(|(table, row)| *table == "staff" && row.row_key.starts_with("id_"));
    own.map(|(_, row)| row.read_as::<Employee>().unwrap())
        .map(|entity| ((entity.department.clone(), entity.id), entity))
        .collect()
}

/// Checks that the rows are the entities, the copies that they ask for, and no others; and that nothing
/// is left to do. Returns the entities.
fn assert_in_step(snapshot: &Snapshot) -> BTreeMap<(String, u32), Employee> {
    let entities = entities(snapshot);
    let mut wanted = Rows::new();
    for entity in entities.values() {
        wanted.extend([row("staff", &DynamicEntity::of(entity).unwrap())]);
        for position in 0..Employee::INDEXES.len() {
            let table = if [1, 3].contains(&position) { "others" } else { "staff" };
            let copy = IndexRow::of(entity, position).unwrap();
            wanted.extend(copy.map(|copy| row(table, &DynamicEntity::of(&copy).unwrap())));
        }
    }
    let found: Rows = stored(snapshot).iter().map(|(table, entity)| row(table, entity)).collect();
    assert_eq!(found, wanted, "what is stored, and what the entities ask for");
    for queue in ["staff-changes", "staff-changes-poison"] {
        assert_eq!(snapshot.queue(queue).unwrap().messages().count(), 0, "{queue}");
    }
    entities
}

async fn assert_no_drift(account: &StorageAccount) -> TestResult {
    let mut check = index(account).verify().check();
    let report = check.run().await?;
    assert!(report.indexes.iter().all(|index| index.drifted() == 0), "{report:?}");
    Ok(())
}

#[tokio::test]
async fn entities_are_found_by_every_index_whatever_their_partition() -> TestResult {
    let fixture = Fixture::new().await?;
    let (table, others) = (fixture.table().await?, fixture.table().await?);
    let index = RemoteIndex::<Employee>::new(table.clone()).index_table(["by_email"], others)?;
    let queue = fixture.account.queue(&rowkey_tests::unique_name());
    let staff = Source::new(table, queue, [index.follower()])?;
    staff.create_if_missing().await?;
    let all = [
        Employee { badge: Some("B1".into()), ..employee("sales", 1, "King", "A@x.org") },
        Employee { cents: 300, ..employee("it", 1, "Jones", "b@x.org") },
        Employee { active: false, ..employee("it", 2, "King", "c@x.org") },
        Employee { city: "York".into(), cents: 200, ..employee("hr", 3, "Byron", "d@x.org") },
    ];
    for employee in &all {
        staff.insert(employee).await?;
    }
    settle(&staff).await?;
    let found = index.find(Employee::by_email("a@X.org")).await?;
    assert_eq!(found.as_deref(), Some(&all[0]));
    assert_eq!(index.find(Employee::by_badge("B1")).await?.as_deref(), Some(&all[0]));
    let name = index.find_stale::<Name>(Employee::by_badge("B1")).await?.unwrap();
    assert_eq!(*name, Name { row: "id_000001".into(), first_name: "Ada".into() });
    assert_eq!(name.primary, key("sales", 1).cast());
    assert!(index.find(Employee::by_badge("B2")).await?.is_none());

    let of = async |range| -> Result<Vec<(String, u32)>> {
        let found = index.query(range).all().await?;
        Ok(found.iter().map(|it| (it.department.clone(), it.id)).collect())
    };
    let who = |list: &[(&str, u32)]| -> Vec<(String, u32)> {
        list.iter().map(|(department, id)| ((*department).to_owned(), *id)).collect()
    };
    let leeds = who(&[("it", 1), ("it", 2), ("sales", 1)]);
    assert_eq!(of(Employee::by_city_all("Leeds")).await?, leeds, "by last name, then by key");
    assert_eq!(of(Employee::by_city_all("Leeds").prefix("K")).await?, leeds[1..]);
    assert_eq!(of(Employee::by_city("York", "Byron")).await?, who(&[("hr", 3)]));
    let pay = who(&[("it", 1), ("hr", 3), ("sales", 1)]);
    assert_eq!(of(Employee::by_pay_all()).await?, pay, "the best paid first, and active");
    let range = Employee::by_pay_all().range(Employee::by_pay(250_i64)..);
    assert_eq!(of(range).await?, pay[..1], "250 and more");
    let query = || index.query(Employee::by_pay_all()).page_size(1);
    assert_eq!(query().take(2).all().await?.len(), 2);
    assert_eq!(query().first().await?.unwrap().id, 1);
    let stale: Vec<_> = index
        .query(Employee::by_city_all("Leeds"))
        .take(2)
        .stream_stale::<Employee>()
        .try_collect()
        .await?;
    assert_eq!(stale[0].value, all[1]);
    assert_eq!(stale.len(), 2);
    // The index beside the entities is the source's own.
    let kings = staff.query(Employee::by_last_name("it", "King")).all().await?;
    assert_eq!(kings.iter().map(|king| king.id).collect::<Vec<_>>(), [2]);
    Ok(())
}

#[tokio::test]
async fn what_is_verified_is_true_and_what_is_stale_says_so() -> TestResult {
    let (_server, account, staff) = start().await?;
    let index = index(&account);
    let find = async |email| Ok::<_, Error>(index.find(Employee::by_email(email)).await?);
    let stale = async |email| index.find_stale::<Employee>(Employee::by_email(email)).await;
    staff.insert(&employee("it", 7, "King", "old@x.org")).await?;
    assert!(find("old@x.org").await?.is_none(), "there is no copy yet");
    settle(&staff).await?;

    // Written through what was found.
    let found = find("old@x.org").await?.unwrap();
    staff.replace(&found.map(|e| e.email = "new@x.org".into())).await?;
    assert!(find("old@x.org").await?.is_none());
    assert!(find("new@x.org").await?.is_none(), "its copy is not written yet");
    assert_eq!(stale("old@x.org").await?.unwrap().email, "old@x.org");
    let in_leeds = index.query(Employee::by_city_all("Leeds"));
    assert_eq!(in_leeds.all().await?[0].email, "new@x.org", "an old copy leads to what is now");
    settle(&staff).await?;
    assert!(stale("old@x.org").await?.is_none());
    assert_eq!(find("new@x.org").await?.unwrap().id, 7);

    // Somebody who has left a range is not in it, though the copy still is.
    staff.update(key("it", 7), |e| e.city = "York".into()).await?;
    assert!(index.query(Employee::by_city_all("Leeds")).all().await?.is_empty());
    let copies: Vec<_> = index
        .query(Employee::by_city_all("Leeds"))
        .stream_stale::<Employee>()
        .try_collect()
        .await?;
    assert_eq!(copies.len(), 1);
    assert!(staff.delete_if_exists(key("it", 7)).await?);
    assert!(find("new@x.org").await?.is_none());
    assert!(stale("new@x.org").await?.is_some());
    settle(&staff).await?;
    assert!(stale("new@x.org").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_lookup_follows_the_value_to_another_entity() -> TestResult {
    let (server, account, staff) = start().await?;
    staff.insert(&employee("it", 7, "King", "a@x.org")).await?;
    settle(&staff).await?;
    // The copy has been read, and the entity is about to be.
    let held = server.inject(Fault::on(Operation::GetEntity).nth(2).hold());
    let index = index(&account);
    let (found, ()) = tokio::join!(index.find(Employee::by_email("a@x.org")), async {
        held.wait_until_held().await;
        staff.update(key("it", 7), |e| e.email = "b@x.org".into()).await.unwrap();
        staff.insert(&employee("hr", 8, "King", "a@x.org")).await.unwrap();
        settle(&staff).await.unwrap();
        held.release();
    });
    assert_eq!(found?.map(|found| found.id), Some(8));
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, _, staff) = start().await?;
    let ada = Employee { badge: Some("B1".into()), ..employee("it", 7, "King", "Ada@x.org") };
    staff.insert(&ada).await?;

    let rows = stored(&server.snapshot());
    let intent = rows.iter().find(|(_, row)| row.row_key.starts_with("outbox_")).unwrap();
    assert_eq!(intent.1.partition_key, "it");
    assert_eq!(intent.1.get("Kind"), Some(&"changed:id_".into()));
    let target =
        |address: &str| serde_json::json!({"follower": "remote_index", "address": address});
    let task = serde_json::json!({
        "partitionKey": "it",
        "rowKey": "id_000007",
        "targets": [
            target(r#"["by_email","email","ada@x.org"]"#),
            target(r#"["by_city","city_Leeds","King_it_id_000007"]"#),
            target(r#"["by_badge","badge","B1"]"#),
            target(r#"["by_pay","pay","-9999999999999999899_it_id_000007"]"#),
        ]
    });
    let Some(Value::String(text)) = intent.1.get("Task") else { panic!("there is a task") };
    assert_eq!(serde_json::from_str::<serde_json::Value>(text)?, task);

    settle(&staff).await?;
    let whole = [
        ("Active", Value::from(true)),
        ("Badge", "B1".into()),
        ("Cents", 100_i64.into()),
        ("City", "Leeds".into()),
        ("Email", "Ada@x.org".into()),
        ("FirstName", "Ada".into()),
        ("LastName", "King".into()),
    ];
    let copy = |table: &str, partition: &str, row: &str, names: &[&str]| {
        let of = |name: &str| names.is_empty() || names.contains(&name);
        let mut properties: Vec<_> = whole.iter().filter(|(name, _)| of(name)).cloned().collect();
        if row != "id_000007" {
            properties.push(("PrimaryRowKey", "id_000007".into()));
        }
        if partition != "it" {
            properties.push(("PrimaryPartitionKey", "it".into()));
        }
        let named = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
        ((table.to_owned(), partition.to_owned(), row.to_owned()), named.collect())
    };
    let expected = Rows::from([
        copy("others", "badge", "B1", &["FirstName"]),
        copy("others", "email", "ada@x.org", &[]),
        copy("staff", "city_Leeds", "King_it_id_000007", &[]),
        copy("staff", "it", "id_000007", &[]),
        copy("staff", "it", "last_King_id_000007", &[]),
        copy("staff", "pay", "-9999999999999999899_it_id_000007", &["LastName"]),
    ]);
    let found: Rows =
        stored(&server.snapshot()).iter().map(|(table, entity)| row(table, entity)).collect();
    assert_eq!(found, expected);
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn requests_are_as_many_as_promised() -> TestResult {
    let (server, account, staff) = start().await?;
    let mut before = server.journal();
    // Transactions, messages put, point queries, range queries, and all.
    let mut spent = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        let counts = [
            Operation::Transaction,
            Operation::PutMessage,
            Operation::GetEntity,
            Operation::QueryEntities,
        ]
        .map(|operation| journal.count(operation));
        (counts, journal.len())
    };
    let index = index(&account);
    staff.insert(&employee("it", 7, "King", "a@x.org")).await?;
    assert_eq!(spent(), ([1, 1, 0, 0], 2), "a write");
    assert_eq!(staff.worker().step().await?, Step::Handled);
    // Receive, intent; three times the copy, the entity, the write; the entity once more; the intent and
    // the message go.
    assert_eq!(spent(), ([0, 0, 8, 0], 2 + 3 * 3 + 1 + 2), "the worker, of three copies");
    index.find(Employee::by_email("a@x.org")).await?.unwrap();
    assert_eq!(spent(), ([0, 0, 2, 0], 2), "find");
    index.find_stale::<Employee>(Employee::by_email("a@x.org")).await?.unwrap();
    assert_eq!(spent(), ([0, 0, 1, 0], 1), "find what may be stale");
    index.query(Employee::by_city_all("Leeds")).all().await?;
    assert_eq!(spent(), ([0, 0, 1, 1], 2), "a query, of one entity");
    index
        .query(Employee::by_city_all("Leeds"))
        .stream_stale::<Employee>()
        .try_collect::<Vec<_>>()
        .await?;
    assert_eq!(spent(), ([0, 0, 0, 1], 1), "a query of what may be stale");

    // A message of what is settled: receive, no intent, delete.
    let text = {
        staff.update(key("it", 7), |e| e.email = "b@x.org".into()).await?;
        let snapshot = server.snapshot();
        snapshot.queue("staff-changes").unwrap().messages().next().unwrap().text().to_owned()
    };
    assert_eq!(spent(), ([1, 1, 1, 0], 3), "an update");
    account.queue("staff-changes").put(rowkey::queue::Body::text(text)).send().await?;
    assert_eq!(staff.worker().step().await?, Step::Handled);
    spent();
    assert_eq!(staff.worker().step().await?, Step::Suppressed);
    assert_eq!(spent(), ([0, 0, 1, 0], 3), "a duplicate");
    Ok(())
}

/// Two followers of parts of the entity alone, so that changes of the rest are known to be none.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_phone, partition = "phone", row = "{phone}", copy(name)))]
struct Contact {
    department: String,
    id: u32,
    name: String,
    phone: String,
    notes: String,
}

#[tokio::test]
async fn a_change_that_no_copy_shows_is_carried_nowhere() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let index = RemoteIndex::<Contact>::new(account.table("contacts"));
    let queue = account.queue("contact-changes");
    let contacts = Source::new(account.table("contacts"), queue, [index.follower()])?;
    contacts.create_if_missing().await?;
    let ada = Contact {
        department: "it".into(),
        id: 7,
        name: "Ada".into(),
        phone: "555".into(),
        notes: String::new(),
    };
    contacts.insert(&ada).await?;
    assert_eq!(contacts.worker().step().await?, Step::Handled);
    let before = server.journal();
    contacts.update(Contact::key("it", 7), |it| it.notes = "likes tea".into()).await?;
    assert_eq!(server.journal().since(&before).count(Operation::PutMessage), 0);
    assert_eq!(server.snapshot().table("contacts").unwrap().len(), 2, "there is no intent");
    contacts.update(Contact::key("it", 7), |it| it.name = "Augusta".into()).await?;
    assert_eq!(contacts.worker().step().await?, Step::Handled);
    let found = index.query(Contact::by_phone("555").into()).first().await?;
    assert_eq!(found.unwrap().notes, "likes tea");
    Ok(())
}

#[tokio::test]
async fn an_index_may_be_in_another_account() -> TestResult {
    let (here, there) = (Server::start().await?, Server::start().await?);
    let account = StorageAccount::from_connection_string(here.connection_string())?;
    let elsewhere = StorageAccount::from_connection_string(there.connection_string())?;
    // The same name as that of the entities, in an account of the same name.
    let index = RemoteIndex::<Contact>::new(account.table("contacts"))
        .index_table(["by_phone"], elsewhere.table("contacts"))?;
    let queue = account.queue("contact-changes");
    let contacts = Source::new(account.table("contacts"), queue, [index.follower()])?;
    contacts.create_if_missing().await?;
    index.create_if_missing().await?;
    let (department, name, phone) = ("it".into(), "Ada".into(), "555".into());
    contacts.insert(&Contact { department, id: 7, name, phone, notes: String::new() }).await?;
    assert_eq!(contacts.worker().step().await?, Step::Handled);
    assert_eq!(there.snapshot().table("contacts").unwrap().len(), 1);
    assert_eq!(index.find(Contact::by_phone("555")).await?.unwrap().name, "Ada");
    let mut check = index.verify().check();
    let report = check.run().await?.index("by_phone").unwrap().clone();
    assert_eq!((report.copies, report.drifted()), (1, 0));
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_taken_stays_with_its_owner_until_it_is_free() -> TestResult {
    let (server, account, staff) = start().await?;
    let index = index(&account);
    staff.insert(&employee("it", 1, "King", "a@x.org")).await?;
    staff.insert(&employee("hr", 2, "Noel", "A@x.org")).await?;
    let worker = staff.worker().max_attempts(1);
    assert_eq!(worker.step().await?, Step::Handled);
    assert_eq!(worker.step().await?, Step::Poisoned);
    let poisoned = server.snapshot();
    let poisoned = poisoned.queue("staff-changes-poison").unwrap().messages().next().unwrap();
    assert!(poisoned.text().contains("the index `by_email`"), "{}", poisoned.text());
    assert_eq!(index.find(Employee::by_email("a@x.org")).await?.unwrap().id, 1);
    // What has a place is in its place nevertheless, and verifying knows what has none.
    assert_eq!(index.query(Employee::by_city("Leeds", "Noel")).all().await?.len(), 1);
    let mut check = index.verify().check();
    assert_eq!(check.run().await?.index("by_email").unwrap().taken, 1);
    server.clock().advance(Duration::from_secs(60));
    let account = rowkey_tests::sweep::account(&server)?;
    let drained = source(&account).drain(Duration::ZERO).run().await?;
    assert_eq!((drained.found, drained.failed), (1, 1));

    // The place is free, and the next drain takes it.
    assert!(staff.delete_if_exists(key("it", 1)).await?);
    settle(&staff).await?;
    let drained = source(&account).drain(Duration::ZERO).run().await?;
    assert_eq!((drained.delivered, drained.failed), (1, 0));
    assert_eq!(index.find(Employee::by_email("a@x.org")).await?.unwrap().id, 2);
    assert_eq!(source(&account).outbox().tasks().redrive(1).await?, 1);
    assert_eq!(staff.worker().step().await?, Step::Suppressed);
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_value_that_one_gives_up_and_another_takes_ends_with_the_other() -> TestResult {
    for reversed in [false, true] {
        let (server, _, staff) = start().await?;
        staff.insert(&employee("it", 1, "King", "a@x.org")).await?;
        settle(&staff).await?;
        staff.update(key("it", 1), |e| e.email = "b@x.org".into()).await?;
        if reversed {
            // The message about the giving up is received, and comes again after that of the taking.
            staff.outbox().tasks().queue().receive(1, Duration::from_secs(30)).await?;
        }
        staff.insert(&employee("hr", 2, "Noel", "a@x.org")).await?;
        settle(&staff).await?;
        server.clock().advance(Duration::from_secs(61));
        settle(&staff).await?;
        assert_in_step(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn what_is_set_up_wrongly_is_refused() -> TestResult {
    let (server, account, staff) = start().await?;
    let table = || account.table("staff");
    for name in ["by_last_name", "by_name"] {
        let refused =
            RemoteIndex::<Employee>::new(table()).index_table([name], table()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let twice = [index(&account).follower(), index(&account).follower()];
    let refused = Source::new(table(), account.queue("staff-changes"), twice).unwrap_err();
    assert!(refused.to_string().contains("`remote_index`"), "{refused}");

    // A value that makes no key of an index elsewhere.
    let before = server.journal();
    let refused = staff.insert(&employee("it", 1, "King", &"x".repeat(1100))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("`by_email`"), "{refused}");
    assert_eq!(server.journal().since(&before).len(), 0);

    // A worker that does not have the follower keeps what it cannot do.
    staff.insert(&employee("it", 1, "King", "a@x.org")).await?;
    let none: [Follower<Employee>; 0] = [];
    let without = Source::new(table(), account.queue("staff-changes"), none)?;
    assert_eq!(without.worker().step().await?, Step::Poisoned);
    assert_eq!(staff.outbox().tasks().redrive(1).await?, 1);
    settle(&staff).await?;
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_follower_that_can_never_settle_says_why_and_stops_no_other() -> TestResult {
    let (server, account, _) = start().await?;
    let hopeless = Follower::new(
        "hopeless",
        |employee: &Employee| Ok(vec![rowkey_eventual::source::Target::new(&employee.city)]),
        |_, _| async { Ok(Done::Poison("nobody is there".into())) },
    );
    let followers = [hopeless, index(&account).follower()];
    let staff = Source::new(account.table("staff"), account.queue("staff-changes"), followers)?;
    staff.insert(&employee("it", 1, "King", "a@x.org")).await?;
    assert_eq!(staff.worker().step().await?, Step::Poisoned);
    let found = index(&account).find(Employee::by_email("a@x.org")).await?;
    assert_eq!(found.unwrap().id, 1, "the other follower is settled");
    let poisoned = server.snapshot();
    let poisoned = poisoned.queue("staff-changes-poison").unwrap().messages().next().unwrap();
    assert!(poisoned.text().contains("nobody is there"), "{}", poisoned.text());
    Ok(())
}

#[tokio::test]
async fn the_indexes_of_a_type_say_where_they_are() -> TestResult {
    let (_server, account, staff) = start().await?;
    let elsewhere = |index: &&rowkey::Index| index.scope == Scope::OtherPartition;
    assert_eq!(Employee::INDEXES.iter().filter(elsewhere).count(), 4);
    let shown = format!("{:?} {staff:?}", index(&account));
    assert!(
        shown.contains(r#"by_city: "staff""#) && shown.contains(r#"by_badge: "others""#),
        "{shown}"
    );
    assert!(!shown.contains(rowkey_server::DEVELOPMENT_KEY));
    Ok(())
}
