//! Views: summaries are what their groups add up to, once all changes are settled.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use rowkey::edm::{DateTime, Value};
use rowkey::store::{Settled, Store, View};
use rowkey::{ClientOptions, DynamicEntity, Entity, ErrorKind, Key, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

/// An employee with a view beside every declaration.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(list(name = by_skill, value = "{skills}", max = 4))]
#[entity(index(name = by_salary, row = "salary_{salary}", many))]
#[entity(index(name = by_badge, partition = "badge_{id}", row = "{region}"))]
#[entity(unique(name = by_email, value = "{email}"))]
pub(super) struct Employee {
    region: String,
    id: u32,
    email: String,
    /// In no summary without one.
    department: Option<String>,
    salary: u32,
    hired: Option<DateTime>,
    #[entity(json)]
    skills: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
pub(super) struct Department {
    name: String,
    headcount: i64,
    salary: i64,
    lowest_salary: Option<u32>,
    latest_hire: Option<DateTime>,
    /// Not the view's.
    motto: Option<String>,
}

/// `department` may be empty, for none, and `day` 0.
pub(super) fn employee(id: u32, department: &str, salary: u32, day: u32) -> Employee {
    Employee {
        region: "west".into(),
        id,
        email: format!("e{id}"),
        department: (!department.is_empty()).then(|| department.into()),
        salary,
        hired: (day > 0).then(|| format!("2026-11-{day:02}T00:00:00Z").parse().unwrap()),
        skills: vec!["a".into()],
    }
}

pub(super) fn key(id: u32) -> Key<Employee> {
    Employee::key("west", id)
}

pub(super) fn view(account: &StorageAccount, name: &'static str) -> View<Employee, Department> {
    View::new(name, &account.table("departments"), |employee: &Employee| {
        employee.department.as_ref().map(Department::key)
    })
    .count(Department::HEADCOUNT)
    .sum(Department::SALARY, |employee| employee.salary)
    .min(Department::LOWEST_SALARY, |employee| employee.salary)
    .max(Department::LATEST_HIRE, |employee| employee.hired)
}

pub(super) fn store(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    let departments = view(account, "departments");
    Store::builder(account.table("staff")).queue(account.queue("staff")).with(departments).build()
}

pub(super) async fn start() -> TestResult<(Server, Store<Employee>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("departments").create().await?;
    let staff = store(&account)?;
    staff.create_if_missing().await?;
    Ok((server, staff))
}

/// A summary: headcount, salary, the lowest one, the latest hire.
pub(super) type Says = (i64, i64, Option<i64>, Option<DateTime>);

/// Asserts that the summaries equal the sums of entities and contributions, and returns them.
/// Summaries of nothing are left out.
pub(super) fn assert_exact(snapshot: &Snapshot) -> BTreeMap<String, Says> {
    let mut wanted = BTreeMap::<_, Says>::new();
    for row in snapshot.table("staff").unwrap().entities() {
        let Some(Value::String(department)) = row.get("Department") else { continue };
        if !row.row_key().starts_with("id_") {
            continue;
        }
        let salary = number(row.get("Salary")).unwrap();
        let (headcount, sum, lowest, latest) = wanted.entry(department).or_default();
        *headcount += 1;
        *sum += salary;
        *lowest = Some(lowest.map_or(salary, |lowest| lowest.min(salary)));
        *latest = (*latest).max(time(row.get("Hired")));
    }
    let table = snapshot.table("departments").unwrap();
    let mut stored = BTreeMap::new();
    for row in table.entities().filter(|row| row.row_key() == "summary") {
        let headcount = number(row.get("Headcount")).unwrap();
        let contributions = table.partition(row.partition_key());
        let contributions = contributions.filter(|row| row.row_key().starts_with("from_summary_"));
        assert_eq!(i64::try_from(contributions.count()).unwrap(), headcount);
        let says = (
            headcount,
            number(row.get("Salary")).unwrap(),
            number(row.get("LowestSalary")),
            time(row.get("LatestHire")),
        );
        if headcount == 0 {
            assert_eq!(says, (0, 0, None, None));
        } else {
            stored.insert(row.partition_key().to_owned(), says);
        }
    }
    assert_eq!(stored, wanted, "what is stored, and what the entities add up to");
    stored
}

fn number(value: Option<Value>) -> Option<i64> {
    match value {
        None => None,
        Some(Value::Int64(number)) => Some(number),
        other => panic!("no number: {other:?}"),
    }
}

fn time(value: Option<Value>) -> Option<DateTime> {
    match value {
        None => None,
        Some(Value::DateTime(time)) => Some(time),
        other => panic!("no time: {other:?}"),
    }
}

#[tokio::test]
async fn a_summary_follows_every_change_of_its_entities() -> TestResult {
    let (server, staff) = start().await?;
    for (id, department, salary, day) in
        [(1, "sales", 10, 3), (2, "sales", 20, 9), (3, "it", 30, 0), (4, "", 40, 5)]
    {
        let written = staff.insert(&employee(id, department, salary, day)).await?;
        assert_eq!(written.settled, Settled::Done);
    }
    let says = assert_exact(&server.snapshot());
    assert_eq!((says["sales"].0, says["sales"].1, says["sales"].2), (2, 30, Some(10)));
    // The first value goes, and only the other contributions tell the next.
    staff.update(key(1), |employee| employee.salary = 25).await?;
    assert_eq!(assert_exact(&server.snapshot())["sales"].2, Some(20));
    staff.update(key(2), |employee| employee.department = Some("it".into())).await?;
    assert_exact(&server.snapshot());
    staff.update(key(2), |employee| employee.department = None).await?;
    staff.update(key(4), |employee| employee.department = Some("it".into())).await?;
    assert_exact(&server.snapshot());
    let one = employee(3, "sales", 5, 30);
    staff.upsert(&one).await?;
    assert_exact(&server.snapshot());
    for id in 1..5 {
        staff.delete(key(id)).await?;
        assert_exact(&server.snapshot());
    }
    let snapshot = server.snapshot();
    let rows = snapshot.table("staff").unwrap().entities();
    assert_eq!(rows.filter(|row| !row.row_key().starts_with("op_")).count(), 0);
    Ok(())
}

#[tokio::test]
async fn unrelated_properties_and_changes_do_not_affect_a_summary() -> TestResult {
    let (server, staff) = start().await?;
    let departments = account(&server)?.table("departments");
    let mut bare = DynamicEntity::new("sales", "summary");
    bare.set("Motto", "sell");
    departments.insert(&bare).await?;
    staff.insert(&employee(1, "sales", 10, 1)).await?;
    let sales = departments.get(Department::key("sales")).await?.unwrap();
    assert_eq!((sales.entity.motto.as_deref(), sales.entity.headcount), (Some("sell"), 1));

    let explained = staff.transaction();
    let (version, other) = {
        let found = staff.get(key(1)).await?.unwrap();
        (found.version, Employee { skills: vec!["b".into()], ..found.entity })
    };
    let plan = explained.replace_if(&other, version).explain().await?.to_string();
    assert!(!plan.contains("departments"), "{plan}");
    Ok(())
}

/// A summary that a program on `azure_data_tables` 0.21 reads, too.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "read by others", rename_all = "PascalCase")]
#[entity(compat = "azure_data_tables-0.21")]
struct Shared {
    name: String,
    headcount: i64,
    #[entity(as = "Double")]
    salary: i64,
    lowest_salary: Option<u32>,
    latest_hire: Option<DateTime>,
}

#[tokio::test]
async fn a_summary_is_stored_with_the_types_of_its_declaration() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let departments = account.table("departments");
    departments.create().await?;
    let view = View::new("shared", &departments, |employee: &Employee| {
        employee.department.as_ref().map(Shared::key)
    })
    .count(Shared::HEADCOUNT)
    .sum(Shared::SALARY, |employee| employee.salary)
    .min(Shared::LOWEST_SALARY, |employee| employee.salary)
    .max(Shared::LATEST_HIRE, |employee| employee.hired);
    let staff = Store::<Employee>::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .with(view)
        .build()?;
    staff.create_if_missing().await?;
    let stored = async || -> TestResult<DynamicEntity> {
        let key = Key::<DynamicEntity>::new("sales", "read by others");
        Ok(departments.get(key).await?.ok_or("no summary")?.entity)
    };
    let says = |row: &DynamicEntity| {
        ["Headcount", "Salary", "LowestSalary", "LatestHire"].map(|name| row.get(name).cloned())
    };

    for (id, salary, day) in [(1, 10, 9), (2, 20, 3)] {
        staff.insert(&employee(id, "sales", salary, day)).await?;
    }
    let text = |text: &str| Some(Value::from(text));
    let expected =
        [Some(2.into()), Some(30.0.into()), Some(10.into()), text("2026-11-09T00:00:00Z")];
    assert_eq!(says(&stored().await?), expected);
    // Another first value takes its place, and the first value goes.
    staff.update(key(2), |employee| employee.salary = 5).await?;
    assert_eq!(stored().await?.get("LowestSalary"), Some(&5.into()));
    staff.delete(key(1)).await?;
    let expected = [Some(1.into()), Some(5.0.into()), Some(5.into()), text("2026-11-03T00:00:00Z")];
    assert_eq!(says(&stored().await?), expected);
    // A program that does not know the profile has written it: it is read as it is, and written as it is meant.
    let mut other = stored().await?;
    other.set("Headcount", 1_i64);
    other.set("LatestHire", "2026-11-03T00:00:00Z".parse::<DateTime>()?);
    departments.upsert(&other).await?;
    staff.insert(&employee(3, "sales", 7, 30)).await?;
    let expected =
        [Some(2.into()), Some(12.0.into()), Some(5.into()), text("2026-11-30T00:00:00Z")];
    assert_eq!(says(&stored().await?), expected);
    let shared = departments.get(Shared::key("sales")).await?.ok_or("no summary")?.entity;
    assert_eq!((shared.headcount, shared.salary, shared.lowest_salary), (2, 12, Some(5)));
    assert!(staff.verify().run().await?.is_clean());
    for id in [2, 3] {
        staff.delete(key(id)).await?;
    }
    assert_eq!(says(&stored().await?), [Some(0.into()), Some(0.0.into()), None, None]);
    Ok(())
}

#[tokio::test]
async fn a_summary_of_another_view_is_unchanged_and_other_targets_are_settled() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "sales", 10, 1)).await?;
    let account = account(&server)?;
    let other = Store::<Employee>::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .with(view(&account, "others"))
        .build()?;
    let before = server.snapshot();
    let written = other.insert(&employee(2, "sales", 10, 1)).await?;
    assert_eq!(written.settled, Settled::Pending);
    let rows = |snapshot: &Snapshot| snapshot.table("departments").unwrap().entities().count();
    assert_eq!(rows(&before), rows(&server.snapshot()));
    assert!(other.find(Employee::by_badge(2, "west")).await?.is_some());
    // The worker of the other program does not know the target, and leaves it.
    let worked = staff.work_once().await?;
    assert_eq!((worked.settled, worked.failed, worked.waiting), (0, 0, 1));
    Ok(())
}

