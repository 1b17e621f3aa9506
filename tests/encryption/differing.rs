//! Types of two versions that declare one field differently: what cannot stay encrypted is refused by name.

use rowkey::{Column, Properties};
use rowkey_tests::TestResult;

use super::*;

/// What the newer program encrypts.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "exam_{number:6}", rename_all = "PascalCase")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
struct Exam {
    ward: String,
    number: u32,
    bed: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    finding: Option<String>,
    #[entity(encrypt)]
    scan: Vec<u8>,
    #[entity(encrypt, blob)]
    image: Vec<u8>,
}

fn exam() -> Exam {
    Exam {
        ward: "north".into(),
        number: 1,
        bed: 7,
        name: "Lovelace".into(),
        finding: Some("Measles".into()),
        scan: b"Scan of a lung".to_vec(),
        image: b"Picture of a lung".to_vec(),
    }
}

/// Types of the same entities, each with another declaration.
macro_rules! variant {
    ($name:ident, [$($index:tt)*], { $($field:tt)* }) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{ward}", row = "exam_{number:6}", rename_all = "PascalCase")]
        #[entity(index(name = by_bed, row = "bed_{bed}"))]
        $($index)*
        struct $name {
            ward: String,
            number: u32,
            bed: u32,
            $($field)*
        }
    };
}

