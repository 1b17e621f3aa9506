//! Encrypted fields in a store: what is stored, what is refused, and rotation through every failure.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, Outcome, Result,
    ScanPolicy, StorageAccount, Table,
};
use rowkey_encryption::{AesKeyWrap, IndexKey, KeyRing, MacKey};
use rowkey_server::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_store::{Op, Sealer, Store, View};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep_sample};

/// A patient with every declaration beside encrypted fields.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
#[entity(index(name = by_doctor, row = "doctor_{doctor}", many))]
#[entity(index(name = by_room, partition = "room_{bed}", row = "{ward}_{number}"))]
#[entity(index(name = by_badge, partition = "badge_{badge}", row = "{ward}", copy(bed)))]
#[entity(unique(name = by_number, value = "{badge}"))]
#[entity(list(name = by_tag, value = "{doctor}"))]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    scan: Option<Vec<u8>>,
    #[entity(json, encrypt)]
    history: Vec<String>,
    bed: u32,
    doctor: String,
    badge: u32,
}

fn patient(number: u32) -> Patient {
    Patient {
        ward: "north".into(),
        number,
        name: format!("Patient {number}"),
        scan: Some(vec![0, 255, 7]),
        history: vec!["fever".into(), "O'Neil's".into()],
        bed: number,
        doctor: "kim".into(),
        badge: number,
    }
}

fn key(number: u32) -> Key<Patient> {
    Patient::key("north", number)
}

/// The key of a year; its bytes are the last digits.
fn of(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("20{year:02}"), [year; 32])
}

/// A ring of one key.
fn ring_of(key: AesKeyWrap) -> KeyRing {
    KeyRing::new("patients", key, MacKey::new("records", [200; 32]))
}

/// A ring of the key of this year, and those of the years before from 26 on.
fn ring(year: u8) -> KeyRing {
    (26..year).fold(ring_of(of(year)), |ring, older| ring.with(of(older)))
}

fn store(account: &StorageAccount, ring: KeyRing) -> Result<Store<Patient>> {
    Store::builder(account.table("patients")).queue(account.queue("patients")).keys(ring).build()
}

async fn start() -> std::result::Result<(Server, StorageAccount, Store<Patient>), Failure> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let patients = store(&account, ring(26))?;
    patients.create_if_missing().await?;
    Ok((server, account, patients))
}

type Failure = Box<dyn std::error::Error>;

/// No row of the table shows a property that is encrypted, and those of one entity are the same bytes.
fn assert_sealed(snapshot: &Snapshot) {
    let mut sealed = BTreeMap::new();
    for row in snapshot.table("patients").unwrap().entities() {
        let names = ["Name", "Scan", "History"];
        assert!(!names.iter().any(|name| matches!(row.get(name), Some(Value::String(_)))));
        let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else { continue };
        let Some(Value::String(mark)) = row.get("EntityOp") else { panic!("it has a mark") };
        let owner = match row.get("PrimaryRowKey") {
            Some(Value::String(owner)) => owner.clone(),
            _ => row.row_key().to_owned(),
        };
        let bytes = names.map(|name| row.get(name).map(|value| format!("{value:?}")));
        let all = (metadata.clone(), bytes);
        let first = sealed.entry((owner, mark.clone())).or_insert_with(|| all.clone());
        assert_eq!(*first, all, "a copy holds what its entity holds");
    }
}

