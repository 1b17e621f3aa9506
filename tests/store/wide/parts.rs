//! Wide entities in parts: single properties are read and patched in their own rows, and no other write is lost or
//! mixed with them.

use super::*;

use rowkey_tests::sweep::{stopped_at_every_request, sweep};
use rowkey_tests::{TestError, TestResult};

/// The rows of a [`Year`], with a row for each name.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    store,
    wide = 9,
    parts,
    partition = "{city}",
    row = "year_{number:4}",
    rename_all = "PascalCase"
)]
struct Parted {
    city: String,
    number: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

/// The same rows in a program that has more of them.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    store,
    wide = 12,
    parts = 4,
    partition = "{city}",
    row = "year_{number:4}",
    rename_all = "PascalCase"
)]
struct Regrouped {
    city: String,
    number: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

fn parted(hours: u32, value: f64) -> Parted {
    let Year { city, number, unit, hours } = year(hours, value);
    Parted { city, number, unit, hours }
}

fn regrouped(hours: u32, value: f64) -> Regrouped {
    let Year { city, number, unit, hours } = year(hours, value);
    Regrouped { city, number, unit, hours }
}

fn at() -> Key<Parted> {
    Parted::key("leeds", 2026)
}

fn parts(account: &StorageAccount) -> rowkey::Result<Store<Parted>> {
    Store::builder(account.table("years")).build()
}

/// A store with a year of 600 hours.
async fn with_hours() -> TestResult<(Server, StorageAccount, Store<Parted>)> {
    let (server, account, _) = start().await?;
    let years = parts(&account)?;
    years.insert(&parted(600, 1.0)).await?;
    Ok((server, account, years))
}

/// The year after a correction of an hour.
fn corrected(mut year: Parted, hour: &str, value: f64) -> Parted {
    year.hours.insert(hour.to_owned(), value);
    year
}

#[tokio::test]
async fn entities_in_parts_of_any_width_round_trip() -> TestResult {
    let (server, account, _) = start().await?;
    let years = parts(&account)?;
    for hours in [0, 1, 250, 600, 1500] {
        let whole = parted(hours, 20.5);
        years.upsert(&whole).await?;
        assert_eq!(years.get(at()).await?.unwrap().entity, whole, "{hours}");
        assert_eq!(years.query(Parted::partition("leeds")).all().await?[0].entity, whole);
        assert_eq!(years.count(Parted::partition("leeds")).await?, 1);
        let report = years.verify().run().await?;
        assert!(report.is_clean() && report.total.drifted() == 0, "{hours}: {report:?}");
        assert_eq!(report.part("further rows").right, 1, "{hours}");
        years.update(at(), |year| year.hours.retain(|hour, _| hour == "H00001")).await?;
        assert!(layout(&server.snapshot()).len() <= 3, "surplus rows go");
        years.delete(at()).await?;
        assert_eq!(layout(&server.snapshot()), [], "nothing is left behind");
    }
    // An entity of one part at least is never in one row, so that its properties have known rows.
    years.insert(&parted(0, 1.0)).await?;
    let rows = layout(&server.snapshot());
    assert_eq!(rows, shown(&[("wide_year_2026_09-08", 4), ("year_2026", 3)]));
    let table = account.table("years");
    let head = table.get(Key::<DynamicEntity>::new("leeds", "year_2026")).await?.unwrap().entity;
    let Some(Value::String(mark)) = head.get("EntityOp") else { panic!("no mark") };
    assert_eq!(head.get("EntityParts"), Some(&format!("09/{mark}").into()));
    assert_eq!(head.get("EntityRows"), Some(&2.into()));
    Ok(())
}

#[tokio::test]
async fn a_property_is_read_and_patched_by_one_request() -> TestResult {
    let (server, account, years) = with_hours().await?;
    let version = years.get(at()).await?.unwrap().version;
    let begun = server.journal();
    let patch = years.patch(at()).set_named("H00007", 9.5);
    assert!(!patch.reads());
    let plan = years.patch(at()).set_named("H00007", 9.5).explain().await?;
    assert_eq!((plan.reads(), plan.requests(), plan.operations()), (0, 1, 2), "{plan}");
    let patched = patch.send().await?;
    assert_eq!(sent(&server, &begun), [0, 0, 1, 0], "one transaction of two rows");

    let begun = server.journal();
    let read = years.get_properties(at(), ["H00007"]).await?.unwrap();
    assert_eq!((read.len(), read.get_as("H00007")), (1, Ok(9.5)));
    assert_eq!(sent(&server, &begun), [1, 0, 0, 0], "one point read");
    // Eight parts have all names.
    let begun = server.journal();
    let names: Vec<_> = (0..600).map(|hour| format!("H{hour:05}")).collect();
    assert_eq!(years.get_properties(at(), names).await?.unwrap().len(), 600);
    assert_eq!(sent(&server, &begun), [8, 0, 0, 0]);

    // The version is that of the entity: a write under the old one is refused, one under the new one is not.
    let error = years.replace_if(&parted(600, 2.0), &version).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let now = years.get(at()).await?.unwrap();
    assert_eq!(now.entity, corrected(parted(600, 1.0), "H00007", 9.5));
    assert_eq!(now.version, patched);
    let begun = server.journal();
    let of = |version| years.patch(at()).set(Parted::UNIT, "F").if_version(version);
    let error = of(&version).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let next = of(&patched).set_named("H00008", 8.0).send().await?;
    assert_eq!(sent(&server, &begun), [0, 0, 2, 0], "the service compares the version");
    let mut expected = corrected(corrected(parted(600, 1.0), "H00007", 9.5), "H00008", 8.0);
    expected.unit = "F".into();
    assert_eq!(years.get(at()).await?.unwrap().entity, expected);
    years.replace_if(&parted(600, 3.0), &next).await?;

    // What needs the whole entity reads it.
    let begun = server.journal();
    let clear = years.patch(at()).clear_named("H00007");
    assert!(clear.reads());
    clear.send().await?;
    assert_eq!(sent(&server, &begun), [1, 1, 1, 0]);
    let read = years.get_properties(at(), ["H00007"]).await?.unwrap();
    assert!(read.is_empty(), "the part is there, the property is not");
    // So does a property whose part does not exist: it is created.
    let few = Parted { number: 2027, ..parted(1, 1.0) };
    years.insert(&few).await?;
    let key = || Parted::key("leeds", 2027);
    let begun = server.journal();
    assert!(years.get_properties(key(), ["H00001"]).await?.unwrap().is_empty());
    assert_eq!(sent(&server, &begun), [2, 1, 0, 0], "the part, and the whole");
    let begun = server.journal();
    years.patch(key()).set_named("H00001", 2.0).send().await?;
    assert_eq!(sent(&server, &begun), [1, 1, 2, 0], "a refused transaction, and an update");
    assert_eq!(years.get(key()).await?.unwrap().entity, corrected(few, "H00001", 2.0));

    // No entity.
    let key = || Parted::key("york", 2026);
    assert_eq!(years.get_properties(key(), ["H00001"]).await?, None);
    let error = years.patch(key()).set_named("H00001", 2.0).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let stale = years.patch(key()).set_named("H00001", 2.0).if_version(&next).send().await;
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
    for name in ["EntityOp", "EntityRows", "EntityParts", "PrimaryRowKey", "RowFormat", "RowKey"] {
        let error = years.patch(at()).set_named(name, 2.0).send().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("is not data"), "{error}");
    }
    assert_eq!(
        account.table("years").get(Key::<DynamicEntity>::new("york", "year_2026")).await?,
        None
    );
    Ok(())
}

