//! Patients whose names and findings are hidden from readers of the table: encrypted fields beside an index,
//! a lookup by an encrypted name, and a key rotation for all stored data.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, IndexKey, KeyRing, MacKey};
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, StorageAccount};
use rowkey_emulator::Server;

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    /// Any serde type, as JSON in an encrypted String.
    #[entity(json, encrypt)]
    findings: Vec<String>,
    bed: u32,
}

fn patient(number: u32, name: &str, finding: &str) -> Patient {
    let (name, findings) = (name.to_owned(), vec![finding.to_owned()]);
    Patient { ward: "north".into(), number, name, findings, bed: number }
}

/// A key-encryption key. In production its bytes come from a secret store, or it is a `KeyVault` and never
/// leaves the vault.
fn key_of(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("patients-20{year}"), [year; 32])
}

/// The key that signs the records of branch keys. In production it is a `KeyVaultSigner`, or its bytes come
/// from a secret store.
fn signer() -> MacKey {
    MacKey::new("patients-records", [42; 32])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    // Clocks that the example advances.
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let table = account.table("patients");
    let under = |ring: KeyRing| Store::<Patient>::builder(table.clone()).keys(ring).build();

    // ANCHOR: fields
    let ring = KeyRing::new("patients", key_of(26), signer());
    let ring = ring.index(IndexKey::new([99; 32]), ["Name"]);
    let patients = under(ring.clone())?;
    patients.create_if_missing().await?;
    patients.insert(&patient(1, "Ada", "fever")).await?;
    patients.insert(&patient(2, "Bob", "cough")).await?;

    // The table holds ciphertext where the fields are marked.
    let row = Key::<DynamicEntity>::new("north", "patient_000001");
    let stored = table.get(row.clone()).await?.ok_or("not there")?.entity;
    assert!(matches!(stored.get("Name"), Some(Value::Binary(_))));

    // Through the store everything is as it was, also by an index, and equal names are found.
    patients.update(Patient::key("north", 1), |ada| ada.findings.push("measles".into())).await?;
    let ada = patients.find(Patient::by_bed("north", 1_u32)).await?.ok_or("not there")?;
    assert_eq!(ada.entity.findings, ["fever", "measles"]);
    let adas = ring.equals("Name", "Ada")?;
    let found = patients.query(Patient::partition("north")).filter(adas).all().await?;
    assert_eq!(found[0].entity, ada.entity);
    println!("found {} by an encrypted name", found.len());
    // ANCHOR_END: fields

    // ANCHOR: moved
    // A value that is moved to another row is not read there.
    let bobs = Key::<DynamicEntity>::new("north", "patient_000002");
    let bobs = table.get(bobs).await?.ok_or("not there")?.entity;
    let whole = table.get(row).await?.ok_or("not there")?;
    let mut forged = whole.entity.clone();
    forged.set("Findings", bobs.get("Findings").ok_or("no findings")?.clone());
    table.replace((&forged, Match::Any)).await?;
    let error = patients.get(Patient::key("north", 1)).await.err().ok_or("read what was forged")?;
    assert_eq!(error.kind(), ErrorKind::Decode);
    println!("{error}");
    table.replace((&whole.entity, Match::Any)).await?;
    // ANCHOR_END: moved

    // ANCHOR: rotation
    // A new year, a new key. The job makes a branch key under it, which all programs write with within a
    // minute, and writes again what is left under the old one.
    let ring = KeyRing::new("patients", key_of(27), signer()).with(key_of(26));
    let patients = under(ring.index(IndexKey::new([99; 32]), ["Name"]))?;
    let report = patients.reencrypt().progress(|progress| {
        // To be stored: a job that is resumed from it does not begin again.
        let _line = progress.checkpoint.to_string();
    });
    let report = report.run().await?;
    assert!(report.is_clean(), "what is named here needs a look before the old key goes");
    println!("{} patients are under the key of 2027", report.total.repaired);

    // The proof that nothing needs the old key any more waits for writers that began before.
    let early = patients.verify_keys().run().await.err().ok_or("12 minutes have not passed")?;
    assert_eq!(early.error.kind(), ErrorKind::Conflict);
    server.clock().advance(Duration::from_secs(13 * 60));
    clock.advance(Duration::from_secs(13 * 60));
    let report = patients.verify_keys().run().await?;
    assert!(report.is_clean(), "no patient is under another key");

    // Without the new key nothing is read.
    let patients = under(KeyRing::new("patients", key_of(27), signer()))?;
    assert_eq!(patients.query(Patient::partition("north")).all().await?.len(), 2);
    let former = under(KeyRing::new("patients", key_of(26), signer()))?;
    let error = former.get(Patient::key("north", 1)).await.err().ok_or("read with the old key")?;
    println!("{error}");
    // ANCHOR_END: rotation
    Ok(())
}
