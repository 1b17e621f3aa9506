//! Item 4: with `read_from_secondary`, one 503 of the primary lets a pattern decide by old data.
//!
//! The secondary is held back before the change that matters. The read that decides is refused once
//! by the primary, and is answered by the secondary then.

use rowkey::{Entity, ErrorCode, Table};
use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
use rowkey_server::{Fault, Operation};

use crate::{reading_secondary, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
}

fn patient(number: u32) -> Patient {
    Patient { ward: "north".into(), number, name: format!("Patient {number}") }
}

fn wrap(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("20{year}"), [year; 32])
}

fn patients(table: Table, ring: KeyRing) -> Encrypted<Patient> {
    Encrypted::new(table, ring)
}

/// Item 4: re-encryption reads a page at the secondary, misses a row, and reports that nothing was
/// refused: the row is lost with the old key.
#[tokio::test]
#[should_panic(expected = "re-encryption refuses 0 rows, and 1 of 2 is under the old key")]
async fn re_encryption_reads_the_primary() {
    let (server, account) = start().await;
    let table = account.table("patients");
    table.create().await.unwrap();
    let before = patients(table.clone(), KeyRing::new(wrap(26)));
    before.insert(&patient(1)).await.unwrap();
    let behind = server.hold_back_secondary();
    before.insert(&patient(2)).await.unwrap();
    let busy =
        server.inject(Fault::on(Operation::QueryEntities).nth(1).reject(ErrorCode::SERVER_BUSY));
    let lagging = reading_secondary(&account).table("patients");
    let ring = KeyRing::new(wrap(27)).with(wrap(26));
    let refused = patients(lagging, ring).reencryption().run().await.unwrap().refused.len();
    assert_eq!(busy.hits(), 1);
    drop(behind);

    let after = patients(table, KeyRing::new(wrap(27)));
    let mut lost = 0;
    for number in 1..=2 {
        lost += usize::from(after.get(Patient::key("north", number)).await.is_err());
    }
    assert!(
        lost == refused,
        "re-encryption refuses {refused} rows, and {lost} of 2 is under the old key"
    );
}
