//! Copies elsewhere: the employees of a department show its name after any fault.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join, join_all, select};
use rowkey::edm::Value;
use rowkey::store::{RemoteCopies, Settled, Store};
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, StorageAccount, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, sweep_every_way, waiting};

/// A department whose name is copied.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "departments", row = "department_{id}", rename_all = "PascalCase")]
pub(super) struct Department {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) floor: i32,
    /// The PartitionKey of its employees.
    pub(super) staff: Option<String>,
    /// The head of it, in the partition `heads`.
    pub(super) head: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "employee_{id:6}", rename_all = "PascalCase")]
pub(super) struct Employee {
    pub(super) department: String,
    pub(super) id: u32,
    pub(super) email: String,
    pub(super) department_name: Option<String>,
}

pub(super) fn department(id: &str, name: &str) -> Department {
    let (id, name, staff) = (id.to_owned(), name.to_owned(), Some(id.to_owned()));
    Department { id, name, floor: 1, staff, head: None }
}

pub(super) fn key(id: &str) -> Key<Department> {
    Department::key(id)
}

fn names(employees: &Table) -> RemoteCopies<Department, Employee, String> {
    RemoteCopies::new(
        "department_name",
        employees,
        |department: &Department| {
            let staff = department.staff.as_ref().map(Employee::partition);
            let head = department.head.map(|id| Employee::key("heads", id).into());
            staff.into_iter().chain(head).collect::<Vec<_>>()
        },
        |department| department.name.clone(),
        |employee: &mut Employee, name| employee.department_name = name.cloned(),
    )
}

pub(super) fn store(account: &StorageAccount) -> rowkey::Result<Store<Department>> {
    Store::builder(account.table("departments"))
        .queue(account.queue("departments"))
        .with(names(&account.table("employees")))
        .build()
}

/// Stores employees with these ids and without copies.
pub(super) async fn hire(
    employees: &Table,
    department: &str,
    ids: std::ops::Range<u32>,
) -> TestResult {
    for chunk in ids.collect::<Vec<_>>().chunks(100) {
        let insert = |transaction: rowkey::Transaction, id: &u32| {
            let (department, email) = (department.to_owned(), format!("e{id}"));
            transaction.insert(&Employee { department, id: *id, email, department_name: None })
        };
        chunk.iter().fold(employees.transaction(), insert).submit().await?;
    }
    Ok(())
}

/// A server with employees of `1` and `2`.
async fn start() -> TestResult<(Server, Store<Department>, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let (departments, employees) = (store(&account)?, account.table("employees"));
    departments.create_if_missing().await?;
    employees.create_if_missing().await?;
    for department in ["1", "2", "heads"] {
        hire(&employees, department, 0..3).await?;
    }
    Ok((server, departments, employees))
}

