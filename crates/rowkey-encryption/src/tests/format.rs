//! Tests of format 2 against its vectors, and of everything that is refused.
//!
//! These tests write the vectors, and another implementation reads them, in Python:
//! `tests/interop/python/test_encryption.py`. `ROWKEY_WRITE_VECTORS=1` writes them again.

use chrono::DateTime;
use rowkey_client::edm::{Guid, Value};
use rowkey_client::{DynamicEntity, ErrorKind, Result};
use rowkey_store::Op;
use serde_json::{Map, Value as Json, json};

use crate::branch::{BranchKey, Record};
use crate::cipher::Before;
use crate::format::*;
use crate::index::IndexKey;
use crate::key::{AesKeyWrap, MacKey};
use crate::ring::KeyRing;

const VECTORS: &str = include_str!("../../vectors/format-2.json");

/// A ring whose random bytes are 0, 1, 2 and so on.
fn ring(table: &'static str) -> KeyRing {
    let next = std::sync::atomic::AtomicU8::new(0);
    KeyRing::new(table, AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]))
        .with_random(move |bytes| {
            for byte in bytes {
                *byte = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        })
}

fn op(number: u8) -> Op {
    Op::new(DateTime::from_timestamp(1_795_000_000, 0).unwrap(), [number; 8])
}

fn patient() -> DynamicEntity {
    let mut patient = DynamicEntity::new("north", "000007");
    patient.set("Name", "Ada Lövelace");
    patient.set("Bed", 3);
    patient.set("Scan", vec![1_u8, 2, 3]);
    patient
}

/// A property of each type, twice: one is encrypted, the other signed.
fn typed() -> (DynamicEntity, Vec<&'static str>) {
    let mut row = DynamicEntity::new("types", "1");
    let time = rowkey_client::edm::DateTime::from_ticks(638_000_000_123_456_789).unwrap();
    let guid = Guid::from_bytes(*b"0123456789abcdef");
    for (sealed, open, value) in [
        ("SString", "PString", Value::from("x")),
        ("SBinary", "PBinary", Value::Binary(vec![0, 255])),
        ("SBoolean", "PBoolean", Value::Boolean(true)),
        ("SInt32", "PInt32", Value::Int32(-5)),
        ("SInt64", "PInt64", Value::Int64(1 << 40)),
        ("SDouble", "PDouble", Value::Double(0.5)),
        ("SDateTime", "PDateTime", Value::DateTime(time)),
        ("SGuid", "PGuid", Value::Guid(guid)),
    ] {
        row.set(sealed, value.clone());
        row.set(open, value);
    }
    let names =
        vec!["SString", "SBinary", "SBoolean", "SInt32", "SInt64", "SDouble", "SDateTime", "SGuid"];
    (row, names)
}

/// A branch key, its record, and a row that was encrypted under it.
async fn sealed(
    ring: &KeyRing,
    row: &DynamicEntity,
    names: &[&'static str],
) -> (BranchKey, Record, DynamicEntity) {
    let (record, branch) = ring.new_record(&op(1)).await.unwrap();
    let mut row = row.clone();
    ring.seal_with(&branch, &op(2), names, &Before::default(), &mut row).unwrap();
    (branch, record, row)
}

/// Decrypts a row as the store does, from its record.
async fn open(
    ring: &KeyRing,
    record: &DynamicEntity,
    row: &DynamicEntity,
) -> Result<DynamicEntity> {
    let mut row = row.clone();
    ring.open_offline(record, &mut row).await?;
    Ok(row)
}

fn text(value: &Value) -> Json {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Binary(bytes) => base64(bytes),
        Value::Boolean(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::DateTime(time) => time.ticks().to_string(),
        Value::Guid(guid) => guid.to_string(),
    };
    json!({ "type": value.edm_type().to_string(), "value": text })
}

fn printed(row: &DynamicEntity) -> Json {
    let mut properties = Map::new();
    for (name, value) in row.iter() {
        properties.insert(name.to_owned(), text(value));
    }
    json!({ "PartitionKey": row.partition_key, "RowKey": row.row_key, "properties": properties })
}

async fn vector(name: &str, ring: KeyRing, row: DynamicEntity, names: &[&'static str]) -> Json {
    let (_, record, stored) = sealed(&ring, &row, names).await;
    assert_eq!(open(&ring, &record.row(), &stored).await.unwrap(), row, "{name}");
    json!({
        "name": name,
        "table": &*ring.table,
        "record": printed(&record.row()),
        "stored": printed(&stored),
        "opened": printed(&row),
    })
}

#[tokio::test]
async fn encryption_matches_the_test_vectors() {
    let (types, names) = typed();
    let index = |ring: KeyRing| ring.index(IndexKey::new([99; 32]), ["Name"]);
    let plain = |ring: KeyRing| ring.sign_plaintext();
    let vectors = json!({
        "source": "written by crates/rowkey-encryption/src/format/tests.rs",
        "wrapping_keys": { "2026": "07".repeat(32) },
        "signing_keys": { "records": "09".repeat(32) },
        "vectors": [
            vector("strings and binaries", ring("patients"), patient(), &["Name", "Scan"]).await,
            vector("blind index", index(ring("patients")), patient(), &["Name", "Scan"]).await,
            vector("nothing sealed", ring("patients"), patient(), &[]).await,
            vector("every type, signed", plain(ring("types")), types, &names).await,
        ],
    });
    if std::env::var_os("ROWKEY_WRITE_VECTORS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/format-2.json");
        let printed = serde_json::to_string_pretty(&vectors).unwrap();
        std::fs::write(path, format!("{printed}\n")).unwrap();
    }
    // Compared as values, because the order of fields in printed objects depends on features of the printer.
    let stored: Json = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors, stored);
}

