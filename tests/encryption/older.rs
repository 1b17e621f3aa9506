//! Entities that the retired SDKs stored: read where it is asked for, and brought into format 2.

use super::*;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{partition}", row = "rk{row}")]
struct Person {
    partition: String,
    row: String,
    #[entity(encrypt)]
    sex: String,
    #[entity(encrypt)]
    name: Option<String>,
}

/// A stored entity of the retired SDKs, and its key-encryption key.
fn legacy(index: usize) -> (DynamicEntity, [u8; 32]) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    let text = include_str!("../../crates/rowkey-encryption/vectors/legacy-v1.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let vector = &vectors[index];
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let fields = vector["entity"].as_object().unwrap();
    let mut entity = DynamicEntity::new(text(&fields["PartitionKey"]), text(&fields["RowKey"]));
    for (name, value) in fields {
        if name == "_ClientEncryptionMetadata1" {
            entity.set(name, text(value));
        } else if !name.ends_with("Key") {
            entity.set(name, STANDARD.decode(text(value)).unwrap());
        }
    }
    (entity, STANDARD.decode(text(&vector["kek_b64"])).unwrap().try_into().unwrap())
}

#[tokio::test]
async fn entities_of_the_retired_sdks_are_read_and_reencrypted() -> TestResult {
    let (_server, account, _) = start().await?;
    for index in 2..8 {
        let (row, kek) = legacy(index);
        put(&account, &row).await?;
        let people = |ring| Store::<Person>::builder(account.table("patients")).keys(ring).build();
        let old = AesKeyWrap::new("key1", kek);
        let strict = people(ring_of(of(26)).with(AesKeyWrap::new("key1", kek)))?;
        let key = || Key::<Person>::new(&*row.partition_key, &*row.row_key);
        let error = strict.get(key()).await.unwrap_err();
        assert!(error.to_string().contains("accept_legacy"), "{error}");
        let accepting = people(ring_of(of(26)).with(old).accept_legacy())?;
        let stored = accepting.get(key()).await?.ok_or("not there")?.entity;
        assert_eq!(stored.sex, "male");
        assert!(accepting.reencrypt().run().await?.is_clean());
        let strict = people(ring_of(of(26)))?;
        assert_eq!(strict.get(key()).await?.map(|one| one.entity), Some(stored));
    }
    Ok(())
}
