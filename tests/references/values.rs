//! Values in blobs: small ones that stay in the row, and compressed ones.

use std::collections::BTreeMap;
use std::time::Duration;

use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Projection as _, StorageAccount};
use rowkey_emulator::{Server, Snapshot, Sweep};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sample};

/// A mail with a text that stays in the row if it is small.
#[derive(Clone, Debug, PartialEq, Entity)]
// `by_day` gets a few copies.
#[entity(store, append_ok, partition = "{user}", row = "mail_{id:4}", rename_all = "PascalCase")]
#[entity(index(name = by_sender, row = "sender_{sender}", many))]
#[entity(index(name = by_day, partition = "day_{day}", row = "{user}_{id:4}"))]
struct Mail {
    user: String,
    id: u32,
    sender: String,
    day: u32,
    #[entity(blob, threshold = 1000, compress)]
    text: String,
    #[entity(blob, compress)]
    file: Option<Vec<u8>>,
    #[entity(json, blob, threshold = 100)]
    labels: Vec<String>,
}

/// The same mails in a program without the options.
#[derive(Clone, Debug, PartialEq, Entity)]
// `by_day` gets a few copies.
#[entity(store, append_ok, partition = "{user}", row = "mail_{id:4}", rename_all = "PascalCase")]
#[entity(index(name = by_sender, row = "sender_{sender}", many))]
#[entity(index(name = by_day, partition = "day_{day}", row = "{user}_{id:4}"))]
struct Older {
    user: String,
    id: u32,
    sender: String,
    day: u32,
    #[entity(blob)]
    text: String,
    #[entity(blob)]
    file: Option<Vec<u8>>,
    #[entity(json, blob)]
    labels: Vec<String>,
}

fn mail(id: u32, text: &str) -> Mail {
    Mail {
        user: "ada".into(),
        id,
        sender: "kim".into(),
        day: 7,
        text: text.into(),
        file: None,
        labels: vec!["new".into()],
    }
}

fn key(id: u32) -> Key<Mail> {
    Mail::key("ada", id)
}

fn store<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::builder(account.table("mails"))
        .queue(account.queue("mails"))
        .blobs(account.container("mails"))
        .build()
}

async fn start() -> TestResult<(Server, Store<Mail>)> {
    let server = Server::builder().manual_clock().start().await?;
    let mails = store::<Mail>(&account(&server)?)?;
    mails.create_if_missing().await?;
    Ok((server, mails))
}

fn row(snapshot: &Snapshot, id: u32) -> (Option<Value>, Option<serde_json::Value>) {
    let table = snapshot.table("mails").unwrap();
    let row = table.entity("ada", &format!("mail_{id:04}")).unwrap();
    let pointer = row.get("Text_Blob").map(|pointer| match pointer {
        Value::String(text) => serde_json::from_str(&text).unwrap(),
        _ => panic!("the pointer is text"),
    });
    (row.get("Text"), pointer)
}

#[tokio::test]
async fn rows_have_the_properties_and_types_that_the_derive_lists() -> TestResult {
    let (_server, mails) = start().await?;
    let row = |id| mails.table().get(Key::<DynamicEntity>::new("ada", format!("mail_{id:04}")));
    mails.insert(&mail(1, "short")).await?;
    let large = Mail {
        labels: vec!["label".repeat(100)],
        file: Some(vec![1]),
        ..mail(2, &"a".repeat(2000))
    };
    mails.insert(&large).await?;
    let mut stored = BTreeMap::new();
    for id in [1, 2] {
        let row = row(id).await?.ok_or("not there")?.entity;
        let own = row.iter().filter(|(name, _)| !name.starts_with("Entity"));
        stored.extend(own.map(|(name, value)| (name.to_owned(), Some(value.edm_type()))));
    }
    let expected = Mail::TYPES.iter().map(|&(name, ty)| (name.to_owned(), ty));
    assert_eq!(stored, expected.collect());
    Ok(())
}

