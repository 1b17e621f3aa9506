//! Altered, moved and forged values are rejected.

use rowkey::Projection as _;

use super::*;

#[tokio::test]
async fn swapped_altered_and_plaintext_values_are_rejected() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    patients.insert(&patient(2)).await?;
    for (one, other) in [("patient_000001", "patient_000002"), ("bed_0000000001", "bed_0000000002")]
    {
        let (one, other) = (raw(&account, one).await?, raw(&account, other).await?);
        let all = ["Name", "Scan", "History", "_RowkeyEncryption"];
        let from_other = |names: &[&str]| {
            let mut row = one.clone();
            for name in names {
                row.set(*name, other.get(name).unwrap().clone());
            }
            row
        };
        let mut wrong: Vec<_> = all.iter().map(|name| from_other(&[name])).collect();
        wrong.push(from_other(&all));
        for name in all {
            let mut gone = one.clone();
            gone.remove(name);
            wrong.push(gone);
            let mut plain = one.clone();
            plain.set(name, "Eve");
            wrong.push(plain);
        }
        let (mut swapped, scan) = (one.clone(), one.get("Scan").unwrap().clone());
        let name = swapped.set("Name", scan).unwrap();
        swapped.set("Scan", name);
        wrong.push(swapped);
        for row in wrong {
            put(&account, &row).await?;
            let error = match &*row.row_key {
                "patient_000001" => patients.get(key(1)).await.unwrap_err(),
                _ => patients.find(Patient::by_bed("north", 1_u32)).await.unwrap_err(),
            };
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), ErrorKind::Decode, "{text}");
            assert!(!text.contains("Patient 1") && !text.contains("Eve"), "{text}");
        }
        put(&account, &one).await?;
        assert_eq!(patients.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
    }
    // A whole older version of an entity is readable.
    let older = raw(&account, "patient_000001").await?;
    patients.update(key(1), |one| one.name = "Ada".into()).await?;
    put(&account, &older).await?;
    assert_eq!(patients.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
    Ok(())
}

/// Not a byte of an encrypted property, of its index or of the metadata can be another one.
#[tokio::test]
async fn flipped_bits_and_truncation_are_detected() -> TestResult {
    let (_server, account, _) = start().await?;
    let ring = ring(26).index(IndexKey::new([9; 32]), ["Name"]);
    store(&account, ring.clone())?.insert(&patient(1)).await?;
    let row = raw(&account, "patient_000001").await?;
    let table = account.table("patients");
    let mut tried = 0;
    let mut texts = std::collections::BTreeSet::new();
    let mut refuse = async |name: &str, value: Value| {
        let mut altered = row.clone();
        altered.set(name, value);
        let opened = ring.open(&table, Patient::DECLARED.encrypted, &mut altered).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{name}: {error}");
        assert!(!format!("{error:?}").contains("Patient 1"), "{error:?}");
        texts.insert(error.to_string());
        tried += 1;
    };
    for name in ["Name", "Scan", "History", "Name_BlindIndex", "_RowkeyEncryption"] {
        match row.get(name) {
            Some(Value::Binary(bytes)) => {
                for bit in 0..bytes.len() * 8 {
                    let mut bytes = bytes.clone();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    refuse(name, bytes.into()).await;
                }
                for length in 0..bytes.len() {
                    refuse(name, bytes[..length].to_vec().into()).await;
                }
            }
            Some(Value::String(text)) => {
                for place in 0..text.len() {
                    // Another letter of the same alphabet, and the rest cut off.
                    let other = if text.as_bytes()[place] == b'A' { "B" } else { "A" };
                    let mut altered = text.clone();
                    altered.replace_range(place..=place, other);
                    refuse(name, altered.into()).await;
                    refuse(name, text[..place].into()).await;
                }
            }
            other => panic!("{name} is {other:?}"),
        }
    }
    assert!(tried > 1000, "{tried}");
    let key = AesKeyWrap::new("2026", [26; 32]);
    let wrong = [
        ring_of(AesKeyWrap::new("2026", [1; 32])),
        KeyRing::new("patients", key, MacKey::new("records", [1; 32])),
        KeyRing::new("others", of(26), MacKey::new("records", [200; 32])),
    ];
    for ring in wrong {
        let opened = ring.open(&table, Patient::DECLARED.encrypted, &mut row.clone()).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        texts.insert(error.to_string());
    }
    assert_eq!(texts.len(), 1, "no failure tells more than another: {texts:?}");
    Ok(())
}

