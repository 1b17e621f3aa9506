//! Encrypted fields in blobs: contents of the container, rejected blobs, and key rotation.

use rowkey::Projection as _;
use rowkey_emulator::Snapshot;
use rowkey_tests::TestResult;

use super::*;

/// A report with encrypted fields in blobs and in its row.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "report_{number}", rename_all = "PascalCase")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Report {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    title: String,
    bed: u32,
    #[entity(encrypt, blob)]
    image: Vec<u8>,
    #[entity(encrypt, blob)]
    note: Option<String>,
    #[entity(json, encrypt, blob)]
    lines: Vec<String>,
    #[entity(blob)]
    form: String,
}

/// The same before its image was encrypted.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "scan_{number}", rename_all = "PascalCase")]
struct Before {
    ward: String,
    number: u32,
    #[entity(blob)]
    image: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "scan_{number}", rename_all = "PascalCase")]
struct After {
    ward: String,
    number: u32,
    #[entity(encrypt, blob)]
    image: Vec<u8>,
}

fn report(number: u32) -> Report {
    Report {
        ward: "north".into(),
        number,
        title: "Fracture".into(),
        bed: number,
        image: format!("Picture {number}").repeat(1000).into_bytes(),
        note: Some("Lövelace".into()),
        lines: vec!["left arm".into(), number.to_string()],
        form: "Form F7 of the ward".into(),
    }
}

fn key(number: u32) -> Key<Report> {
    Report::key("north", number)
}

fn reports<E>(account: &StorageAccount, ring: KeyRing) -> Result<Store<E>>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let store = Store::builder(account.table("reports")).queue(account.queue("reports"));
    store.blobs(account.container("reports")).keys(ring).build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<Report>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let store = reports(&account, ring(26))?;
    store.create_if_missing().await?;
    Ok((server, account, store))
}

async fn raw(account: &StorageAccount, row_key: &str) -> Result<DynamicEntity> {
    let row = account.table("reports").get(Key::<DynamicEntity>::new("north", row_key)).await?;
    row.map(|row| row.entity).ok_or_else(|| rowkey::Error::refused(ErrorKind::NotFound, "no row"))
}

async fn put(account: &StorageAccount, row: &DynamicEntity) -> Result<()> {
    account.table("reports").upsert(row).await.map(drop)
}

/// The name of the blob of a property.
fn blob_of(row: &DynamicEntity, property: &str) -> String {
    let Some(Value::String(pointer)) = row.get(&format!("{property}_Blob")) else {
        panic!("{property} has no blob")
    };
    let pointer: serde_json::Value = serde_json::from_str(pointer).unwrap();
    pointer["blob"].as_str().unwrap().to_owned()
}

fn blobs(snapshot: &Snapshot) -> Vec<String> {
    snapshot.blobs("reports").map(str::to_owned).collect()
}