#[tokio::test]
async fn every_read_opens_what_every_write_sealed() -> TestResult {
    let (server, _account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let found = [
        patients.get(key(1)).await?,
        patients.find(Patient::by_bed("north", 1_u32)).await?,
        patients.find(Patient::by_room(1_u32, "north", 1_u32)).await?,
        patients.find(Patient::by_badge(1_u32, "north")).await?,
        patients.find(Patient::by_number(1_u32)).await?,
        patients.query(Patient::partition("north")).page(1, None).await?.entities.pop(),
        patients.query(Patient::by_doctor("north", "kim")).page(1, None).await?.entities.pop(),
        patients.query(Patient::by_tag("north", "kim")).all().await?.pop(),
    ];
    for (at, found) in found.into_iter().enumerate() {
        assert_eq!(found.map(|found| found.entity), Some(patient(1)), "{at}");
    }
    assert_sealed(&server.snapshot());

    let renamed = patients.update(key(1), |one| one.name = "Ada".into()).await?;
    let moved = Patient { bed: 99, badge: 98, doctor: "lee".into(), ..renamed.entity };
    patients.replace_if(&moved, &renamed.version).await?;
    patients.upsert(&Patient { scan: None, ..patient(2) }).await?;
    patients.patch(key(2)).set(Patient::NAME, "Bob").set(Patient::BED, 70_u32).send().await?;
    let (three, four) = (patient(3), patient(4));
    patients.transaction().insert(&three).insert(&four).submit().await?;
    let report = patients.load(stream::iter((5..20).map(patient))).run().await?;
    assert!(report.is_clean(), "{report:?}");
    assert!(patients.rewrite(key(5)).await?);
    assert_sealed(&server.snapshot());
    let all = patients.query(Patient::partition("north")).all().await?;
    let names: Vec<_> = all.iter().take(3).map(|one| (&*one.entity.name, one.entity.bed)).collect();
    assert_eq!((all.len(), names), (19, vec![("Ada", 99), ("Bob", 70), ("Patient 3", 3)]));
    let copy = patients.find(Patient::by_bed("north", 70_u32)).await?.ok_or("not there")?;
    patients.replace_if(&Patient { bed: 6, ..copy.entity }, &copy.version).await.unwrap_err();
    patients.replace_if(&Patient { bed: 20, ..patient(2) }, &copy.version).await?;

    assert!(patients.verify().run().await?.is_clean());
    patients.delete(key(3)).await?;
    assert!(patients.delete_where(Patient::partition("north")).run().await?.is_clean());
    let snapshot = server.snapshot();
    let rows = snapshot.table("patients").unwrap().entities();
    assert_eq!(
        rows.filter(|row| !row.row_key().starts_with("op_") && row.partition_key() != "encryption")
            .count(),
        0
    );
    Ok(())
}

#[tokio::test]
async fn a_store_without_keys_and_keys_without_fields_are_refused() -> TestResult {
    let (_server, account, _) = start().await?;
    let none = Store::<Patient>::builder(account.table("patients")).queue(account.queue("q"));
    let error = none.build().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("`Name` is encrypted, which needs keys"), "{error}");
    let plain = Store::<Plain>::builder(account.table("notes")).keys(ring(26)).build();
    assert!(plain.unwrap_err().to_string().contains("no field of the type is encrypted"));
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "note_{number}", rename_all = "PascalCase")]
#[entity(list(name = by_topic, value = "{topic}"))]
struct Plain {
    ward: String,
    number: u32,
    topic: String,
}

#[tokio::test]
async fn a_patch_reads_where_a_list_or_an_encrypted_property_needs_it() -> TestResult {
    let (server, account, _) = start().await?;
    let notes = Store::<Plain>::builder(account.table("patients")).build()?;
    let note = Plain { ward: "north".into(), number: 1, topic: "a".into() };
    notes.insert(&note).await?;
    notes.patch(Plain::key("north", 1)).set(Plain::TOPIC, "b").send().await?;
    assert_eq!(
        notes.query(Plain::by_topic("north", "b")).all().await?.len(),
        1,
        "the list follows"
    );

    let secrets = Store::<Secret>::builder(account.table("patients")).keys(ring(26)).build()?;
    secrets.insert(&Secret { number: 1, text: "hush".into(), open: true }).await?;
    let key = || Secret::key(1);
    let before = server.journal();
    assert!(!secrets.patch(key()).set(Secret::OPEN, false).reads());
    secrets.patch(key()).set(Secret::OPEN, false).send().await?;
    assert_eq!(server.journal().since(&before).len(), 1, "a merge of what is not sealed");
    assert!(secrets.patch(key()).set(Secret::TEXT, "").reads());
    secrets.patch(key()).set(Secret::TEXT, "louder").send().await?;
    let expected = Secret { number: 1, text: "louder".into(), open: false };
    assert_eq!(secrets.get(key()).await?.map(|found| found.entity), Some(expected));
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "secrets", row = "secret_{number}")]
struct Secret {
    number: u32,
    #[entity(encrypt)]
    text: String,
    open: bool,
}

