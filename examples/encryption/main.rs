//! Patients whose names and findings nobody reads in the table: encrypted fields, a lookup by an
//! encrypted name, and a new key for everything that is stored.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, ErrorKind, Match, StorageAccount};
use rowkey_encryption::{AesKeyWrap, Encrypted, IndexKey, KeyRing};
use rowkey_server::Server;

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{ward}", row = "{number:6}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    /// Anything that serde knows, as JSON in an encrypted String.
    #[entity(json, encrypt)]
    findings: Vec<String>,
    bed: i32,
}

fn patient(number: u32, name: &str, finding: &str) -> Patient {
    let (name, findings) = (name.to_owned(), vec![finding.to_owned()]);
    Patient { ward: "north".into(), number, name, findings, bed: 3 }
}

/// A key-encryption key. In production its bytes come from where secrets are kept, or it is a
/// `KeyVault`, and stays there.
fn key_of(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("patients-20{year}"), [year; 32])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("patients");
    table.create().await?;
    let index_key = IndexKey::new([99; 32]);
    let under =
        |ring| Encrypted::<Patient>::new(table.clone(), ring).index(index_key.clone(), ["Name"]);

    // ANCHOR: fields
    let patients = under(KeyRing::new(key_of(26)));
    patients.insert(&patient(1, "Ada", "fever")).await?;
    patients.insert(&patient(2, "Bob", "cough")).await?;

    // The table holds ciphertext where the fields are marked, and refuses them in plain.
    let row = rowkey::Key::<DynamicEntity>::new("north", "000001");
    let stored = table.get(row.clone()).await?.ok_or("not there")?.entity;
    assert!(matches!(stored.get("Name"), Some(Value::Binary(_))));
    assert_eq!(stored.get("Bed"), Some(&3.into()));
    let refused = table.insert(&patient(3, "Eve", "none")).await.err().ok_or("stored in plain")?;
    assert_eq!(refused.kind(), ErrorKind::Invalid);

    // Through the cipher everything is as it was, and equal names are found.
    let ada = patients.get(Patient::key("north", 1)).await?.ok_or("not there")?;
    assert_eq!(ada.entity, patient(1, "Ada", "fever"));
    patients.replace(&ada.map(|ada| ada.findings.push("measles".into()))).await?;
    let north = Patient::partition("north");
    let found = patients.query(north).filter(patients.equals("Name", "Ada")?).all().await?;
    assert_eq!(found[0].entity.findings, ["fever", "measles"]);
    println!("found {} by an encrypted name", found.len());
    // ANCHOR_END: fields

    // ANCHOR: moved
    // A value that is moved to another row is nobody's value any more.
    let bobs = rowkey::Key::<DynamicEntity>::new("north", "000002");
    let bobs = table.get(bobs).await?.ok_or("not there")?.entity;
    let mut forged = stored.clone();
    forged.set("Findings", bobs.get("Findings").ok_or("no findings")?.clone());
    let whole = table.get(row).await?.ok_or("not there")?;
    table.replace((&forged, Match::Any)).await?;
    let error = patients.get(Patient::key("north", 1)).await.err().ok_or("read what was forged")?;
    assert_eq!(error.kind(), ErrorKind::Decode);
    println!("{error}");
    table.replace((&whole.entity, Match::Any)).await?;
    // ANCHOR_END: moved

    // ANCHOR: rotation
    // A new year, a new key: it wraps from now on, and the old one unwraps what is left of it.
    let patients = under(KeyRing::new(key_of(27)).with(key_of(26)));
    let mut job = patients.reencryption().page_size(1);
    let first = job.step().await?.ok_or("nothing to do")?;
    assert_eq!((first.rewritten, first.refused.len()), (1, 0));

    // The program ends here. What is stored of the job is a line of text.
    let checkpoint = first.continuation.ok_or("no more pages")?.to_string();
    drop(job);
    let rest = patients.reencryption().page_size(1).resume(checkpoint.parse()?).run().await?;
    assert_eq!((rest.rewritten, rest.refused.len()), (1, 0));
    println!("{} patients are under the key of 2027", first.rewritten + rest.rewritten);

    // Nothing needs the old key now, and without the new one nothing is read.
    let patients = under(KeyRing::new(key_of(27)));
    assert_eq!(patients.scan().all().await?.len(), 2);
    let former = under(KeyRing::new(key_of(26)));
    let error = former.get(Patient::key("north", 1)).await.err().ok_or("read with the old key")?;
    println!("{error}");
    // ANCHOR_END: rotation
    Ok(())
}
