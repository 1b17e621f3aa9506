//! Item 2: writers that bypass the indexes of a type, without an error or a warning.

use futures_util::stream;
use rowkey_patterns::bulk::{BestEffort, Bulk, PerPartitionOrdered};
use rowkey_patterns::bulk_delete::BulkDelete;

use crate::{Employee, employee, key, staff, start};

/// Item 2: `Bulk` stores entities of an indexed type without their copies, and reports that the load
/// is complete.
#[tokio::test]
#[should_panic(expected = "an index finds 0 of 20 entities of a complete bulk load")]
async fn bulk_keeps_the_indexes() {
    let (_server, account) = start().await;
    let staff = staff(&account);
    let email = |id: u32| format!("e{id}@contoso.com");
    let all: Vec<_> = (1..=20).map(|id| employee(id, &email(id))).collect();
    let bulk = Bulk::new(staff.table().clone(), PerPartitionOrdered);
    let report = bulk.insert(stream::iter(all)).await;
    assert!(report.is_complete(), "{:?}", report.progress);
    let mut found = 0;
    for id in 1..=20 {
        let entity = staff.find(Employee::by_email("sales", email(id))).await.unwrap();
        found += usize::from(entity.is_some());
    }
    assert!(found == 20, "an index finds {found} of 20 entities of a complete bulk load");
}

/// Item 2: `Bulk` stores a second entity with a value that a unique index has already.
#[tokio::test]
#[should_panic(expected = "a bulk load wrote 1 entity whose address is taken")]
async fn bulk_refuses_a_taken_value() {
    let (_server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(1, "ada@contoso.com")).await.unwrap();
    let second = employee(2, "ada@contoso.com");
    let bulk = Bulk::new(staff.table().clone(), BestEffort);
    let written = bulk.insert(stream::iter([second])).await.progress.written;
    assert!(written == 0, "a bulk load wrote {written} entity whose address is taken");
}

/// Item 2: `BulkDelete` deletes the entities alone and leaves whole copies of them, personal data
/// included.
#[tokio::test]
#[should_panic(expected = "a bulk delete of all employees leaves email_ada@contoso.com")]
async fn bulk_delete_deletes_copies() {
    let (server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let all = staff.table().query(Employee::partition("sales"));
    assert_eq!(BulkDelete::new(all).run().await.unwrap().deleted, 1);
    let snapshot = server.snapshot();
    let rows = snapshot.table("staff").unwrap();
    let left: Vec<_> = rows.entities().map(|row| row.row_key().to_owned()).collect();
    assert!(left.is_empty(), "a bulk delete of all employees leaves {}", left.join(", "));
}

/// Item 2: `Table::update` leaves the copy under the old value, and the index then finds another
/// person than the one who has the value.
#[tokio::test]
#[should_panic(expected = "the address of employee 8 finds employee 7")]
async fn an_update_of_the_table_moves_copies() {
    let (_server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    staff.insert(&employee(8, "grace@contoso.com")).await.unwrap();
    let address =
        |email: &'static str| move |employee: &mut Employee| employee.email = email.into();
    staff.table().update(key(7), address("ada@fabrikam.com")).await.unwrap();
    staff.table().update(key(8), address("ada@contoso.com")).await.unwrap();
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await.unwrap();
    let id = found.map_or(0, |employee| employee.id);
    assert!(id == 8, "the address of employee 8 finds employee {id}");
}
