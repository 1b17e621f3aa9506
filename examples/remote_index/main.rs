//! Employees of all departments by e-mail: an index in another table, kept in step by a worker.
//!
//! Employees lie in the partition of their department, so no transaction reaches an index over all
//! departments. Each change leaves an intent beside the employee instead, and a worker carries it on.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::{Entity, Projection, StorageAccount};
use rowkey_eventual::remote_index::RemoteIndex;
use rowkey_eventual::source::Source;
use rowkey_eventual::worker::Step;
use rowkey_patterns::verify::Verify;
use rowkey_server::{Fault, Operation, Server};

/// One index beside the employee, which changes with it, and two elsewhere, which follow.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_last_name, row = "last_{last_name}", many))]
#[entity(index(name = by_email, partition = "email", row = "{email:lower}"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{last_name}", many, copy(first_name, email)))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    city: String,
}

/// What a list of a city shows: the copies have it all.
#[derive(Projection)]
struct Listed {
    first_name: String,
    email: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("staff");
    // Where the indexes are: in a table of their own. It could be one of another account.
    let index = RemoteIndex::<Employee>::new(table.clone())
        .index_table(["by_email", "by_city"], account.table("staffIndex"))?;
    let staff = Source::new(table, account.queue("staff-changes"), [index.follower()])?;
    staff.create_if_missing().await?;
    index.create_if_missing().await?;

    let employees = [
        employee("sales", 7, "Ada", "Jones", "Leeds"),
        employee("sales", 8, "Bob", "King", "York"),
        employee("it", 7, "Cem", "Jones", "Leeds"),
    ];
    for employee in &employees {
        staff.insert(employee).await?; // a transaction and a message
    }
    let worker = staff.worker();
    work_off(&staff).await?;

    // Two point queries: the copy says where the employee is, and the employee is read as it is now.
    let cem = index.find(Employee::by_email("CEM@contoso.com")).await?.ok_or("nobody has it")?;
    println!("cem@contoso.com is number {} in {}", cem.id, cem.department);
    assert_eq!((&*cem.department, cem.id), ("it", 7));

    // Cem changes his address. What is looked up and verified is true at once; what is not, later.
    staff.replace(&cem.map(|e| e.email = "kaya@contoso.com".into())).await?;
    assert!(index.find(Employee::by_email("cem@contoso.com")).await?.is_none());
    let stale = index.find_stale::<Employee>(Employee::by_email("cem@contoso.com")).await?;
    println!("the copy still says {}", stale.ok_or("the worker was faster")?.email);
    assert_eq!(worker.step().await?, Step::Handled);
    assert!(index.find(Employee::by_email("kaya@contoso.com")).await?.is_some());
    let stale = index.find_stale::<Employee>(Employee::by_email("cem@contoso.com")).await?;
    assert!(stale.is_none());

    // All who live in Leeds, whatever their department, by last name: the copies alone, one request.
    let leeds = index.query(Employee::by_city_all("Leeds")).stream_stale::<Listed>();
    for listed in leeds.try_collect::<Vec<_>>().await? {
        println!("in Leeds: {} <{}>", listed.first_name, listed.email);
    }

    // A worker dies when it has written one copy of two. Its message comes back, and another one does
    // it again: nothing is half done for good.
    staff.update(Employee::key("sales", 8), |e| e.city = "Leeds".into()).await?;
    let dead = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    tokio::select! {
        _ = worker.step() => return Err("it did not die".into()),
        () = dead.wait_until_held() => {}
    }
    drop(dead);
    // (Its message would be seen again after half a minute. A drain need not wait for it.)
    let drained = staff.drain(Duration::ZERO).run().await?;
    assert_eq!(drained.delivered, 1);
    assert_eq!(index.query(Employee::by_city_all("Leeds")).all().await?.len(), 3);

    // Somebody writes past the source, and verifying finds out.
    staff.table().delete(Employee::key("sales", 7), rowkey::Match::Any).await?;
    let verify: Verify<Employee> = index.verify();
    let mut repair = verify.repair();
    let report = repair.run().await?;
    let orphans = |name| report.index(name).map_or(0, |index| index.orphan);
    println!("left over by_email: {}, by_city: {}", orphans("by_email"), orphans("by_city"));
    assert_eq!((orphans("by_email"), orphans("by_city")), (1, 1));
    assert!(verify.check().run().await?.indexes.iter().all(|index| index.drifted() == 0));
    Ok(())
}

fn employee(department: &str, id: u32, first_name: &str, last_name: &str, city: &str) -> Employee {
    Employee {
        department: department.into(),
        id,
        first_name: first_name.into(),
        last_name: last_name.into(),
        email: format!("{}@contoso.com", first_name.to_lowercase()),
        city: city.into(),
    }
}

/// A program would let a worker [`run_until`](rowkey_eventual::Worker::run_until) it is told to stop.
async fn work_off(staff: &Source<Employee>) -> rowkey::Result<()> {
    let worker = staff.worker();
    while worker.step().await? != Step::Idle {}
    Ok(())
}
