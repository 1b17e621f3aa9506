//! Relationships in one table: one-to-many and one-to-one in a partition that one query reads, and
//! a base type with its subtypes.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::rounds::{Rounds, was_lost};
use rowkey::{Entity, EntitySet, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};

// ANCHOR: types
/// The *one*: its partition is that of everything that belongs to it.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{name}", row = "department")]
struct Department {
    name: String,
    /// Changes with the employees, in one transaction.
    headcount: i32,
}

/// The *many*.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "employee_{id:6}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

/// One for each employee: what few programs may see and few need to read.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "payroll_{id:6}")]
struct Payroll {
    department: String,
    id: u32,
    iban: String,
}

#[derive(Clone, Debug, EntitySet)]
enum Record {
    Department(Department),
    Employee(Employee),
    Payroll(Payroll),
}

/// A base type and its subtypes: what all have is a struct of its own in each of them.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{depot}", row = "{plate}", kind = "Car")]
struct Car {
    depot: String,
    plate: String,
    seats: i32,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{depot}", row = "{plate}", kind = "Truck")]
struct Truck {
    depot: String,
    plate: String,
    load_kg: i32,
}

/// Any of them, by a key that does not say which: the plate.
#[derive(Clone, Debug, EntitySet)]
enum Vehicle {
    Car(Car),
    Truck(Truck),
}
// ANCHOR_END: types

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff = account.table("staff");
    staff.create_if_missing().await?;
    staff.insert(&Department { name: "sales".into(), headcount: 0 }).await?;

    // ANCHOR: program
    hire(&staff, 7, "Ada").await?;
    hire(&staff, 8, "Grace").await?;

    // One-to-many, read together by one query.
    let before = server.journal();
    let all = staff.query(Department::partition("sales").whole::<Record>()).all().await?;
    let (mut headcount, mut names) = (0, Vec::new());
    for stored in all {
        match stored.entity {
            Record::Department(department) => headcount = department.headcount,
            Record::Employee(employee) => names.push(employee.name),
            Record::Payroll(_) => {}
        }
    }
    assert_eq!((headcount, &*names), (2, &["Ada".to_owned(), "Grace".to_owned()][..]));
    assert_eq!(server.journal().since(&before).count(Operation::QueryEntities), 1);

    // One-to-one: the same number under another head, so each half is a point read.
    let ada = staff.get(Employee::key("sales", 7)).await?.ok_or("she works here")?;
    let account_of_ada = staff.get(Payroll::key("sales", ada.entity.id)).await?.ok_or("is paid")?;
    assert!(account_of_ada.entity.iban.starts_with("DE"));
    // Or only the many, without the halves that are not needed: their heads tell them apart.
    assert_eq!(staff.query(Employee::partition("sales")).all().await?.len(), 2);

    // Inheritance: one key, any of the subtypes.
    let fleet = account.table("fleet");
    fleet.create_if_missing().await?;
    let car = Car { depot: "north".into(), plate: "AB 123".into(), seats: 5 };
    let truck = Truck { depot: "north".into(), plate: "CD 456".into(), load_kg: 7500 };
    fleet.transaction().insert(&car).insert(&truck).submit().await?;
    let found = fleet.get(Car::key("north", "CD 456").cast::<Vehicle>()).await?;
    assert!(matches!(found.map(|f| f.entity), Some(Vehicle::Truck(t)) if t.load_kg == 7500));
    let cars = fleet.query(Car::partition("north")).all().await?;
    assert!(cars.len() == 1 && cars[0].entity.seats == 5, "one subtype, by a filter");
    // ANCHOR_END: program

    println!("{headcount} employees and their department by one query: {}", names.join(", "));
    Ok(())
}

// ANCHOR: hire
/// The employee, the payroll entry and the count in the department, or nothing of it.
async fn hire(staff: &Table, id: u32, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let department = || "sales".to_owned();
    let employee = Employee { department: department(), id, name: name.into() };
    let payroll = Payroll { department: department(), id, iban: format!("DE00{id:018}") };
    let mut rounds = Rounds::new(staff, "sales");
    loop {
        let stored = staff.get(Department::key("sales")).await?.ok_or("no such department")?;
        let written = staff
            .transaction()
            .replace(&stored.map(|department| department.headcount += 1))
            .insert(&employee)
            .insert(&payroll)
            .submit()
            .await;
        match written {
            // Another client was hired meanwhile: count again, after a wait if that happens often.
            Err(error)
                if error.kind() == rowkey::ErrorKind::Conflict
                    && was_lost(&error)
                    && rounds.again().await => {}
            written => return Ok(written.map(drop)?),
        }
    }
}
// ANCHOR_END: hire