#[tokio::test]
async fn blob_contents_are_encrypted_and_only_new_ones_are_uploaded() -> TestResult {
    let (server, account, store) = start().await?;
    store.insert(&report(1)).await?;
    store.insert(&Report { note: None, ..report(2) }).await?;
    assert_eq!(store.get(key(1)).await?.map(|one| one.entity), Some(report(1)));
    let found = store.find(Report::by_bed("north", 2_u32)).await?.ok_or("not there")?;
    assert_eq!(found.entity, Report { note: None, ..report(2) });

    let snapshot = server.snapshot();
    assert_eq!(blobs(&snapshot).len(), 7);
    let (mut plain, secrets) = (0, ["Picture 1", "Lövelace", "left arm", "Fracture"]);
    for name in blobs(&snapshot) {
        let content = snapshot.blob("reports", &name).ok_or("listed")?;
        let shows = |text: &str| content.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!secrets.iter().any(|secret| shows(secret)), "{name}");
        plain += usize::from(shows("Form F7 of the ward"));
    }
    assert_eq!(plain, 2, "a field without the mark is as it was");
    let copy = raw(&account, "bed_0000000001").await?;
    assert!(copy.get("Image").is_none() && copy.get("Image_Blob").is_none());

    // An unchanged value is not uploaded again; the blob of a changed value is deleted.
    let before = blobs(&snapshot);
    store.update(key(1), |one| one.bed = 7).await?;
    assert_eq!(blobs(&server.snapshot()), before);
    store.update(key(1), |one| one.note = Some("Ada".into())).await?;
    let after = blobs(&server.snapshot());
    assert_eq!((after.len(), before.iter().filter(|name| !after.contains(name)).count()), (7, 1));
    store.update(key(1), |one| one.note = None).await?;
    assert_eq!(blobs(&server.snapshot()).len(), 6);
    assert!(store.rewrite(key(1)).await?);
    let expected = Report { bed: 7, note: None, ..report(1) };
    assert_eq!(store.get(key(1)).await?.map(|one| one.entity), Some(expected));
    assert!(store.verify().run().await?.is_clean());
    store.delete(key(1)).await?;
    assert_eq!(blobs(&server.snapshot()).len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_row_has_the_properties_and_types_that_the_derive_lists() -> TestResult {
    let (_server, account, store) = start().await?;
    store.insert(&report(1)).await?;
    let row = raw(&account, "report_0000000001").await?;
    let of_store = |name: &str| name.starts_with("Entity") || name == "_RowkeyEncryption";
    let stored: BTreeMap<_, _> = row
        .iter()
        .filter(|(name, _)| !of_store(name))
        .map(|(name, value)| (name, Some(value.edm_type())))
        .collect();
    assert_eq!(stored, Report::TYPES.iter().copied().collect());
    Ok(())
}

#[tokio::test]
async fn encryption_adds_no_requests_to_a_blob_field() -> TestResult {
    let (server, account, _) = start().await?;
    let plain = Store::<Before>::builder(account.table("reports")).queue(account.queue("reports"));
    let plain = plain.blobs(account.container("reports")).build()?;
    let sealed = reports::<After>(&account, ring(26))?;
    // The key of the table.
    sealed.insert(&After { ward: "south".into(), number: 1, image: vec![1] }).await?;
    let mut counts = Vec::new();
    let before = server.journal();
    plain.insert(&Before { ward: "north".into(), number: 1, image: vec![1] }).await?;
    plain.update(Before::key("north", 1_u32), |one| one.image.push(2)).await?;
    plain.rewrite(Before::key("north", 1_u32)).await?;
    counts.push(server.journal().since(&before).len());
    let before = server.journal();
    sealed.insert(&After { ward: "north".into(), number: 2, image: vec![1] }).await?;
    sealed.update(After::key("north", 2_u32), |one| one.image.push(2)).await?;
    sealed.rewrite(After::key("north", 2_u32)).await?;
    counts.push(server.journal().since(&before).len());
    assert_eq!(counts[0], counts[1]);
    Ok(())
}

#[tokio::test]
async fn altered_moved_and_plaintext_blobs_are_rejected() -> TestResult {
    for signs in [false, true] {
        let (_server, account, _) = start().await?;
        let ring = if signs { ring(26).sign_plaintext() } else { ring(26) };
        let store = reports::<Report>(&account, ring)?;
        let container = account.container("reports");
        store.insert(&report(1)).await?;
        store.insert(&report(2)).await?;
        let older = raw(&account, "report_0000000002").await?;
        let older_blob = container.blob(&blob_of(&older, "Image")).get().await?.ok_or("there")?;
        store.update(key(2), |one| one.image = b"newer".to_vec()).await?;
        let (one, two) =
            (raw(&account, "report_0000000001").await?, raw(&account, "report_0000000002").await?);
        container.blob(&blob_of(&older, "Image")).put(older_blob.bytes).send().await?;

        // Other bytes in the blob: none of these is the content, also if the pointer names them.
        let name = blob_of(&one, "Image");
        let stored = container.blob(&name).get().await?.ok_or("there")?.bytes;
        let of_two = container.blob(&blob_of(&two, "Image")).get().await?.ok_or("there")?.bytes;
        let mut bits: Vec<_> = [0, 8, 100, stored.len() * 8 - 1]
            .map(|bit| {
                let mut altered = stored.to_vec();
                altered[bit / 8] ^= 1 << (bit % 8);
                altered
            })
            .to_vec();
        bits.extend([stored[..stored.len() - 1].to_vec(), Vec::new(), of_two.to_vec()]);
        bits.push(b"Eve".to_vec());
        for altered in bits {
            container.blob(&name).put(altered.clone()).send().await?;
            let error = store.get(key(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            // With a pointer that has the length and the digest of these bytes.
            let mut row = one.clone();
            row.set("Image_Blob", pointer(&name, &altered));
            put(&account, &row).await?;
            let error = store.get(key(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
            assert!(!format!("{error:?}").contains("Picture"), "{error:?}");
            put(&account, &one).await?;
        }
        container.blob(&name).put(stored).send().await?;
        assert_eq!(store.get(key(1)).await?.map(|one| one.entity), Some(report(1)));

        // Keys and pointers of another entity, another property and an older version.
        let mixed = |row: &DynamicEntity, of: &DynamicEntity, names: &[(&str, &str)]| {
            let mut row = row.clone();
            for (name, other) in names {
                row.set(*name, of.get(other).unwrap().clone());
            }
            row
        };
        let both = [("Image", "Image"), ("Image_Blob", "Image_Blob")];
        let mut wrong = vec![
            mixed(&one, &two, &both[..1]),
            mixed(&one, &two, &both[1..]),
            mixed(&one, &two, &both),
            mixed(&two, &older, &both[..1]),
            mixed(&two, &older, &both[1..]),
            mixed(&two, &older, &both),
            mixed(&one, &one, &[("Image", "Lines"), ("Image_Blob", "Lines_Blob")]),
        ];
        for name in ["Image", "Image_Blob", "Note", "Note_Blob"] {
            let mut gone = one.clone();
            gone.remove(name);
            wrong.push(gone);
        }
        let mut plain = one.clone();
        plain.set("Image", b"Eve".to_vec());
        plain.remove("Image_Blob");
        wrong.push(plain);
        for row in wrong {
            let number = if row.row_key == "report_0000000001" { 1 } else { 2 };
            put(&account, &row).await?;
            let error = store.get(key(number)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
            put(&account, if number == 1 { &one } else { &two }).await?;
        }
        // A blob in plain for a field that has none.
        store.update(key(1), |one| one.note = None).await?;
        let mut row = raw(&account, "report_0000000001").await?;
        container.blob("reports/eve").put(b"Eve".to_vec()).send().await?;
        row.set("Note_Blob", pointer("reports/eve", b"Eve").replace("Binary", "String"));
        put(&account, &row).await?;
        assert_eq!(store.get(key(1)).await.unwrap_err().kind(), ErrorKind::Decode);
    }
    Ok(())
}

/// A pointer to these bytes, as a program without keys would make it.
fn pointer(blob: &str, content: &[u8]) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(content);
    let sha256 = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    format!(
        r#"{{"v":1,"blob":"{blob}","type":"Edm.Binary","length":{},"sha256":"{sha256}"}}"#,
        content.len()
    )
}

#[tokio::test]
async fn key_rotation_rewraps_content_keys_and_leaves_blobs_unchanged() -> TestResult {
    let (server, account, store) = start().await?;
    store.insert(&report(1)).await?;
    let before = blobs(&server.snapshot());
    let newer = reports::<Report>(&account, ring(27))?;
    assert_eq!(newer.reencrypt().run().await?.total.repaired, 1);
    assert_eq!(blobs(&server.snapshot()), before);
    server.clock().advance(Duration::from_secs(724));
    wait(&account, 724).await;
    assert!(newer.verify_keys().run().await?.is_clean());
    let only = reports::<Report>(&account, ring_of(of(27)))?;
    assert_eq!(only.get(key(1)).await?.map(|one| one.entity), Some(report(1)));
    Ok(())
}

#[tokio::test]
async fn plaintext_blobs_are_read_if_enabled_and_encrypted_by_the_job() -> TestResult {
    let (server, account, _) = start().await?;
    let plain = Store::<Before>::builder(account.table("reports")).queue(account.queue("reports"));
    let plain = plain.blobs(account.container("reports")).build()?;
    plain.insert(&Before { ward: "north".into(), number: 1, image: b"Evening".to_vec() }).await?;
    let key = || After::key("north", 1_u32);
    let strict = reports::<After>(&account, ring(26))?;
    assert_eq!(strict.get(key()).await.unwrap_err().kind(), ErrorKind::Decode);
    let accepting = reports::<After>(&account, ring(26).accept_plaintext())?;
    let expected = After { ward: "north".into(), number: 1, image: b"Evening".to_vec() };
    assert_eq!(accepting.get(key()).await?.map(|one| one.entity), Some(expected.clone()));
    assert_eq!(accepting.reencrypt().run().await?.total.repaired, 1);
    assert_eq!(strict.get(key()).await?.map(|one| one.entity), Some(expected));
    let snapshot = server.snapshot();
    let names = blobs(&snapshot);
    assert_eq!(names.len(), 1, "the one in plain is deleted");
    let content = snapshot.blob("reports", &names[0]).ok_or("listed")?;
    assert!(!content.windows(7).any(|part| part == b"Evening"));
    Ok(())
}

/// The same before its image was in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "scan_{number}", rename_all = "PascalCase")]
struct Inline {
    ward: String,
    number: u32,
    image: Vec<u8>,
}

#[tokio::test]
async fn a_rewrite_moves_a_property_into_a_blob() -> TestResult {
    let (server, account, _) = start().await?;
    let inline = Store::<Inline>::builder(account.table("reports")).build()?;
    inline.insert(&Inline { ward: "north".into(), number: 1, image: b"Evening".to_vec() }).await?;
    let plain = Store::<Before>::builder(account.table("reports")).queue(account.queue("reports"));
    let plain = plain.blobs(account.container("reports")).build()?;
    let key = || Before::key("north", 1_u32);
    let expected = Before { ward: "north".into(), number: 1, image: b"Evening".to_vec() };
    assert_eq!(plain.get(key()).await?.map(|one| one.entity), Some(expected.clone()));
    assert!(plain.rewrite(key()).await?);
    assert_eq!(plain.get(key()).await?.map(|one| one.entity), Some(expected.clone()));
    assert!(raw(&account, "scan_0000000001").await?.get("Image").is_none());
    assert_eq!(blobs(&server.snapshot()).len(), 1);
    assert!(plain.rewrite(key()).await?);
    assert_eq!(plain.get(key()).await?.map(|one| one.entity), Some(expected));
    Ok(())
}
