//! Encryption of chosen properties: what is stored, what is refused, rotation whatever fails, and what
//! the retired SDKs left.

mod operations;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey::edm::Value;
use rowkey::{DynamicEntity, Entity, ErrorKind, Match, Outcome, StorageAccount, Table};
use rowkey_encryption::{AesKeyWrap, DataKey, Encrypted, IndexKey, KeyRing, KeyWrapper};
use rowkey_server::Server;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{Runs, account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{ward}", row = "{number:6}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    scan: Option<Vec<u8>>,
    #[entity(json, encrypt)]
    history: Vec<String>,
    bed: i32,
}

fn patient(number: u32) -> Patient {
    Patient {
        ward: "north".into(),
        number,
        name: format!("Patient {number}"),
        scan: Some(vec![0, 255, 7]),
        history: vec!["fever".into(), "O'Neil's".into()],
        bed: 3,
    }
}

fn key(number: u32) -> rowkey::Key<Patient> {
    Patient::key("north", number)
}

fn north() -> rowkey::Partition<Patient> {
    Patient::partition("north")
}

/// The key of a year; its bytes are the last digits.
fn of(year: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("20{year:02}"), [year; 32])
}

/// A ring of the key of this year, and those of the years before from 26 on.
fn ring(year: u8) -> KeyRing {
    (26..year).fold(KeyRing::new(of(year)), |ring, older| ring.with(of(older)))
}

fn patients(table: Table, ring: KeyRing) -> Encrypted<Patient> {
    Encrypted::new(table, ring).index(IndexKey::new([9; 32]), ["Name"])
}

/// A server whose clock stands still, and its table as the client of 2026 sees it.
async fn start() -> Result<(Server, Encrypted<Patient>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("patients");
    table.create().await?;
    Ok((server, patients(table, ring(26))))
}

fn raw(number: u32) -> rowkey::Key<DynamicEntity> {
    rowkey::Key::new("north", format!("{number:06}"))
}

#[tokio::test]
async fn entities_come_back_as_they_were_and_are_stored_unreadable() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let patients = patients(table.clone(), ring(26));
    patients.insert(&patient(1)).await?;
    let stored = patients.get(key(1)).await?.unwrap();
    assert_eq!(stored.entity, patient(1));

    let raw_row = table.get(raw(1)).await?.unwrap().entity;
    for name in ["Name", "Scan", "History"] {
        assert!(matches!(raw_row.get(name), Some(Value::Binary(_))), "{name}");
    }
    assert_eq!(raw_row.get("Bed"), Some(&3.into()));
    assert_eq!(raw_row.iter().len(), 6);

    patients.replace(&stored.clone().map(|p| p.name = "Ada".into())).await?;
    let stale = patients.replace(&stored).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    patients.upsert(&Patient { scan: None, ..patient(2) }).await?;
    let error = patients.insert(&patient(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(patients.get(key(3)).await?, None);

    let all = patients.query(north()).page_size(1).all().await?;
    let names: Vec<_> = all.iter().map(|p| (&*p.entity.name, p.entity.scan.is_some())).collect();
    assert_eq!(names, [("Ada", true), ("Patient 2", false)]);
    let in_bed = patients.scan().filter(Patient::BED.is(4)).first().await?;
    assert_eq!(in_bed, None);

    // What is not encrypted may be changed in the table itself.
    let mut bed = DynamicEntity::new("north", "000001");
    bed.set("Bed", 5);
    table.merge((&bed, Match::Any)).await?;
    let found = patients.query(north()).filter(Patient::BED.is(5)).first().await?.unwrap();
    assert_eq!((found.entity.name, found.entity.bed), ("Ada".into(), 5));

    // A transaction takes entities that are encrypted already.
    let (three, four) =
        (patients.encrypt(&patient(3)).await?, patients.encrypt(&patient(4)).await?);
    table.transaction().insert(&three).insert(&four).delete(key(1), Match::Any).submit().await?;
    let all = patients.query(north()).all().await?;
    assert_eq!(all.iter().map(|p| p.entity.number).collect::<Vec<_>>(), [2, 3, 4]);
    Ok(())
}

#[tokio::test]
async fn equal_values_are_found_by_their_blind_index() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let patients = patients(table.clone(), ring(26));
    for number in 1..=3 {
        let name = if number == 2 { "Ada" } else { "Ada L." };
        patients.insert(&Patient { name: name.into(), ..patient(number) }).await?;
    }
    let numbers = async |name: &str| -> rowkey::Result<Vec<u32>> {
        let found = patients.query(north()).filter(patients.equals("Name", name)?).all().await?;
        Ok(found.iter().map(|patient| patient.entity.number).collect())
    };
    assert_eq!(numbers("Ada L.").await?, [1, 3]);
    assert_eq!(numbers("Ada").await?, [2]);
    assert_eq!(numbers("ada").await?, [0; 0], "byte for byte");
    let error = patients.equals("History", "[]").unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let bed = Encrypted::<Patient>::new(table.clone(), ring(26));
    let error = bed.index(IndexKey::new([9; 32]), ["Bed"]).equals("Bed", "3").unwrap_err();
    assert!(error.to_string().contains("`Bed` is not encrypted"), "{error}");
    // Another key finds nothing, and the index says nothing of the value in another table.
    let other = Encrypted::<Patient>::new(table.clone(), ring(26));
    let other = other.index(IndexKey::new([8; 32]), ["Name"]);
    let found = other.query(north()).filter(other.equals("Name", "Ada")?).all().await?;
    assert_eq!(found, []);
    Ok(())
}

