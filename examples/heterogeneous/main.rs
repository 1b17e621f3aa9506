//! Several types in one table: departments, employees and reviews in one partition, read by one query as an
//! enum. Employees of an older version are upgraded when they are read, and rows that another program wrote
//! are kept unchanged.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::{DynamicEntity, Entity, EntitySet, Key, Match, StorageAccount};
use rowkey_emulator::{Operation, Server};

// ANCHOR: types
/// The row `department` of the partition.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{name}", row = "department")]
struct Department {
    name: String,
    budget: f64,
}

/// The rows that begin with `id_`.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", version = 2)]
struct Employee {
    department: String,
    id: u32,
    /// Was a `salary` in whole euros in version 1.
    salary_cents: i64,
}

/// Employees as the program stored them last year. Those rows were not rewritten.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct EmployeeV1 {
    department: String,
    id: u32,
    salary: i64,
}

impl From<EmployeeV1> for Employee {
    fn from(EmployeeV1 { department, id, salary }: EmployeeV1) -> Self {
        Self { department, id, salary_cents: salary * 100 }
    }
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "review_{employee:6}_{year:4}")]
struct Review {
    department: String,
    employee: u32,
    year: u16,
    rating: i32,
}

/// All types in the partition of a department.
#[derive(Clone, Debug, EntitySet)]
enum Record {
    Department(Department),
    #[entity_set(older(EmployeeV1))]
    Employee(Employee),
    Review(Review),
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}
// ANCHOR_END: types

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff = account.table("staff");
    staff.create_if_missing().await?;
    fill(&staff).await?;

    // ANCHOR: program
    // One query returns each row as its own type.
    let sales = || Department::partition("sales").whole::<Record>();
    let records = staff.query(sales()).all().await?;
    assert_eq!(server.journal().count(Operation::QueryEntities), 1);
    assert_eq!(records.len(), 5);
    for stored in &records {
        match &stored.entity {
            Record::Department(department) => {
                println!("{} has {}", department.name, department.budget);
            }
            Record::Employee(employee) => {
                println!("{} earns {}", employee.id, employee.salary_cents);
            }
            Record::Review(review) => println!("{} got {}", review.employee, review.rating),
            Record::Unknown(other) => println!("and there is a row {}", other.row_key),
        }
    }

    // A change does not ask for the type; the ETag protects it as usual. An employee of version 1
    // is written as one of version 2, and the unknown row as it was.
    for stored in &records {
        staff.replace(stored).await?;
    }
    let seven = staff.get(Employee::key("sales", 7)).await?.ok_or("she works here")?;
    assert_eq!(seven.entity.salary_cents, 500_000, "was 5000 euros in version 1");
    let foreign = records.iter().find_map(|stored| match &stored.entity {
        Record::Unknown(other) => Some(other.clone()),
        _ => None,
    });
    let foreign = foreign.ok_or("another program put one there")?;
    assert_eq!(staff.get(foreign.key()).await?.map(|stored| stored.entity), Some(foreign));

    // One employee of any version, by key.
    let key = || Employee::key("sales", 8).cast::<Record>();
    let raised = staff.update(key(), |record: &mut Record| {
        if let Record::Employee(employee) = record {
            employee.salary_cents += 10_000;
        }
    });
    assert!(matches!(raised.await?.entity, Record::Employee(e) if e.salary_cents == 610_000));

    // The department closes: everything goes at once, of all types.
    let mut closing = staff.transaction();
    for stored in &records {
        closing = closing.delete(Key::of(&stored.entity), Match::Any);
    }
    closing.submit().await?;
    assert!(staff.query(sales()).first().await?.is_none());
    // ANCHOR_END: program
    println!(
        "{} rows of four types and two versions, by one query and one transaction",
        records.len()
    );
    Ok(())
}

async fn fill(staff: &rowkey::Table) -> Result<(), Box<dyn std::error::Error>> {
    let department = || "sales".to_owned();
    // A row of a .NET program, with a property that identifies its type.
    let mut badge = DynamicEntity::new("sales", "badge_0042");
    badge.set("EntityType", "Badge");
    badge.set("Holder", 7_i64);
    staff
        .transaction()
        .insert(&Department { name: department(), budget: 1e6 })
        .insert(&EmployeeV1 { department: department(), id: 7, salary: 5000 })
        .insert(&Employee { department: department(), id: 8, salary_cents: 600_000 })
        .insert(&Review { department: department(), employee: 7, year: 2026, rating: 5 })
        .insert(&badge)
        .submit()
        .await?;
    Ok(())
}
