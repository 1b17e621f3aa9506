//! Records of branch keys that no program made.

use super::*;

/// A record that is not signed.
fn forged(ticks: &str) -> DynamicEntity {
    let mut row = DynamicEntity::new("encryption", format!("encryption_key_{ticks}"));
    row.set("RowFormat", 2);
    for name in ["KeyId", "Algorithm", "Signer", "SignatureAlgorithm"] {
        row.set(name, "x");
    }
    row.set("Wrapped", vec![0_u8; 40]);
    row.set("Signature", vec![0_u8; 32]);
    row
}

#[tokio::test]
async fn a_forged_record_is_named_where_it_stops_writers_and_rotation() -> TestResult {
    for id in ["9999999999999999999_0101010101010101", "3155378975999999999_0101010101010101", "z"]
    {
        let (_server, account, patients) = start().await?;
        patients.insert(&patient(1)).await?;
        put(&account, &forged(id)).await?;
        let named = |error: rowkey::Error| {
            let text = error.to_string();
            assert!(text.contains(&format!("encryption_key_{id}")), "{text}");
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Decode, Outcome::NotSent));
        };
        let other = store(&account, ring(26))?;
        named(other.insert(&patient(2)).await.unwrap_err());
        let table = account.table("patients");
        wait(&account, 4).await;
        named(ring(26).rotate(&table).await.unwrap_err());
        named(ring(26).rotate_if_older_than(&table, Duration::ZERO).await.unwrap_err());
        named(other.reencrypt().run().await.unwrap_err().error);
        // What is stored is readable, and a rotation works when the record is gone.
        assert_eq!(other.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
        table.delete(forged(id).key(), Match::Any).await?;
        ring(26).rotate(&table).await?;
        other.insert(&patient(2)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn all_invalid_names_of_branch_keys_have_one_error() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let row = raw(&account, "patient_000001").await?;
    let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else { panic!("sealed") };
    let parts: Vec<_> = metadata.split(' ').collect();
    let mut errors = std::collections::BTreeSet::new();
    for branch in
        ["a", "a/b", &"x".repeat(513), &"x".repeat(5000), "0639305968000000000_0101010101010101"]
    {
        let mut altered = row.clone();
        altered.set("_RowkeyEncryption", [&["2", branch], &parts[2..]].concat().join(" "));
        put(&account, &altered).await?;
        for error in [
            patients.get(key(1)).await.unwrap_err(),
            patients.update(key(1), |one| one.bed = 2).await.unwrap_err(),
        ] {
            errors.insert((
                format!("{:?}", error.kind()),
                error.to_string().replace("Update", "Get"),
            ));
        }
    }
    assert_eq!(errors.len(), 1, "{errors:?}");
    Ok(())
}