#[tokio::test]
async fn a_resolver_chooses_by_keys_and_name() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let notes = Encrypted::<DynamicEntity>::new(table.clone(), ring(26)).resolver(
        |partition_key, row_key, name| {
            assert_ne!(name, "EntityType", "queries have to see it");
            partition_key == "secret" && row_key != "index" && name.starts_with("Text")
        },
    );
    for keys in [("secret", "1"), ("secret", "index"), ("open", "1")] {
        let mut note = DynamicEntity::new(keys.0, keys.1);
        note.set("EntityType", "Note");
        note.set("Text1", "hush");
        note.set("Other", "heard");
        notes.insert(&note).await?;
        assert_eq!(notes.get(note.key()).await?.unwrap().entity, note);
        let stored = table.get(note.key()).await?.unwrap().entity;
        let encrypted = matches!(stored.get("Text1"), Some(Value::Binary(_)));
        assert_eq!(encrypted, keys == ("secret", "1"), "{keys:?}");
        assert_eq!(stored.get("Other"), Some(&"heard".into()));
        assert!(stored.get("_RowkeyEncryption").is_some(), "also where nothing is chosen");
    }
    Ok(())
}

#[tokio::test]
async fn a_merge_needs_every_encrypted_property() -> TestResult {
    let (server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let before = server.journal();
    let partial = Patient { scan: None, ..patient(1) };
    let refused = [
        patients.merge((&partial, Match::Any)).await.unwrap_err(),
        patients.upsert_merge(&partial).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("`Scan` is absent"), "{error}");
    }
    let notes = Encrypted::<DynamicEntity>::new(patients.table().clone(), ring(26));
    let error = notes.resolver(|_, _, _| true).upsert_merge(&DynamicEntity::new("a", "b")).await;
    assert!(error.unwrap_err().to_string().contains("cannot be known"));
    let by_name = Encrypted::<Patient>::new(patients.table().clone(), ring(26));
    let by_name = by_name.resolver(|_, _, name| name == "Bed");
    let error = by_name.merge((&patient(1), Match::Any)).await.unwrap_err();
    assert!(error.to_string().contains("`Bed` is Edm.Int32"), "{error}");
    assert_eq!(server.journal().since(&before).len(), 0);

    let whole = Patient { name: "Ada".into(), bed: 9, ..patient(1) };
    patients.merge((&whole, Match::Any)).await?;
    assert_eq!(patients.get(key(1)).await?.unwrap().entity, whole);
    patients.upsert_merge(&patient(2)).await?;
    assert_eq!(patients.get(key(2)).await?.unwrap().entity, patient(2));
    Ok(())
}

