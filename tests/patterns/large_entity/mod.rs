//! Large entities: what is stored, what each call costs, what is refused, and that no row ever names a
//! blob that is not there.

mod faults;
mod model;
mod races;

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::edm::Value;
use rowkey::{
    ClientOptions, DynamicEntity, Entity, ErrorKind, Match, Outcome, Projection, StorageAccount,
};
use rowkey_large::Large;
use rowkey_large::large_entity::Swept;
use rowkey_server::{Operation, Server, Snapshot};
use rowkey_tests::{Fixture, TestResult, unique_name};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{album}", row = "{number:4}", rename_all = "PascalCase")]
pub(super) struct Photo {
    album: String,
    number: u32,
    title: String,
    image: Option<Vec<u8>>,
    notes: String,
}

/// What is read of a photo without its image.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Caption {
    title: String,
}

/// What differs from byte to byte and does not compress.
pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = rowkey_tests::random::Random(seed);
    let bytes = (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes());
    bytes.take(length).collect()
}

pub(super) fn photo(number: u32) -> Photo {
    Photo {
        album: "leeds".into(),
        number,
        title: format!("Photo {number}"),
        image: Some(noise(number.into(), 2000)),
        notes: "none".into(),
    }
}

pub(super) fn key(number: u32) -> rowkey::Key<Photo> {
    Photo::key("leeds", number)
}

pub(super) const GUARD: Duration = Duration::from_secs(40);

/// Photos of an account that waits for 10 seconds at most; what is larger than 1,000 bytes is large.
pub(super) fn photos(account: &StorageAccount) -> Large<Photo> {
    let timeout = Duration::from_secs(10);
    let account = account.with_options(ClientOptions { timeout, ..account.options().clone() });
    Large::new(account.table("photos"), account.container("blobs")).threshold(1000).guard(GUARD)
}

/// A server whose clock stands still, with the table and the container.
pub(super) async fn start() -> Result<(Server, Large<Photo>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let photos = photos(&rowkey_tests::sweep::account(&server)?);
    photos.table().create().await?;
    photos.container().create().await?;
    Ok((server, photos))
}

/// The names of the blobs that rows name. Panics if one is not there, or not what the row says.
pub(super) fn named(snapshot: &Snapshot) -> Vec<String> {
    let mut names = Vec::new();
    for entity in snapshot.table("photos").unwrap().entities() {
        for (name, value) in entity.properties().filter(|(name, _)| name.ends_with("_Blob")) {
            let Value::String(text) = value else { panic!("{name} is no pointer") };
            let pointer: serde_json::Value = serde_json::from_str(&text).unwrap();
            let blob = pointer["blob"].as_str().unwrap();
            let content =
                snapshot.blob("blobs", blob).expect("a row names a blob that is not there");
            if pointer["encoding"].is_null() {
                assert_eq!(pointer["length"], content.len());
            }
            names.push(blob.to_owned());
        }
    }
    names.sort_unstable();
    names
}

/// The blobs that there are, without the mark of sweeps.
pub(super) fn blobs(snapshot: &Snapshot) -> Vec<String> {
    snapshot.blobs("blobs").filter(|name| *name != "photos.sweep").map(str::to_owned).collect()
}

