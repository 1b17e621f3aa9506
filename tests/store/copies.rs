//! Copies: each department shows its manager after each write and each failure.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use rowkey::edm::Value;
use rowkey::store::{Copies, Store};
use rowkey::{ClientOptions, DynamicEntity, Entity, ErrorKind, Key, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

/// An employee with copies and every other declaration.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{company}", row = "id_{id:6}")]
#[entity(list(name = by_skill, value = "{skills}", max = 4))]
#[entity(index(name = by_salary, row = "salary_{salary}", many))]
#[entity(index(name = by_badge, partition = "badge_{id}", row = "{company}"))]
#[entity(unique(name = by_email, value = "{email}"))]
struct Employee {
    company: String,
    id: u32,
    name: String,
    email: String,
    salary: i32,
    /// The departments that the employee manages.
    #[entity(json)]
    manages: Vec<String>,
    #[entity(json)]
    skills: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{company}", row = "dept_{name}")]
struct Department {
    company: String,
    name: String,
    floor: i32,
    manager: Option<String>,
    manager_email: Option<String>,
}

fn employee(id: u32, name: &str, manages: &[&str]) -> Employee {
    Employee {
        company: "contoso".into(),
        id,
        name: name.into(),
        email: format!("{name}@contoso.com"),
        salary: 1,
        manages: manages.iter().map(|name| (*name).to_owned()).collect(),
        skills: vec!["a".into()],
    }
}

fn department(name: &str) -> Department {
    let company = "contoso".to_owned();
    Department { company, name: name.into(), floor: 1, manager: None, manager_email: None }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("contoso", id)
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    let managers = Copies::new(
        "managers",
        3,
        |e: &Employee| {
            let key = |name| Department::key(&e.company, name);
            e.manages.iter().map(key).collect::<Vec<_>>()
        },
        |employee| (employee.name.clone(), employee.email.clone()),
        |department: &mut Department, manager| {
            (department.manager, department.manager_email) = manager.cloned().unzip();
        },
    );
    Store::builder(account.table("staff")).queue(account.queue("staff")).with(managers).build()
}

async fn start() -> TestResult<(Server, Store<Employee>)> {
    let server = Server::builder().manual_clock().start().await?;
    let staff = store(&account(&server)?)?;
    staff.create_if_missing().await?;
    for name in ["it", "sales"] {
        staff.table().insert(&department(name)).await?;
    }
    Ok((server, staff))
}

/// Asserts that each department shows its manager, and returns both by department.
fn assert_copies(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let (mut shown, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for row in snapshot.table("staff").unwrap().entities() {
        let text = |name: &str| match row.get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        if let Some(name) = row.row_key().strip_prefix("dept_") {
            assert_eq!(row.get("floor"), Some(Value::Int32(1)));
            if let Some(manager) = text("manager") {
                assert_eq!(text("manager_email"), Some(format!("{manager}@contoso.com")));
                shown.insert(name.to_owned(), manager);
            }
        } else if row.row_key().starts_with("id_") {
            let manages: Vec<String> = serde_json::from_str(&text("manages").unwrap()).unwrap();
            for name in manages {
                assert_eq!(wanted.insert(name, text("name").unwrap()), None, "one manager each");
            }
        }
    }
    assert_eq!(shown, wanted);
    shown
}

fn rename(name: &'static str) -> impl Fn(&mut Employee) {
    move |employee| (employee.name, employee.email) = (name.into(), format!("{name}@contoso.com"))
}

#[tokio::test]
async fn copies_follow_every_change_of_the_entity() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["sales"])).await?;
    staff.insert(&employee(2, "bob", &[])).await?;
    assert_eq!(assert_copies(&server.snapshot())["sales"], "ada");
    staff.update(key(1), rename("ann")).await?;
    assert_eq!(assert_copies(&server.snapshot())["sales"], "ann");
    staff.update(key(1), |e| e.manages = vec!["it".into(), "sales".into()]).await?;
    assert_eq!(assert_copies(&server.snapshot()).len(), 2);
    staff.update(key(1), |e| e.manages = vec!["it".into()]).await?;
    assert_eq!(assert_copies(&server.snapshot())["it"], "ann");
    staff.upsert(&employee(2, "bob", &["sales"])).await?;
    assert_copies(&server.snapshot());

    // The two managers swap departments in one transaction.
    let (one, two) = (staff.get(key(1)).await?.unwrap(), staff.get(key(2)).await?.unwrap());
    let (ann, bob) = (
        Employee { manages: vec!["sales".into()], ..one.entity },
        Employee { manages: vec!["it".into()], ..two.entity },
    );
    staff
        .transaction()
        .replace_if(&ann, one.version)
        .replace_if(&bob, two.version)
        .submit()
        .await?;
    let shown = assert_copies(&server.snapshot());
    assert_eq!((&*shown["sales"], &*shown["it"]), ("ann", "bob"));
    for id in [1, 2] {
        assert!(staff.delete(key(id)).await?);
        assert_copies(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_keeps_other_properties_of_its_target() -> TestResult {
    let (_server, staff) = start().await?;
    let table = staff.table();
    let get = async |table: &Table| {
        table.get(Key::<DynamicEntity>::new("contoso", "dept_it")).await.map(Option::unwrap)
    };
    let mut row = get(table).await?.entity;
    row.set("motto", "off and on");
    table.upsert(&row).await?;
    staff.insert(&employee(1, "ada", &["it"])).await?;
    staff.delete(key(1)).await?;
    assert_eq!(get(table).await?.entity, row, "only the copy is removed");
    Ok(())
}

#[tokio::test]
async fn an_invalid_copy_target_rejects_the_write() -> TestResult {
    let (server, staff) = start().await?;
    let missing = staff.insert(&employee(1, "ada", &["sales", "hr"])).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let many = staff.insert(&employee(1, "ada", &["a", "b", "c", "d"])).await.unwrap_err();
    assert_eq!(many.kind(), ErrorKind::TooLarge, "{many}");
    assert!(assert_copies(&server.snapshot()).is_empty());

    let elsewhere = Copies::new(
        "elsewhere",
        1,
        |_: &Employee| Some(Department::key("fabrikam", "it")),
        |employee| employee.name.clone(),
        |department: &mut Department, name| department.manager = name.cloned(),
    );
    let account = account(&server)?;
    let other = Store::<Employee>::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .with(elsewhere)
        .build()?;
    let error = other.insert(&employee(1, "ada", &[])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");

    // A missing target does not prevent the deletion of the employee.
    staff.insert(&employee(1, "ada", &["it"])).await?;
    staff.table().delete(Department::key("contoso", "it"), rowkey::Match::Any).await?;
    assert!(staff.delete(key(1)).await?);
    Ok(())
}

/// The writes, each on a server with two employees.
type Write = fn(Store<Employee>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 3] = [
    ("insert", |staff| {
        async move { staff.insert(&employee(3, "cem", &["it"])).await.map(drop) }.boxed()
    }),
    ("update", |staff| {
        let change = |employee: &mut Employee| {
            rename("ann")(employee);
            employee.manages = vec!["it".into()];
        };
        async move { staff.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("delete", |staff| async move { staff.delete(key(1)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn departments_show_their_managers_at_any_time_after_any_fault() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["sales"])).await?;
    let nothing = async |_: &StorageAccount| Ok(());
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        let check = |snapshot: &Snapshot| drop(assert_copies(snapshot));
        sweep_every_way(&server, scenario, nothing, check).await?;
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_a_target_and_its_copies_lose_no_change() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["sales"])).await?;
    let turn = |at: i32| {
        let staff = staff.clone();
        async move {
            if at % 2 == 0 {
                let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
                let name = names[usize::try_from(at).unwrap()];
                return staff.update(key(1), rename(name)).await.map(drop);
            }
            // Other programs change the department.
            loop {
                let found = staff.table().get(Department::key("contoso", "sales")).await?.unwrap();
                let mut row = DynamicEntity::of(&found.entity)?;
                row.set(format!("by_{at}"), at);
                match staff.table().merge((&row, found.etag)).await {
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    merged => return merged.map(drop),
                }
            }
        }
    };
    for turned in join_all((0..8).map(turn)).await {
        turned?;
    }
    assert_copies(&server.snapshot());
    let sales =
        staff.table().get(Key::<DynamicEntity>::new("contoso", "dept_sales")).await?.unwrap();
    let marks = [1, 3, 5, 7].map(|at| sales.entity.get(&format!("by_{at}")).is_some());
    assert_eq!(marks, [true; 4]);
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_is_not_copied() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["sales"])).await?;
    let account = account(&server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let staff = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 0..6 {
        let fault = Fault::on(Operation::GetEntity).times(1 + round % 3);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        let (name, to) = if round % 2 == 0 { ("ann", "it") } else { ("eve", "sales") };
        let change = |employee: &mut Employee| {
            rename(name)(employee);
            employee.manages = vec![to.to_owned()];
        };
        staff.update(key(1), change).await?;
        drop(injected);
        assert_eq!(assert_copies(&server.snapshot())[to], name);
    }
    Ok(())
}

#[tokio::test]
async fn a_target_that_is_stored_later_gets_its_copy_when_the_source_is_written_again() -> TestResult
{
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["sales"])).await?;
    staff.table().upsert(&department("sales")).await?;
    assert!(staff.rewrite(key(1)).await?);
    assert_eq!(assert_copies(&server.snapshot())["sales"], "ada");
    Ok(())
}

/// Another program replaces a department.
#[tokio::test]
async fn verify_reports_a_stale_copy_and_repair_fixes_it() -> TestResult {
    let (_server, staff) = start().await?;
    staff.insert(&employee(1, "ada", &["it", "sales"])).await?;
    staff.table().upsert(&department("it")).await?;
    let report = staff.verify().run().await?;
    assert_eq!(report.part("managers").stale, 1, "{report:?}");
    assert_eq!(staff.repair().run().await?.part("managers").repaired, 1);
    assert!(staff.verify().run().await?.is_clean());
    let it = staff.table().get(Department::key("contoso", "it")).await?.unwrap();
    assert_eq!(it.entity.manager.as_deref(), Some("ada"));
    Ok(())
}