#[tokio::test]
async fn a_table_restored_under_another_name_decrypts_if_configured() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let restored = account.table("restored");
    restored.create().await?;
    for row in account.table("patients").scan::<DynamicEntity>().all().await? {
        restored.insert(&row.entity).await?;
    }
    let open = |ring| Store::builder(restored.clone()).queue(account.queue("r")).keys(ring).build();
    let read: Store<Patient> = open(ring(26))?;
    assert_eq!(read.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
    let other = KeyRing::new("restored", of(26), MacKey::new("records", [200; 32]));
    assert_eq!(open(other)?.get(key(1)).await.unwrap_err().kind(), ErrorKind::Decode);
    Ok(())
}

#[tokio::test]
async fn altered_signed_entities_are_rejected() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(2)).await?;
    let signing = || ring(26).sign_plaintext();
    let signed = store(&account, signing())?;
    signed.insert(&patient(1)).await?;
    signed.update(key(1), |one| one.bed = 7).await?;
    let by_bed = Patient::by_bed("north", 7_u32);
    let expected = Patient { bed: 7, ..patient(1) };
    assert_eq!(signed.get(key(1)).await?.map(|one| one.entity), Some(expected.clone()));
    assert_eq!(signed.find(by_bed).await?.map(|one| one.entity), Some(expected));
    let read = signed.query(Patient::by_doctor("north", "kim")).page(1, None).await;
    assert_eq!(read?.entities.len(), 1);

    let row = raw(&account, "patient_000001").await?;
    let other = [("Bed", Some(Value::Int64(8))), ("Doctor", None), ("Added", Some("x".into()))];
    for (name, value) in other {
        let mut altered = row.clone();
        match value {
            Some(value) => drop(altered.set(name, value)),
            None => drop(altered.remove(name)),
        }
        put(&account, &altered).await?;
        let error = signed.get(key(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{name}: {error}");
    }
    put(&account, &row).await?;
    assert!(signed.get(key(1)).await?.is_some());

    signed.patch(key(1)).set(Patient::BED, 9_u32).send().await?;
    assert_eq!(signed.get(key(1)).await?.map(|one| one.entity.bed), Some(9));

    // An unsigned entity is rejected, and signed by the job.
    assert_eq!(signed.get(key(2)).await.unwrap_err().kind(), ErrorKind::Decode);
    let accepting = store(&account, signing().accept_plaintext())?;
    assert_eq!(accepting.get(key(2)).await?.map(|one| one.entity), Some(patient(2)));
    assert_eq!(accepting.reencrypt().run().await?.total.repaired, 1);
    assert_eq!(signed.get(key(2)).await?.map(|one| one.entity), Some(patient(2)));
    assert!(signed.verify().run().await?.is_clean());
    Ok(())
}

/// A row with the keys of another one.
fn moved(row: &DynamicEntity, row_key: impl Into<String>) -> DynamicEntity {
    let mut moved = row.clone();
    moved.row_key = row_key.into();
    moved
}

/// The copy of patient 1 in `by_doctor`.
async fn by_doctor(account: &StorageAccount) -> Result<DynamicEntity> {
    let rows = account.table("patients").scan::<DynamicEntity>().all().await?;
    let is_it = |row: &DynamicEntity| row.get("IndexName") == Some(&"by_doctor".into());
    let mut rows = rows.into_iter().map(|stored| stored.entity).filter(is_it);
    rows.next().ok_or_else(|| rowkey::Error::refused(ErrorKind::NotFound, "no copy"))
}

/// A program that may write to the table and has no key moves the rows of an entity between its places.
#[tokio::test]
async fn an_index_copy_decrypts_only_for_its_entity() -> TestResult {
    for signs in [false, true] {
        let (_server, account, _) = start().await?;
        let ring = if signs { ring(26).sign_plaintext() } else { ring(26) };
        let patients = store(&account, ring)?;
        patients.insert(&patient(1)).await?;
        let (head, copy) =
            (raw(&account, "patient_000001").await?, raw(&account, "bed_0000000001").await?);
        let other = by_doctor(&account).await?;
        let mut of_head = moved(&head, "bed_0000000005");
        of_head.set("PrimaryRowKey", "patient_000001").map_or(Ok(()), |_| Err("it had one"))?;
        let lee = other.row_key.replace("kim", "lee");
        // Within an index, from one index into another, and from the entity into an index.
        for row in [
            moved(&copy, "bed_0000000005"),
            moved(&other, "bed_0000000005"),
            of_head,
            moved(&other, &*lee),
            moved(&copy, &*lee),
        ] {
            put(&account, &row).await?;
            let error = if row.row_key == lee {
                patients.query(Patient::by_doctor("north", "lee")).all().await.unwrap_err()
            } else {
                patients.find(Patient::by_bed("north", 5_u32)).await.unwrap_err()
            };
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
            assert!(error.to_string().contains("the entity has no copy with this key"), "{error}");
            assert!(error.details().index.is_some() && !format!("{error:?}").contains("Patient 1"));
        }
        // A copy in the place of an entity.
        put(&account, &moved(&copy, "patient_000005")).await?;
        assert_eq!(patients.get(key(5)).await.unwrap_err().kind(), ErrorKind::Decode);
        // The job that compares entities and indexes reports the inserted row.
        let report = patients.verify().run().await?;
        assert!(!report.is_clean(), "{report:?}");

        // The entity's own bytes in the place of its copy are the copy: nothing is gained.
        put(&account, &{
            let mut same = moved(&head, "bed_0000000001");
            same.set("PrimaryRowKey", "patient_000001");
            same
        })
        .await?;
        let found = patients.find(Patient::by_bed("north", 1_u32)).await?;
        assert_eq!(found.map(|one| one.entity), Some(patient(1)));
        // A property that is neither encrypted nor signed can be altered, and with it the key of the copy.
        let mut altered = moved(&copy, "bed_0000000005");
        altered.set("Bed", 5_i64);
        put(&account, &altered).await?;
        let found = patients.find(Patient::by_bed("north", 5_u32)).await;
        match found {
            Ok(found) => assert_eq!((found.map(|one| one.entity.bed), signs), (Some(5), false)),
            Err(error) => assert_eq!((error.kind(), signs), (ErrorKind::Decode, true)),
        }
    }
    Ok(())
}

/// What moving bytes still achieves: an older copy, put back at its own place, is read there.
#[tokio::test]
async fn an_older_version_still_decrypts_at_its_own_key() -> TestResult {
    let (_server, account, _) = start().await?;
    let patients = store(&account, ring(26).sign_plaintext())?;
    patients.insert(&patient(1)).await?;
    let copy = raw(&account, "bed_0000000001").await?;
    patients.update(key(1), |one| one.bed = 7).await?;
    assert!(patients.find(Patient::by_bed("north", 1_u32)).await?.is_none());
    put(&account, &copy).await?;
    let found = patients.find(Patient::by_bed("north", 1_u32)).await?.ok_or("not there")?;
    assert_eq!(found.entity, patient(1));
    // A write with the version of that copy is rejected, and the job removes the copy.
    let error = patients.replace_if(&found.entity, &found.version).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    patients.repair().run().await?;
    assert!(patients.find(Patient::by_bed("north", 1_u32)).await?.is_none());
    Ok(())
}