#[tokio::test]
async fn large_properties_are_in_blobs_and_the_row_says_where() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let container = table.fixture.account.container(&unique_name());
    container.create().await?;
    let photos = Large::<Photo>::new(table.clone(), container.clone());
    let image = b"not really an image".repeat(2000);
    let one = Photo { image: Some(image), ..photo(1) };
    photos.insert(&one).await?;
    let stored = photos.get(key(1)).await?.unwrap();
    assert_eq!(stored.entity, one);
    assert_eq!(photos.get(key(2)).await?, None);

    // The stored format, which must stay as it is.
    let mut row = table.get(key(1).cast::<DynamicEntity>()).await?.unwrap().entity;
    let Some(Value::String(pointer)) = row.remove("Image_Blob") else { panic!("no pointer") };
    let blobs = container.blobs().with_metadata().all().await?;
    let blob = &blobs[0];
    let sha256 = "7df189a0335c46b9f7b564946c8e4d1a49b650605b5c33b6b779f170f55e69a4";
    let expected = format!(
        r#"{{"blob":"{}","type":"Edm.Binary","length":38000,"sha256":"{}"}}"#,
        blob.name, sha256
    );
    assert_eq!(pointer, expected);
    let mut rest = DynamicEntity::new("leeds", "0001");
    rest.set("Title", "Photo 1");
    rest.set("Notes", "none");
    assert_eq!(row, rest);
    let parts: Vec<_> = blob.name.split('/').collect();
    // Of the SHA-256 of `leeds/0001`.
    let row = "673f1b52fb3f3ce753963beeddae49c4";
    assert_eq!(parts[..3], [&*table.name().to_lowercase(), row, "Image"]);
    assert_eq!(parts[3].len(), 32);
    let metadata: Vec<_> =
        blob.properties.metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(metadata, [("partitionkey", "bGVlZHM="), ("rowkey", "MDAwMQ==")]);
    let content_type = blob.properties.headers.content_type.as_deref();
    assert_eq!(content_type, Some("application/octet-stream"));

    let caption = table.get_as::<Caption>(key(1)).await?.unwrap().entity;
    assert_eq!(caption.title, "Photo 1");
    photos.delete(key(1), &stored).await?;
    assert!(container.blobs().all().await?.is_empty());
    let error = photos.delete(key(1), Match::Any).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!photos.delete_if_exists(key(1), Match::Any).await?);
    Ok(())
}

#[tokio::test]
async fn what_is_large_is_counted_as_the_service_counts() -> TestResult {
    let (server, photos) = start().await?;
    let photos = photos.threshold(2000);
    let of = |notes: String| Photo { notes, image: Some(vec![7; 2000]), ..photo(1) };
    photos.upsert(&of("x".repeat(1000))).await?;
    assert!(blobs(&server.snapshot()).is_empty(), "both are as large as they may be");
    photos.upsert(&of("é".repeat(1001))).await?;
    assert_eq!(named(&server.snapshot()).len(), 1);
    let notes = photos.get(key(1)).await?.unwrap().entity.notes;
    assert_eq!(notes, "é".repeat(1001));

    // Back into the row.
    photos.update(key(1), |photo| photo.notes = "short".into()).await?;
    assert!(blobs(&server.snapshot()).is_empty());
    assert_eq!(photos.get(key(1)).await?.unwrap().entity, of("short".into()));

    let always = photos.always(["Notes"]);
    always.upsert(&of(String::new())).await?;
    assert_eq!(named(&server.snapshot()).len(), 1, "even nothing");
    assert_eq!(always.get(key(1)).await?.unwrap().entity, of(String::new()));
    Ok(())
}

#[tokio::test]
async fn each_call_costs_what_it_says() -> TestResult {
    use Operation::{
        DeleteBlob, DeleteEntity, GetBlob, GetEntity, InsertEntity, PutBlob, UpdateEntity,
    };
    let (server, photos) = start().await?;
    let mut before = server.journal();
    let mut cost = |operations: &[(Operation, usize)]| {
        let now = server.journal();
        let since = server.journal().since(&before);
        before = now;
        assert_eq!(since.len(), operations.iter().map(|(_, count)| count).sum::<usize>());
        for (operation, count) in operations {
            assert_eq!(since.count(*operation), *count, "{operation:?}");
        }
    };
    let two = Photo { notes: "long".repeat(20_000), ..photo(1) };
    photos.insert(&two).await?;
    cost(&[(PutBlob, 2), (InsertEntity, 1)]);
    let stored = photos.get(key(1)).await?.unwrap();
    cost(&[(GetEntity, 1), (GetBlob, 2)]);
    let stored = stored.map(|photo| photo.title = "Snow".into());
    photos.replace(&stored).await?;
    cost(&[(GetEntity, 1), (UpdateEntity, 1)]);
    photos.update(key(1), |photo| photo.image = Some(noise(9, 50_000))).await?;
    cost(&[(GetEntity, 1), (GetBlob, 2), (PutBlob, 1), (UpdateEntity, 1), (DeleteBlob, 1)]);
    photos.upsert(&photo(1)).await?;
    cost(&[(GetEntity, 1), (PutBlob, 1), (UpdateEntity, 1), (DeleteBlob, 2)]);
    photos.delete(key(1), Match::Any).await?;
    cost(&[(GetEntity, 1), (DeleteEntity, 1), (DeleteBlob, 1)]);
    Ok(())
}

