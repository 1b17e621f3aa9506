//! Index entities elsewhere: all employees of a last name, whichever department they are in.
//!
//! Employees lie in the partition of their department, so a list of all Joneses cannot change together
//! with each of them: no transaction reaches two partitions. The lists here lie in a table of their own,
//! and a worker keeps them in step. A lookup reads one list, then the employees it names, and returns
//! those that have the name when they are read.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::{Entity, StorageAccount};
use rowkey_eventual::remote_index_entity::RemoteIndexEntity;
use rowkey_eventual::source::Source;
use rowkey_eventual::worker::Step;
use rowkey_server::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;

    // ANCHOR: declare
    let (table, lists) = (account.table("staff"), account.table("names"));
    lists.create().await?;
    // The lists have the PartitionKeys last_Jones, last_King, ..
    let by_name = RemoteIndexEntity::new("last", table.clone(), lists, |e: &Employee| {
        Some(e.last_name.clone())
    });
    let staff = Source::new(table, account.queue("staff-changes"), [by_name.follower()])?;
    staff.create_if_missing().await?;
    // ANCHOR_END: declare

    // ANCHOR: write
    let people = [("sales", 223, "Jones"), ("research", 152, "Jones"), ("sales", 7, "King")];
    for (department, id, last_name) in people {
        let (department, last_name) = (department.to_owned(), last_name.to_owned());
        staff.insert(&Employee { department, id, last_name }).await?;
    }
    assert!(by_name.find("Jones").await?.is_empty(), "the lists follow after a while");
    let worker = staff.worker();
    while worker.step().await? != Step::Idle {}
    // ANCHOR_END: write

    // ANCHOR: read
    let before = server.journal();
    let joneses = by_name.find("Jones").await?;
    let departments: Vec<_> = joneses.iter().map(|found| &*found.entity.department).collect();
    assert_eq!(departments, ["research", "sales"]);
    let requests = server.journal().since(&before);
    assert_eq!(requests.count(Operation::QueryEntities), 1, "the list");
    assert_eq!(requests.count(Operation::GetEntity), 2, "each employee, several at a time");
    // ANCHOR_END: read
    println!("{} employees are named Jones: in {}", joneses.len(), departments.join(" and "));

    // ANCHOR: change
    // Who is renamed is found by neither name for a while, but never by the wrong one.
    staff.update(Employee::key("sales", 223), |e| e.last_name = "King".into()).await?;
    assert_eq!(by_name.find("Jones").await?.len(), 1);
    assert_eq!(by_name.find("King").await?.len(), 1);
    while worker.step().await? != Step::Idle {}
    assert_eq!(by_name.find("King").await?.len(), 2);
    // ANCHOR_END: change

    // What the list of the Kings looks like.
    let snapshot = server.snapshot();
    let names = snapshot.table("names").ok_or("no table")?;
    let kings = names.entity("last_King", "list_0000").ok_or("no list")?;
    let keys = "sales#000007/sales#000223";
    assert_eq!(kings.get("Keys0"), Some(keys.into()));
    println!("the list of the Kings is {keys}");

    // ANCHOR: repair
    // Somebody writes past the source; a comparison with the employees finds and mends it.
    let bell = Employee { department: "law".into(), id: 9, last_name: "Bell".into() };
    staff.table().insert(&bell).await?;
    let report = by_name.repair().run().await?.clone();
    assert_eq!((report.missing, report.mended), (1, 1));
    assert_eq!(by_name.find("Bell").await?.len(), 1);
    // ANCHOR_END: repair
    println!("{} employees compared, {} listed that was missing", report.entities, report.mended);
    Ok(())
}