variant!(Plain, [], { finding: Option<String>, #[entity(encrypt)] name: String });
variant!(
    Indexed,
    [#[entity(index(name = by_finding, row = "finding_{finding}", many))]],
    { finding: Option<String>, #[entity(encrypt)] name: String }
);
variant!(PlainScan, [], { scan: Vec<u8> });
variant!(InRow, [], { #[entity(encrypt)] image: Vec<u8> });
variant!(InBlob, [], { #[entity(blob)] image: Vec<u8>, #[entity(encrypt)] name: String });
variant!(InBlobKeyless, [], { #[entity(blob)] image: Vec<u8> });
variant!(Blobless, [], { #[entity(encrypt)] name: String });
variant!(MovedToBlob, [], { #[entity(encrypt, blob)] scan: Vec<u8> });
variant!(Keyless, [], {});
variant!(Open, [], { #[entity(encrypt)] name: String, #[entity(rest)] rest: Properties });

fn open<E>(account: &StorageAccount, ring: Option<KeyRing>) -> Result<Store<E>>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let store = Store::builder(account.table("exams"))
        .queue(account.queue("exams"))
        .blobs(account.container("exams"));
    match ring {
        Some(ring) => store.keys(ring).build(),
        None => store.build(),
    }
}

async fn begin(ring: KeyRing) -> TestResult<(Server, StorageAccount, Store<Exam>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let exams = open::<Exam>(&account, Some(ring))?;
    exams.create_if_missing().await?;
    exams.insert(&exam()).await?;
    Ok((server, account, exams))
}

/// All rows, as they are stored.
async fn rows(account: &StorageAccount) -> Result<Vec<DynamicEntity>> {
    let rows = account.table("exams").scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
    Ok(rows.all().await?.into_iter().map(|row| row.entity).collect())
}

/// Every call fails with an error that names the property and not its value, and changes nothing.
async fn assert_refused<E>(ring: Option<KeyRing>, name: &str, change: fn(&mut E)) -> TestResult
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let (_server, account, exams) = begin(self::ring(26)).await?;
    let before = rows(&account).await?;
    let other = open::<E>(&account, ring)?;
    let key = || Key::<E>::new("north", "exam_000001");
    let mut errors = vec![
        other.get(key()).await.err().ok_or("read")?,
        other.update(key(), change).await.err().ok_or("updated")?,
        other.rewrite(key()).await.err().ok_or("rewritten")?,
        other.query(rowkey::Partition::<E>::new("north")).all().await.err().ok_or("queried")?,
    ];
    for report in [other.reencrypt().run().await?, other.repair().run().await?] {
        assert_eq!(report.total.repaired, 0, "{report:?}");
    }
    for error in errors.drain(..) {
        let text = format!("{error:?} {error}");
        assert_eq!(error.kind(), ErrorKind::Decode, "{text}");
        assert!(text.contains(&format!("`{name}`")), "{text}");
        for secret in ["Lovelace", "Measles", "lung"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    assert_eq!(rows(&account).await?, before);
    assert_eq!(exams.get(Exam::key("north", 1)).await?.map(|one| one.entity), Some(exam()));
    Ok(())
}

#[tokio::test]
async fn a_field_without_the_mark_is_refused_where_it_is_encrypted() -> TestResult {
    assert_refused::<Plain>(Some(ring(26)), "Finding", |one| one.bed = 8).await?;
    assert_refused::<Indexed>(Some(ring(26)), "Finding", |one| one.bed = 8).await?;
    assert_refused::<PlainScan>(None, "Scan", |one| one.bed = 8).await
}

#[tokio::test]
async fn a_field_that_is_in_a_blob_of_only_one_version_is_refused() -> TestResult {
    assert_refused::<InRow>(Some(ring(26)), "Image", |one| one.bed = 8).await?;
    assert_refused::<InBlob>(Some(ring(26)), "Image", |one| one.bed = 8).await?;
    assert_refused::<InBlobKeyless>(None, "Image", |one| one.bed = 8).await?;
    assert_refused::<MovedToBlob>(Some(ring(26)), "Scan", |one| one.bed = 8).await
}

#[tokio::test]
async fn an_upsert_does_not_replace_what_another_version_encrypts() -> TestResult {
    let (_server, account, exams) = begin(ring(26)).await?;
    let before = rows(&account).await?;
    let plain = open::<Plain>(&account, Some(ring(26)))?;
    let (ward, name) = ("north".to_owned(), "Ada".to_owned());
    let visible = Plain { ward, number: 1, bed: 7, finding: Some("visible".into()), name };
    let error = plain.upsert(&visible).await.unwrap_err();
    assert!(error.to_string().contains("`Finding`"), "{error}");
    let report = plain.load_over(stream::iter([visible])).run().await?;
    assert_eq!((report.total.failed, report.is_clean()), (1, false), "{report:?}");
    let in_blob = open::<InBlob>(&account, Some(ring(26)))?;
    let (ward, image) = ("north".to_owned(), b"visible".to_vec());
    let visible = InBlob { ward, number: 1, bed: 7, image, name: "Ada".into() };
    let error = in_blob.upsert(&visible).await.unwrap_err();
    assert!(error.to_string().contains("`Image`"), "{error}");
    assert_eq!(rows(&account).await?, before);
    assert_eq!(exams.get(Exam::key("north", 1)).await?.map(|one| one.entity), Some(exam()));
    Ok(())
}

#[tokio::test]
async fn a_property_that_the_type_lacks_is_not_set_and_not_removed_if_it_is_encrypted() -> TestResult
{
    let (_server, account, exams) = begin(ring(26)).await?;
    let before = rows(&account).await?;
    let other = open::<Blobless>(&account, Some(ring(26)))?;
    let finding = || Column::<String>::named("Finding");
    for patch in [
        other.patch(Blobless::key("north", 1)).set(finding(), "visible"),
        other.patch(Blobless::key("north", 1)).clear(finding()),
        other.patch(Blobless::key("north", 1)).clear(Column::<Vec<u8>>::named("Image")),
    ] {
        let error = patch.send().await.unwrap_err();
        assert!(error.to_string().contains("encrypted it"), "{error}");
    }
    let open = open::<Open>(&account, Some(ring(26)))?;
    let read = open.get(Open::key("north", 1)).await?.ok_or("not there")?.entity;
    let names: Vec<_> = read.rest.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["Image_Blob"]);
    let set = |one: &mut Open| drop(one.rest.set("Finding", "visible"));
    let error = open.update(Open::key("north", 1), set).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`Finding` is encrypted in the stored entity"), "{error}");
    assert_eq!(rows(&account).await?, before);
    assert_eq!(exams.get(Exam::key("north", 1)).await?.map(|one| one.entity), Some(exam()));
    Ok(())
}

#[tokio::test]
async fn a_program_without_keys_keeps_the_encrypted_bytes() -> TestResult {
    let (_server, account, exams) = begin(ring(26)).await?;
    let keyless = open::<Keyless>(&account, None)?;
    let key = || Keyless::key("north", 1);
    keyless.update(key(), |one| one.bed = 8).await?;
    keyless.patch(key()).set(Keyless::BED, 9_u32).send().await?;
    let read = keyless.get(key()).await?.ok_or("not there")?;
    keyless.replace_if(&Keyless { bed: 10, ..read.entity.clone() }, &read.version).await?;
    keyless.upsert(&Keyless { bed: 11, ..read.entity }).await?;
    assert!(keyless.rewrite(key()).await?);
    assert!(keyless.repair().run().await?.is_clean());
    let expected = Exam { bed: 11, ..exam() };
    let found =
        [exams.get(Exam::key("north", 1)).await?, exams.find(Exam::by_bed("north", 11_u32)).await?];
    for found in found {
        assert_eq!(found.map(|one| one.entity), Some(expected.clone()));
    }
    assert_eq!(exams.reencrypt().run().await?.total.unreadable, 0);
    assert!(keyless.delete(key()).await?);
    Ok(())
}

#[tokio::test]
async fn a_program_without_keys_does_not_change_a_signed_entity() -> TestResult {
    let signing = || ring(26).sign_plaintext();
    let (_server, account, exams) = begin(signing()).await?;
    let before = rows(&account).await?;
    let keyless = open::<Keyless>(&account, None)?;
    let error = keyless.update(Keyless::key("north", 1), |one| one.bed = 8).await.unwrap_err();
    assert!(error.to_string().contains("signed"), "{error}");
    let read = keyless.get(Keyless::key("north", 1)).await?.ok_or("it is read")?;
    keyless.upsert(&Keyless { bed: 9, ..read.entity }).await.unwrap_err();
    assert_eq!(rows(&account).await?, before);
    // A patch signs again.
    exams.patch(Exam::key("north", 1)).set(Exam::BED, 8_u32).send().await?;
    let read = exams.get(Exam::key("north", 1)).await?.map(|one| one.entity);
    assert_eq!(read, Some(Exam { bed: 8, ..exam() }));
    Ok(())
}

/// The way from an encrypted field to a plaintext one.
#[tokio::test]
async fn a_field_is_stored_in_plaintext_when_the_keys_say_so() -> TestResult {
    let (_server, account, exams) = begin(ring(26)).await?;
    let stopping = || ring(26).stop_encrypting(["Finding"]);
    let error = open::<Exam>(&account, Some(stopping())).unwrap_err();
    assert!(error.to_string().contains("`Finding` is encrypted, and its keys stop"), "{error}");

    let plain = open::<Plain>(&account, Some(stopping()))?;
    let key = || Plain::key("north", 1);
    let read = plain.get(key()).await?.ok_or("not there")?.entity;
    assert_eq!(read.finding.as_deref(), Some("Measles"));
    assert_eq!(plain.reencrypt().run().await?.total.repaired, 1);
    assert_eq!(plain.reencrypt().run().await?.total.repaired, 0);
    for row in rows(&account).await?.iter().filter(|row| row.partition_key == "north") {
        assert_eq!(row.get("Finding"), Some(&"Measles".into()), "{}", row.row_key);
        assert!(matches!(row.get("Name"), Some(Value::Binary(_))));
    }
    // The setting is not needed any more, and the other program accepts it.
    let after = open::<Plain>(&account, Some(ring(26)))?;
    assert_eq!(after.get(key()).await?.map(|one| one.entity), Some(read));
    assert_eq!(exams.get(Exam::key("north", 1)).await.unwrap_err().kind(), ErrorKind::Decode);
    let accepting = open::<Exam>(&account, Some(ring(26).accept_plaintext()))?;
    assert_eq!(accepting.get(Exam::key("north", 1)).await?.map(|one| one.entity), Some(exam()));

    // The last encrypted field of a type.
    let stopping = ring(26).stop_encrypting(["Name", "Scan"]);
    let none = open::<Keyless>(&account, Some(stopping))?;
    assert!(none.get(Keyless::key("north", 1)).await?.is_some());
    // A field in a blob: only its key is encrypted in the row.
    let stopping = ring(26).stop_encrypting(["Image"]);
    let error = open::<InBlob>(&account, Some(stopping))?.get(InBlob::key("north", 1)).await;
    assert!(error.unwrap_err().to_string().contains("`Image`"));
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "exam_{number:6}", rename_all = "PascalCase")]
struct ExamV1 {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    bed: u32,
}

/// The second version, which renamed a field.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "exam_{number:6}", rename_all = "PascalCase")]
#[entity(version = 2, from = ExamV1)]
struct ExamV2 {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    full_name: String,
    bed: u32,
}

impl From<ExamV1> for ExamV2 {
    fn from(ExamV1 { ward, number, name, bed }: ExamV1) -> Self {
        Self { ward, number, full_name: name, bed }
    }
}

#[tokio::test]
async fn a_migration_opens_what_the_older_version_encrypts_and_keeps_the_rest() -> TestResult {
    let (_server, account, _) = begin(ring(26)).await?;
    let newer = open::<ExamV2>(&account, Some(ring(26)))?;
    let key = || ExamV2::key("north", 1);
    let expected = ExamV2 { ward: "north".into(), number: 1, full_name: "Lovelace".into(), bed: 7 };
    assert_eq!(newer.get(key()).await?.map(|one| one.entity), Some(expected.clone()));
    assert_eq!(newer.migrate().run().await?.total.repaired, 1);
    assert_eq!(newer.get(key()).await?.map(|one| one.entity), Some(expected));
    newer.update(key(), |one| one.bed = 8).await?;
    let row = rows(&account).await?.into_iter().find(|row| row.row_key == "exam_000001");
    let row = row.ok_or("not there")?;
    let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else { panic!("sealed") };
    let names = metadata.split(' ').nth(4).unwrap_or_default();
    assert_eq!(names, "FullName,Finding,Scan,Image");
    assert_eq!(row.get("Name"), None);

    // A row that claims to be of the older version does not bring plaintext.
    let older = open::<ExamV1>(&account, Some(ring(26)))?;
    older.insert(&ExamV1 { ward: "north".into(), number: 2, name: "Ada".into(), bed: 8 }).await?;
    let mut forged = DynamicEntity::new("north", "exam_000002");
    forged.set("FullName", "Eve");
    account.table("exams").merge((&forged, Match::Any)).await?;
    let error = newer.get(ExamV2::key("north", 2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    Ok(())
}
