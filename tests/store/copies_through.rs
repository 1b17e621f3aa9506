//! Copies in entities that have a store: everything that the type of the targets declares stays in step.

use std::collections::BTreeSet;
use std::time::Duration;

use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::{RemoteCopies, Settled, Store, View};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, StorageAccount};
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way, waiting};

use super::remote_copies::{Department, department, key};

/// An employee with everything that a copy could leave behind, in up to three rows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 3, partition = "{department}", row = "employee_{id:6}")]
#[entity(index(name = by_name, row = "name_{department_name}", many, copy(email)))]
#[entity(index(name = of_name, partition = "of_{department_name}", row = "{department}_{id}", copy(email)))]
#[entity(list(name = listed, value = "{department_name}"))]
#[entity(unique(name = by_email, value = "{email}"))]
struct Employee {
    department: String,
    id: u32,
    email: String,
    department_name: Option<String>,
    #[entity(encrypt)]
    salary: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary")]
struct Headcount {
    name: String,
    employees: i64,
}

fn employee(department: &str, id: u32) -> Employee {
    let (department, email) = (department.to_owned(), format!("{department}{id}"));
    Employee { department, id, email, department_name: None, salary: "5".into() }
}

fn employees(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    let ring =
        KeyRing::new("staff", AesKeyWrap::new("2026", [26; 32]), MacKey::new("records", [1; 32]));
    let heads = View::new("heads", &account.table("heads"), |employee: &Employee| {
        employee.department_name.as_ref().map(Headcount::key)
    });
    Store::builder(account.table("employees"))
        .queue(account.queue("employees"))
        .keys(ring)
        .with(heads.count(Headcount::EMPLOYEES))
        .build()
}

fn departments(account: &StorageAccount) -> rowkey::Result<Store<Department>> {
    let names = RemoteCopies::through(
        "department_name",
        &employees(account)?,
        |department: &Department| department.staff.as_ref().map(Employee::partition),
        |department| department.name.clone(),
        |employee: &mut Employee, name| employee.department_name = name.cloned(),
    );
    Store::builder(account.table("departments"))
        .queue(account.queue("departments"))
        .with(names)
        .build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let staff = employees(&account)?;
    staff.create_if_missing().await?;
    account.table("heads").create_if_missing().await?;
    departments(&account)?.create_if_missing().await?;
    for (department, id) in [("1", 1), ("1", 2), ("2", 1)] {
        staff.insert(&employee(department, id)).await?;
    }
    Ok((server, account))
}

/// Asserts that each employee has the name of its department, and returns the names.
fn assert_names(snapshot: &Snapshot) -> BTreeSet<String> {
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let departments = snapshot.table("departments").unwrap();
    let rows = departments.partition("departments");
    let rows = rows.filter(|row| row.row_key().starts_with("department_"));
    let wanted: Vec<_> = rows.map(|row| (text(row.get("Staff")), text(row.get("Name")))).collect();
    let mut shown = BTreeSet::new();
    for row in snapshot.table("employees").unwrap().entities() {
        if row.row_key().starts_with("employee_") {
            let staff = Some(row.partition_key().to_owned());
            let expected =
                wanted.iter().find(|(of, _)| *of == staff).and_then(|(_, name)| name.clone());
            let name = text(row.get("department_name"));
            assert_eq!(name, expected, "{staff:?}");
            shown.extend(name);
        }
    }
    shown
}

#[tokio::test]
async fn the_declarations_of_the_targets_follow_their_copies() -> TestResult {
    let (server, account) = start().await?;
    let (staff, departments) = (employees(&account)?, departments(&account)?);
    let written = departments.insert(&department("1", "Sales")).await?;
    assert_eq!(written.settled, Settled::Done);
    departments.update(key("1"), |one| one.name = "Retail".into()).await?;
    assert_names(&server.snapshot());
    let by_name = staff.count(Employee::by_name("1", "Retail")).await?;
    assert_eq!((by_name, staff.count(Employee::by_name("1", "Sales")).await?), (2, 0));
    assert!(staff.find(Employee::of_name("Retail", "1", 2_u32)).await?.is_some());
    assert_eq!(staff.count(Employee::listed("1", "Retail")).await?, 2);
    let heads = account.table("heads").get(Headcount::key("Retail")).await?.unwrap();
    assert_eq!(heads.entity.employees, 2);
    let one = staff.get(Employee::key("1", 1)).await?.unwrap().entity;
    assert_eq!((&*one.salary, &*one.email), ("5", "11"));

    departments.update(key("1"), |one| one.staff = Some("2".into())).await?;
    assert_names(&server.snapshot());
    departments.delete(key("1")).await?;
    assert!(assert_names(&server.snapshot()).is_empty());
    assert!(staff.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn the_declarations_of_the_targets_agree_in_the_end_after_any_fault() -> TestResult {
    let (server, account) = start().await?;
    departments(&account)?.insert(&department("1", "Sales")).await?;
    let change = |one: &mut Department| {
        (one.name, one.staff) = ("Retail".into(), Some("2".into()));
    };
    let scenario = async |account: &StorageAccount| {
        departments(account)?.update(key("1"), change).await.map(drop)
    };
    let recover = async |account: &StorageAccount| {
        let (staff, departments) = (employees(account)?, departments(account)?);
        departments.drain_backlog().await?;
        assert_eq!(departments.work_once().await?.failed, 0);
        staff.drain_backlog().await?;
        assert_eq!(staff.work_once().await?.failed, 0);
        let report = staff.verify().run().await?;
        assert!(report.is_clean(), "{report:?}");
        assert!(departments.verify().run().await?.is_clean());
        Ok(())
    };
    sweep_every_way(&server, scenario, recover, |snapshot| drop(assert_names(snapshot))).await
}

#[tokio::test]
async fn repair_mends_copies_in_entities_of_a_store() -> TestResult {
    let (server, account) = start().await?;
    let (staff, departments) = (employees(&account)?, departments(&account)?);
    departments.insert(&department("1", "Sales")).await?;
    staff.update(Employee::key("1", 2), |one| one.department_name = Some("Wrong".into())).await?;
    assert_eq!(departments.verify().run().await?.part("department_name").stale, 1);
    assert_eq!(departments.repair().run().await?.part("department_name").repaired, 1);
    assert_names(&server.snapshot());

    let head = Key::<DynamicEntity>::new("departments", "department_1");
    departments.table().delete(head, Match::Any).await?;
    let report = departments.repair_in(staff.table()).run().await?;
    assert_eq!(report.part("department_name").repaired, 2, "{report:?}");
    assert_names(&server.snapshot());
    assert!(staff.verify().run().await?.is_clean());
    Ok(())
}

/// A type whose name is copied back into departments.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "offices", row = "office_{id}")]
struct Office {
    id: String,
    name: String,
}

#[tokio::test]
async fn copies_that_lead_back_to_their_source_are_refused() -> TestResult {
    let (_server, account) = start().await?;
    let plain = Store::<Department>::builder(account.table("departments")).build()?;
    let into_departments = |store: &Store<Department>| {
        RemoteCopies::through(
            "office_name",
            store,
            |office: &Office| [Department::key(&office.id)],
            |office| office.name.clone(),
            |department: &mut Department, name| {
                department.name = name.cloned().unwrap_or_default();
            },
        )
    };
    let offices = Store::<Office>::builder(account.table("offices"))
        .queue(account.queue("offices"))
        .with(into_departments(&plain))
        .build()?;
    let into_offices = RemoteCopies::through(
        "department_name",
        &offices,
        |department: &Department| [Office::key(&department.id)],
        |department| department.name.clone(),
        |office: &mut Office, name| office.name = name.cloned().unwrap_or_default(),
    );
    let refused = Store::<Department>::builder(account.table("departments"))
        .queue(account.queue("departments"))
        .with(into_offices)
        .build()
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("`department_name` copies into"), "{refused}");
    Ok(())
}

/// Its label is a unique value, so that only one badge can have a copy.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{department}", row = "badge_{id:4}")]
#[entity(unique(name = by_label, value = "{label}"))]
struct Badge {
    department: String,
    id: u32,
    label: Option<String>,
}

#[tokio::test]
async fn a_target_that_its_store_refuses_does_not_stop_the_others() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let (account, clock) = waiting(&server)?;
    let badges =
        Store::<Badge>::builder(account.table("badges")).queue(account.queue("badges")).build()?;
    badges.create_if_missing().await?;
    let labels = RemoteCopies::through(
        "labels",
        &badges,
        |department: &Department| [Badge::partition(&department.id)],
        |department| department.name.clone(),
        |badge: &mut Badge, label| badge.label = label.cloned(),
    );
    let departments = Store::<Department>::builder(account.table("departments"))
        .queue(account.queue("departments"))
        .with(labels)
        .build()?;
    departments.create_if_missing().await?;
    for id in 1..=2 {
        badges.insert(&Badge { department: "1".into(), id, label: None }).await?;
    }
    let written = departments.insert(&department("1", "Sales")).await?;
    assert_eq!(written.settled, Settled::Pending);
    let holder = badges.find(Badge::by_label("Sales")).await?.unwrap().entity.id;
    assert_eq!(departments.work_once().await?.failed, 1, "workers report it");

    badges.delete(Badge::key("1", holder)).await?;
    let hour = Duration::from_secs(3600);
    clock.advance(hour);
    server.clock().advance(hour);
    assert_eq!(departments.work_once().await?.settled, 1);
    let other = badges.get(Badge::key("1", 3 - holder)).await?.unwrap().entity;
    assert_eq!(other.label.as_deref(), Some("Sales"));
    assert!(badges.verify().run().await?.is_clean());
    Ok(())
}