#[tokio::test]
async fn names_with_the_same_beginning_are_one_request() -> TestResult {
    let (server, account, _) = start().await?;
    let years = Store::<Regrouped>::builder(account.table("years")).build()?;
    years.insert(&regrouped(600, 1.0)).await?;
    let key = || Regrouped::key("leeds", 2026);
    let begun = server.journal();
    let read = years.get_properties_starting_with(key(), "H002").await?.unwrap();
    assert_eq!(read.len(), 100);
    assert!(read.iter().all(|(name, _)| name.starts_with("H002")));
    let read = years.get_properties_starting_with(key(), "H00201").await?.unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(sent(&server, &begun), [2, 0, 0, 0]);
    let begun = server.journal();
    assert_eq!(years.get_properties_starting_with(key(), "H00").await?.unwrap().len(), 600);
    assert_eq!(sent(&server, &begun), [1, 1, 0, 0], "the names may be in all rows");
    // A patch of several hours of one beginning changes one part.
    let patch = || years.patch(key()).set_named("H00200", 2.0).set_named("H00299", 2.0);
    assert_eq!(patch().explain().await?.operations(), 2);
    patch().send().await?;
    assert_eq!(years.get(key()).await?.unwrap().entity.hours.get("H00299"), Some(&2.0));
    Ok(())
}

