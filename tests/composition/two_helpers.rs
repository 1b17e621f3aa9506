//! Item 1: a second `alongside` replaces the first.

use rowkey::DynamicEntity;
use rowkey_patterns::local_index::LocalIndex;

use crate::{Employee, employee, staff, start};

/// The same employees; each change writes a row of this name beside.
fn noting(staff: &LocalIndex<Employee>, name: &'static str) -> LocalIndex<Employee> {
    staff.clone().alongside(
        move |before, after| {
            let Some(employee) = after.or(before) else { return Ok(None) };
            let row_key = format!("{name}_{:06}", employee.id);
            Ok(Some(DynamicEntity::new(&*employee.department, row_key)))
        },
        |_| async {},
    )
}

/// Item 1: `alongside` silently drops the row of an earlier `alongside`.
#[tokio::test]
#[should_panic(expected = "rows of two helpers that are not written: audit_000007")]
async fn a_change_writes_the_rows_of_both_helpers() {
    let (server, account) = start().await;
    let staff = noting(&noting(&staff(&account), "audit"), "task");
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let snapshot = server.snapshot();
    let rows = snapshot.table("staff").unwrap();
    let mut missing = vec!["audit_000007", "task_000007"];
    missing.retain(|row| rows.entity("sales", row).is_none());
    assert!(missing.is_empty(), "rows of two helpers that are not written: {}", missing.join(", "));
}
