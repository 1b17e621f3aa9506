//! Encrypted fields in a store: stored rows, rejected reads and writes, and other declarations.
//!
//! - this file: the type of all these tests, writes, reads and refusals
//! - `by_entity`: values of which only some entities are encrypted
//! - `blobs`: fields that are encrypted and in blobs
//! - `tasks`: tasks whose messages, claims and dead letters are encrypted
//! - `differing`: types of two versions that declare one field differently
//! - `clocks`: rotation between programs whose clocks differ
//! - `records`: records of branch keys that no program made
//! - `tamper`: altered, moved and forged values are rejected
//! - `rolling`: versions of a type and programs without keys, in a rolling deployment
//! - `rotation`: keys change, through every failure and beside other writers
//! - `older`: what the retired SDKs stored
//! - `unknown`: properties that the type does not know stay beside encrypted ones
//! - `versions`: what one version of a program encrypts stays encrypted when another one writes it

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use futures_util::stream;
use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, IndexKey, KeyRing, MacKey};
use rowkey::store::{Op, Sealer, Store, View};
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, Outcome, Result,
    ScanPolicy, StorageAccount, Table,
};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, is_brief, once, sweep_sample};

mod blobs;
mod by_entity;
mod clocks;
mod differing;
mod older;
mod records;
mod rolling;
mod rotation;
mod tamper;
mod tasks;
mod unknown;
mod versions;

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

async fn start() -> TestResult<(Server, StorageAccount, Store<Patient>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let patients = store(&account, ring(26))?;
    patients.create_if_missing().await?;
    Ok((server, account, patients))
}

/// The clock of the account passes short waits alone.
async fn wait(account: &StorageAccount, seconds: u64) {
    for _ in 0..seconds / 4 {
        account.clock().sleep(Duration::from_secs(4)).await;
    }
}

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
async fn every_read_decrypts_every_encrypted_write() -> TestResult {
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

    // Under a version, and in a transaction that reads: the entities are decrypted, and encrypted again.
    let stale =
        patients.patch(key(2)).set(Patient::NAME, "Eve").if_version(&copy.version).send().await;
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
    let read = patients.get(key(2)).await?.ok_or("not there")?.version;
    patients.patch(key(2)).set(Patient::NAME, "Bo").if_version(&read).send().await?;
    let copy = patients.find(Patient::by_bed("north", 20_u32)).await?.ok_or("not there")?;
    let patch = patients.patch(key(2)).set(Patient::NAME, "Bob").if_version(&copy.version);
    let changed = patients.transaction().patch(patch).update(key(3), |one| one.name.push('!'));
    changed.submit().await?;
    let names = [2, 3].map(|number| patients.get(key(number)));
    let names = futures_util::future::try_join_all(names).await?;
    let names = names.into_iter().map(|one| one.map(|one| one.entity.name));
    assert_eq!(names.collect::<Option<Vec<_>>>().ok_or("not there")?, ["Bob", "Patient 3!"]);
    assert_sealed(&server.snapshot());

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
async fn missing_keys_and_unused_keys_are_rejected() -> TestResult {
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
async fn a_patch_reads_for_a_list_and_if_the_store_has_keys() -> TestResult {
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
    // Only the stored entity tells whether a program of another version encrypts it.
    assert!(secrets.patch(key()).set(Secret::OPEN, false).reads());
    secrets.patch(key()).set(Secret::OPEN, false).send().await?;
    assert_eq!(server.journal().since(&before).len(), 2);
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
async fn filters_on_encrypted_properties_are_rejected_except_blind_index_lookups() -> TestResult {
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
        .with(view.count(Doctor::PATIENTS))
        .build()?;
    for number in 1..=3 {
        patients.insert(&patient(number)).await?;
    }
    patients.update(key(3), |one| one.history.clear()).await?;
    let doctor = account.table("patients").get(Doctor::key("kim")).await?.ok_or("no summary")?;
    assert_eq!(doctor.entity.patients, 2);
    Ok(())
}

#[tokio::test]
async fn random_operations_agree_with_a_model() -> TestResult {
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
                    Err(error) => assert!(
                        error.kind() == ErrorKind::AlreadyExists && model.contains_key(&number)
                    ),
                },
                3 => {
                    let change = |one: &mut Patient| one.scan.clone_from(&entity.scan);
                    match patients.update(key(number), change).await {
                        Ok(_) => model.get_mut(&number).unwrap().scan = entity.scan,
                        Err(error) => {
                            assert!(
                                error.kind() == ErrorKind::NotFound && !model.contains_key(&number)
                            );
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
    assert!(is_brief() || rewritten > 20, "{rewritten}");
    Ok(())
}