fn text(row: &rowkey_emulator::StoredEntity, name: &str) -> Option<String> {
    match row.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Asserts that each employee shows the name of the department that names it, and returns the names.
fn assert_copies(snapshot: &Snapshot) -> BTreeMap<String, Option<String>> {
    let (mut wanted, mut shown) = (BTreeMap::new(), BTreeMap::new());
    for row in snapshot.table("departments").unwrap().partition("departments") {
        if row.row_key().starts_with("department_") {
            let name = text(&row, "Name");
            if let Some(staff) = text(&row, "Staff") {
                wanted.insert(staff, name.clone());
            }
            if let Some(Value::Int64(id)) = row.get("Head") {
                wanted.insert(format!("heads/employee_{id:06}"), name);
            }
        }
    }
    for row in snapshot.table("employees").unwrap().entities() {
        let place = format!("{}/{}", row.partition_key(), row.row_key());
        assert!(text(&row, "Email").is_some(), "its own properties stay, and none is inserted");
        let name = text(&row, "DepartmentName");
        let expected = wanted.get(row.partition_key()).or(wanted.get(&place));
        assert_eq!(name, expected.cloned().flatten(), "{place}");
        let source = text(&row, "CopiedFrom_department_name");
        assert!(source.is_some() || name.is_none(), "{place} names its source");
        shown.insert(place, name);
    }
    shown
}

#[tokio::test]
async fn copies_elsewhere_follow_every_change_of_the_entity() -> TestResult {
    let (server, departments, employees) = start().await?;
    let shown = |place: &str| assert_copies(&server.snapshot())[place].clone();
    let written = departments.insert(&department("1", "Sales")).await?;
    assert_eq!(written.settled, Settled::Done);
    assert_eq!(shown("1/employee_000002").as_deref(), Some("Sales"));
    departments.update(key("1"), |one| one.name = "Retail".into()).await?;
    assert_eq!(shown("1/employee_000002").as_deref(), Some("Retail"));
    departments.update(key("1"), |one| one.staff = Some("2".into())).await?;
    assert_eq!(shown("1/employee_000002"), None);
    assert_eq!(shown("2/employee_000000").as_deref(), Some("Retail"));
    departments.update(key("1"), |one| one.head = Some(1)).await?;
    assert_eq!(shown("heads/employee_000001").as_deref(), Some("Retail"));
    departments.upsert(&Department { head: Some(2), ..department("1", "Retail") }).await?;
    assert_eq!(shown("heads/employee_000001"), None);

    // Another department takes over the head.
    departments.insert(&Department { staff: None, ..department("3", "It") }).await?;
    let (one, three) =
        (departments.get(key("1")).await?.unwrap(), departments.get(key("3")).await?);
    let (first, third) = (
        Department { head: None, ..one.entity },
        Department { head: Some(2), ..three.as_ref().unwrap().entity.clone() },
    );
    let both = departments.transaction().replace_if(&third, three.unwrap().version);
    both.replace_if(&first, one.version).submit().await?;
    assert_eq!(shown("heads/employee_000002").as_deref(), Some("It"));
    for id in ["1", "3"] {
        departments.delete(key(id)).await?;
        assert_copies(&server.snapshot());
    }
    let rows =
        employees.scan::<DynamicEntity>().scan_policy(rowkey::ScanPolicy::Allow).all().await?;
    assert!(rows.iter().all(|row| row.entity.iter().len() == 1), "nothing is left of the copies");
    Ok(())
}

/// The figures of the page.
#[tokio::test]
async fn copies_elsewhere_cost_a_page_and_a_transaction_of_100() -> TestResult {
    let (server, departments, employees) = start().await?;
    departments.insert(&department("7", "Sales")).await?;
    hire(&employees, "7", 0..250).await?;
    let page = include_str!("../../docs/src/patterns/denormalized.md");
    let counted = async |what: &str, write: BoxFuture<'_, rowkey::Result<()>>| {
        let before = server.journal();
        write.await?;
        let requests = server.journal().since(&before);
        let row = format!("| {what} | {} |", requests.len());
        assert!(page.contains(&row), "the page lacks: {row}");
        Ok::<_, rowkey::Error>(requests)
    };
    let rename =
        departments.update(key("7"), |one| one.name = "Retail".into()).map(|done| done.map(drop));
    let requests = counted("the copied property, 250 targets", rename.boxed()).await?;
    // The op row and the entity; three for the targets.
    assert_eq!(requests.count(Operation::Transaction), 4);
    let other = departments.update(key("7"), |one| one.head = None).map(|done| done.map(drop));
    counted("another property", other.boxed()).await?;
    let insert = async { departments.insert(&department("8", "New")).await.map(drop) };
    let requests = counted("`insert`, no target", insert.boxed()).await?;
    assert_eq!(requests.count(Operation::GetEntity), 0);
    let right = async { departments.rewrite(Department::key("7")).await.map(drop) };
    let requests = counted("`rewrite`, 250 targets that are up to date", right.boxed()).await?;
    assert_eq!(requests.count(Operation::Transaction), 1);
    assert_eq!(assert_copies(&server.snapshot())["7/employee_000249"].as_deref(), Some("Retail"));
    Ok(())
}