/// A patch with an older layout, and a whole write of any program, in every order of their requests.
#[tokio::test]
async fn a_patch_and_another_write_never_mix() -> TestResult {
    for other in ["update", "replace", "other layout", "without parts", "delete", "insert again"] {
        for nth in 1.. {
            let (server, account, years) = with_hours().await?;
            let read = years.get(at()).await?.unwrap();
            let held = server.inject(Fault::any().nth(nth).hold());
            let patch = years.patch(at()).set_named("H00007", 9.5).send();
            let rival = async {
                held.wait_until_held().await;
                let write = write(&account, other, &read).await;
                held.release();
                write
            };
            let mut patch = pin!(patch);
            let patched = match select(&mut patch, pin!(rival)).await {
                Either::Left(_) => break,
                Either::Right((written, _)) => {
                    written?;
                    patch.await
                }
            };
            let now = years.get(at()).await?.map(|stored| stored.entity);
            let expected = if other == "delete" {
                assert_eq!(patched.unwrap_err().kind(), ErrorKind::NotFound, "{nth}");
                None
            } else {
                patched?;
                Some(corrected(parted(600, 2.0), "H00007", 9.5))
            };
            assert_eq!(now, expected, "{other}, request {nth}");
            let report = years.verify().run().await?;
            assert!(report.is_clean() && report.total.drifted() == 0, "{other}: {report:?}");
        }
    }
    Ok(())
}

/// Sets all hours to 2, as another program.
async fn write(
    account: &StorageAccount,
    how: &str,
    read: &rowkey::store::Versioned<Parted>,
) -> rowkey::Result<()> {
    let years = parts(account)?;
    match how {
        "update" => {
            let warm = |year: &mut Parted| year.hours.values_mut().for_each(|hour| *hour = 2.0);
            years.update(at(), warm).await.map(drop)
        }
        "replace" => years.replace_if(&parted(600, 2.0), &read.version).await.map(drop),
        "other layout" => {
            let others = Store::<Regrouped>::builder(account.table("years")).build()?;
            others.upsert(&regrouped(600, 2.0)).await.map(drop)
        }
        "without parts" => store(account)?.upsert(&year(600, 2.0)).await.map(drop),
        "delete" => years.delete(at()).await.map(drop),
        _ => {
            years.delete(at()).await?;
            years.insert(&parted(600, 2.0)).await.map(drop)
        }
    }
}

/// A whole write during which a property is patched, before each of its requests.
#[tokio::test]
async fn a_whole_write_never_overwrites_a_patch() -> TestResult {
    for nth in 1.. {
        let (server, account, years) = with_hours().await?;
        let other = parts(&account)?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let rival = async {
            held.wait_until_held().await;
            let patched = other.patch(at()).set_named("H00007", 9.5).send().await;
            held.release();
            patched
        };
        let mut update = pin!(years.update(at(), |year| year.unit = "F".into()));
        match select(&mut update, pin!(rival)).await {
            Either::Left(_) => break,
            Either::Right((patched, _)) => {
                patched?;
                update.await?;
            }
        }
        let now = years.get(at()).await?.unwrap().entity;
        assert_eq!((now.unit.as_str(), now.hours["H00007"]), ("F", 9.5), "request {nth}");
    }
    // A replacement under the version that was read before the patch, and a deletion.
    let (_server, _, years) = with_hours().await?;
    let read = years.get(at()).await?.unwrap();
    years.patch(at()).set_named("H00007", 9.5).send().await?;
    for refused in [
        years.replace_if(&parted(600, 2.0), &read.version).await.map(drop),
        years.delete_if(at(), &read.version).await,
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    }
    Ok(())
}