#[tokio::test]
async fn what_was_swapped_altered_or_put_there_in_plain_is_never_read() -> TestResult {
    let (_server, patients) = start().await?;
    let table = patients.table();
    patients.insert(&patient(1)).await?;
    patients.insert(&patient(2)).await?;
    let rows = (table.get(raw(1)).await?.unwrap().entity, table.get(raw(2)).await?.unwrap().entity);
    let all = ["Name", "Scan", "History", "Name_BlindIndex", "_RowkeyEncryption"];
    let from_other = |names: &[&str]| {
        let mut row = rows.0.clone();
        for name in names {
            row.set(*name, rows.1.get(name).unwrap().clone());
        }
        row
    };
    let mut wrong: Vec<_> = all.iter().map(|name| from_other(&[name])).collect();
    wrong.push(from_other(&all));
    let mut swapped = rows.0.clone();
    let name = swapped.get("Name").unwrap().clone();
    swapped.set("Name", swapped.get("History").unwrap().clone());
    swapped.set("History", name);
    wrong.push(swapped);
    for name in ["Name", "Scan", "History"] {
        let Some(Value::Binary(bytes)) = rows.0.get(name) else { panic!("{name}") };
        for altered in [&bytes[..bytes.len() - 1], &bytes[..1], &[]] {
            let mut row = rows.0.clone();
            row.set(name, altered.to_vec());
            wrong.push(row);
        }
        let mut row = rows.0.clone();
        row.set(name, "plain");
        wrong.push(row);
        let mut row = rows.0.clone();
        row.remove(name);
        wrong.push(row);
    }
    wrong.push(DynamicEntity::of(&patient(1))?);
    assert_eq!(wrong.len(), 23);
    for row in wrong {
        table.replace((&row, Match::Any)).await?;
        let errors = [
            patients.get(key(1)).await.unwrap_err(),
            patients.query(north()).all().await.unwrap_err(),
            patients.scan().first().await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains("Decrypt on patients: "), "{text}");
            assert!(!text.contains("Patient 1") && !text.contains("Patient 2"), "{text}");
        }
    }
    table.replace((&rows.0, Match::Any)).await?;
    assert_eq!(patients.get(key(1)).await?.unwrap().entity, patient(1));
    let wrong_key =
        Encrypted::<Patient>::new(table.clone(), KeyRing::new(AesKeyWrap::new("2026", [1; 32])));
    assert_eq!(wrong_key.get(key(1)).await.unwrap_err().kind(), ErrorKind::Decode);
    Ok(())
}

#[tokio::test]
async fn a_table_does_not_take_what_is_to_be_encrypted() -> TestResult {
    let (server, patients) = start().await?;
    let before = server.journal();
    let error = patients.table().upsert(&patient(1)).await.unwrap_err();
    assert!(error.to_string().contains("property `Name`: it is to be encrypted"), "{error}");
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, patients) = start().await?;
    let next = std::sync::atomic::AtomicU8::new(0);
    let patients = patients.with_random(move |bytes| {
        bytes.fill_with(|| next.fetch_add(1, Ordering::Relaxed));
    });
    patients.insert(&Patient { scan: None, history: Vec::new(), ..patient(7) }).await?;
    let snapshot = server.snapshot();
    let row = snapshot.table("patients").unwrap().entity("north", "000007").unwrap();
    let base64 = |value: Value| match value {
        Value::Binary(bytes) => Value::String(STANDARD.encode(bytes)),
        other => other,
    };
    let found: Vec<_> = row.properties().map(|(name, value)| (name, base64(value))).collect();
    let expected: [(&str, Value); 5] = [
        ("Name", GOLDEN[0].into()),
        ("History", GOLDEN[1].into()),
        ("Bed", 3.into()),
        ("Name_BlindIndex", GOLDEN[2].into()),
        ("_RowkeyEncryption", GOLDEN[3].into()),
    ];
    assert_eq!(found, expected);
    Ok(())
}