type Write = fn(Store<Department>) -> BoxFuture<'static, Result<(), rowkey::Error>>;

const WRITES: [(&str, Write); 3] = [
    ("insert", |departments| {
        async move { departments.insert(&department("2", "It")).await.map(drop) }.boxed()
    }),
    ("update", |departments| {
        let change = |one: &mut Department| {
            (one.name, one.staff, one.head) = ("Retail".into(), Some("2".into()), Some(1));
        };
        async move { departments.update(key("1"), change).await.map(drop) }.boxed()
    }),
    ("delete", |departments| async move { departments.delete(key("1")).await.map(drop) }.boxed()),
];

async fn work(account: &StorageAccount) -> TestResult {
    let departments = store(account)?;
    departments.drain_backlog().await?;
    assert_eq!(departments.work_once().await?.failed, 0);
    Ok(())
}

#[tokio::test]
async fn employees_show_their_department_in_the_end_after_any_fault() -> TestResult {
    let (server, departments, _) = start().await?;
    departments.insert(&Department { head: Some(0), ..department("1", "Sales") }).await?;
    for (name, write) in WRITES {
        eprintln!("{name}");
        let scenario = async |account: &StorageAccount| write(store(account)?).await;
        sweep_every_way(&server, scenario, work, |snapshot| drop(assert_copies(snapshot))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_targets_and_their_sources_lose_no_change() -> TestResult {
    let (server, departments, employees) = start().await?;
    departments.insert(&department("1", "Sales")).await?;
    let turn = |at: u32| {
        let (departments, employees) = (departments.clone(), employees.clone());
        async move {
            if at.is_multiple_of(2) {
                let rename = move |one: &mut Department| one.name = format!("name {at}");
                return departments.update(key("1"), rename).await.map(drop);
            }
            let mail = move |one: &mut Employee| one.email = format!("new {at}");
            employees.update(Employee::key("1", at % 3), mail).await.map(drop)
        }
    };
    for turned in join_all((0..8).map(turn)).await {
        turned?;
    }
    work(&account(&server)?).await?;
    assert_copies(&server.snapshot());
    for id in 0..3 {
        let employee = employees.get(Employee::key("1", id)).await?.unwrap().entity;
        assert!(employee.email.starts_with("new"), "{employee:?}");
    }
    Ok(())
}

/// A server, and a client whose clock is moved with it.
struct Setup {
    server: Server,
    clock: ManualClock,
    departments: Store<Department>,
    employees: Table,
}

impl Setup {
    async fn start() -> TestResult<Self> {
        let (server, _, employees) = start().await?;
        let (account, clock) = waiting(&server)?;
        Ok(Self { departments: store(&account)?, server, clock, employees })
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The op rows and the messages.
    fn left(&self) -> (usize, usize) {
        let snapshot = self.server.snapshot();
        let rows = snapshot.table("departments").unwrap().entities();
        let ops = rows.filter(|row| row.row_key().starts_with("op_")).count();
        (ops, snapshot.queue("departments").unwrap().messages().count())
    }

    /// Begins a write, and stops the program at the request that this fault holds.
    async fn stop_at(&self, fault: Fault, name: &'static str) {
        let held = self.server.inject(fault);
        let write = self.departments.update(key("1"), move |one| one.name = name.into());
        select(pin!(write), pin!(held.wait_until_held())).await;
        held.discard();
    }
}

#[tokio::test]
async fn a_worker_finishes_the_copies_of_a_program_that_was_killed() -> TestResult {
    let setup = Setup::start().await?;
    setup.departments.insert(&department("1", "Sales")).await?;
    let page = Fault::on(Operation::QueryEntities).resource("employees").times(1).hold();
    setup.stop_at(page, "Retail").await;
    let shown = |name: &str| {
        setup.server.snapshot().table("employees").is_some_and(|table| {
            table.partition("1").all(|row| text(&row, "DepartmentName").as_deref() == Some(name))
        })
    };
    assert!(shown("Sales"));
    setup.pass(61);
    setup.departments.work_once().await?;
    assert!(shown("Retail"));
    setup.pass(3600);
    assert_eq!(setup.departments.work_once().await?.settled, 1);
    assert_eq!(setup.left(), (0, 0));
    Ok(())
}

/// A write has 2,300 targets: 1,000 are its own, and workers take turns at the others.
#[tokio::test]
async fn many_targets_are_settled_in_turns_that_begin_where_the_last_one_ended() -> TestResult {
    let setup = Setup::start().await?;
    setup.departments.insert(&department("9", "Sales")).await?;
    hire(&setup.employees, "9", 0..2300).await?;
    let shown = || {
        let snapshot = setup.server.snapshot();
        let rows = snapshot.table("employees").unwrap().partition("9");
        rows.filter(|row| text(row, "DepartmentName").is_some()).count()
    };
    let requests = |before: &rowkey_emulator::Journal| {
        let made = setup.server.journal().since(before).about("employees");
        (made.count(Operation::QueryEntities), made.count(Operation::Transaction))
    };
    let before = setup.server.journal();
    setup.departments.update(key("9"), |one| one.name = "Retail".into()).await?;
    assert_eq!((shown(), requests(&before)), (1000, (1, 10)));

    // A worker is killed in its turn; another one begins at the same place.
    let fault = Fault::on(Operation::Transaction).resource("employees").nth(3);
    let held = setup.server.inject(fault.times(1).hold());
    select(pin!(setup.departments.work_once()), pin!(held.wait_until_held())).await;
    held.discard();
    assert_eq!(shown(), 1200);
    setup.pass(61);
    let before = setup.server.journal();
    assert_eq!(setup.departments.work_once().await?.waiting, 1);
    assert_eq!((shown(), requests(&before)), (2000, (1, 8)));
    // The turn: the message, the op row and the entity, each read, and written or read again.
    assert_eq!(setup.server.journal().since(&before).len(), 1 + 1 + 8 + 6);
    let before = setup.server.journal();
    assert_eq!(setup.departments.work_once().await?.waiting, 1);
    assert_eq!((shown(), requests(&before)), (2300, (1, 3)));
    assert_copies(&setup.server.snapshot());

    // When no request can take effect any more, all are looked at once more.
    setup.employees.update(Employee::key("9", 5), |one| one.department_name = None).await?;
    setup.pass(3600);
    let before = setup.server.journal();
    for _ in 0..2 {
        assert_eq!(setup.departments.work_once().await?.waiting, 1);
    }
    assert_eq!(setup.departments.work_once().await?.settled, 1);
    assert_eq!((shown(), requests(&before)), (2300, (3, 1)));
    assert_eq!(setup.left(), (0, 0));
    Ok(())
}

/// The queue is down: the rows of the backlog are settled in turns, too.
#[tokio::test]
async fn many_targets_of_the_backlog_are_settled_by_one_drain() -> TestResult {
    let setup = Setup::start().await?;
    setup.departments.insert(&department("9", "Sales")).await?;
    hire(&setup.employees, "9", 0..2300).await?;
    let down = setup.server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    setup.departments.update(key("9"), |one| one.name = "Retail".into()).await?;
    drop(down);
    setup.pass(61);
    setup.departments.drain_backlog().await?;
    assert_copies(&setup.server.snapshot());
    Ok(())
}

/// A merge is not answered, and lands late. Meanwhile another writer puts the values back, which changes no
/// target: the merge would be accepted, had its writer not written one of its targets once more.
#[tokio::test]
async fn a_late_merge_does_not_overwrite_what_a_later_write_left() -> TestResult {
    let (server, departments, _) = start().await?;
    departments.insert(&department("1", "Sales")).await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let late = super::late::Late::start(&server)?;
    let slow = store(&once(&late.account(&server, clock.clone())?))?;
    late.keep("DepartmentName");
    // Its third read: the change, the first round of settling, the second round.
    let read = Fault::on(Operation::GetEntity).resource("departments").nth(3);
    let read = server.inject(read.times(1).hold());
    let rename = slow.update(key("1"), |one| one.name = "Retail".into());
    let back = async {
        read.wait_until_held().await;
        departments.update(key("1"), |one| one.name = "Sales".into()).await?;
        read.release();
        Ok::<_, rowkey::Error>(())
    };
    let (renamed, back) = join(rename, back).await;
    (_, ()) = (renamed?, back?);
    assert!(late.has_kept());
    let answer = late.land()?;
    assert!(answer.contains("412"), "{answer}");
    assert_copies(&server.snapshot());
    Ok(())
}

/// An employee leaves between the read of the page and the merge.
#[tokio::test]
async fn a_target_that_is_deleted_meanwhile_is_not_inserted() -> TestResult {
    let (server, departments, employees) = start().await?;
    departments.insert(&department("1", "Sales")).await?;
    let merges =
        server.inject(Fault::on(Operation::Transaction).resource("employees").times(1).hold());
    let rename = departments.update(key("1"), |one| one.name = "Retail".into());
    let leave = async {
        merges.wait_until_held().await;
        employees.delete(Employee::key("1", 1), Match::Any).await?;
        merges.release();
        Ok::<_, rowkey::Error>(())
    };
    let (renamed, left) = join(rename, leave).await;
    (_, ()) = (renamed?, left?);
    let shown = assert_copies(&server.snapshot());
    assert!(!shown.contains_key("1/employee_000001"));
    assert_eq!(shown["1/employee_000002"].as_deref(), Some("Retail"));
    Ok(())
}

/// The one that loses the target is slow, and finds the copy of the other one.
#[tokio::test]
async fn an_entity_takes_away_only_its_own_copy() -> TestResult {
    let setup = Setup::start().await?;
    let of = |id: &str| Department { staff: None, head: Some(1), ..department(id, id) };
    setup.departments.insert(&of("1")).await?;
    let held =
        setup.server.inject(Fault::on(Operation::GetEntity).resource("employees").times(1).hold());
    let leave = setup.departments.update(key("1"), |one| one.head = None);
    select(pin!(leave), pin!(held.wait_until_held())).await;
    held.discard();
    setup.departments.insert(&of("2")).await?;
    setup.pass(61);
    setup.departments.work_once().await?;
    assert_eq!(
        assert_copies(&setup.server.snapshot())["heads/employee_000001"].as_deref(),
        Some("2")
    );
    Ok(())
}

#[tokio::test]
async fn verify_reports_stale_copies_elsewhere_and_repair_fixes_them() -> TestResult {
    let (server, departments, employees) = start().await?;
    for id in ["1", "2"] {
        departments.insert(&department(id, "Sales")).await?;
    }
    assert!(departments.verify().run().await?.is_clean());
    let wrong = |one: &mut Employee| one.department_name = Some("Wrong".into());
    employees.update(Employee::key("1", 1), wrong).await?;
    let report = departments.verify().run().await?;
    assert_eq!(report.part("department_name").stale, 1, "{report:?}");
    assert_eq!(departments.repair().run().await?.part("department_name").repaired, 1);
    assert_copies(&server.snapshot());

    // Another program deletes a department, and its copies stay.
    let head = Key::<DynamicEntity>::new("departments", "department_2");
    departments.table().delete(head, Match::Any).await?;
    let report = departments.verify_in(&employees).run().await?;
    assert_eq!(report.part("department_name").orphaned, 3, "{report:?}");
    let report = departments.repair_in(&employees).run().await?;
    assert_eq!(report.part("department_name").repaired, 3, "{report:?}");
    assert_copies(&server.snapshot());
    assert!(departments.verify_in(&employees).run().await?.is_clean());

    // A repair settles all targets of an entity, also more than a write.
    hire(&employees, "1", 100..1300).await?;
    assert_eq!(departments.repair().run().await?.part("department_name").repaired, 1);
    assert_copies(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_target_elsewhere_that_is_stored_later_gets_its_copy_with_the_next_write() -> TestResult {
    let (server, departments, employees) = start().await?;
    departments.insert(&department("1", "Sales")).await?;
    hire(&employees, "1", 7..8).await?;
    assert!(departments.rewrite(key("1")).await?);
    assert_eq!(assert_copies(&server.snapshot())["1/employee_000007"].as_deref(), Some("Sales"));
    Ok(())
}

#[tokio::test]
async fn rows_of_other_types_among_the_targets_are_left_alone() -> TestResult {
    let (server, departments, employees) = start().await?;
    let mut odd = DynamicEntity::new("1", "employee_odd");
    odd.set("Email", "odd");
    employees.insert(&odd).await?;
    departments.insert(&department("1", "Sales")).await?;
    departments.update(key("1"), |one| one.name = "Retail".into()).await?;
    let found = employees.get(odd.key()).await?.unwrap().entity;
    assert_eq!(found, odd);
    let snapshot = server.snapshot();
    let row = snapshot.table("employees").unwrap().entity("1", "employee_000001").unwrap();
    assert_eq!(text(&row, "DepartmentName").as_deref(), Some("Retail"));
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_is_not_copied_elsewhere() -> TestResult {
    let (server, departments, _) = start().await?;
    departments.insert(&department("1", "Sales")).await?;
    let account = account(&server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let departments = store(&account.with_options(options))?;
    let _behind = server.hold_back_secondary();
    for name in ["a", "b", "c"] {
        let busy = Fault::on(Operation::GetEntity).times(2).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(busy);
        departments.update(key("1"), |one| one.name = name.into()).await?;
        drop(injected);
        assert_eq!(assert_copies(&server.snapshot())["1/employee_000000"].as_deref(), Some(name));
    }
    Ok(())
}

#[tokio::test]
async fn invalid_targets_elsewhere_reject_the_write() -> TestResult {
    let (_server, departments, employees) = start().await?;
    let with = |many: usize| {
        let copies = RemoteCopies::new(
            "names",
            &employees,
            move |_: &Department| (0..many).map(|at| Employee::partition(at.to_string())),
            |department| department.name.clone(),
            |employee: &mut Employee, name| employee.department_name = name.cloned(),
        );
        let queue = employees.account().queue("departments");
        Store::builder(departments.table().clone()).queue(queue).with(copies).build()
    };
    let refused = with(101)?.insert(&department("1", "Sales")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    with(3)?.insert(&department("1", "Sales")).await?;

    let odd = RemoteCopies::new(
        "a name",
        &employees,
        |_: &Department| [Employee::key("1", 1)],
        |department| department.name.clone(),
        |employee: &mut Employee, name| employee.department_name = name.cloned(),
    );
    let queue = employees.account().queue("departments");
    let builder = Store::builder(departments.table().clone()).queue(queue).with(odd);
    assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

/// The older program lacks the declaration, and receives the message of the newer one.
#[tokio::test]
async fn a_program_without_the_copies_hands_their_targets_back() -> TestResult {
    let setup = Setup::start().await?;
    setup.departments.insert(&department("1", "Sales")).await?;
    let page = Fault::on(Operation::QueryEntities).resource("employees").times(1).hold();
    setup.stop_at(page, "Retail").await;
    setup.pass(61);
    let (account, _) = waiting(&setup.server)?;
    let older = Store::<Department>::builder(account.table("departments"))
        .queue(account.queue("departments"))
        .build()?;
    let worked = older.work_once().await?;
    assert_eq!((worked.settled, worked.failed), (0, 0), "{worked:?}");
    assert_eq!(worked.undeclared.get("department_name"), Some(&1), "{worked:?}");
    setup.departments.work_once().await?;
    let shown = assert_copies(&setup.server.snapshot());
    assert_eq!(shown["1/employee_000001"].as_deref(), Some("Retail"));
    Ok(())
}
