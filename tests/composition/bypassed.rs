//! Item 2: writers that bypass the indexes of a type, without an error or a warning.

use crate::{Employee, employee, key, staff, start};

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
