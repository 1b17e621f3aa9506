//! Tests that format 1 is read as it was written, only on request, and that no part of it can be altered.
//!
//! The stored bytes come from Python's `cryptography` 48 (`AESGCM`, `aes_key_wrap`) and `hmac`, with the same
//! keys, nonces and associated data.

use rowkey::{DynamicEntity, ErrorKind, Result, StorageAccount, Table};
use rowkey_store::Sealer as _;

use super::*;
use crate::{AesKeyWrap, KeyRing, MacKey};

const NAME: &str =
    "0101202122232425262728292a2b935ec750205bac787f1023ada4975773e7a86c1954b75c8386989e6615";
const SCAN: &str = "01022c2d2e2f303132333435363753ff265535c9f4dd754591ae87dadbfa6c817a";
const NAME_INDEX: &str = "0rbbirStz_ucuJ_sUULUo_cpb9jhq0yUl7e9udYMLMM";
const WITHOUT_INDEX: &str = "1 2026 A256KW KZITNqky5qtGe1o88BhEeuLRiPKWLV7HYxqtUnooUzSyYxbHWutpew \
                             ODk6Ozw9Pj9AQUJDvzlRjGX9-eauvUGtQD69xQ Name,Scan";
const WITH_INDEX: &str = "1 2026 A256KW KZITNqky5qtGe1o88BhEeuLRiPKWLV7HYxqtUnooUzSyYxbHWutpew \
                          ODk6Ozw9Pj9AQUJDOxBpODI7FbM9xu9VMT5cRg Name,Scan";

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn stored(metadata: &str) -> DynamicEntity {
    let mut row = DynamicEntity::new("north", "000007");
    row.set("Name", bytes(NAME));
    row.set("Scan", bytes(SCAN));
    row.set(METADATA, metadata);
    row
}

fn ring() -> KeyRing {
    KeyRing::new("any", AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]))
}

/// A table that receives no request.
fn table(name: &str) -> Table {
    StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap().table(name)
}

async fn open(ring: KeyRing, table: &Table, mut row: DynamicEntity) -> Result<DynamicEntity> {
    ring.open(table, &["Name", "Scan"], &mut row).await?;
    Ok(row)
}

#[tokio::test]
async fn format_1_is_read_only_if_enabled() {
    let table = table("Patients");
    let error = open(ring(), &table, stored(WITHOUT_INDEX)).await.unwrap_err();
    assert!(error.to_string().contains("accept_format_1"), "{error}");
    let mut expected = DynamicEntity::new("north", "000007");
    expected.set("Name", "Ada Lövelace");
    expected.set("Scan", vec![1_u8, 2, 3]);
    let read = open(ring().accept_format_1(), &table, stored(WITHOUT_INDEX)).await.unwrap();
    assert_eq!(read, expected);
    let mut indexed = stored(WITH_INDEX);
    indexed.set("Name_BlindIndex", NAME_INDEX);
    let table = self::table("patients");
    assert_eq!(open(ring().accept_format_1(), &table, indexed).await.unwrap(), expected);
}

#[tokio::test]
async fn alterations_of_format_1_are_detected() {
    let (table, text) = (table("Patients"), crate::format::refused().to_string());
    let mut rows = Vec::new();
    for (name, hex) in [("Name", NAME), ("Scan", SCAN)] {
        for bit in 0..hex.len() * 4 {
            let mut altered = bytes(hex);
            altered[bit / 8] ^= 1 << (bit % 8);
            let mut row = stored(WITHOUT_INDEX);
            row.set(name, altered);
            rows.push(row);
        }
    }
    // The name and the algorithm of the key are checked against the ring.
    for at in WITHOUT_INDEX.find("KZ").unwrap()..WITHOUT_INDEX.len() {
        let mut text = WITHOUT_INDEX.to_owned();
        text.replace_range(at..=at, if &text[at..=at] == "A" { "B" } else { "A" });
        rows.push(stored(&text));
    }
    rows.push(stored(&WITHOUT_INDEX.replace("A256KW", "RSA1_5")));
    let mut moved = stored(WITHOUT_INDEX);
    moved.row_key = "000008".into();
    rows.push(moved);
    for row in rows {
        let error = open(ring().accept_format_1(), &table, row).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains(&text), "{error}");
    }
    let elsewhere = self::table("Others");
    open(ring().accept_format_1(), &elsewhere, stored(WITHOUT_INDEX)).await.unwrap_err();
}
