//! Materialised views: a dashboard of departments that reads one row for each.
//!
//! How many people work in a department, what they cost and when the latest came would be a scan of
//! all employees, wherever they are stored. Here a summary for each department says it, and a worker
//! keeps the summaries right: employees are hired, moved and dismissed by programs that know nothing of
//! summaries, and messages may come late, twice and in any order.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::edm::DateTime;
use rowkey::{Entity, StorageAccount};
use rowkey_eventual::source::Source;
use rowkey_eventual::view::View;
use rowkey_eventual::worker::Step;
use rowkey_server::{Fault, Operation, Server};

/// Employees lie in the partition of their region.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{region}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    region: String,
    id: u32,
    department: String,
    salary: u32,
    hired: DateTime,
}

// ANCHOR: declare
/// What the dashboard shows: an entity like any other.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Department {
    name: String,
    headcount: i64,
    salary: i64,
    latest_hire: Option<DateTime>,
}

fn departments(account: &StorageAccount) -> View<Employee, Department> {
    let (staff, summaries) = (account.table("staff"), account.table("departments"));
    // The group of an employee: the key of the summary.
    View::new("departments", staff, summaries, |e: &Employee| Some(Department::key(&e.department)))
        .count(Department::HEADCOUNT)
        .sum(Department::SALARY, |e| e.salary)
        .latest(Department::LATEST_HIRE, |e| e.hired)
}
// ANCHOR_END: declare

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let view = departments(&account);
    let summaries = view.table().clone();
    summaries.create().await?;

    // ANCHOR: write
    // Whatever is written through the source is carried on to the view.
    let queue = account.queue("staff-changes");
    let staff = Source::new(account.table("staff"), queue, [view.follower()])?;
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
    // Workers run in programs of their own, as many as are needed.
    let worker = staff.worker();
    while worker.step().await? != Step::Idle {}
    // ANCHOR_END: write

    // ANCHOR: read
    let before = server.journal();
    let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?.entity;
    assert_eq!(server.journal().since(&before).len(), 1, "one point query");
    assert_eq!((sales.headcount, sales.salary), (3, 13_200));
    // ANCHOR_END: read
    println!("{}: {} people, {} a month", sales.name, sales.headcount, sales.salary);

    // ANCHOR: move
    // The latest hire moves to research. The worker settles both departments, and the answer to its
    // last request is lost, so that the message comes again.
    let second = Employee::key("west", 2);
    staff.update(second.clone(), |e| e.department = "research".into()).await?;
    let lost = server.inject(Fault::on(Operation::DeleteMessage).nth(1).close_before_commit());
    drop(worker.step().await);
    drop(lost);
    server.clock().advance(Duration::from_secs(31));
    while worker.step().await? != Step::Idle {}
    let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?.entity;
    let research = summaries.get(Department::key("research")).await?.ok_or("no summary")?.entity;
    assert_eq!((sales.headcount, sales.salary), (2, 9_300), "counted once");
    assert_eq!((research.headcount, research.salary), (2, 9_500));
    assert_eq!(sales.latest_hire, Some("2024-03-01T00:00:00Z".parse()?), "the next after her");
    // ANCHOR_END: move
    println!("research: {} people, {} a month", research.headcount, research.salary);

    // ANCHOR: repair
    // Somebody writes past the source: nothing tells the view.
    let fourth = Employee::key("east", 4);
    staff.table().update(fourth, |e| e.salary += 1_000).await?;
    assert_eq!(view.check().run().await?.missing, 1);
    // Compared with a scan of the employees, and mended; also how a view is built for what was there
    // before. Writers and workers may go on meanwhile.
    let report = view.repair().run().await?.clone();
    assert!(report.is_in_step());
    let research = summaries.get(Department::key("research")).await?.ok_or("no summary")?.entity;
    assert_eq!(research.salary, 10_500);
    // ANCHOR_END: repair
    println!("{} employees compared, {} summary mended", report.entities, report.mended);
    Ok(())
}