#[tokio::test]
async fn a_stale_replace_is_a_conflict_and_leaves_no_blob() -> TestResult {
    let (server, photos) = start().await?;
    photos.insert(&photo(1)).await?;
    let error = photos.insert(&Photo { image: Some(noise(8, 40_000)), ..photo(1) }).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let stale = photos.get(key(1)).await?.unwrap();
    photos.update(key(1), |photo| photo.title = "Snow".into()).await?;
    let stale = stale.map(|photo| photo.image = Some(noise(9, 40_000)));
    let error = photos.replace(&stale).await.unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(
        error.to_string(),
        "LargeEntity on photos: the entity was changed since it was read; read it again and decide \
         again"
    );
    assert!(photos.delete(key(1), &stale).await.unwrap_err().is_conflict());
    photos.replace((&stale.entity, Match::Any)).await?;
    assert_eq!(photos.get(key(1)).await?.unwrap().entity, stale.entity);
    let error = photos.replace((&photo(2), Match::Any)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = photos.update(key(2), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = photos.update(key(1), |photo| photo.number = 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    assert_eq!(blobs(&server.snapshot()).len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_before_anything_is_sent() -> TestResult {
    let (server, photos) = start().await?;
    let photos = photos.clone();
    let dynamic = Large::<DynamicEntity>::new(photos.table().clone(), photos.container().clone());
    let sent = server.journal().len();

    let mut wide = DynamicEntity::new("leeds", "0001");
    for n in 0..40 {
        wide.set(format!("P{n}"), vec![7; 30_000]);
    }
    wide.set("Image", vec![7; 100_000]);
    let error = dynamic.insert(&wide).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    let text = error.to_string();
    assert!(text.contains("1048576 (1 MiB) are allowed") && text.contains("threshold"), "{text}");
    dynamic.clone().threshold(20_000).insert(&wide).await?;
    assert_eq!(dynamic.get(wide.key()).await?.unwrap().entity.iter().len(), 41);

    let sent_then = server.journal().len();
    assert!(sent_then > sent);
    let mut reserved = DynamicEntity::new("leeds", "0002");
    reserved.set("Image_Blob", "{}");
    let error = dynamic.insert(&reserved).await.unwrap_err();
    assert!(error.to_string().contains("`Image_Blob`"), "{error}");
    let short = dynamic.clone().guard(Duration::from_secs(39));
    let error = short.insert(&DynamicEntity::new("leeds", "0003")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "LargeEntity on photos: blobs are guarded for 39 seconds, and an operation may take 10: it \
         must be four times as long; guard them for longer, or lower the timeout"
    );
    assert_eq!(server.journal().len(), sent_then);
    Ok(())
}

#[tokio::test]
async fn a_blob_that_was_altered_or_deleted_is_an_error_and_never_a_value() -> TestResult {
    let (server, photos) = start().await?;
    for compress in [false, true] {
        let photos = if compress { photos.clone().compress() } else { photos.clone() };
        let one = Photo { image: Some(vec![7; 100_000]), ..photo(1) };
        photos.upsert(&Photo { image: None, ..photo(1) }).await?;
        photos.upsert(&one).await?;
        let name = named(&server.snapshot()).remove(0);
        let content = server.snapshot().blob("blobs", &name).unwrap();
        let blob = photos.container().blob(&name);
        let mut flipped = content.clone();
        flipped[content.len() / 2] ^= 1;
        let cut = content[..content.len() - 1].to_vec();
        let longer = [&*content, b"x"].concat();
        let inputs = [flipped, cut, Vec::new(), if compress { b"x".to_vec() } else { longer }];
        for damaged in inputs {
            blob.put(damaged).send().await?;
            let error = photos.get(key(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            let mut reading = photos.read(key(1), "Image").await?.unwrap();
            let error = loop {
                match reading.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it was taken for whole"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert!(reading.next().await.is_err(), "and stays so");
        }
        blob.delete().await?;
        let error = photos.get(key(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains("names a blob that is not there"), "{error}");
        let error = photos.read(key(1), "Image").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        // It can be written again all the same.
        photos.upsert(&photo(1)).await?;
        assert_eq!(photos.get(key(1)).await?.unwrap().entity, photo(1));
    }
    Ok(())
}

#[tokio::test]
async fn what_compresses_is_compressed_and_a_link_opens_it() -> TestResult {
    let (server, photos) = start().await?;
    let photos = photos.compress().content_type("Notes", "text/markdown");
    let notes = "so it goes\n".repeat(10_000);
    let one = Photo { notes: notes.clone(), ..photo(1) };
    photos.insert(&one).await?;
    assert_eq!(photos.get(key(1)).await?.unwrap().entity, one);
    let mut lengths: Vec<_> = blobs(&server.snapshot())
        .iter()
        .map(|name| server.snapshot().blob("blobs", name).unwrap().len())
        .collect();
    lengths.sort_unstable();
    assert!(lengths[0] < 1000 && lengths[1] == 2000, "noise stays as it is: {lengths:?}");

    let link = photos.link(key(1), "Notes").await?.unwrap();
    let opened = |seconds| {
        let token = link.clone().valid_for(Duration::from_secs(seconds));
        let token = token.sign(photos.table().account())?;
        StorageAccount::from_connection_string(&token.connection_string())
    };
    let row = photos.table().get(key(1).cast::<DynamicEntity>()).await?.unwrap().entity;
    let Some(Value::String(pointer)) = row.get("Notes_Blob") else { panic!("no pointer") };
    let pointer: serde_json::Value = serde_json::from_str(pointer)?;
    let name = pointer["blob"].as_str().unwrap();
    let visitor = opened(60)?.container("blobs").blob(name);
    let read = visitor.get().await?.unwrap();
    assert_eq!(read.properties.headers.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(read.properties.headers.content_type.as_deref(), Some("text/markdown"));
    assert_eq!(read.bytes.len(), lengths[0]);
    assert_eq!(visitor.put("x").send().await.unwrap_err().kind(), ErrorKind::Auth, "only read");
    let image = blobs(&server.snapshot()).into_iter().find(|other| other != name).unwrap();
    let other = opened(60)?.container("blobs").blob(&image).get().await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Auth, "only this one");
    server.clock().advance(Duration::from_secs(61));
    assert_eq!(visitor.get().await.unwrap_err().kind(), ErrorKind::Auth, "only so long");

    assert!(photos.link(key(1), "Title").await?.is_none(), "it is in the row");
    assert!(photos.link(key(2), "Notes").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_property_is_written_and_read_piece_by_piece() -> TestResult {
    let (server, photos) = start().await?;
    let pieces = || {
        let pieces = (0..300_u32).map(|n| {
            let piece = vec![u8::try_from(n % 251).unwrap(); 65_536];
            Ok::<_, std::io::Error>(Bytes::from(piece))
        });
        stream::iter(pieces)
    };
    let error = photos.write(key(1), "Image", pieces()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    photos.insert(&photo(1)).await?;
    for photos in [photos.clone(), photos.clone().compress()] {
        photos.write(key(1), "Image", pieces()).await?;
        assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()), "the old one is freed");
        let reading = photos.read(key(1), "Image").await?.unwrap();
        assert_eq!(reading.length(), 300 * 65_536);
        let read = reading.stream().try_fold((0, 0_u64), |(length, sum), piece| async move {
            assert!(piece.len() < 5 << 20);
            Ok((length + piece.len(), sum + piece.iter().map(|b| u64::from(*b)).sum::<u64>()))
        });
        let sum: u64 = (0..300).map(|n| n % 251 * 65_536).sum();
        assert_eq!(read.await?, (300 * 65_536, sum));
        let image = photos.get(key(1)).await?.unwrap().entity.image.unwrap();
        assert_eq!(image.len(), 300 * 65_536);
    }
    let failing = pieces().take(3).chain(stream::iter([Err(std::io::Error::other("no disk"))]));
    let error = photos.write(key(1), "Image", failing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));

    // A property that is in the row is read the same way.
    let mut title = photos.read(key(1), "Title").await?.unwrap();
    assert_eq!(title.next().await?.unwrap(), "Photo 1");
    assert_eq!(title.next().await?, None);
    assert!(photos.read(key(1), "Nothing").await?.is_none());
    assert!(photos.read(key(2), "Image").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn rows_found_by_a_query_are_completed_one_by_one() -> TestResult {
    let (_server, photos) = start().await?;
    for number in 1..=3 {
        photos.insert(&photo(number)).await?;
    }
    let found = photos.table().query(Photo::partition("leeds")).project::<DynamicEntity>();
    let rows = found.filter(Photo::TITLE.is("Photo 2")).all().await?;
    let found = photos.complete(rows[0].clone()).await?.unwrap();
    assert_eq!((found.entity, &found.etag), (photo(2), &rows[0].etag));
    photos.delete(key(2), Match::Any).await?;
    assert!(photos.complete(rows[0].clone()).await?.is_none(), "it is gone");
    Ok(())
}

#[tokio::test]
async fn a_transaction_takes_rows_whose_blobs_are_there() -> TestResult {
    let (server, photos) = start().await?;
    photos.insert(&photo(1)).await?;
    let (two, three) = (photos.stow(&photo(2)).await?, photos.stow(&photo(3)).await?);
    let transaction = photos.table().transaction().insert(&two).insert(&three);
    transaction.delete(key(1), Match::Any).submit().await?;
    assert_eq!(photos.get(key(3)).await?.unwrap().entity, photo(3));
    assert_eq!(named(&server.snapshot()).len(), 2);
    assert_eq!(blobs(&server.snapshot()).len(), 3, "that of the deleted row is left");
    server.clock().advance(GUARD + Duration::from_secs(2));
    let swept = photos.sweep().run().await?;
    assert_eq!((swept.freed, swept.in_use), (1, 2));
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    Ok(())
}

#[tokio::test]
async fn a_sweep_frees_what_is_old_and_unnamed_and_goes_on_where_it_stopped() -> TestResult {
    let (server, photos) = start().await?;
    for number in 1..=4 {
        photos.insert(&photo(number)).await?;
        // Gone without its blob.
        photos.table().upsert(&Photo { image: None, ..photo(number) }).await?;
    }
    photos.insert(&photo(5)).await?;
    photos.container().blob("photos/readme.txt").put("by hand").send().await?;
    photos.container().blob("photos2/other").put("another table's").send().await?;
    assert_eq!(
        counts(&photos.sweep().run().await?),
        [6, 5, 0, 0, 0, 1],
        "young, and one that is not of here"
    );
    server.clock().advance(GUARD + Duration::from_secs(2));
    photos.insert(&photo(6)).await?;
    photos.table().delete(key(6), Match::Any).await?;

    let mut sweep = photos.sweep().page_size(3);
    let first = sweep.step().await?.unwrap();
    assert_eq!(first.blobs, 3);
    let stored = first.continuation.clone().unwrap().to_string();
    let rest = photos.sweep().page_size(3).resume(stored.parse()?).run().await?;
    let all: Vec<_> = counts(&first).iter().zip(counts(&rest)).map(|(a, b)| a + b).collect();
    assert_eq!(all, [7, 1, 1, 4, 0, 1]);
    let error = photos.sweep().resume(stored.parse()?).page_size(0).step().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(rest.unknown, ["photos/readme.txt"]);
    assert_eq!(blobs(&server.snapshot()).len(), 4);
    assert_eq!(photos.get(key(5)).await?.unwrap().entity, photo(5));
    Ok(())
}

fn counts(swept: &Swept) -> [u64; 6] {
    let Swept { blobs, young, in_use, freed, changed, unknown, .. } = swept;
    [*blobs, *young, *in_use, *freed, *changed, unknown.len() as u64]
}
