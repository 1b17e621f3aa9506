//! The format to the byte, against bytes that another library made, and everything that is refused.
//!
//! The expected bytes are those of Python's `cryptography` 48 (`AESGCM`, `aes_key_wrap`) and `hmac`, given
//! the same keys, nonces and associated data.

use rowkey::edm::Value;
use rowkey::{DynamicEntity, ErrorKind};
use rowkey_store::{Op, Sealer as _};

use super::*;
use crate::{AesKeyWrap, IndexKey, KeyRing};

const NAME: &str =
    "0101202122232425262728292a2b935ec750205bac787f1023ada4975773e7a86c1954b75c8386989e6615";
const SCAN: &str = "01022c2d2e2f303132333435363753ff265535c9f4dd754591ae87dadbfa6c817a";
const NAME_INDEX: &str = "0rbbirStz_ucuJ_sUULUo_cpb9jhq0yUl7e9udYMLMM";
const WITHOUT_INDEX: &str = "1 2026 A256KW KZITNqky5qtGe1o88BhEeuLRiPKWLV7HYxqtUnooUzSyYxbHWutpew \
                             ODk6Ozw9Pj9AQUJDvzlRjGX9-eauvUGtQD69xQ Name,Scan";
const WITH_INDEX: &str = "1 2026 A256KW KZITNqky5qtGe1o88BhEeuLRiPKWLV7HYxqtUnooUzSyYxbHWutpew \
                          ODk6Ozw9Pj9AQUJDOxBpODI7FbM9xu9VMT5cRg Name,Scan";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn ring() -> KeyRing {
    KeyRing::new(AesKeyWrap::new("2026", [7; 32]))
}

/// Rows of a table with two encrypted properties.
struct Rows {
    ring: KeyRing,
    table: &'static str,
}

impl Rows {
    /// As one write does.
    async fn encrypt(&self, row: &DynamicEntity) -> Result<DynamicEntity> {
        static WRITES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let write = WRITES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let op = Op::new(chrono::DateTime::UNIX_EPOCH, write.to_be_bytes());
        let mut row = row.clone();
        self.ring.seal(&op, self.table, &["Name", "Scan"], &mut row).await?;
        Ok(row)
    }

    fn ring(self, change: impl FnOnce(KeyRing) -> KeyRing) -> Self {
        Self { ring: change(self.ring), ..self }
    }
}

