//! Item 3: helpers that ignore what a type declares.

use rowkey::Entity;
use rowkey::edm::Value;
use rowkey_patterns::wide::{Wide, WideEntity};

use crate::start;

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
