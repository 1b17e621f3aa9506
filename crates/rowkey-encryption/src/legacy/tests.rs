//! Tests of every recorded entity that the retired SDKs encrypted, and of refusing altered ones.

use rowkey_store::Sealer as _;
use serde_json::Value as Json;

use super::*;
use crate::key::{AesKeyWrap, MacKey};

/// Entities of .NET, Java and Python; each names its source.
const VECTORS: &str = include_str!("../../vectors/legacy-v1.json");

struct Vector {
    name: String,
    ring: KeyRing,
    entity: DynamicEntity,
    plaintext: Vec<(String, String)>,
}

fn vectors() -> Vec<Vector> {
    let vectors: Vec<Json> = serde_json::from_str(VECTORS).unwrap();
    vectors.iter().map(vector).collect()
}

fn vector(vector: &Json) -> Vector {
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let fields = vector["entity"].as_object().unwrap();
    let mut entity = DynamicEntity::new(text(&fields["PartitionKey"]), text(&fields["RowKey"]));
    for (name, value) in fields {
        match name.as_str() {
            "PartitionKey" | "RowKey" => {}
            METADATA => drop(entity.set(METADATA, text(value))),
            _ => drop(entity.set(name, STANDARD.decode(text(value)).unwrap())),
        }
    }
    let plaintext = vector["expected"]["plaintext"].as_object().unwrap();
    let kek = STANDARD.decode(text(&vector["kek_b64"])).unwrap();
    let ring = ring(kek.try_into().unwrap());
    Vector {
        name: text(&vector["name"]),
        ring,
        entity,
        plaintext: plaintext.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
    }
}

fn ring(key: [u8; 32]) -> KeyRing {
    KeyRing::new("legacy", AesKeyWrap::new("key1", key), MacKey::new("records", [9; 32]))
}

/// A table that receives no request.
fn table() -> rowkey_client::Table {
    let account =
        rowkey_client::StorageAccount::from_connection_string("UseDevelopmentStorage=true");
    account.unwrap().table("legacy")
}

async fn read(vector: &Vector, mut entity: DynamicEntity) -> Result<DynamicEntity> {
    let names = vector.plaintext.iter().map(|(name, _)| name.clone());
    // Such properties are opened although no type names them.
    let ring = vector.ring.clone().accept_legacy().stop_encrypting(names);
    ring.open(&table(), &[], &mut entity).await?;
    Ok(entity)
}

#[tokio::test]
async fn every_recorded_entity_is_read() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 8);
    for vector in vectors {
        let read = read(&vector, vector.entity.clone()).await.unwrap();
        let mut found: Vec<_> = read.iter().map(|(n, v)| (n.to_owned(), v.clone())).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let mut expected: Vec<(String, Value)> =
            vector.plaintext.iter().map(|(n, v)| (n.clone(), v.as_str().into())).collect();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(found, expected, "{}: and no metadata is left", vector.name);
    }
}

#[tokio::test]
async fn legacy_entities_are_read_only_if_enabled() {
    for vector in vectors() {
        let error = vector.ring.open(&table(), &[], &mut vector.entity.clone()).await.unwrap_err();
        assert!(error.to_string().contains("accept_legacy"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_key_another_row_and_altered_metadata_are_rejected() {
    for vector in vectors() {
        let wrong = Vector { ring: ring([1; 32]), ..vector };
        let error = read(&wrong, wrong.entity.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    }
    for vector in vectors() {
        let mut elsewhere = vector.entity.clone();
        elsewhere.row_key.push('x');
        read(&vector, elsewhere).await.unwrap_err();

        let Some(Value::String(metadata)) = vector.entity.get(METADATA) else {
            panic!("it is there")
        };
        for (from, to) in [
            ("\"1.0\"", "\"2.0\""),
            ("AES_CBC_256", "AES_GCM_256"),
            ("A256KW", "RSA-OAEP"),
            ("key1", "key2"),
            ("EncryptedKey", "Other"),
            ("{", "["),
        ] {
            let mut altered = vector.entity.clone();
            altered.set(METADATA, metadata.replace(from, to));
            let error = read(&vector, altered).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode, "{from}: {error}");
        }
        for name in [METADATA, NAMES] {
            let mut incomplete = vector.entity.clone();
            incomplete.remove(name);
            read(&vector, incomplete).await.unwrap_err();
        }
        let (name, _) = &vector.plaintext[0];
        let mut altered = vector.entity.clone();
        altered.set(name.clone(), vec![0_u8; 15]);
        let error = read(&vector, altered).await.unwrap_err();
        assert!(error.to_string().contains("cannot be decrypted"), "{error}");
    }
}