#[tokio::test]
async fn an_oversized_summary_key_rejects_the_write() -> TestResult {
    let (server, staff) = start().await?;
    let long = employee(1, &"d".repeat(500), 10, 1);
    staff.insert(&long).await?;
    // (The partition of the summary is no part of it.)
    assert_exact(&server.snapshot());
    let table = account(&server)?.table("departments");
    let long = View::new("long", &table, |employee: &Employee| {
        let department = employee.department.as_ref()?;
        Some(Key::<Department>::new("all", &**department))
    });
    let account = account(&server)?;
    let staff = Store::<Employee>::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .with(long.count(Department::HEADCOUNT))
        .build()?;
    let error = staff.insert(&employee(2, &"d".repeat(500), 10, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("shorten them"), "{error}");
    assert!(!staff.exists(key(2)).await?);
    Ok(())
}

/// The writes, each on a server with three employees.
type Write = fn(Store<Employee>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 3] = [
    ("insert", |staff| {
        async move { staff.insert(&employee(4, "new", 7, 7)).await.map(drop) }.boxed()
    }),
    ("update", |staff| {
        let change = |employee: &mut Employee| employee.department = Some("it".into());
        async move { staff.update(key(1), change).await.map(drop) }.boxed()
    }),
    ("delete", |staff| async move { staff.delete(key(1)).await.map(drop) }.boxed()),
];

#[tokio::test]
async fn summaries_are_exact_eventually_after_any_fault() -> TestResult {
    let (server, staff) = start().await?;
    for (id, department) in [(1, "sales"), (2, "sales"), (3, "it")] {
        staff.insert(&employee(id, department, id * 10, id)).await?;
    }
    let recover = async |account: &StorageAccount| {
        let staff = store(account)?;
        for _ in 0..3 {
            staff.drain_backlog().await?;
            assert_eq!(staff.work_once().await?.failed, 0);
        }
        Ok(())
    };
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        sweep_every_way(&server, scenario, recover, |snapshot| drop(assert_exact(snapshot)))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_group_count_each_once() -> TestResult {
    let (server, staff) = start().await?;
    let all: Vec<_> = (0..8).map(|id| employee(id, "sales", id, id)).collect();
    for inserted in join_all(all.iter().map(|employee| staff.insert(employee))).await {
        inserted?;
    }
    let turn = |id: u32| {
        let staff = staff.clone();
        async move {
            match id % 3 {
                0 => staff.delete(key(id)).await.map(drop),
                1 => staff.update(key(id), |e| e.department = Some("it".into())).await.map(drop),
                _ => staff.update(key(id), |e| e.salary += 100).await.map(drop),
            }
        }
    };
    for turned in join_all((0..8).map(turn)).await {
        turned?;
    }
    // What lost a race is settled by a worker.
    for _ in 0..4 {
        server.clock().advance(std::time::Duration::from_secs(61));
        assert_eq!(staff.work_once().await?.failed, 0);
    }
    let says = assert_exact(&server.snapshot());
    assert_eq!((says["sales"].0, says["it"].0), (2, 3));
    Ok(())
}

#[tokio::test]
async fn summaries_ignore_a_lagging_secondary() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "sales", 10, 1)).await?;
    let account = account(&server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let staff = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for round in 0..6 {
        let fault = Fault::on(Operation::GetEntity).times(1 + round % 2);
        let injected = server.inject(fault.reject(ErrorCode::SERVER_BUSY));
        let query = Fault::on(Operation::QueryEntities).times(1);
        let queries = server.inject(query.reject(ErrorCode::SERVER_BUSY));
        let salary = u32::try_from(10 - round)?;
        let department = if round % 3 == 2 { "it" } else { "sales" };
        let change = |employee: &mut Employee| {
            (employee.salary, employee.department) = (salary, Some(department.to_owned()));
        };
        staff.update(key(1), change).await?;
        drop((injected, queries));
        assert_exact(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn existing_entities_are_counted_at_their_next_write() -> TestResult {
    let (server, _) = start().await?;
    let account = account(&server)?;
    let plain =
        Store::<Employee>::builder(account.table("staff")).queue(account.queue("staff")).build()?;
    for (id, department) in [(1, "sales"), (2, "it"), (3, "sales")] {
        plain.insert(&employee(id, department, id, id)).await?;
    }
    let staff = store(&account)?;
    for id in 1..4 {
        assert!(staff.rewrite(key(id)).await?);
    }
    assert!(!staff.rewrite(key(4)).await?);
    assert_eq!(assert_exact(&server.snapshot())["sales"].0, 2);
    Ok(())
}

/// A settle that read the summary, and whose write lands after those of others.
#[tokio::test]
async fn a_late_write_of_a_summary_is_rejected() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "sales", 10, 1)).await?;
    let between: [Write; 2] = [
        // Another entity joins the group.
        |staff| async move { staff.insert(&employee(2, "sales", 20, 2)).await.map(drop) }.boxed(),
        // The entity itself goes back to what its contribution says, which changes nothing.
        |staff| async move { staff.update(key(1), |e| e.salary = 10).await.map(drop) }.boxed(),
    ];
    for write in between {
        let server = server.fork().await?;
        let staff = store(&account(&server)?)?;
        let departments = Fault::on(Operation::Transaction).resource("departments");
        let late = server.inject(departments.times(1).hold());
        let update = staff.update(key(1), |employee| employee.salary = 70);
        let others = async {
            late.wait_until_held().await;
            let written = write(staff.clone()).await;
            late.release();
            written
        };
        let (updated, written) = futures_util::future::join(update, others).await;
        updated?;
        written?;
        for _ in 0..3 {
            server.clock().advance(std::time::Duration::from_secs(61));
            assert_eq!(staff.work_once().await?.failed, 0);
        }
        assert_exact(&server.snapshot());
    }
    Ok(())
}

