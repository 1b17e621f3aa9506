//! Item 3: helpers that ignore what a type declares.

use rowkey::Entity;
use rowkey::edm::Value;
use rowkey_eventual::unique::{Claimed, Unique};
use rowkey_patterns::wide::{Wide, WideEntity};

use crate::{Employee, copies_in, employee, key, settle, source, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    diagnosis: String,
}

/// Item 3: `WideEntity::add` takes a property that is to be encrypted, and `Wide` sends it in plain
/// text.
#[tokio::test]
#[should_panic(expected = "a property that is to be encrypted is stored in plain text")]
async fn a_wide_entity_stores_nothing_in_plain_text() {
    let (server, account) = start().await;
    let table = account.table("patients");
    table.create().await.unwrap();
    let mut wide = WideEntity::new("north", "patient_000007");
    let patient = Patient { ward: "north".into(), number: 7, diagnosis: "measles".into() };
    // Refusing the part is correct, too.
    if wide.add(&patient).is_err() || Wide::new(table).insert(&wide).await.is_err() {
        return;
    }
    let snapshot = server.snapshot();
    let mut rows = snapshot.table("patients").unwrap().entities();
    let is_plain = rows.any(|row| row.get("Diagnosis") == Some(Value::from("measles")));
    assert!(!is_plain, "a property that is to be encrypted is stored in plain text");
}

/// Item 3: `Unique` writes entities of a `Source` without intents, so that no index follows.
#[tokio::test]
#[should_panic(expected = "copies of an employee with a unique address: 0 in Leeds, 0 in York")]
async fn a_unique_value_keeps_the_indexes() {
    let (server, account) = start().await;
    let source = source(&account);
    account.table("reservations").create().await.unwrap();
    let unique = Unique::new(
        source.table().clone(),
        account.table("reservations"),
        "email",
        |e: &Employee| Some(e.email.clone()),
    );
    let inserted = unique.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    assert!(matches!(inserted, Claimed::Written(_)));
    settle(&source).await;
    let leeds = copies_in(&server, "Leeds");
    let moved = unique.update(key(7), |employee| employee.city = "York".into()).await.unwrap();
    assert!(matches!(moved, Claimed::Written(_)));
    settle(&source).await;
    let york = copies_in(&server, "York");
    assert!(
        (leeds, york) == (1, 1),
        "copies of an employee with a unique address: {leeds} in Leeds, {york} in York"
    );
}
