//! Properties that the type does not know, beside encrypted ones: a newer program added them.

use super::*;
use rowkey_tests::TestResult;

/// The entity and its whole copies in its partition.
const ROWS: [&str; 2] = ["patient_000001", "bed_0000000001"];

/// A patient to whom the newer program has added properties, in the entity as in its copies.
async fn extended() -> TestResult<(Server, StorageAccount, Store<Patient>)> {
    let (server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let mut more = DynamicEntity::new("north", "patient_000001");
    more.set("Floor", 3_i32);
    more.set("Weight", 62.5);
    account.table("patients").merge((&more, Match::Any)).await?;
    Ok((server, account, patients))
}

/// The rows have them with their types, and nothing that is encrypted is legible.
async fn assert_kept(server: &Server, account: &StorageAccount, floor: Option<i32>) -> TestResult {
    for row_key in ROWS {
        let row = raw(account, row_key).await?;
        assert_eq!(row.get("Floor"), floor.map(Value::Int32).as_ref(), "{row_key}");
        assert_eq!(row.get("Weight"), Some(&Value::Double(62.5)), "{row_key}");
    }
    assert_sealed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn every_write_to_an_encrypted_entity_keeps_unknown_properties() -> TestResult {
    let (server, account, patients) = extended().await?;
    // An encrypted property changes, another one is removed, and a plaintext property changes.
    patients.update(key(1), |one| one.name = "Ada".into()).await?;
    assert_kept(&server, &account, Some(3)).await?;
    patients.update(key(1), |one| one.scan = None).await?;
    assert_kept(&server, &account, Some(3)).await?;
    assert_eq!(raw(&account, ROWS[0]).await?.get("Scan"), None);
    patients.update(key(1), |one| one.doctor = "lee".into()).await?;
    assert_kept(&server, &account, Some(3)).await?;

    patients.patch(key(1)).set(Patient::NAME, "Bob").send().await?;
    assert_kept(&server, &account, Some(3)).await?;
    let floor = rowkey::Column::<i32>::named("Floor");
    patients.patch(key(1)).set(floor, 4).send().await?;
    assert_kept(&server, &account, Some(4)).await?;
    assert!(patients.rewrite(key(1)).await?);
    assert_kept(&server, &account, Some(4)).await?;

    let expected = Patient { name: "Bob".into(), scan: None, doctor: "lee".into(), ..patient(1) };
    for found in
        [patients.get(key(1)).await?, patients.find(Patient::by_bed("north", 1_u32)).await?]
    {
        assert_eq!(found.map(|found| found.entity), Some(expected.clone()));
    }
    assert!(patients.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn reencryption_keeps_unknown_properties() -> TestResult {
    let (server, account, patients) = extended().await?;
    patients.update(key(1), |one| one.name = "Ada".into()).await?;
    let patients = store(&account, ring(27))?;
    let report = patients.reencrypt().run().await?;
    assert!(report.is_clean(), "{report:?}");
    assert_kept(&server, &account, Some(3)).await?;
    let read = patients.get(key(1)).await?.map(|found| found.entity);
    assert_eq!(read, Some(Patient { name: "Ada".into(), ..patient(1) }));
    Ok(())
}