#[tokio::test]
async fn a_filter_over_an_encrypted_property_is_refused_and_equal_values_are_found() -> TestResult {
    let (server, account, _) = start().await?;
    let ring = ring(26).index(IndexKey::new([9; 32]), ["Name"]);
    let patients = store(&account, ring.clone())?;
    for number in 1..=3 {
        let name = if number == 2 { "Ada" } else { "Ada L." };
        patients.insert(&Patient { name: name.into(), ..patient(number) }).await?;
    }
    let before = server.journal();
    let north = || patients.query(Patient::partition("north"));
    let kims = || patients.query(Patient::by_doctor("north", "kim"));
    let filter = || Patient::BED.is(1).or(Patient::NAME.is("Ada"));
    for query in [north().filter(filter()), kims().filter(filter())] {
        let error = query.page(1, None).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("`Name`, which is encrypted"), "{error}");
    }
    assert_eq!(server.journal().since(&before).len(), 0);

    let numbers = async |ring: &KeyRing, name: &str| -> Result<Vec<u32>> {
        let filter = || ring.equals("Name", name);
        let found = north().filter(filter()?).all().await?;
        let copies = kims().filter(filter()?).all().await?;
        assert_eq!(found.len(), copies.len(), "whole copies have the index as well");
        Ok(found.iter().map(|patient| patient.entity.number).collect())
    };
    assert_eq!(numbers(&ring, "Ada L.").await?, [1, 3]);
    assert_eq!(numbers(&ring, "Ada").await?, [2]);
    assert_eq!(numbers(&ring, "ada").await?, [0; 0], "byte for byte");
    let error = ring.equals("History", "[]").unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let other = self::ring(26).index(IndexKey::new([8; 32]), ["Name"]);
    assert_eq!(numbers(&other, "Ada").await?, [0; 0], "another key finds nothing");
    Ok(())
}

/// Writes rows as they are.
async fn put(account: &StorageAccount, row: &DynamicEntity) -> Result<()> {
    account.table("patients").upsert(row).await.map(drop)
}

async fn raw(account: &StorageAccount, row_key: &str) -> Result<DynamicEntity> {
    let row = account.table("patients").get(Key::<DynamicEntity>::new("north", row_key)).await?;
    row.map(|row| row.entity).ok_or_else(|| rowkey::Error::refused(ErrorKind::NotFound, "no row"))
}

#[tokio::test]
async fn what_was_swapped_altered_or_put_there_in_plain_is_never_read() -> TestResult {
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
    // A whole older version of an entity is what it was.
    let older = raw(&account, "patient_000001").await?;
    patients.update(key(1), |one| one.name = "Ada".into()).await?;
    put(&account, &older).await?;
    assert_eq!(patients.get(key(1)).await?.map(|one| one.entity), Some(patient(1)));
    Ok(())
}

/// Not a byte of an encrypted property, of its index or of the metadata can be another one.
#[tokio::test]
async fn no_bit_can_be_altered_and_no_byte_cut_off() -> TestResult {
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
        let opened = ring.open(&table, Patient::ENCRYPTED, &mut altered).await;
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
        let opened = ring.open(&table, Patient::ENCRYPTED, &mut row.clone()).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        texts.insert(error.to_string());
    }
    assert_eq!(texts.len(), 1, "no failure tells more than another: {texts:?}");
    Ok(())
}

#[tokio::test]
async fn a_table_restored_under_another_name_opens_with_its_ring() -> TestResult {
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
async fn signed_entities_are_read_as_they_were_written_or_not_at_all() -> TestResult {
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

    let error = signed.patch(key(1)).set(Patient::BED, 9_u32).send().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("signed together"), "{error}");

    // What was written without is refused, and signed by the job.
    assert_eq!(signed.get(key(2)).await.unwrap_err().kind(), ErrorKind::Decode);
    let accepting = store(&account, signing().accept_plaintext())?;
    assert_eq!(accepting.get(key(2)).await?.map(|one| one.entity), Some(patient(2)));
    assert_eq!(accepting.reencrypt().run().await?.total.repaired, 1);
    assert_eq!(signed.get(key(2)).await?.map(|one| one.entity), Some(patient(2)));
    assert!(signed.verify().run().await?.is_clean());
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "files", row = "file_{number}")]
struct File {
    number: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(blob)]
    content: Vec<u8>,
}