/// Its random bytes are 0, 1, 2 and so on.
fn patients(table: &'static str) -> Rows {
    let next = std::sync::atomic::AtomicU8::new(0);
    let ring = ring().with_random(move |bytes| {
        for byte in bytes {
            *byte = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    Rows { ring, table }
}

fn indexed(ring: KeyRing) -> KeyRing {
    ring.index(IndexKey::new([9; 32]), ["Name"])
}

fn patient() -> DynamicEntity {
    let mut patient = DynamicEntity::new("north", "000007");
    patient.set("Name", "Ada Lövelace");
    patient.set("Bed", 3);
    patient.set("Scan", vec![1_u8, 2, 3]);
    patient
}

async fn decrypt(patients: &Rows, mut row: DynamicEntity) -> Result<DynamicEntity> {
    patients.ring.open(patients.table, &["Name", "Scan"], &mut row).await?;
    Ok(row)
}

async fn refused(patients: &Rows, row: DynamicEntity) -> String {
    let error = decrypt(patients, row).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("Lövelace") && !text.contains("north"), "{text}");
    text
}

#[tokio::test]
async fn the_bytes_are_those_of_another_implementation() {
    let stored = patients("Patients").encrypt(&patient()).await.unwrap();
    let binary = |name: &str| match stored.get(name) {
        Some(Value::Binary(bytes)) => hex(bytes),
        other => panic!("{other:?}"),
    };
    assert_eq!(binary("Name"), NAME);
    assert_eq!(binary("Scan"), SCAN);
    assert_eq!(stored.get("Bed"), Some(&3.into()));
    assert_eq!(stored.get("_RowkeyEncryption"), Some(&WITHOUT_INDEX.into()));
    assert_eq!(stored.iter().len(), 4);
    assert_eq!(decrypt(&patients("patients"), stored).await.unwrap(), patient());
}

#[tokio::test]
async fn so_are_a_blind_index_and_the_seal_over_it() {
    let patients = patients("Patients").ring(indexed);
    let stored = patients.encrypt(&patient()).await.unwrap();
    assert_eq!(stored.get("Name_BlindIndex"), Some(&NAME_INDEX.into()));
    assert_eq!(stored.get("_RowkeyEncryption"), Some(&WITH_INDEX.into()));
    let without_the_index_key = self::patients("patients");
    assert_eq!(decrypt(&without_the_index_key, stored).await.unwrap(), patient());
}

#[tokio::test]
async fn any_bit_that_is_altered_and_any_byte_that_is_gone_is_refused() {
    let patients = patients("Patients");
    let stored = patients.encrypt(&patient()).await.unwrap();
    for name in ["Name", "Scan"] {
        let Some(Value::Binary(bytes)) = stored.get(name) else { panic!("it is encrypted") };
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let mut row = stored.clone();
            row.set(name, altered);
            refused(&patients, row).await;
        }
        for length in 0..bytes.len() {
            let mut row = stored.clone();
            row.set(name, bytes[..length].to_vec());
            refused(&patients, row).await;
        }
        let mut row = stored.clone();
        row.set(name, [bytes, &[0_u8][..]].concat());
        refused(&patients, row).await;
    }
}

#[tokio::test]
async fn altered_metadata_is_refused_whatever_is_altered() {
    let patients = patients("Patients").ring(indexed);
    let stored = patients.encrypt(&patient()).await.unwrap();
    for at in 0..WITH_INDEX.len() {
        for byte in [b'A', b'B', b' ', b',', b'1'] {
            let mut text = WITH_INDEX.as_bytes().to_vec();
            if std::mem::replace(&mut text[at], byte) == byte {
                continue;
            }
            let text = String::from_utf8(text).unwrap();
            // The last two bits of a base64 text mean nothing, and another text of the same bytes
            // is refused as well.
            let mut row = stored.clone();
            row.set("_RowkeyEncryption", text);
            refused(&patients, row).await;
        }
        let mut row = stored.clone();
        row.set("_RowkeyEncryption", &WITH_INDEX[..at]);
        refused(&patients, row).await;
    }
    let mut row = stored.clone();
    row.set("_RowkeyEncryption", 1);
    assert!(refused(&patients, row).await.contains("is no String"));
    let mut row = stored.clone();
    row.set("_RowkeyEncryption", WITH_INDEX.replacen('1', "2", 1));
    assert!(refused(&patients, row).await.contains("in the format 2"));
    let mut row = stored.clone();
    row.remove("_RowkeyEncryption");
    assert!(refused(&patients, row).await.contains("the entity is not encrypted"));
}

#[tokio::test]
async fn a_ciphertext_is_readable_in_its_own_place_alone() {
    let (patients, others) = (patients("Patients"), patients("Others"));
    let stored = patients.encrypt(&patient()).await.unwrap();

    let mut other_row = stored.clone();
    other_row.row_key = "000008".into();
    refused(&patients, other_row).await;
    let mut other_partition = stored.clone();
    other_partition.partition_key = "south".into();
    refused(&patients, other_partition).await;
    // The parts are told apart: the same text cut elsewhere is another place.
    let mut shifted = stored.clone();
    (shifted.partition_key, shifted.row_key) = ("north0".into(), "00007".into());
    refused(&patients, shifted).await;
    assert!(refused(&others, stored.clone()).await.contains("moved here from another"));

    let mut swapped = stored.clone();
    let name = swapped.get("Name").unwrap().clone();
    let scan = swapped.set("Scan", name).unwrap();
    swapped.set("Name", scan);
    assert!(refused(&patients, swapped).await.contains("property `Name` is not what was"));

    // A property of an older write of the same entity is under another data key.
    let again = patients.encrypt(&patient()).await.unwrap();
    let mut mixed = again.clone();
    mixed.set("Name", stored.get("Name").unwrap().clone());
    refused(&patients, mixed).await;
    assert_eq!(decrypt(&patients, again).await.unwrap(), patient());
}

#[tokio::test]
async fn what_is_missing_added_or_plain_is_refused() {
    let patients = patients("Patients").ring(indexed);
    let stored = patients.encrypt(&patient()).await.unwrap();
    let mut gone = stored.clone();
    gone.remove("Scan");
    assert!(refused(&patients, gone).await.contains("`Scan` was encrypted and is gone"));
    let mut plain = stored.clone();
    plain.set("Name", "Eve");
    assert!(refused(&patients, plain).await.contains("`Name` was encrypted and is no Binary"));
    for index in [None, Some(Value::from("x")), Some(Value::from(1))] {
        let mut row = stored.clone();
        row.remove("Name_BlindIndex");
        if let Some(index) = index {
            row.set("Name_BlindIndex", index);
        }
        assert!(refused(&patients, row).await.contains("blind indexes are others"));
    }

    let without_scan = DynamicEntity::new("north", "000007");
    let mut added = patients.encrypt(&without_scan).await.unwrap();
    added.set("Scan", vec![1_u8]);
    assert!(refused(&patients, added.clone()).await.contains("`Scan` is not encrypted"));
    let accepting = patients.ring(KeyRing::accept_plaintext);
    let read = decrypt(&accepting, added).await.unwrap();
    assert_eq!(read.get("Scan"), Some(&vec![1_u8].into()));
    assert_eq!(decrypt(&accepting, patient()).await.unwrap(), patient());
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_a_missing_one_named() {
    let stored = patients("Patients").encrypt(&patient()).await.unwrap();
    let with = |ring| Rows { ring, table: "Patients" };
    let wrong = with(KeyRing::new(AesKeyWrap::new("2026", [8; 32])));
    assert!(refused(&wrong, stored.clone()).await.contains("`2026` does not unwrap"));
    let missing = with(KeyRing::new(AesKeyWrap::new("2027", [7; 32])));
    assert!(refused(&missing, stored.clone()).await.contains("`2026`, which the ring lacks"));
    // The name of the key is bound: the same key under another name does not do.
    let mut renamed = stored.clone();
    renamed.set("_RowkeyEncryption", WITHOUT_INDEX.replace("2026", "2027"));
    refused(&missing, renamed).await;
    let rotated =
        with(KeyRing::new(AesKeyWrap::new("2027", [1; 32])).with(AesKeyWrap::new("2026", [7; 32])));
    assert_eq!(decrypt(&rotated, stored).await.unwrap(), patient());
}

#[tokio::test]
async fn what_cannot_be_encrypted_is_refused_before_it_is_sent() {
    let error = async |change: fn(&mut DynamicEntity)| {
        let mut patient = patient();
        change(&mut patient);
        let error = patients("Patients").encrypt(&patient).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = error(|patient| drop(patient.set("Name", 5_i64))).await;
    assert!(kind == ErrorKind::Invalid && text.contains("`Name` is Edm.Int64"), "{text}");
    let (kind, text) = error(|patient| drop(patient.set("Scan", vec![0_u8; 65_507]))).await;
    assert!(kind == ErrorKind::TooLarge && text.contains("65506 can be encrypted"), "{text}");
    for name in ["_RowkeyEncryption", "Name_BlindIndex", "_ClientEncryptionMetadata1"] {
        let mut patient = patient();
        patient.set(name, "x");
        let error = patients("Patients").encrypt(&patient).await.unwrap_err();
        assert!(error.to_string().contains(name) && error.kind() == ErrorKind::Invalid, "{error}");
    }
    let op = Op::new(chrono::DateTime::UNIX_EPOCH, [0; 8]);
    let error = ring().seal(&op, "t", &["Full\u{3000}name"], &mut patient()).await.unwrap_err();
    assert!(error.to_string().contains("white space"), "{error}");
    let mut largest = patient();
    largest.set("Scan", vec![0_u8; 65_506]);
    patients("Patients").encrypt(&largest).await.unwrap();
}

#[test]
fn nothing_that_is_shown_has_a_key() {
    let shown = format!("{:?}", ring().index(IndexKey::new([99; 32]), ["Name"]));
    assert!(shown.contains("2026") && !shown.contains("99"), "{shown}");
}
