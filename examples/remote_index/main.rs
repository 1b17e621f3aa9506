//! Employees of all departments by e-mail and by city: indexes in separate partitions.
//!
//! Employees are stored in the partition of their department, so no transaction can include an index over all
//! departments. The store writes the copies after the commit, before the call returns; if that fails, a
//! worker writes them.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};

// ANCHOR: declare
/// One index beside the employee, which changes with it, and two elsewhere, which follow.
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_last_name, row = "last_{last_name}", many))]
#[entity(index(name = by_email, partition = "email", row = "{email:lower}"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{last_name}", many, copy(first_name)))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    city: String,
}
// ANCHOR_END: declare

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff =
        Store::<Employee>::builder(account.table("staff")).queue(account.queue("staff")).build()?;
    staff.create_if_missing().await?;
    let employees = [
        employee("sales", 7, "Ada", "Jones", "Leeds"),
        employee("sales", 8, "Bob", "King", "York"),
        employee("it", 7, "Cem", "Jones", "Leeds"),
    ];
    for employee in &employees {
        staff.insert(employee).await?;
    }

    // ANCHOR: read
    // Two point queries: the copy says where the employee is, and the employee is read as it is now.
    let cem = staff.find(Employee::by_email("CEM@contoso.com")).await?.ok_or("not found")?;
    assert_eq!((&*cem.entity.department, cem.entity.id), ("it", 7));
    // All who live in Leeds, in every department, by last name.
    let leeds = staff.query(Employee::by_city_all("Leeds")).page(20, None).await?;
    assert_eq!(leeds.entities.len(), 2);
    // ANCHOR_END: read
    for found in &leeds.entities {
        println!("in Leeds: {} {}", found.entity.first_name, found.entity.last_name);
    }

    // Cem changes his address: when the call returns, the index is correct.
    let changed = Employee { email: "kaya@contoso.com".into(), ..cem.entity };
    staff.replace_if(&changed, &cem.version).await?;
    assert!(staff.find(Employee::by_email("cem@contoso.com")).await?.is_none());
    assert!(staff.find(Employee::by_email("kaya@contoso.com")).await?.is_some());

    // A program stops after its commit. A minute later a worker settles the write; programs keep one running:
    // `staff.run(shutdown)`.
    let stopped = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    tokio::select! {
        _ = staff.update(Employee::key("sales", 8), |e| e.city = "Leeds".into()) => {
            return Err("it did not stop".into());
        }
        () = stopped.wait_until_held() => {}
    }
    drop(stopped);
    server.clock().advance(Duration::from_secs(61));
    staff.work_once().await?;
    let leeds = staff.query(Employee::by_city_all("Leeds")).page(20, None).await?;
    assert_eq!(leeds.entities.len(), 3);

    // Another program deletes an employee without its copies. Repair finds and removes them.
    let ada = Key::<DynamicEntity>::new("sales", "id_000007");
    staff.table().delete(ada, Match::Any).await?;
    let report = staff.repair().run().await?;
    let orphaned = ["by_last_name", "by_email", "by_city"].map(|name| report.part(name).orphaned);
    assert_eq!(orphaned, [1, 1, 1]);
    assert!(staff.verify().run().await?.is_clean());
    println!("{} copies without an entity were removed", orphaned.iter().sum::<u64>());
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