#[tokio::test]
async fn keys_that_sign_are_refused_where_a_field_is_in_a_blob() -> TestResult {
    let (_server, account, _) = start().await?;
    let store = |ring| {
        Store::<File>::builder(account.table("patients"))
            .queue(account.queue("files"))
            .blobs(account.container("files"))
            .keys(ring)
            .build()
    };
    store(ring(26))?;
    let error = store(ring(26).sign_plaintext()).unwrap_err();
    assert!(error.to_string().contains("`content` is kept in a blob"), "{error}");
    Ok(())
}

#[tokio::test]
async fn writers_move_on_to_a_new_key_within_a_minute_and_verify_proves_it() -> TestResult {
    let (server, account, old) = start().await?;
    // The clock of the account passes short waits alone.
    let wait = async |seconds: u64| {
        for _ in 0..seconds / 4 {
            account.clock().sleep(Duration::from_secs(4)).await;
        }
    };
    let knowing = store(&account, ring_of(of(26)).with(of(27)))?;
    old.insert(&patient(1)).await?;
    knowing.insert(&patient(2)).await?;
    let new = store(&account, ring(27))?;
    assert_eq!(new.reencrypt().run().await?.total.repaired, 2);
    // They hold the older key for a minute.
    knowing.insert(&patient(3)).await?;
    wait(60).await;
    knowing.insert(&patient(4)).await?;
    let error = old.insert(&patient(5)).await.unwrap_err();
    assert!(error.to_string().contains("`2027`, which the ring lacks"), "{error}");

    let early = new.verify_keys().run().await.unwrap_err().error;
    assert_eq!(early.kind(), ErrorKind::Conflict, "{early}");
    assert!(early.to_string().contains("s are left"), "{early}");
    wait(12 * 60).await;
    let report = new.verify_keys().run().await?;
    assert_eq!((report.total.right, report.total.stale, report.is_clean()), (3, 1, false));
    assert_eq!(&*report.problems[0].row_key, "patient_000003");
    assert_eq!(new.reencrypt().run().await?.total.repaired, 1);
    let report = new.verify_keys().run().await?;
    assert_eq!((report.total.right, report.is_clean()), (4, true));

    // A new branch key under the same key, where one may have leaked, by a program whose clock is behind.
    let behind = ManualClock::auto_advancing(account.clock().now() - TimeDelta::minutes(20));
    let behind = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(behind)
        .build()?;
    ring(27).rotate(&behind.table("patients")).await?;
    let after = store(&account, ring(27))?;
    assert_eq!(after.reencrypt().run().await?.total.repaired, 4);
    Ok(())
}

#[tokio::test]
async fn format_1_is_read_where_it_is_asked_for_and_brought_into_format_2() -> TestResult {
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

/// How many patients a doctor has.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct Doctor {
    name: String,
    patients: i64,
}

#[tokio::test]
async fn a_view_counts_entities_with_encrypted_fields() -> TestResult {
    let (_server, account, _) = start().await?;
    let view = View::new("doctors", &account.table("patients"), |one: &Patient| {
        // Of a field that is opened for it.
        (!one.history.is_empty()).then(|| Doctor::key(&one.doctor))
    });
    let patients = Store::<Patient>::builder(account.table("patients"))
        .queue(account.queue("patients"))
        .keys(ring(26))
        .following(view.count(Doctor::PATIENTS))
        .build()?;
    for number in 1..=3 {
        patients.insert(&patient(number)).await?;
    }
    patients.update(key(3), |one| one.history.clear()).await?;
    let doctor = account.table("patients").get(Doctor::key("kim")).await?.ok_or("no summary")?;
    assert_eq!(doctor.entity.patients, 2);
    Ok(())
}

/// What must be true when the job has passed, with the new key alone.
async fn assert_rotated(account: &StorageAccount) -> TestResult {
    let patients = store(account, ring_of(of(27)))?;
    for number in 1..=4 {
        let read = [
            patients.get(key(number)).await?,
            patients.find(Patient::by_bed("north", number)).await?,
        ];
        assert_eq!(
            read.map(|read| read.map(|read| read.entity)),
            [Some(patient(number)), Some(patient(number))]
        );
    }
    assert!(patients.verify().run().await?.is_clean());
    Ok(())
}