/// Another program damages the view. The jobs read whole tables, also where queries may not.
#[tokio::test]
async fn verify_reports_wrong_summaries_and_repair_fixes_them() -> TestResult {
    let (server, staff) = start().await?;
    for id in 1..4 {
        staff.insert(&employee(id, "it", 10 * id, id)).await?;
    }
    let departments = account(&server)?.table("departments");
    let rows = departments.query(rowkey::Partition::<DynamicEntity>::new("it")).all().await?;
    let of = |id: &str| rows.iter().find(|row| row.entity.row_key.ends_with(id)).unwrap();
    departments.delete(of("id_000001").entity.key(), rowkey::Match::Any).await?;
    let mut stale = of("id_000002").entity.clone();
    stale.set("Salary", 7_i64);
    departments.replace((&stale, rowkey::Match::Any)).await?;
    // The contribution of a deleted employee.
    let gone = Key::<DynamicEntity>::new("west", "id_000003");
    account(&server)?.table("staff").delete(gone, rowkey::Match::Any).await?;

    let scan_policy = rowkey::ScanPolicy::Deny;
    let denying = account(&server)?;
    let options = ClientOptions { scan_policy, ..denying.options().clone() };
    let staff = store(&denying.with_options(options))?;
    let report = staff.verify().run().await?;
    let part = report.part("departments");
    assert_eq!((part.missing, part.stale, part.orphaned), (1, 1, 0), "{report:?}");
    let orphaned = staff.verify_in(&departments).run().await?;
    assert_eq!(orphaned.part("departments").orphaned, 1, "{orphaned:?}");

    let report = staff.repair().run().await?;
    assert_eq!(report.part("departments").repaired, 2, "{report:?}");
    let report = staff.repair_in(&departments).run().await?;
    assert_eq!(report.part("departments").repaired, 1, "{report:?}");
    assert!(staff.verify().run().await?.is_clean());
    assert!(staff.verify_in(&departments).run().await?.is_clean());
    Ok(())
}
