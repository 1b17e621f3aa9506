//! A staff directory: one row per person, found by id, e-mail address, last name, manager or pay.
//!
//! A table finds rows only by their keys. To find a person by e-mail address with one read, there must be a
//! copy under a key derived from the address. This program declares such copies on the type, and a store
//! writes person and copies in one transaction, so that they always agree.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use futures_util::TryStreamExt as _;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Partition, Projection, StorageAccount};
use rowkey_emulator::{Operation, Server};

// ANCHOR: declaration
#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}")]
// One person an address, in upper or lower case.
#[entity(index(name = by_email, row = "email_{email:lower}"))]
// Several people may have a name: their ids follow it in the RowKey.
#[entity(index(name = by_last_name, row = "last_{last_name}", many))]
// Small copies, to list the people of a manager. A person without one is not in this index.
#[entity(index(name = by_manager, row = "mgr_{manager:6}", many, copy(first_name, last_name)))]
// The highest pay first, of those who are still here.
#[entity(index(name = by_pay, row = "pay_{cents:desc}", many, when = "Self::is_active"))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    manager: Option<u32>,
    cents: u32,
    active: bool,
}

impl Employee {
    fn is_active(&self) -> bool {
        self.active
    }
}
// ANCHOR_END: declaration

/// The properties of a copy in the index by manager.
#[derive(Debug, Projection)]
struct Name {
    first_name: String,
    last_name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff = Store::<Employee>::builder(account.table("staff")).build()?;
    staff.create_if_missing().await?;

    // ANCHOR: writing
    // One request writes a person and all copies.
    for (id, first, last, manager) in [
        (1, "Grace", "Hopper", None),
        (7, "Ada", "King", Some(1)),
        (8, "Don", "Knuth", Some(1)),
        (9, "Augusta", "King", Some(7)),
    ] {
        let email = format!("{first}.{last}@contoso.com");
        let (first_name, last_name) = (first.into(), last.into());
        let (department, cents) = ("sales".into(), 500_000 - 100 * id);
        staff
            .insert(&Employee {
                department,
                id,
                first_name,
                last_name,
                email,
                manager,
                cents,
                active: true,
            })
            .await?;
    }
    assert_eq!(server.journal().count(Operation::Transaction), 4);
    show(&staff, "The rows of Ada King").await?;
    // ANCHOR_END: writing

    // ANCHOR: reading
    // A point query, as cheap as one by id.
    let ada = staff.find(Employee::by_email("sales", "ADA.KING@contoso.com")).await?;
    let ada = ada.ok_or("no person has this address")?;
    assert_eq!(ada.entity.id, 7);

    // A range query, in the order of the index.
    let kings = staff.query(Employee::by_last_name("sales", "King")).all().await?;
    assert_eq!(kings.iter().map(|king| king.entity.id).collect::<Vec<_>>(), [7, 9]);
    let with_k = staff.query(Employee::by_last_name_all("sales").prefix("K")).all().await?;
    assert_eq!(with_k.len(), 3);
    let best_paid = staff.query(Employee::by_pay_all("sales")).page(1, None).await?;
    assert_eq!(best_paid.entities[0].entity.id, 1);

    // The small copies alone, without the people that they are of.
    let team: Vec<_> =
        staff.query(Employee::by_manager("sales", 1_u32)).stream_as::<Name>().try_collect().await?;
    for name in &team {
        println!("works for Grace: {} {}", name.first_name, name.last_name);
    }
    assert_eq!(team.len(), 2);
    // ANCHOR_END: reading

    // ANCHOR: changing
    // A change of an indexed value moves the copy in the same request: a reader finds Ada under the old
    // name or under the new one, and never under both or none.
    let married = Employee { last_name: "Lovelace".into(), ..ada.entity };
    staff.replace_if(&married, &ada.version).await?;
    let lovelace = staff.query(Employee::by_last_name("sales", "Lovelace"));
    assert_eq!(lovelace.page(1, None).await?.entities.len(), 1);
    show(&staff, "After a change of name").await?;

    // It was made on condition that no other program had written. This one has been read before it:
    let [king, ..] = &kings[..] else { return Err("no kings".into()) };
    let outdated = Employee { cents: king.entity.cents + 1, ..king.entity.clone() };
    let refused = staff.replace_if(&outdated, &king.version).await.err().ok_or("not refused")?;
    assert!(refused.kind() == rowkey::ErrorKind::Conflict);
    // `update` reads again until it can write.
    staff.update(Employee::key("sales", 7), |ada| ada.active = false).await?;
    assert_eq!(staff.query(Employee::by_pay_all("sales")).all().await?.len(), 3);

    // An address belongs to one person.
    let refused = staff
        .update(Employee::key("sales", 8), |don| don.email = "ada.king@contoso.com".into())
        .await
        .err()
        .ok_or("two people have one address")?;
    assert_eq!(refused.details().index, Some("by_email"));
    println!("{refused}");

    // A deletion takes the copies with it.
    assert!(staff.delete(Employee::key("sales", 7)).await?);
    assert!(staff.find(Employee::by_email("sales", "ada.king@contoso.com")).await?.is_none());
    // ANCHOR_END: changing
    Ok(())
}

/// Prints all rows of Ada as stored.
async fn show(staff: &Store<Employee>, when: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("{when}:");
    for row in staff.table().query(Partition::<DynamicEntity>::new("sales")).all().await? {
        if row.entity.row_key == "id_000007"
            || row.entity.get("PrimaryRowKey") == Some(&"id_000007".into())
        {
            let names: Vec<_> = row.entity.iter().map(|(name, _)| name).collect();
            println!(
                "  {} | {:<38} | {}",
                row.entity.partition_key,
                row.entity.row_key,
                names.join(" ")
            );
        }
    }
    Ok(())
}
