//! One-to-many in one partition: the count and the rows that are counted agree through every failure.

use rowkey::{Entity, EntitySet, ErrorKind, Outcome, StorageAccount, Table};
use rowkey_emulator::{Operation, Server, Snapshot};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "department")]
struct Department {
    name: String,
    headcount: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "employee_{id:6}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Record {
    Department(Department),
    Employee(Employee),
}

fn department(headcount: i32) -> Department {
    Department { name: "sales".into(), headcount }
}

async fn hire(staff: &Table, id: u32) -> rowkey::Result<()> {
    loop {
        let stored = staff.get(Department::key("sales")).await?.unwrap();
        let written = staff
            .transaction()
            .replace(&stored.map(|department| department.headcount += 1))
            .insert(&Employee { department: "sales".into(), id })
            .submit()
            .await;
        match written {
            Err(error)
                if error.kind() == ErrorKind::Conflict && error.outcome() == Outcome::Rejected => {}
            result => return result.map(drop),
        }
    }
}

#[tokio::test]
async fn both_sides_of_a_one_to_many_relationship_are_read_by_one_query() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&department(0)).await?;
    for id in 1..=3 {
        hire(&table, id).await?;
    }
    let all = table.query(Department::partition("sales").whole::<Record>()).all().await?;
    let all: Vec<_> = all.into_iter().map(|stored| stored.entity).collect();
    assert_eq!(all[0], Record::Department(department(3)));
    assert_eq!(all.len(), 4);
    if let Some(server) = &table.fixture.server {
        assert_eq!(server.journal().count(Operation::QueryEntities), 1);
        assert_eq!(server.journal().count(Operation::GetEntity), 3);
        assert_eq!(server.journal().count(Operation::Transaction), 3);
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_hires_are_all_counted() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&department(0)).await?;
    let hired = futures_util::future::join_all((1..=8).map(|id| hire(&table, id))).await;
    assert!(hired.iter().all(Result::is_ok), "{hired:?}");
    let stored = table.get(Department::key("sales")).await?.unwrap();
    assert_eq!(stored.entity.headcount, 8);
    assert_eq!(table.query(Employee::partition("sales")).all().await?.len(), 8);
    Ok(())
}

#[tokio::test]
async fn each_hire_is_counted_once_if_any_request_fails() -> TestResult {
    let server = Server::start().await?;
    let staff = account(&server)?.table("staff");
    staff.create().await?;
    staff.insert(&department(0)).await?;
    let scenario = async |account: &StorageAccount| hire(&account.table("staff"), 7).await;
    let recover = async |account: &StorageAccount, _: &rowkey::Result<()>| match hire(
        &account.table("staff"),
        7,
    )
    .await
    {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    };
    let invariants = |snapshot: &Snapshot, _: &rowkey::Result<()>| {
        let rows: Vec<_> = snapshot.table("staff").unwrap().partition("sales").collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get("headcount"), Some(1.into()));
    };
    let runs = sweep(&server, scenario, recover, invariants).await?;
    assert_eq!(runs.requests, 2, "one read and one transaction");
    let alone = async |account: &StorageAccount| scenario(&once(account)).await;
    sweep(&server, alone, recover, invariants).await?;
    Ok(())
}
