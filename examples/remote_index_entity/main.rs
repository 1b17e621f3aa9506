//! Index entities in another partition: all employees with a last name, in all departments.
//!
//! Employees are stored in the partition of their department, so a list of all Joneses cannot change in the
//! same transaction: no transaction spans two partitions. The lists here are in a separate partition, and are
//! updated after each commit. A lookup reads one list, then the employees that it names, and returns those
//! that still have the name.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{Operation, Server};

// ANCHOR: declare
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(list(name = by_last_name, partition = "names", value = "{last_name}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}
// ANCHOR_END: declare

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;

    // ANCHOR: write
    let staff =
        Store::<Employee>::builder(account.table("staff")).queue(account.queue("staff")).build()?;
    staff.create_if_missing().await?;
    let people = [("sales", 223, "Jones"), ("research", 152, "Jones"), ("sales", 7, "King")];
    for (department, id, last_name) in people {
        let (department, last_name) = (department.to_owned(), last_name.to_owned());
        staff.insert(&Employee { department, id, last_name }).await?;
    }
    // ANCHOR_END: write

    // ANCHOR: read
    let before = server.journal();
    let joneses = staff.query(Employee::by_last_name("Jones")).all().await?;
    let departments: Vec<_> = joneses.iter().map(|found| &*found.entity.department).collect();
    assert_eq!(departments, ["research", "sales"]);
    let requests = server.journal().since(&before);
    assert_eq!(requests.count(Operation::GetEntity), 3, "the list, and each employee");
    // ANCHOR_END: read
    println!("{} employees are named Jones: in {}", joneses.len(), departments.join(" and "));

    // ANCHOR: change
    staff.update(Employee::key("sales", 223), |e| e.last_name = "King".into()).await?;
    assert_eq!(staff.query(Employee::by_last_name("Jones")).all().await?.len(), 1);
    assert_eq!(staff.query(Employee::by_last_name("King")).all().await?.len(), 2);
    // ANCHOR_END: change

    // The row of the list of the Kings.
    let snapshot = server.snapshot();
    let table = snapshot.table("staff").ok_or("no table")?;
    let kings = table.entity("names", "list_id_by_last_name_King").ok_or("no list")?;
    let keys = "sales#000007/sales#000223";
    assert_eq!(kings.get("Keys"), Some(keys.into()));
    println!("the list of the Kings is {keys}");

    // ANCHOR: repair
    // Another program deletes a list; repair compares the table with itself and writes it again.
    let list = Key::<DynamicEntity>::new("names", "list_id_by_last_name_King");
    staff.table().delete(list, Match::Any).await?;
    let report = staff.repair().run().await?;
    assert_eq!(report.part("by_last_name").missing, 2);
    // Both write the list at the same time; the one that loses is settled by a worker.
    staff.work_once().await?;
    assert_eq!(staff.query(Employee::by_last_name("King")).all().await?.len(), 2);
    // ANCHOR_END: repair
    println!("{} employees compared", report.total.right);
    Ok(())
}