/// A reader between the head and the parts: one whole write, and the patch or not, under the version before it.
#[tokio::test]
async fn a_read_during_a_patch_has_one_whole_write_and_an_older_version() -> TestResult {
    let (server, account, years) = with_hours().await?;
    let held = server.inject(Fault::on(Operation::QueryEntities).nth(1).hold());
    let (mut read, second) = (pin!(years.get(at())), pin!(held.wait_until_held()));
    let Either::Right(_) = select(&mut read, second).await else { panic!("no query") };
    let patched = parts(&account)?.patch(at()).set_named("H00007", 9.5).send().await?;
    held.release();
    let read = read.await?.unwrap();
    assert_eq!(read.entity, corrected(parted(600, 1.0), "H00007", 9.5));
    assert_ne!(read.version, patched);
    let refused = years.replace_if(&parted(600, 3.0), &read.version).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "it has to be read again");
    Ok(())
}

#[tokio::test]
async fn a_patch_is_applied_once_or_not_after_any_fault() -> TestResult {
    let (server, _, _) = with_hours().await?;
    let patch = async |account: &StorageAccount| {
        let years = parts(account)?;
        // A part that exists, and an entity with a part that does not.
        years.patch(at()).set_named("H00007", 9.5).set(Parted::UNIT, "F").send().await
    };
    let state = async |account: &StorageAccount| {
        let years = parts(account)?;
        let now = years.get(at()).await?.unwrap().entity;
        let mut after = corrected(parted(600, 1.0), "H00007", 9.5);
        after.unit = "F".into();
        let is_patched = now == after;
        assert!(is_patched || now == parted(600, 1.0), "half of a patch");
        let report = years.verify().run().await?;
        assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
        Ok::<_, TestError>(is_patched)
    };
    let recover = async |account: &StorageAccount, patched: &rowkey::Result<_>| {
        let is_patched = state(account).await?;
        match patched {
            Ok(_) => assert!(is_patched),
            Err(error) => {
                assert_ne!(error.outcome(), Outcome::Unknown, "{error}");
                assert!(!is_patched, "{error}");
            }
        }
        Ok(())
    };
    sweep(&server, patch, recover, |_, _| {}).await?;
    let stopped = async |account: &StorageAccount| state(account).await.map(drop);
    stopped_at_every_request(&server, patch, stopped, |_| {}).await?;
    Ok(())
}