/// Made by Python's `cryptography` from the description in the book.
const GOLDEN: [&str; 4] = [
    "AQEgISIjJCUmJygpKiuCW9IZCfZuLi3V4SMraa5+hx0WeyegOuQw",
    "AQEsLS4vMDEyMzQ1NjcJoLO48icN/ff6NS/5T5KGUIw=",
    "pnuw3Zw8CGephi0QZ8SDnyDiCQIrZ3rm3O3Y7Ll4auI",
    "1 2026 A256KW opUcVxW3mOfFMIQLKdiULMRltSlTNMAxYdrG2mIiheP8qr-_oTbuSg ODk6Ozw9Pj9AQUJDBqNniqJ8lzVTKDrqNOEK0w Name,History",
];

#[tokio::test]
async fn what_each_operation_costs() -> TestResult {
    let (server, patients) = start().await?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    for number in 1..=5 {
        patients.insert(&patient(number)).await?;
    }
    assert_eq!(cost(), 5, "inserts");
    patients.get(key(1)).await?;
    assert_eq!(cost(), 1, "get");
    patients.query(north()).all().await?;
    assert_eq!(cost(), 1, "query");
    patients.replace((&patient(1), Match::Any)).await?;
    patients.upsert(&patient(1)).await?;
    patients.merge((&patient(1), Match::Any)).await?;
    assert_eq!(cost(), 3, "one each");
    let rotated = self::patients(patients.table().clone(), ring(27));
    assert_eq!(rotated.reencryption().run().await?.rewritten, 5);
    assert_eq!(cost(), 2, "a page, and a transaction of its entities");
    assert_eq!(rotated.reencryption().run().await?.rewritten, 0);
    assert_eq!(cost(), 1, "nothing is left to do");
    Ok(())
}

/// Two entities under the old key, one under the new, one in plain and one of the retired SDKs.
async fn mixed(table: &Table) -> TestResult {
    let (old, new) = (patients(table.clone(), ring(26)), patients(table.clone(), ring(27)));
    old.insert(&patient(1)).await?;
    new.insert(&patient(2)).await?;
    table.insert(&DynamicEntity::of(&patient(3))?).await?;
    old.insert(&patient(4)).await?;
    table.insert(&legacy(0).0).await?;
    Ok(())
}

fn migrating(table: Table) -> Encrypted<DynamicEntity> {
    let ring = ring(27).with(AesKeyWrap::new("key1", legacy(0).1));
    Encrypted::new(table, ring)
        .resolver(|_, _, name| ["Name", "Scan", "History"].contains(&name))
        .index(IndexKey::new([9; 32]), ["Name"])
        .accept_legacy()
        .accept_plaintext()
}

/// What must be true when the job has passed, with the new key alone.
async fn assert_rotated(table: &Table) -> TestResult {
    let new = patients(table.clone(), KeyRing::new(of(27)));
    for number in 1..=4 {
        assert_eq!(new.get(key(number)).await?.unwrap().entity, patient(number));
    }
    let found = new.query(north()).filter(new.equals("Name", "Patient 3")?).all().await?;
    assert_eq!(found.len(), 1, "what was in plain has an index now");
    let legacy = Encrypted::<DynamicEntity>::new(table.clone(), KeyRing::new(of(27)));
    let (row, _) = self::legacy(0);
    let read = legacy.get(row.key()).await?.unwrap().entity;
    assert_eq!(read.get("sampleProp2"), Some(&"sampleValue".into()));
    assert_eq!(read.iter().len(), 3, "the old metadata is gone");
    Ok(())
}

