//! Entities that format 1 and the retired SDKs stored: read where it is asked for, and brought into format 2.

use super::*;

#[tokio::test]
async fn format_1_is_read_if_enabled_and_converted_to_format_2() -> TestResult {
    let (_server, account, _) = start().await?;
    // As format 1 stored it, under the key 32 times 07.
    let mut row = DynamicEntity::new("north", "old_000007");
    row.set("Name", hex("0101202122232425262728292a2b935ec750205bac787f1023ada40e1468d562f8a3d7d6854c8d850b527a"));
    row.set("Scan", hex("01022c2d2e2f303132333435363753ff26d6e8d9d31a494b28cbdafd9358338e9b"));
    row.set(
        "_RowkeyEncryption",
        "1 2026 A256KW KZITNqky5qtGe1o88BhEeuLRiPKWLV7HYxqtUnooUzSyYxbHWutpew \
         ODk6Ozw9Pj9AQUJDVNZxPUkAnsdYHyGQOA19DQ Name,Scan",
    );
    put(&account, &row).await?;
    let open = |ring| Store::<Old>::builder(account.table("patients")).keys(ring).build();
    let older = || ring_of(of(27)).with(AesKeyWrap::new("2026", [7; 32]));
    let key = || Old::key("north", 7);
    let error = open(older())?.get(key()).await.unwrap_err();
    assert!(error.to_string().contains("accept_format_1"), "{error}");
    let accepting = open(older().accept_format_1())?;
    let read = accepting.get(key()).await?.map(|one| one.entity);
    let expected =
        Old { ward: "north".into(), number: 7, name: "Ada Lövelace".into(), scan: vec![1, 2, 3] };
    assert_eq!(read, Some(expected.clone()));
    assert_eq!(accepting.reencrypt().run().await?.total.repaired, 1);
    let strict = open(ring_of(of(27)))?;
    assert_eq!(strict.get(key()).await?.map(|one| one.entity), Some(expected));
    Ok(())
}

fn hex(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "old_{number:6}", rename_all = "PascalCase")]
struct Old {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    scan: Vec<u8>,
}

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