/// A table with rows under the old key, the new one, and in plain.
async fn mixed(account: &StorageAccount) -> TestResult {
    let (old, new) = (store(account, ring(26))?, store(account, ring(27))?);
    old.insert(&patient(1)).await?;
    ring(27).rotate(&account.table("patients")).await?;
    new.insert(&patient(2)).await?;
    // It holds the older key for a minute.
    old.insert(&patient(4)).await?;
    // As a program wrote it before there was encryption, without an index.
    put(account, &DynamicEntity::of(&patient(3))?).await?;
    Ok(())
}

#[tokio::test]
async fn reencryption_passes_whichever_of_its_requests_fails() -> TestResult {
    let (server, account, _) = start().await?;
    mixed(&account).await?;
    let accepting = |account: &StorageAccount| store(account, ring(27).accept_plaintext());
    for repeats in [false, true] {
        sweep_sample(
            &server,
            if repeats { "repeated" } else { "once" },
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let mut checkpoint = None;
                let patients = accepting(&account)?;
                let job = patients.reencrypt().progress(|progress| {
                    checkpoint = Some(progress.checkpoint.to_string());
                });
                let ran = job.run().await.map(|report| assert!(report.is_clean(), "{report:?}"));
                Ok::<_, rowkey::Error>((checkpoint, ran.map_err(|error| error.to_string())))
            },
            async |account, result| {
                let patients = accepting(account)?;
                if let Ok((checkpoint, Err(_))) = result {
                    let job = patients.reencrypt();
                    let job = match checkpoint {
                        Some(checkpoint) => job.resume(checkpoint.parse()?),
                        None => job,
                    };
                    assert!(job.run().await?.is_clean());
                }
                patients.drain_backlog().await?;
                assert_eq!(patients.work_once().await?.failed, 0);
                // What was in plain has its claim by now.
                assert!(patients.repair().run().await?.is_clean());
                assert_rotated(account).await
            },
            |snapshot, _| assert_sealed(snapshot),
        )
        .await?;
    }
    Ok(())
}

/// Item 4: with a lagging secondary, re-encryption reads the primary and loses no row.
#[tokio::test]
async fn reencryption_reads_the_primary_and_a_scan_policy_does_not_stop_it() -> TestResult {
    let (server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let behind = server.hold_back_secondary();
    patients.insert(&patient(2)).await?;
    let busy =
        server.inject(Fault::on(Operation::QueryEntities).nth(1).reject(ErrorCode::SERVER_BUSY));
    let options = ClientOptions {
        read_from_secondary: true,
        scan_policy: ScanPolicy::Deny,
        ..account.options().clone()
    };
    let report = store(&account.with_options(options), ring(27))?.reencrypt().run().await?;
    assert_eq!((busy.hits(), report.total.repaired, report.is_clean()), (1, 2, true));
    drop(behind);
    let after = store(&account, ring_of(of(27)))?;
    for number in 1..=2 {
        assert_eq!(after.get(key(number)).await?.map(|one| one.entity), Some(patient(number)));
    }
    Ok(())
}

#[tokio::test]
async fn what_reencryption_cannot_open_is_named_and_left_as_it_is() -> TestResult {
    let (_server, account, patients) = start().await?;
    for number in 1..=3 {
        patients.insert(&patient(number)).await?;
    }
    let mut altered = raw(&account, "patient_000002").await?;
    altered.set("Name", vec![1_u8, 1]);
    put(&account, &altered).await?;
    put(&account, &DynamicEntity::of(&patient(4))?).await?;

    let report = store(&account, ring(27))?.reencrypt().run().await?;
    assert_eq!((report.total.repaired, report.total.unreadable), (2, 2), "{report:?}");
    assert!(!report.is_clean());
    let named: Vec<_> = report.problems.iter().map(|problem| &*problem.row_key).collect();
    assert_eq!(named, ["patient_000002", "patient_000004"]);
    let left = raw(&account, "patient_000002").await?;
    assert!(altered.iter().all(|(name, value)| left.get(name) == Some(value)));
    Ok(())
}

/// Keys before whose sealing another program writes, as often as it says.
struct Meddled {
    ring: KeyRing,
    account: StorageAccount,
    left: AtomicU32,
}

impl Sealer for Meddled {
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let take = |left: u32| left.checked_sub(1);
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let doctor = format!("doctor {}", self.left.load(Ordering::Relaxed));
                let other = store(&self.account, ring(27))?;
                other.upsert(&Patient { doctor, ..patient(1) }).await?;
            }
            self.ring.seal(op, table, names, row).await
        })
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        self.ring.open(table, names, row)
    }

    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<DateTime<Utc>>> {
        self.ring.renew(table)
    }

    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>> {
        self.ring.is_current(table, names, row)
    }
}

