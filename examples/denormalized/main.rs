//! Denormalization: a department shows its manager without a second read, and a desk the name of its office.
//!
//! The manager is an employee; name and e-mail are changed in the employee's entity. The department's entity
//! contains copies of both. A declaration defines the targets and the properties of the copies; the store
//! then writes employee and copies in one transaction. An office is shown by desks, which are in other partitions, and by
//! contracts, which have a store with an index: these are updated after the commit.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::store::{Copies, RemoteCopies, Settled, Store};
use rowkey::{Entity, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{company}", row = "id_{id:6}")]
struct Employee {
    company: String,
    id: u32,
    name: String,
    email: String,
    salary: f64,
    /// The department that the employee manages.
    manages: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{company}", row = "dept_{name}")]
struct Department {
    company: String,
    name: String,
    budget: f64,
    manager_name: Option<String>,
    manager_email: Option<String>,
}

// ANCHOR: declare
/// The store of employees, with the copies that departments hold.
fn staff(table: Table) -> rowkey::Result<Store<Employee>> {
    let managers = Copies::new(
        "managers",
        // The maximum number of departments of a manager.
        1,
        // The target: the department that the employee manages, if any.
        |e: &Employee| e.manages.as_ref().map(|name| Department::key(&e.company, name)),
        // The copied values.
        |employee| (employee.name.clone(), employee.email.clone()),
        // Writes the copy to the target; `None` removes it.
        |department: &mut Department, manager| {
            (department.manager_name, department.manager_email) = manager.cloned().unzip();
        },
    );
    Store::builder(table).with(managers).build()
}
// ANCHOR_END: declare

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "offices", row = "office_{id}")]
struct Office {
    id: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{office}", row = "desk_{number:4}")]
struct Desk {
    office: String,
    number: u32,
    office_name: Option<String>,
}

/// A contract has an index over the copied name, so its store writes the copies.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{office}", row = "contract_{number:6}")]
#[entity(index(name = by_office_name, partition = "of_{office_name}", row = "{number:6}"))]
struct Contract {
    office: String,
    number: u32,
    office_name: Option<String>,
}

// ANCHOR: elsewhere
/// The copies of an office's name in its desks: all rows of a partition.
fn in_desks(desks: &Table) -> RemoteCopies<Office, Desk, String> {
    RemoteCopies::new(
        "desks",
        desks,
        |office: &Office| [Desk::partition(&office.id)],
        |office| office.name.clone(),
        |desk: &mut Desk, name| desk.office_name = name.cloned(),
    )
}
// ANCHOR_END: elsewhere

// ANCHOR: through
/// The copies of an office's name in its contracts, each written by their store.
fn in_contracts(contracts: &Store<Contract>) -> RemoteCopies<Office, Contract, String> {
    RemoteCopies::through(
        "contracts",
        contracts,
        |office: &Office| [Contract::partition(&office.id)],
        |office| office.name.clone(),
        |contract: &mut Contract, name| contract.office_name = name.cloned(),
    )
}

fn contracts(account: &StorageAccount) -> rowkey::Result<Store<Contract>> {
    Store::builder(account.table("contracts")).queue(account.queue("contracts")).build()
}

fn offices(account: &StorageAccount) -> rowkey::Result<Store<Office>> {
    Store::builder(account.table("offices"))
        .queue(account.queue("offices"))
        .with(in_desks(&account.table("desks")))
        .with(in_contracts(&contracts(account)?))
        .build()
}
// ANCHOR_END: through

/// Renames an office, which 250 desks and a contract show.
async fn elsewhere(account: &StorageAccount) -> Result<(), Box<dyn std::error::Error>> {
    let (desks, contracts, offices) =
        (account.table("desks"), contracts(account)?, offices(account)?);
    desks.create().await?;
    contracts.create_if_missing().await?;
    offices.create_if_missing().await?;
    let office = || "7".to_owned();
    for number in 0..250 {
        desks.insert(&Desk { office: office(), number, office_name: None }).await?;
    }
    contracts.insert(&Contract { office: office(), number: 1, office_name: None }).await?;

    // ANCHOR: rename
    let written = offices.insert(&Office { id: "7".into(), name: "Annex".into() }).await?;
    assert_eq!(written.settled, Settled::Done);
    offices.update(Office::key("7"), |office| office.name = "Harbour".into()).await?;
    for desk in desks.query(Desk::partition("7")).all().await? {
        assert_eq!(desk.entity.office_name.as_deref(), Some("Harbour"));
    }
    // ANCHOR_END: rename
    let contract = contracts.find(Contract::by_office_name("Harbour", 1_u32)).await?;
    assert!(contract.is_some());
    assert!(offices.verify().run().await?.is_clean());
    assert!(contracts.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("staff");
    table.create().await?;
    let staff = staff(table.clone())?;
    for name in ["marketing", "sales"] {
        let (manager_name, manager_email) = (None, None);
        let company = "contoso".into();
        let budget = 1e6;
        table
            .insert(&Department { company, name: name.into(), budget, manager_name, manager_email })
            .await?;
    }

    // ANCHOR: write
    let jun = Employee {
        company: "contoso".into(),
        id: 223,
        name: "Jun Cao".into(),
        email: "junc@contoso.com".into(),
        salary: 90_000.0,
        manages: Some("marketing".into()),
    };
    staff.insert(&jun).await?;
    assert_eq!(shown(&table, "marketing").await?.as_deref(), Some("Jun Cao"));

    // The copied values change: the same transaction updates the department.
    let jun = Employee::key("contoso", 223);
    staff.update(jun.clone(), |e| e.name = "Jun Cao-Smith".into()).await?;
    assert_eq!(shown(&table, "marketing").await?.as_deref(), Some("Jun Cao-Smith"));

    // The target changes: one department loses the copy, another receives it.
    staff.update(jun.clone(), |e| e.manages = Some("sales".into())).await?;
    assert_eq!(shown(&table, "marketing").await?, None);
    assert_eq!(shown(&table, "sales").await?.as_deref(), Some("Jun Cao-Smith"));
    // ANCHOR_END: write

    // A change of other values costs the same as without copies: no department is read or written.
    let before = server.journal();
    staff.update(jun.clone(), |e| e.salary += 5_000.0).await?;
    assert_eq!(server.journal().since(&before).count(Operation::GetEntity), 1);

    // Other programs may change the other properties of the department.
    table.update(Department::key("contoso", "sales"), |d| d.budget *= 2.0).await?;
    assert_eq!(shown(&table, "sales").await?.as_deref(), Some("Jun Cao-Smith"));

    assert!(staff.delete(jun).await?);
    assert_eq!(shown(&table, "sales").await?, None);
    elsewhere(&account).await?;
    println!("the departments showed the current manager after every change");
    Ok(())
}

// ANCHOR: read
/// Reads the manager of a department with one point query.
async fn shown(table: &Table, name: &str) -> rowkey::Result<Option<String>> {
    let department = table.get(Department::key("contoso", name)).await?;
    Ok(department.and_then(|department| department.entity.manager_name))
}
// ANCHOR_END: read
