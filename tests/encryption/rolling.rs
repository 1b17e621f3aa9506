//! Rolling deployments: versions of a type, programs without keys, and settings that differ beside encrypted fields.

use rowkey::Properties;
use rowkey_tests::TestResult;

use super::*;

/// Types of the same entities, each with another declaration.
macro_rules! visit {
    ($name:ident, [$($attribute:tt)*], { $($field:tt)* }) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{ward}", row = "visit_{number:6}", rename_all = "PascalCase")]
        #[entity(index(name = by_bed, row = "bed_{bed}"))]
        $($attribute)*
        struct $name {
            ward: String,
            number: u32,
            bed: u32,
            $($field)*
        }
    };
}

visit!(Full, [], { #[entity(encrypt)] name: String, #[entity(encrypt)] finding: Option<String> });
visit!(Named, [], { #[entity(encrypt)] name: String });
visit!(Keyless, [], {});
visit!(Open, [], { #[entity(rest)] rest: Properties });
visit!(Imaged, [], {
    #[entity(encrypt)]
    name: String,
    note: String,
    #[entity(encrypt, blob)]
    image: Vec<u8>,
});
visit!(ImagedV2, [#[entity(version = 2, from = Imaged)]], {
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    note: String,
    #[entity(encrypt, blob)]
    image: Vec<u8>,
});
visit!(FoundV2, [#[entity(version = 2, from = Named)]], {
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    finding: Option<String>,
});
visit!(PlainV2, [#[entity(version = 2, from = Keyless)]], { finding: Option<String> });
visit!(OtherTypes, [], { #[entity(json, encrypt)] name: Vec<u32> });
visit!(OtherNumber, [], { #[entity(encrypt)] name: u32 });

impl From<Imaged> for ImagedV2 {
    fn from(Imaged { ward, number, bed, name, note, image }: Imaged) -> Self {
        Self { ward, number, bed, name, note, image }
    }
}

impl From<Named> for FoundV2 {
    fn from(Named { ward, number, bed, name }: Named) -> Self {
        Self { ward, number, bed, name, finding: Some("of the conversion".into()) }
    }
}

impl From<Keyless> for PlainV2 {
    fn from(Keyless { ward, number, bed }: Keyless) -> Self {
        Self { ward, number, bed, finding: Some("of the conversion".into()) }
    }
}

fn open<E>(account: &StorageAccount, ring: Option<KeyRing>) -> Result<Store<E>>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let store = Store::builder(account.table("visits"))
        .queue(account.queue("visits"))
        .blobs(account.container("visits"));
    match ring {
        Some(ring) => store.keys(ring).build(),
        None => store.build(),
    }
}

fn at<E>() -> Key<E> {
    Key::new("north", "visit_000001")
}

fn full() -> Full {
    let finding = Some("Measles".into());
    Full { ward: "north".into(), number: 1, bed: 7, name: "Lovelace".into(), finding }
}

async fn begin<E>(ring: KeyRing, entity: &E) -> TestResult<(Server, StorageAccount, Store<E>)>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let visits = open::<E>(&account, Some(ring))?;
    visits.create_if_missing().await?;
    visits.insert(entity).await?;
    Ok((server, account, visits))
}

async fn rows(account: &StorageAccount) -> Result<Vec<DynamicEntity>> {
    let rows = account.table("visits").scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
    Ok(rows.all().await?.into_iter().map(|row| row.entity).collect())
}

#[tokio::test]
async fn a_version_that_encrypts_one_more_field_takes_over_entities_with_a_field_in_a_blob()
-> TestResult {
    let (ward, image) = ("north".to_owned(), b"Picture of a lung".to_vec());
    let first = Imaged { ward, number: 1, bed: 7, name: "Ada".into(), note: "hush".into(), image };
    for how in ["update", "upsert", "rewrite", "migrate", "reencrypt"] {
        let (_server, account, _) = begin(ring(26), &first).await?;
        // Its predecessor stores the note in plaintext.
        let newer = open::<ImagedV2>(&account, Some(ring(26).accept_plaintext()))?;
        let mut expected = ImagedV2::from(first.clone());
        assert_eq!(newer.get(at()).await?.map(|one| one.entity), Some(expected.clone()));
        match how {
            "update" => {
                newer.update(at(), |one| one.bed = 8).await?;
                expected.bed = 8;
            }
            "upsert" => drop(newer.upsert(&expected).await?),
            "rewrite" => assert!(newer.rewrite(at()).await?),
            "migrate" => assert_eq!(newer.migrate().run().await?.total.repaired, 1),
            _ => assert_eq!(newer.reencrypt().run().await?.total.repaired, 1),
        }
        assert_eq!(newer.get(at()).await?.map(|one| one.entity), Some(expected), "{how}");
        for row in rows(&account).await?.iter().filter(|row| row.partition_key == "north") {
            assert!(matches!(row.get("Note"), Some(Value::Binary(_))), "{how} {}", row.row_key);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_version_whose_predecessor_lacks_an_encrypted_field_leaves_the_entity_readable()
-> TestResult {
    let (_server, account, _) = begin(ring(26), &full()).await?;
    let newer = open::<FoundV2>(&account, Some(ring(26)))?;
    newer.update(at(), |one| one.bed = 8).await?;
    let read = newer.get(at()).await?.ok_or("not there")?.entity;
    assert_eq!(read.finding.as_deref(), Some("of the conversion"));
    let row = rows(&account).await?.into_iter().find(|row| row.row_key == "visit_000001");
    let row = row.ok_or("not there")?;
    let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else { panic!("sealed") };
    assert_eq!(metadata.split(' ').nth(4), Some("Name,Finding"));
    Ok(())
}

#[tokio::test]
async fn a_program_without_keys_does_not_store_in_plaintext_what_is_encrypted() -> TestResult {
    let (_server, account, visits) = begin(ring(26), &full()).await?;
    let before = rows(&account).await?;
    let open_type = open::<Open>(&account, None)?;
    let set = |one: &mut Open| drop(one.rest.set("Finding", "visible"));
    let error = open_type.update(at(), set).await.err().ok_or("stored in plaintext")?;
    assert!(error.to_string().contains("`Finding`"), "{error}");
    let newer = open::<PlainV2>(&account, None)?;
    let error = newer.update(at(), |one| one.bed = 8).await.err().ok_or("a version stored it")?;
    assert!(error.to_string().contains("`Finding`"), "{error}");
    assert_eq!(newer.migrate().run().await?.total.repaired, 0);
    assert_eq!(rows(&account).await?, before);
    assert_eq!(visits.get(at()).await?.map(|one| one.entity), Some(full()));
    Ok(())
}

#[tokio::test]
async fn a_program_without_keys_keeps_encrypted_bytes_beside_a_field_with_the_rest() -> TestResult {
    let indexing = || ring(26).index(IndexKey::new([9; 32]), ["Finding"]);
    let (_server, account, visits) = begin(indexing(), &full()).await?;
    let open_type = open::<Open>(&account, None)?;
    let read = open_type.get(at()).await?.ok_or("not there")?;
    assert_eq!(read.entity.rest, Properties::new(), "it is not among the rest");
    open_type.update(at(), |one| drop(one.rest.set("Colour", "red"))).await?;
    let (ward, rest) = ("north".to_owned(), Properties::new());
    open_type.upsert(&Open { ward, number: 1, bed: 9, rest }).await?;
    let found = [
        visits.get(at()).await?,
        visits.find(Full::by_bed("north", 9_u32)).await?,
        visits
            .query(Full::partition("north"))
            .filter(indexing().equals("Finding", "Measles")?)
            .all()
            .await?
            .pop(),
    ];
    for found in found {
        assert_eq!(found.map(|one| one.entity), Some(Full { bed: 9, ..full() }));
    }
    let found = open_type.find(Open::by_bed("north", 9_u32)).await?.ok_or("not there")?;
    assert_eq!(found.entity.rest, Properties::new());
    Ok(())
}

#[tokio::test]
async fn an_error_about_a_decrypted_value_does_not_quote_it() -> TestResult {
    let (_server, account, _) = begin(ring(26), &full()).await?;
    let json = open::<OtherTypes>(&account, Some(ring(26)))?.get(at()).await.unwrap_err();
    let number = open::<OtherNumber>(&account, Some(ring(26)))?.get(at()).await.unwrap_err();
    for error in [json, number] {
        let text = format!("{error:?} {error} {:?}", error.details());
        assert!(text.contains("Name") && !text.contains("Lovelace"), "{text}");
    }
    Ok(())
}

/// With write access, and without a key.
#[tokio::test]
async fn a_forged_list_of_encrypted_properties_is_refused_and_changes_nothing() -> TestResult {
    let (_server, account, visits) = begin(ring(26), &full()).await?;
    let older = open::<Named>(&account, Some(ring(26)))?;
    let row =
        account.table("visits").get(Key::<DynamicEntity>::new("north", "visit_000001")).await?;
    let row = row.ok_or("not there")?.entity;
    let Some(Value::String(metadata)) = row.get("_RowkeyEncryption").cloned() else { panic!() };
    let many = (0..200).map(|number| format!("P{number}")).collect::<Vec<_>>().join(",");
    let long = "N".repeat(20_000);
    for names in [
        "-",
        "Bed",
        "Name,Bed",
        "Name",
        "Finding",
        "Finding,Name",
        "Name,Name",
        "Name,Finding,Name",
        "PartitionKey,RowKey",
        "Timestamp,Name",
        "EntityOp",
        "Name,Finding,EntityOp",
        "_RowkeyEncryption",
        &many,
        &long,
        ",",
        "Name,,Finding",
        "Name_BlindIndex",
    ] {
        let mut parts: Vec<_> = metadata.split(' ').collect();
        parts[4] = names;
        let mut forged = row.clone();
        forged.set("_RowkeyEncryption", parts.join(" "));
        for name in names.split(',').filter(|name| name.starts_with('P') && name.len() < 5) {
            forged.set(name, vec![2_u8; 60]);
        }
        account.table("visits").replace((&forged, Match::Any)).await?;
        let stored = rows(&account).await?;
        for error in [
            visits.get(at()).await.err().ok_or("read")?,
            visits.update(at(), |one| one.bed = 8).await.err().ok_or("updated")?,
            older.update(at(), |one| one.bed = 8).await.err().ok_or("updated by the older")?,
            older
                .upsert(&Named { ward: "north".into(), number: 1, bed: 8, name: "A".into() })
                .await
                .err()
                .ok_or("upserted")?,
        ] {
            assert_eq!(error.kind(), ErrorKind::Decode, "{names:.40}: {error}");
        }
        for report in [older.reencrypt().run().await?, older.repair().run().await?] {
            assert_eq!(report.total.repaired, 0, "{names:.40}");
        }
        assert_eq!(rows(&account).await?, stored, "{names:.40}");
    }
    Ok(())
}

#[tokio::test]
async fn an_older_program_that_accepts_plaintext_keeps_fields_encrypted() -> TestResult {
    let indexing = || ring(26).index(IndexKey::new([9; 32]), ["Finding"]);
    let (_server, account, _) = begin(indexing(), &full()).await?;
    let older = open::<Named>(&account, Some(ring(27).accept_plaintext().accept_legacy()))?;
    older.update(at(), |one| one.bed = 8).await?;
    older.patch(at()).set(Named::BED, 9_u32).send().await?;
    assert_eq!(older.reencrypt().run().await?.total.repaired, 1);
    let newer = open::<Full>(&account, Some(ring(27)))?;
    assert_eq!(newer.get(at()).await?.map(|one| one.entity), Some(Full { bed: 9, ..full() }));
    // A blind index does not stay when its property is no longer encrypted.
    let stopping =
        open::<Named>(&account, Some(indexing().with(of(27)).stop_encrypting(["Finding"])))?;
    assert_eq!(stopping.reencrypt().run().await?.total.repaired, 1);
    for row in rows(&account).await?.iter().filter(|row| row.partition_key == "north") {
        assert_eq!(row.get("Finding"), Some(&"Measles".into()));
        assert_eq!(row.get("Finding_BlindIndex"), None);
    }
    Ok(())
}

/// A record may be made while the request for the newest one is on its way.
#[tokio::test]
async fn a_key_is_not_older_than_the_response_that_named_it() -> TestResult {
    let (server, account, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let verifier = store(&account, ring(26))?;
    let held = server.inject(Fault::on(Operation::QueryEntities).times(1).hold());
    let ((), found) = futures_util::join!(
        async {
            held.wait_until_held().await;
            wait(&account, 20).await;
            ring(26).rotate(&account.table("patients")).await.unwrap();
            held.release();
        },
        verifier.rewrite(key(1)),
    );
    assert!(found?);
    let error = verifier.verify_keys().run().await.unwrap_err().error.to_string();
    assert!([": 720 s", ": 721 s"].iter().any(|left| error.contains(left)), "{error}");
    Ok(())
}