#[tokio::test]
async fn a_value_up_to_the_threshold_stays_in_the_row() -> TestResult {
    let (server, mails) = start().await?;
    mails.insert(&mail(1, "short")).await?;
    assert_eq!(server.snapshot().blobs("mails").count(), 0);
    assert_eq!(row(&server.snapshot(), 1), (Some("short".into()), None));
    assert_eq!(mails.get(key(1)).await?.unwrap().entity, mail(1, "short"));

    // The service counts two bytes for each UTF-16 unit.
    for (units, is_in_row) in [(500, true), (501, false), (500, true)] {
        let text = "é".repeat(units);
        mails.update(key(1), |mail| mail.text = text.clone()).await?;
        let (value, pointer) = row(&server.snapshot(), 1);
        assert_eq!((value.is_some(), pointer.is_none()), (is_in_row, is_in_row), "{units}");
        assert_eq!(server.snapshot().blobs("mails").count(), usize::from(!is_in_row));
        assert_eq!(mails.get(key(1)).await?.unwrap().entity.text, text);
    }
    // Other writes leave the value where it is, also those that do not read blobs.
    for text in ["é".repeat(500), "é".repeat(501)] {
        mails.upsert(&Mail { labels: vec!["x".repeat(200)], ..mail(1, &text) }).await?;
        let before = row(&server.snapshot(), 1);
        mails.patch(key(1)).set(Mail::DAY, 8).send().await?;
        assert!(mails.rewrite(key(1)).await?);
        mails.update(key(1), |mail| mail.sender = "eve".into()).await?;
        assert_eq!(row(&server.snapshot(), 1), before);
        // Copies have neither the value nor the pointer, and what is found through them is whole.
        let found = mails.find(Mail::by_day(8, "ada", 1)).await?.unwrap().entity;
        assert_eq!((&found.text, found.labels[0].len()), (&text, 200));
        let listed = mails.query(Mail::by_sender("ada", "eve")).all().await?;
        assert_eq!(listed[0].entity, found);
        let snapshot = server.snapshot();
        let copies = snapshot.table("mails").unwrap();
        let mut copies = copies.entities().filter(|row| !row.row_key().starts_with("mail_"));
        assert!(copies.all(|row| row.get("Text").is_none() && row.get("Labels").is_none()));
    }
    assert!(mails.verify().run().await?.is_clean());
    assert!(mails.delete(key(1)).await?);
    assert_eq!(server.snapshot().blobs("mails").count(), 0);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{user}", row = "note_{id:4}", rename_all = "PascalCase")]
struct Note {
    user: String,
    id: u32,
    #[entity(blob, threshold = 65536)]
    text: Vec<u8>,
}

#[tokio::test]
async fn a_small_value_costs_the_requests_of_a_property() -> TestResult {
    let (server, mails) = start().await?;
    let notes = store::<Note>(mails.table().account())?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    let note = |length| Note { user: "ada".into(), id: 1, text: vec![7; length] };
    notes.insert(&note(65_536)).await?;
    assert_eq!(cost(), 1);
    assert_eq!(notes.get(Note::key("ada", 1)).await?.unwrap().entity, note(65_536));
    assert_eq!(cost(), 1);
    notes.upsert(&note(10)).await?;
    assert_eq!(cost(), 2);
    notes.upsert(&note(65_537)).await?;
    // The entity; the blob, message, transaction, op row and message.
    assert_eq!(cost(), 6);
    notes.delete(Note::key("ada", 1)).await?;
    assert_eq!(cost(), 6);
    Ok(())
}

#[tokio::test]
async fn compressed_content_is_shorter_in_the_blob_and_the_same_when_read() -> TestResult {
    let (server, mails) = start().await?;
    let text = "a line of a mail\n".repeat(10_000);
    // No compression makes it shorter.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(50_000).collect();
    let one = Mail { file: Some(noise), ..mail(1, &text) };
    mails.insert(&one).await?;
    let (_, pointer) = row(&server.snapshot(), 1);
    let pointer = pointer.unwrap();
    assert_eq!((&pointer["v"], &pointer["encoding"]), (&2.into(), &"gzip".into()));
    assert_eq!(pointer["length"], text.len(), "the length is that of the content");
    let snapshot = server.snapshot();
    let name = pointer["blob"].as_str().unwrap();
    assert!(snapshot.blob("mails", name).unwrap().len() < text.len() / 20);
    let longest = snapshot.blobs("mails").map(|blob| snapshot.blob("mails", blob).unwrap().len());
    assert_eq!(longest.max(), Some(50_000), "the file is stored as it is");
    assert_eq!(mails.get(key(1)).await?.unwrap().entity, one);
    // The content decides whether the blob stays.
    mails.upsert(&Mail { day: 8, ..one.clone() }).await?;
    assert_eq!(row(&server.snapshot(), 1).1.unwrap(), pointer);
    assert!(mails.rewrite(key(1)).await?);
    assert!(mails.verify().run().await?.is_clean());

    // A blob that another program wrote, also one that unpacks to much more.
    let container = mails.table().account().container("mails");
    let stored = snapshot.blob("mails", name).unwrap().clone();
    for damaged in [b"no gzip".to_vec(), stored[..stored.len() - 9].to_vec()] {
        container.blob(name).put(damaged).send().await?;
        let error = mails.get(key(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains("`Text`"), "{error}");
    }
    container.blob(name).put(stored).send().await?;
    assert_eq!(mails.get(key(1)).await?.unwrap().entity.text, text);
    Ok(())
}

#[tokio::test]
async fn programs_with_and_without_the_options_read_each_other() -> TestResult {
    let (server, mails) = start().await?;
    let older = store::<Older>(mails.table().account())?;
    let text = "a line of a mail\n".repeat(1000);
    mails.insert(&mail(1, "short")).await?;
    mails.insert(&mail(2, &text)).await?;
    for (id, text) in [(1, "short"), (2, &*text)] {
        let read = older.get(Older::key("ada", id)).await?.unwrap().entity;
        assert_eq!((&*read.text, read.labels.len()), (text, 1));
        // Its writes keep a blob, and move the value of a row into one.
        older.update(Older::key("ada", id), |mail| mail.day = 9).await?;
        assert!(row(&server.snapshot(), id).0.is_none());
        assert_eq!(mails.get(key(id)).await?.unwrap().entity.text, text);
    }
    mails.upsert(&mail(1, "short")).await?;
    assert_eq!(row(&server.snapshot(), 1).0, Some("short".into()));
    older.delete(Older::key("ada", 1)).await?;
    older.delete(Older::key("ada", 2)).await?;
    assert_eq!(server.snapshot().blobs("mails").count(), 0);

    // A format that a newer program has: it is not read as another one, and its blob is not swept.
    mails.insert(&mail(3, &text)).await?;
    let (_, pointer) = row(&server.snapshot(), 3);
    let newer = pointer.unwrap().to_string().replace("\"v\":2", "\"v\":3");
    let mut patch = DynamicEntity::new("ada", "mail_0003");
    patch.set("Text_Blob", newer);
    mails.table().merge((&patch, rowkey::Match::Any)).await?;
    let error = mails.get(key(3)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Decode && error.to_string().contains("newer"), "{error}");
    server.clock().advance(Duration::from_secs(60 * 60));
    let swept = store::<Mail>(&account(&server)?)?.sweep().run().await?;
    assert_eq!(swept.total.orphaned, 0, "{swept:?}");
    Ok(())
}

/// A wide entity with a value that stays in one of its rows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, partition = "{user}", row = "letter_{id:4}")]
struct Wide {
    user: String,
    id: u32,
    #[entity(rest)]
    numbers: BTreeMap<String, i32>,
    #[entity(blob, threshold = 1000)]
    text: String,
}

#[tokio::test]
async fn small_values_of_wide_entities_stay_in_their_rows() -> TestResult {
    let (server, mails) = start().await?;
    let wide = store::<Wide>(mails.table().account())?;
    let numbers = (0..255).map(|number| (format!("N{number}"), number)).collect();
    let one = Wide { user: "ada".into(), id: 1, numbers, text: "short".into() };
    wide.insert(&one).await?;
    assert_eq!(wide.get(Wide::key("ada", 1)).await?.unwrap().entity, one);
    assert_eq!(server.snapshot().blobs("mails").count(), 0);
    let long = "long".repeat(1000);
    wide.update(Wide::key("ada", 1), |wide| wide.text = long.clone()).await?;
    assert_eq!(server.snapshot().blobs("mails").count(), 1);
    assert_eq!(wide.get(Wide::key("ada", 1)).await?.unwrap().entity.text, long);
    assert!(wide.delete(Wide::key("ada", 1)).await?);
    assert_eq!(server.snapshot().blobs("mails").count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_value_that_crosses_the_threshold_is_never_lost() -> TestResult {
    let (server, mails) = start().await?;
    mails.insert(&mail(1, "short")).await?;
    let long = "a line of a mail\n".repeat(100);
    mails.insert(&mail(2, &long)).await?;
    let swept = sample(Sweep::new(&server).lagging_secondary(), "threshold")
        .run(
            async |server: &Server| Ok(store::<Mail>(&account(server)?)?),
            async |mails: &Store<Mail>| {
                mails.update(key(1), |mail| mail.text = long.clone()).await?;
                mails.upsert(&mail(2, "short")).await?;
                mails.delete(key(1)).await.map(drop)
            },
            async |mails: &Store<Mail>| {
                mails.drain_backlog().await?;
                assert_eq!(mails.work_once().await?.failed, 0);
                Ok(())
            },
            async |server: &Server, _: &Store<Mail>, _: Option<&rowkey::Result<()>>| {
                server.clock().advance(Duration::from_secs(46 * 60));
                let mails = store::<Mail>(&account(server)?)?;
                mails.work_once().await?;
                mails.sweep().run().await?;
                let snapshot = server.snapshot();
                let mut named = 0;
                for id in [1, 2] {
                    let Some(read) = mails.get(key(id)).await? else { continue };
                    assert!(read.entity.text == "short" || read.entity.text == long);
                    named += usize::from(read.entity.text == long);
                }
                assert_eq!(snapshot.blobs("mails").count(), named);
                Ok(())
            },
        )
        .await?;
    eprintln!("{swept:?}");
    Ok(())
}