#[tokio::test]
async fn entities_move_between_layouts_as_a_whole() -> TestResult {
    let (server, account, years) = start().await?;
    let in_parts = parts(&account)?;
    let regroups = Store::<Regrouped>::builder(account.table("years")).build()?;
    let keys = || layout(&server.snapshot()).into_iter().map(|(key, _)| key);
    let old = |kind: &str| keys().filter(|key| key.contains(kind)).count();
    // Rows that are filled one after the other, as a program without parts writes them.
    years.insert(&year(600, 1.0)).await?;
    assert_eq!(in_parts.get(at()).await?.unwrap().entity, parted(600, 1.0));
    let read = in_parts.get_properties(at(), ["H00007"]).await?.unwrap();
    assert_eq!(read.get_as("H00007"), Ok(1.0), "read as a whole");
    in_parts.patch(at()).set_named("H00007", 2.0).send().await?;
    assert_eq!((old("_09-"), keys().count()), (8, 9), "the patch moved it");
    // Parts of another layout.
    regroups.patch(Regrouped::key("leeds", 2026)).set_named("H00008", 3.0).send().await?;
    assert_eq!((old("_09-"), old("_12.4-")), (0, keys().count() - 1));
    let expected = corrected(corrected(parted(600, 1.0), "H00007", 2.0), "H00008", 3.0);
    assert_eq!(in_parts.get(at()).await?.unwrap().entity, expected);
    // And back.
    years.update(key(), |year| year.unit = "F".into()).await?;
    assert_eq!((old("-"), keys().count()), (0, 3));
    let now = years.get(key()).await?.unwrap().entity;
    assert_eq!((now.hours, now.unit.as_str()), (expected.hours, "F"));
    assert!(years.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn damaged_parts_are_an_error_and_left_ones_are_orphans() -> TestResult {
    let (server, account, years) = with_hours().await?;
    let table = account.table("years");
    let of = |row_key: &str| Key::<DynamicEntity>::new("leeds", row_key);
    let part = table.get(of("wide_year_2026_09-03")).await?.unwrap().entity;
    let head = table.get(of("year_2026")).await?.unwrap().entity;
    let is_damaged = async || {
        for error in [
            years.get(at()).await.unwrap_err(),
            years.update(at(), |_| ()).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
            assert!(error.to_string().contains("delete_remains"), "{error}");
        }
        for report in [years.verify().run().await?, years.repair().run().await?] {
            assert!(!report.is_clean(), "{report:?}");
            let found = report.part("further rows");
            assert_eq!((found.missing, report.total.orphaned), (1, 0), "{report:?}");
        }
        assert!(layout(&server.snapshot()).len() >= 8, "nothing is deleted");
        Ok::<_, TestError>(())
    };
    table.delete(part.key(), Match::Any).await?;
    is_damaged().await?;
    let mut other = part.clone();
    other.set("EntityOp", "0000000000000000");
    table.insert(&other).await?;
    is_damaged().await?;
    table.replace((&part, Match::Any)).await?;
    assert_eq!(years.get(at()).await?.unwrap().entity, parted(600, 1.0), "it was restored");
    for name in ["EntityRows", "EntityParts"] {
        let mut damaged = head.clone();
        damaged.remove(name);
        table.replace((&damaged, Match::Any)).await?;
        assert_eq!(years.get(at()).await.unwrap_err().kind(), ErrorKind::Decode, "{name}");
        table.replace((&head, Match::Any)).await?;
    }
    table.delete(part.key(), Match::Any).await?;
    assert!(years.delete_remains(at()).await?);
    assert_eq!(layout(&server.snapshot()), []);

    // Another program deletes the head: its parts are left, beside those of the next entity.
    years.insert(&parted(600, 1.0)).await?;
    table.delete(of("year_2026"), Match::Any).await?;
    years.insert(&parted(1, 2.0)).await?;
    let left = layout(&server.snapshot()).len() - 3;
    let report = years.verify().run().await?;
    assert_eq!(report.part("further rows").orphaned, left as u64, "{report:?}");
    years.repair().run().await?;
    assert_eq!(layout(&server.snapshot()).len(), 3);
    assert_eq!(years.get(at()).await?.unwrap().entity, parted(1, 2.0));
    Ok(())
}

/// A year that is found by its unit.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 9, parts, partition = "{city}", row = "noted_{number:4}")]
#[entity(index(name = by_unit, row = "unit_{unit}", many, copy(unit)))]
struct Indexed {
    city: String,
    number: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

/// A year with a secret, and a picture in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 9, parts, partition = "{city}", row = "secret_{number:4}")]
struct Secret {
    city: String,
    number: u16,
    #[entity(encrypt)]
    note: String,
    #[entity(blob)]
    picture: Vec<u8>,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

#[tokio::test]
async fn declarations_make_a_patch_an_update() -> TestResult {
    let (server, account, _) = start().await?;
    let years = Store::<Indexed>::builder(account.table("years")).build()?;
    let hours = year(300, 1.0).hours;
    let (city, number, unit) = ("leeds".to_owned(), 2026, "C".to_owned());
    years.insert(&Indexed { city, number, unit, hours: hours.clone() }).await?;
    let begun = server.journal();
    years.patch(Indexed::key("leeds", 2026)).set(Indexed::UNIT, "F").send().await?;
    assert_eq!(sent(&server, &begun), [1, 1, 1, 0]);
    assert_eq!(years.query(Indexed::by_unit("leeds", "F")).all().await?.len(), 1);
    assert_eq!(years.query(Indexed::by_unit("leeds", "C")).all().await?.len(), 0);

    let ring = KeyRing::new("years", AesKeyWrap::new("2026", [26; 32]), MacKey::new("r", [1; 32]));
    let years = Store::<Secret>::builder(account.table("years"))
        .queue(account.queue("years"))
        .blobs(account.container("years"))
        .keys(ring)
        .build()?;
    years.create_if_missing().await?;
    let (city, note, picture) = ("leeds".to_owned(), "mat".to_owned(), vec![7; 70_000]);
    let secret = Secret { city, number: 2026, note, picture, hours };
    years.insert(&secret).await?;
    let key = || Secret::key("leeds", 2026);
    years.patch(key()).set_named("H00007", 9.5).set(Secret::NOTE, "door").send().await?;
    let read = years.get_properties(key(), ["H00007", "note"]).await?.unwrap();
    assert_eq!(read.get_as("H00007"), Ok(9.5));
    assert_eq!(read.get_as("note"), Ok("door".to_owned()), "it is opened");
    let mut expected = Secret { note: "door".into(), ..secret };
    expected.hours.insert("H00007".into(), 9.5);
    assert_eq!(years.get(key()).await?.unwrap().entity, expected);
    Ok(())
}

/// The next version of the year: its hours are in tenths of a degree.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    store,
    wide = 9,
    parts,
    version = 2,
    from = Parted,
    partition = "{city}",
    row = "year_{number:4}",
    rename_all = "PascalCase"
)]
struct Tenths {
    city: String,
    number: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, i32>,
}

impl From<Parted> for Tenths {
    fn from(Parted { city, number, unit, hours }: Parted) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "they are small")]
        let hours = hours.into_iter().map(|(hour, value)| (hour, (value * 10.0) as i32)).collect();
        Self { city, number, unit, hours }
    }
}

