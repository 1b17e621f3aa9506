//! Materialised views: summaries are what their groups add up to, once all changes are settled.

mod repair;
mod settle;
mod worker;

use std::collections::BTreeMap;

use rowkey::edm::{DateTime, Value};
use rowkey::{Entity, Key, StorageAccount, Table};
use rowkey_eventual::view::View;
use rowkey_server::{Server, Snapshot};
use rowkey_tests::sweep::account;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    region: String,
    id: u32,
    /// In no summary without one.
    department: Option<String>,
    salary: u32,
    hired: Option<DateTime>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Department {
    name: String,
    headcount: i64,
    salary: i64,
    lowest_salary: Option<u32>,
    latest_hire: Option<DateTime>,
    /// Not the view's.
    motto: Option<String>,
}

type Departments = View<Employee, Department>;

/// `department` may be empty, for none, and `day` 0.
fn employee(id: u32, department: &str, salary: u32, day: u32) -> Employee {
    Employee {
        region: "west".into(),
        id,
        department: (!department.is_empty()).then(|| department.into()),
        salary,
        hired: hired(day),
    }
}

fn hired(day: u32) -> Option<DateTime> {
    (day > 0).then(|| format!("2026-11-{day:02}T00:00:00Z").parse().unwrap())
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("west", id)
}

fn view(staff: Table, departments: Table) -> Departments {
    let group = |employee: &Employee| employee.department.as_ref().map(Department::key);
    View::new("departments", staff, departments, group)
        .count(Department::HEADCOUNT)
        .sum(Department::SALARY, |employee| employee.salary)
        .min(Department::LOWEST_SALARY, |employee| employee.salary)
        .latest(Department::LATEST_HIRE, |employee| employee.hired)
}

fn departments(account: &StorageAccount) -> Departments {
    view(account.table("staff"), account.table("departments"))
}

async fn start() -> Result<(Server, Table, Departments), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("staff").create().await?;
    account.table("departments").create().await?;
    Ok((server, account.table("staff"), departments(&account)))
}

/// Stores an employee, whatever is there, and settles what that changes, as a worker would.
async fn put(staff: &Table, view: &Departments, employee: &Employee) -> rowkey::Result<()> {
    let before = staff.get(Key::of(employee)).await?.and_then(|stored| stored.entity.department);
    staff.upsert(employee).await?;
    for department in before.iter().chain(&employee.department) {
        view.settle(Key::of(employee), Department::key(department)).await?;
    }
    Ok(())
}

/// What a summary says: headcount, salary, the lowest one, the latest hire.
type Says = (i64, i64, Option<i64>, Option<DateTime>);

fn says(summary: &Department) -> Says {
    let Department { headcount, salary, lowest_salary, latest_hire, .. } = summary;
    (*headcount, *salary, lowest_salary.map(Into::into), *latest_hire)
}

async fn summary(view: &Departments, department: &str) -> rowkey::Result<Option<Says>> {
    let summary = view.table().get(Department::key(department)).await?;
    Ok(summary.map(|summary| says(&summary.entity)))
}

/// What the summaries have to say, by the entities alone.
fn wanted(snapshot: &Snapshot) -> BTreeMap<String, Says> {
    let mut wanted = BTreeMap::<_, Says>::new();
    for row in snapshot.table("staff").unwrap().entities() {
        let Some(Value::String(department)) = row.get("Department") else { continue };
        let salary = number(row.get("Salary")).unwrap();
        let (headcount, sum, lowest, latest) = wanted.entry(department).or_default();
        *headcount += 1;
        *sum += salary;
        *lowest = Some(lowest.map_or(salary, |lowest| lowest.min(salary)));
        *latest = (*latest).max(time(row.get("Hired")));
    }
    wanted
}

/// What the summaries say, without those of nobody; and that their contributions are as many.
fn stored(snapshot: &Snapshot) -> BTreeMap<String, Says> {
    let table = snapshot.table("departments").unwrap();
    let mut stored = BTreeMap::new();
    for row in table.entities().filter(|row| row.row_key() == "summary") {
        let headcount = number(row.get("Headcount")).unwrap();
        let contributions = table
            .partition(row.partition_key())
            .filter(|row| row.row_key().starts_with("from_"))
            .count();
        assert_eq!(i64::try_from(contributions).unwrap(), headcount, "{}", row.partition_key());
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
    stored
}

fn assert_exact(snapshot: &Snapshot) {
    assert_eq!(
        stored(snapshot),
        wanted(snapshot),
        "what is stored, and what the entities add up to"
    );
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