#[tokio::test]
async fn the_job_passes_whichever_of_its_requests_fails() -> TestResult {
    let (server, patients) = start().await?;
    mixed(patients.table()).await?;
    let job = |account: &StorageAccount| migrating(account.table("patients")).reencryption();
    // The client repeats nothing: the job breaks off, and another one goes on from the checkpoint.
    let runs = sweep(
        &server,
        async |account| {
            let mut job = job(&once(account)).page_size(2);
            let mut checkpoint = None;
            loop {
                match job.step().await {
                    Ok(Some(progress)) => {
                        assert!(progress.refused.is_empty(), "{:?}", progress.refused);
                        checkpoint = progress.continuation.map(|place| place.to_string());
                    }
                    Ok(None) => return (None, None),
                    Err(error) => return (checkpoint, Some(error)),
                }
            }
        },
        async |account, (checkpoint, error)| {
            if error.is_some() {
                let job = job(account).page_size(2);
                let job = match checkpoint {
                    Some(place) => job.resume(place.parse()?),
                    None => job,
                };
                assert!(job.run().await?.refused.is_empty());
            }
            assert_rotated(&account.table("patients")).await
        },
        |snapshot, _| {
            for row in snapshot.table("patients").unwrap().entities() {
                let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else {
                    panic!("there is metadata")
                };
                assert!(metadata.starts_with("1 2027 "), "{metadata}");
            }
        },
    )
    .await?;
    // Two pages, and the transactions of three partitions on them.
    assert_eq!(runs, Runs { requests: 5, failures: 20 });

    // The client repeats what may be repeated, and the job itself passes.
    sweep(
        &server,
        async |account| job(account).page_size(2).run().await,
        async |account, result| {
            let progress = result.as_ref().map_err(ToString::to_string)?;
            assert_eq!(progress.rewritten, 4, "each once, whatever was lost");
            assert_rotated(&account.table("patients")).await
        },
        |_, _| {},
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_write_is_there_whole_or_not_at_all() -> TestResult {
    let (server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let runs = sweep(
        &server,
        async |account| {
            let patients = self::patients(once(account).table("patients"), ring(26));
            let stored = patients.get(key(1)).await?.unwrap();
            patients.replace(&stored.map(|p| p.name = "Ada".into())).await?;
            patients.insert(&patient(2)).await
        },
        async |account, result| {
            let patients = self::patients(account.table("patients"), ring(26));
            let one = patients.get(key(1)).await?.unwrap().entity;
            let two = patients.get(key(2)).await?.map(|stored| stored.entity);
            assert!(["Ada", "Patient 1"].contains(&&*one.name));
            if result.is_ok() {
                assert_eq!((&*one.name, &two), ("Ada", &Some(patient(2))));
            }
            assert!(two.is_none_or(|two| two == patient(2)));
            Ok(())
        },
        |_, _| {},
    )
    .await?;
    assert_eq!(runs, Runs { requests: 3, failures: 12 });
    Ok(())
}

/// A key that somebody else's write comes before, as often as it says.
struct Meddled {
    key: AesKeyWrap,
    table: Table,
    left: AtomicU32,
}

#[async_trait]
impl KeyWrapper for Meddled {
    fn key_id(&self) -> &str {
        self.key.key_id()
    }

    fn algorithm(&self) -> &str {
        self.key.algorithm()
    }

    async fn wrap_key(&self, key: &DataKey) -> rowkey::Result<Vec<u8>> {
        let take = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            let left = self.left.load(Ordering::Relaxed);
            let other = patients(self.table.clone(), ring(26));
            other.upsert(&Patient { bed: i32::try_from(left).unwrap(), ..patient(1) }).await?;
        }
        self.key.wrap_key(key).await
    }

    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> rowkey::Result<DataKey> {
        self.key.unwrap_key(algorithm, wrapped).await
    }
}

#[tokio::test]
async fn the_job_keeps_what_others_write_meanwhile() -> TestResult {
    let (_server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let meddled = |times| {
        let table = patients.table().clone();
        let meddled = Meddled { key: of(27), table, left: AtomicU32::new(times) };
        self::patients(patients.table().clone(), KeyRing::new(meddled).with(of(26)))
    };
    assert_eq!(meddled(3).reencryption().run().await?.rewritten, 1);
    let read = self::patients(patients.table().clone(), KeyRing::new(of(27)));
    assert_eq!(read.get(key(1)).await?.unwrap().entity, Patient { bed: 0, ..patient(1) });

    patients.upsert(&patient(1)).await?;
    let error = meddled(99).reencryption().run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(meddled(0).reencryption().run().await?.rewritten, 1);
    Ok(())
}

#[tokio::test]
async fn what_the_job_cannot_read_is_reported_and_left_as_it_is() -> TestResult {
    let (server, patients) = start().await?;
    for number in 1..=3 {
        patients.insert(&patient(number)).await?;
    }
    let table = patients.table();
    let mut altered = table.get(raw(2)).await?.unwrap().entity;
    altered.set("Name", vec![1_u8, 1]);
    table.replace((&altered, Match::Any)).await?;
    table.insert(&DynamicEntity::of(&patient(4))?).await?;

    let progress = self::patients(table.clone(), ring(27)).reencryption().run().await?;
    assert_eq!(progress.rewritten, 2);
    let refused: Vec<_> = progress.refused.iter().map(|r| (&*r.row_key, r.error.kind())).collect();
    assert_eq!(refused, [("000002", ErrorKind::Decode), ("000004", ErrorKind::Decode)]);
    let left = table.get(raw(2)).await?.unwrap().entity;
    assert!(altered.iter().all(|(name, value)| left.get(name) == Some(value)));

    // A step that was not for this ring is refused.
    let mut job = self::patients(table.clone(), ring(27)).reencryption().page_size(1);
    let place = job.step().await?.unwrap().continuation.unwrap();
    let other = self::patients(table.clone(), ring(28)).reencryption().resume(place);
    assert_eq!(other.run().await.unwrap_err().kind(), ErrorKind::Invalid);
    drop(server);
    Ok(())
}

#[tokio::test]
async fn everything_is_written_anew_when_it_is_asked_for() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let patients = patients(table.clone(), ring(26));
    let without_index = Encrypted::<Patient>::new(table.clone(), ring(26));
    without_index.insert(&patient(1)).await?;
    let mut elsewhere = patient(1);
    elsewhere.ward = "south".into();
    without_index.insert(&elsewhere).await?;
    let found = async || -> rowkey::Result<usize> {
        Ok(patients.scan().filter(patients.equals("Name", "Patient 1")?).all().await?.len())
    };
    assert_eq!(patients.reencryption().run().await?.rewritten, 0);
    assert_eq!(found().await?, 0);
    let job = patients.reencryption().everything().partition(north());
    assert_eq!(job.run().await?.rewritten, 1);
    assert_eq!(found().await?, 1);
    // A job that does not know the index keeps it.
    let rotated = Encrypted::<Patient>::new(table.clone(), ring(27));
    assert_eq!(rotated.reencryption().run().await?.rewritten, 2);
    let patients = self::patients(table.clone(), KeyRing::new(of(27)));
    let by_index = patients.scan().filter(patients.equals("Name", "Patient 1")?).all().await?;
    assert_eq!(by_index.len(), 1);
    assert_eq!(by_index[0].entity, patient(1));
    Ok(())
}

/// An entity of the retired SDKs as it was stored, and its key-encryption key.
fn legacy(index: usize) -> (DynamicEntity, [u8; 32]) {
    let text = include_str!("../../../crates/rowkey-encryption/vectors/legacy-v1.json");
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

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}")]
struct Person {
    partition: String,
    row: String,
    #[entity(encrypt)]
    sex: String,
    #[entity(encrypt)]
    name: Option<String>,
}

#[tokio::test]
async fn what_the_retired_sdks_stored_is_read_as_a_type_and_replaced_in_the_new_form() -> TestResult
{
    let table = Fixture::new().await?.table_with_server().await?;
    for index in 2..8 {
        let (row, kek) = legacy(index);
        table.insert(&row).await?;
        let ring = KeyRing::new(of(26)).with(AesKeyWrap::new("key1", kek));
        let people = Encrypted::<Person>::new(table.clone(), ring).accept_legacy();
        let key = Person::key(&*row.partition_key, &*row.row_key);
        let stored = people.get(key.clone()).await?.unwrap();
        assert_eq!(stored.entity.sex, "male");
        people.replace(&stored).await?;
        let strict = Encrypted::<Person>::new(table.clone(), KeyRing::new(of(26)));
        assert_eq!(strict.get(key).await?.unwrap().entity, stored.entity);
    }
    Ok(())
}

#[tokio::test]
async fn the_model_and_the_table_agree_after_any_operations() -> TestResult {
    let (_server, first) = start().await?;
    let table = first.table();
    let mut rewritten = 0;
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let ward = format!("w{seed}");
        let key = |number| Patient::key(&*ward, number);
        let all = || Patient::partition(&*ward);
        let mut year = 26;
        let mut model: BTreeMap<u32, Patient> = BTreeMap::new();
        for _ in 0..12 {
            let patients = patients(table.clone(), ring(year));
            let number = random.below(4);
            let entity = Patient {
                ward: ward.clone(),
                name: random.pick(&["Ada", "Bob", ""]).to_owned(),
                scan: (!random.one_in(3)).then(|| vec![seed.to_le_bytes()[0]; number as usize]),
                bed: i32::try_from(random.below(9))?,
                ..patient(number)
            };
            match random.below(8) {
                0 | 1 => {
                    patients.upsert(&entity).await?;
                    model.insert(number, entity);
                }
                2 => match patients.insert(&entity).await {
                    Ok(_) => assert_eq!(model.insert(number, entity), None),
                    Err(error) => {
                        assert!(error.is_already_exists() && model.contains_key(&number));
                    }
                },
                3 => match patients.merge((&entity, Match::Any)).await {
                    Ok(_) => assert!(model.insert(number, entity).is_some()),
                    Err(error) if error.is_not_found() => assert!(!model.contains_key(&number)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Invalid);
                        assert_eq!(entity.scan, None);
                    }
                },
                4 => {
                    let existed = table.delete_if_exists(key(number), Match::Any).await?;
                    assert_eq!(existed, model.remove(&number).is_some());
                }
                5 => year += 1,
                6 => {
                    let job = patients.reencryption().partition(all()).page_size(2);
                    let progress = job.run().await?;
                    assert!(progress.refused.is_empty());
                    rewritten += progress.rewritten;
                    let alone = self::patients(table.clone(), KeyRing::new(of(year)));
                    assert_eq!(alone.query(all()).all().await?.len(), model.len());
                }
                _ => {
                    let name = entity.name.as_str();
                    let found = patients.query(all()).filter(patients.equals("Name", name)?);
                    let found: Vec<_> = found.all().await?.into_iter().map(|s| s.entity).collect();
                    let expected: Vec<_> =
                        model.values().filter(|p| p.name == name).cloned().collect();
                    assert_eq!(found, expected);
                }
            }
            let stored = patients.get(key(number)).await?.map(|stored| stored.entity);
            assert_eq!(stored.as_ref(), model.get(&number));
        }
        let left = patients(table.clone(), ring(year)).query(all()).all().await?;
        let left: Vec<_> = left.into_iter().map(|stored| stored.entity).collect();
        assert_eq!(left, model.into_values().collect::<Vec<_>>());
    }
    assert!(rewritten > 20, "{rewritten}");
    Ok(())
}