#[tokio::test]
async fn a_patch_never_mixes_two_versions_of_the_type() -> TestResult {
    let (server, account, old) = with_hours().await?;
    let new = Store::<Tenths>::builder(account.table("years")).build()?;
    let key = || Tenths::key("leeds", 2026);
    let read = new.get_properties(key(), ["H00007"]).await?.unwrap();
    assert_eq!(read.get_as("H00007"), Ok(10), "it is converted");
    // The first patch of the new version stores the entity in it.
    let begun = server.journal();
    new.patch(key()).set_named("H00007", 95).send().await?;
    assert_eq!(sent(&server, &begun), [1, 1, 2, 0]);
    let begun = server.journal();
    new.patch(key()).set_named("H00008", 80).send().await?;
    let read = new.get_properties(key(), ["H00008", "H00007"]).await?.unwrap();
    assert_eq!((read.get_as("H00007"), read.get_as("H00008")), (Ok(95), Ok(80)));
    assert_eq!(sent(&server, &begun), [2, 0, 1, 0]);
    let now = new.get(key()).await?.unwrap().entity;
    let before = server.snapshot();
    // A program that has not been deployed yet.
    let error = old.patch(at()).set_named("H00007", 1.5).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    let error = old.get_properties(at(), ["H00007"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert_eq!(layout(&server.snapshot()), layout(&before));
    assert_eq!(new.get(key()).await?.unwrap().entity, now);
    assert!(new.verify().run().await?.is_clean());
    Ok(())
}

/// Entries of a map in one row have names that are data, too.
#[tokio::test]
async fn an_entry_of_a_map_is_patched_in_a_type_of_one_row() -> TestResult {
    /// Opening hours.
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "shops", row = "shop_{name}")]
    struct Shop {
        name: String,
        #[entity(rest)]
        hours: BTreeMap<String, i32>,
    }

    let (server, account, _) = start().await?;
    let shops = Store::<Shop>::builder(account.table("years")).build()?;
    let hours = [("Mon".to_owned(), 9), ("Tue".to_owned(), 9)].into();
    shops.insert(&Shop { name: "a".into(), hours }).await?;
    let begun = server.journal();
    shops.patch(Shop::key("a")).set_named("Tue", 10).set_named("Wed", 11).send().await?;
    assert_eq!(server.journal().since(&begun).len(), 1);
    shops.patch(Shop::key("a")).clear_named("Mon").send().await?;
    let hours = shops.get(Shop::key("a")).await?.unwrap().entity.hours;
    assert_eq!(hours, [("Tue".to_owned(), 10), ("Wed".to_owned(), 11)].into());
    Ok(())
}

#[tokio::test]
async fn a_part_with_too_many_properties_is_rejected() -> TestResult {
    let (server, account, _) = start().await?;
    let years = parts(&account)?;
    let begun = server.journal();
    let error = years.insert(&parted(4000, 1.0)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    let said = error.to_string();
    assert!(said.contains("part 1 of") && said.contains("raise the number"), "{said}");
    assert_eq!(server.journal().since(&begun).len(), 0);
    Ok(())
}