#[tokio::test]
async fn reencryption_keeps_what_others_write_meanwhile() -> TestResult {
    let (_server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    patients.insert(&patient(2)).await?;
    let meddled = Meddled { ring: ring(27), account: account.clone(), left: AtomicU32::new(3) };
    let job = Store::<Patient>::builder(account.table("patients"))
        .queue(account.queue("patients"))
        .keys(meddled)
        .build()?;
    let report = job.reencrypt().run().await?;
    assert_eq!((report.total.repaired, report.is_clean()), (2, true), "{report:?}");
    let read = store(&account, ring_of(of(27)))?;
    let expected = Patient { doctor: "doctor 0".into(), ..patient(1) };
    assert_eq!(read.get(key(1)).await?.map(|one| one.entity), Some(expected));
    assert_eq!(read.query(Patient::by_tag("north", "doctor 0")).all().await?.len(), 1);
    assert!(read.verify().run().await?.is_clean());
    Ok(())
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

/// An entity of the retired SDKs as it was stored, and its key-encryption key.
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
async fn what_the_retired_sdks_stored_is_read_as_a_type_and_brought_into_the_new_form() -> TestResult
{
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

#[tokio::test]
async fn the_model_and_the_table_agree_after_any_operations() -> TestResult {
    let (_server, account, _) = start().await?;
    let mut rewritten = 0;
    for seed in seeds(30) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let ward = format!("w{seed}");
        let key = |number| Patient::key(&*ward, number);
        let mut year = 26;
        let mut model: BTreeMap<u32, Patient> = BTreeMap::new();
        for step in 0..12 {
            let patients = store(&account, ring(year))?;
            let number = random.below(4);
            let entity = Patient {
                ward: ward.clone(),
                name: random.pick(&["Ada", "Bob", ""]).to_owned(),
                scan: (!random.one_in(3)).then(|| vec![seed.to_le_bytes()[0]; number as usize]),
                badge: u32::try_from(seed)? * 10 + number,
                doctor: random.pick(&["kim", "lee"]).to_owned(),
                ..patient(number)
            };
            match random.below(6) {
                0 | 1 => {
                    patients.upsert(&entity).await?;
                    model.insert(number, entity);
                }
                2 => match patients.insert(&entity).await {
                    Ok(_) => assert_eq!(model.insert(number, entity), None),
                    Err(error) => assert!(error.is_already_exists() && model.contains_key(&number)),
                },
                3 => {
                    let change = |one: &mut Patient| one.scan.clone_from(&entity.scan);
                    match patients.update(key(number), change).await {
                        Ok(_) => model.get_mut(&number).unwrap().scan = entity.scan,
                        Err(error) => {
                            assert!(error.is_not_found() && !model.contains_key(&number));
                        }
                    }
                }
                4 => {
                    let existed = patients.delete(key(number)).await?;
                    assert_eq!(existed, model.remove(&number).is_some());
                }
                _ => {
                    year += 1;
                    let patients = store(&account, ring(year))?;
                    let report = patients.reencrypt().run().await?;
                    assert!(report.is_clean(), "{step}: {report:?}");
                    rewritten += report.total.repaired;
                }
            }
            let patients = store(&account, ring(year))?;
            let stored = patients.get(key(number)).await?.map(|stored| stored.entity);
            assert_eq!(stored.as_ref(), model.get(&number));
        }
        let left = store(&account, ring(year))?.query(Patient::partition(&*ward)).all().await?;
        let left: Vec<_> = left.into_iter().map(|stored| stored.entity).collect();
        assert_eq!(left, model.into_values().collect::<Vec<_>>());
        let table = account.table("patients");
        let rows = table.scan::<DynamicEntity>().all().await?;
        for row in rows {
            table.delete_if_exists(row.entity.key(), Match::Any).await?;
        }
    }
    assert!(rewritten > 20, "{rewritten}");
    Ok(())
}