/// Every alteration of a stored value: a bit, another letter, a truncation, another type.
fn alterations(value: &Value) -> Vec<Value> {
    let mut altered = vec![Value::Int64(1)];
    match value {
        Value::Binary(bytes) => {
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                altered.push(Value::Binary(bytes));
            }
            altered.extend((0..bytes.len()).map(|cut| Value::Binary(bytes[..cut].to_vec())));
            altered.push(Value::Binary([bytes, &[0][..]].concat()));
        }
        Value::String(text) => {
            for at in 0..text.len() {
                for byte in [b'A', b'B', b' ', b',', b'1', b'-'] {
                    let mut bytes = text.as_bytes().to_vec();
                    if std::mem::replace(&mut bytes[at], byte) != byte {
                        altered.extend(String::from_utf8(bytes).ok().map(Value::String));
                    }
                }
                altered.extend(text.get(..at).map(Value::from));
            }
            altered.push(Value::String(format!("{text} ")));
        }
        Value::Int32(value) => altered.push(Value::Int32(value ^ 1)),
        other => panic!("{other:?}"),
    }
    altered
}

#[tokio::test]
async fn altering_any_byte_fails_with_the_same_error() {
    let ring = ring("patients").index(IndexKey::new([99; 32]), ["Name"]).sign_plaintext();
    let (_, record, row) = sealed(&ring, &patient(), &["Name", "Scan"]).await;
    let record = record.row();
    let expected = refused().to_string();
    let mut tried = 0;
    for (which, is_row) in [(&row, true), (&record, false)] {
        let names: Vec<_> = which.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let value = which.get(&name).unwrap().clone();
            for value in alterations(&value).into_iter().map(Some).chain([None]) {
                let mut altered = which.clone();
                match value {
                    Some(value) => drop(altered.set(&name, value)),
                    None => drop(altered.remove(&name)),
                }
                let (record, row) = if is_row { (&record, &altered) } else { (&altered, &row) };
                let error = open(&ring, record, row).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Decode);
                assert_eq!(error.to_string(), expected, "{name}");
                tried += 1;
            }
        }
    }
    assert!(tried > 2000, "{tried}");
}

#[tokio::test]
async fn a_row_decrypts_only_at_its_own_key() {
    let ring = ring("patients");
    let (_, record, row) = sealed(&ring, &patient(), &["Name", "Scan"]).await;
    let record = record.row();
    for (partition_key, row_key) in
        [("north", "000008"), ("south", "000007"), ("north0", "00007"), ("nort", "h000007")]
    {
        let mut moved = row.clone();
        (moved.partition_key, moved.row_key) = (partition_key.into(), row_key.into());
        open(&ring, &record, &moved).await.unwrap_err();
    }
    let mut swapped = row.clone();
    let name = swapped.get("Name").unwrap().clone();
    let scan = swapped.set("Scan", name).unwrap();
    swapped.set("Name", scan);
    open(&ring, &record, &swapped).await.unwrap_err();
    // A ring of another table with the same keys.
    open(&self::ring("others"), &record, &row).await.unwrap_err();
    // A record of another name.
    let mut renamed = record.clone();
    renamed.row_key = renamed.row_key.replace("0101", "0102");
    open(&ring, &renamed, &row).await.unwrap_err();
    assert_eq!(open(&self::ring("patients"), &record, &row).await.unwrap(), patient());
}

