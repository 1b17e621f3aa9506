//! Materialized views: a dashboard of departments that reads one row per department.
//!
//! The number of employees of a department, their cost and the latest hire would require a scan of all
//! employees. Here a summary row per department has these values, and the store of the employees keeps it
//! correct.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::edm::DateTime;
use rowkey::store::{Store, View};
use rowkey::{Entity, ErrorCode, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};

/// Employees are in the partition of their region.
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    region: String,
    id: u32,
    department: String,
    salary: u32,
    hired: DateTime,
}

// ANCHOR: declare
/// The figures of the dashboard: an ordinary entity.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Department {
    name: String,
    headcount: i64,
    salary: i64,
    latest_hire: Option<DateTime>,
}

fn staff(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    // The group of an employee: the key of the summary.
    let departments = View::new("departments", &account.table("departments"), |e: &Employee| {
        Some(Department::key(&e.department))
    })
    .count(Department::HEADCOUNT)
    .sum(Department::SALARY, |e| e.salary)
    .max(Department::LATEST_HIRE, |e| e.hired);
    let staff = Store::builder(account.table("staff")).queue(account.queue("staff"));
    staff.with(departments).build()
}
// ANCHOR_END: declare

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let summaries = account.table("departments");
    summaries.create().await?;

    // ANCHOR: write
    let staff = staff(&account)?;
    staff.create_if_missing().await?;
    let people = [
        ("west", 1, "sales", 4_200, "2024-03-01T00:00:00Z"),
        ("west", 2, "sales", 3_900, "2026-09-15T00:00:00Z"),
        ("east", 3, "sales", 5_100, "2021-06-01T00:00:00Z"),
        ("east", 4, "research", 5_600, "2025-01-15T00:00:00Z"),
    ];
    for (region, id, department, salary, hired) in people {
        let (region, department) = (region.to_owned(), department.to_owned());
        staff.insert(&Employee { region, id, department, salary, hired: hired.parse()? }).await?;
    }
    // ANCHOR_END: write

    // ANCHOR: read
    let before = server.journal();
    let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?.entity;
    assert_eq!(server.journal().since(&before).len(), 1, "one point query");
    assert_eq!((sales.headcount, sales.salary), (3, 13_200));
    // ANCHOR_END: read
    println!("{}: {} people, {} a month", sales.name, sales.headcount, sales.salary);

    // ANCHOR: move
    // The latest hire moves to research, and the table of the summaries is busy: the entity is written,
    // and a worker settles both departments a moment later. Programs run one until they end:
    // `staff.run(shutdown)`.
    let busy = Fault::on(Operation::Transaction).resource("departments");
    let busy = server.inject(busy.reject(ErrorCode::SERVER_BUSY));
    staff.update(Employee::key("west", 2), |e| e.department = "research".into()).await?;
    drop(busy);
    server.clock().advance(Duration::from_secs(61));
    staff.work_once().await?;
    let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?.entity;
    let research = summaries.get(Department::key("research")).await?.ok_or("no summary")?.entity;
    assert_eq!((sales.headcount, sales.salary), (2, 9_300), "counted once");
    assert_eq!((research.headcount, research.salary), (2, 9_500));
    assert_eq!(sales.latest_hire, Some("2024-03-01T00:00:00Z".parse()?), "the next after her");
    // ANCHOR_END: move
    println!("research: {} people, {} a month", research.headcount, research.salary);
    Ok(())
}