#[tokio::test]
async fn two_encryptions_by_one_operation_cannot_be_mixed() {
    let ring = ring("patients");
    let (branch, record, row) = sealed(&ring, &patient(), &["Name", "Scan"]).await;
    let mut again = patient();
    again.set("Name", "Eve");
    ring.seal_with(&branch, &op(2), &["Name", "Scan"], &Before::default(), &mut again).unwrap();
    let mut mixed = row.clone();
    mixed.set("Name", again.get("Name").unwrap().clone());
    open(&ring, &record.row(), &mixed).await.unwrap_err();
}

#[tokio::test]
async fn a_record_signed_by_an_unknown_key_is_rejected() {
    let ring = ring("patients");
    let (_, record, row) = sealed(&ring, &patient(), &["Name"]).await;
    // An attacker who can wrap (as anyone with the public key can) and who has a signing key.
    let wraps = || AesKeyWrap::new("2026", [7; 32]);
    for signer in [MacKey::new("records", [8; 32]), MacKey::new("other", [9; 32])] {
        let attacker = KeyRing::new("patients", wraps(), signer);
        let (forged, branch) = attacker.new_record(&op(1)).await.unwrap();
        let mut row = patient();
        attacker.seal_with(&branch, &op(2), &["Name"], &Before::default(), &mut row).unwrap();
        let error = open(&ring, &forged.row(), &row).await.unwrap_err();
        assert_eq!(error.to_string(), refused().to_string());
        // The wrapped key of a genuine record does not work either.
        let grafted = Record { wrapped: forged.wrapped, ..record.clone() };
        open(&ring, &grafted.row(), &row).await.unwrap_err();
    }
    // After the signing key was rotated, records signed by the older one can still be opened.
    let newer = KeyRing::new("patients", wraps(), MacKey::new("records-2", [3; 32]));
    open(&newer, &record.row(), &row).await.unwrap_err();
    let newer = newer.with_signer(MacKey::new("records", [9; 32]));
    open(&newer, &record.row(), &row).await.unwrap();
}

#[tokio::test]
async fn the_signature_covers_property_types() {
    let (types, names) = typed();
    let ring = ring("types").sign_plaintext();
    let (_, record, row) = sealed(&ring, &types, &names).await;
    let record = record.row();
    let mut same = row.clone();
    same.set("PDouble", 0.5);
    // Properties that a store adds to its rows are not signed.
    same.set("EntityOp", "x");
    same.set("PrimaryRowKey", "y");
    open(&ring, &record, &same).await.unwrap();
    for (name, value) in [
        ("PInt32", Value::Int64(-5)),
        ("PInt64", Value::Int64(5)),
        ("PString", Value::Binary(b"x".to_vec())),
        ("PBoolean", Value::Boolean(false)),
        ("PDouble", Value::Double(0.25)),
        ("Added", Value::Int32(1)),
    ] {
        let mut altered = row.clone();
        altered.set(name, value);
        open(&ring, &record, &altered).await.unwrap_err();
    }
    let mut gone = row.clone();
    gone.remove("PGuid");
    open(&ring, &record, &gone).await.unwrap_err();
}

#[tokio::test]
async fn an_oversized_value_is_rejected_before_sending() {
    let ring = ring("patients");
    let (branch, ..) = sealed(&ring, &patient(), &["Name"]).await;
    for (bytes, fits) in [(65_506, true), (65_507, false)] {
        let mut row = patient();
        row.set("Scan", vec![0_u8; bytes]);
        let result = ring.seal_with(&branch, &op(2), &["Scan"], &Before::default(), &mut row);
        assert_eq!(result.err().map(|error| error.kind()), (!fits).then_some(ErrorKind::TooLarge));
    }
}

#[test]
fn debug_output_contains_no_keys() {
    let ring = ring("patients").index(IndexKey::new([99; 32]), ["Name"]);
    let shown = format!("{ring:?}");
    assert!(shown.contains("2026") && !shown.contains("99"), "{shown}");
}
