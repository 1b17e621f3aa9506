//! Sweeps of a program beside entities of other programs: of one that has another field, of another kind, and of one
//! that does not have the field.

use std::collections::BTreeMap;
use std::time::Duration;

use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{BlobRef, Entity, ErrorKind};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::{Order, start};

fn of<E: Entity + Clone + Send + Sync + 'static>(server: &Server) -> rowkey::Result<Store<E>> {
    let account = account(server)?;
    Store::<E>::builder(account.table("Orders"))
        .queue(account.queue("orders"))
        .blobs(account.container("orders"))
        .build()
}

/// A page, as a program has it before it is updated.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "page_{id:4}", rename_all = "PascalCase")]
struct OldPage {
    tenant: String,
    id: u32,
    #[entity(blob)]
    text: String,
}

/// The same with one more field in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "page_{id:4}", rename_all = "PascalCase")]
struct Page {
    tenant: String,
    id: u32,
    #[entity(blob)]
    text: String,
    #[entity(blob)]
    notes: Option<String>,
}

#[tokio::test]
async fn a_sweep_leaves_the_blobs_of_a_field_that_the_program_does_not_have() -> TestResult {
    let (server, _) = start().await?;
    let (tenant, notes) = ("contoso".to_owned(), Some("notes".to_owned()));
    let page = Page { tenant, id: 1, text: "a page".into(), notes };
    of::<Page>(&server)?.insert(&page).await?;
    server.clock().advance(Duration::from_secs(60 * 60));
    let swept = of::<OldPage>(&server)?.sweep().run().await?;
    assert_eq!((swept.total.right, swept.total.orphaned), (2, 0), "{swept:?}");
    assert_eq!(of::<Page>(&server)?.get(Page::key("contoso", 1)).await?.unwrap().entity, page);
    Ok(())
}

/// Two kinds of items, whose RowKeys begin with the same text.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "item_{id:4}", kind = "photo")]
struct Photo {
    tenant: String,
    id: u32,
    #[entity(blob)]
    image: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "item_{id:4}", kind = "film")]
struct Film {
    tenant: String,
    id: u32,
    #[entity(blob)]
    reel: String,
}

#[tokio::test]
async fn a_sweep_leaves_the_blobs_of_another_kind() -> TestResult {
    let (server, _) = start().await?;
    let film = Film { tenant: "contoso".into(), id: 1, reel: "a film".into() };
    of::<Film>(&server)?.insert(&film).await?;
    server.clock().advance(Duration::from_secs(60 * 60));
    let swept = of::<Photo>(&server)?.sweep().run().await?;
    assert_eq!(swept.total.orphaned, 0, "{swept:?}");
    assert_eq!(of::<Film>(&server)?.get(Film::key("contoso", 1)).await?.unwrap().entity, film);
    Ok(())
}

/// A wide entity with a reference and a value in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, partition = "{tenant}", row = "album_{id:4}")]
struct Album {
    tenant: String,
    id: u32,
    #[entity(blob)]
    cover: BlobRef,
    #[entity(blob)]
    preface: String,
    #[entity(rest)]
    more: BTreeMap<String, Value>,
}

/// The same in a program that has neither field.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, partition = "{tenant}", row = "album_{id:4}")]
struct OlderAlbum {
    tenant: String,
    id: u32,
    #[entity(rest)]
    more: BTreeMap<String, Value>,
}

#[tokio::test]
async fn a_sweep_finds_what_another_program_moved_into_a_further_row() -> TestResult {
    let (server, _) = start().await?;
    let albums = of::<Album>(&server)?;
    let key = || Album::key("contoso", 1);
    let cover = albums.upload_reader(key(), &b"a cover"[..]).send().await?;
    let (tenant, preface) = ("contoso".to_owned(), "Preface".to_owned());
    albums.insert(&Album { tenant, id: 1, cover, preface, more: BTreeMap::new() }).await?;
    let older = of::<OlderAlbum>(&server)?;
    let more = (0..300).map(|number| (format!("A{number}"), Value::Int32(number)));
    older.update(OlderAlbum::key("contoso", 1), |album| album.more.extend(more.clone())).await?;
    server.clock().advance(Duration::from_secs(121 * 60));
    let albums = of::<Album>(&server)?;
    let swept = albums.sweep().run().await?;
    assert_eq!((swept.total.right, swept.total.orphaned), (2, 0), "{swept:?}");
    let read = albums.get(key()).await?.unwrap().entity;
    assert_eq!((&*read.preface, read.more.len()), ("Preface", 300));
    assert_eq!(albums.download(&read.cover).bytes().await?, "a cover");

    // A write of the same program drops what it has moved back.
    let cover = albums.upload_reader(key(), &b"another cover"[..]).send().await?;
    albums.update(key(), |album| album.cover = cover.clone()).await?;
    let names: Vec<_> = server.snapshot().blobs("orders").map(str::to_owned).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    Ok(())
}

#[tokio::test]
async fn one_reference_in_two_fields_is_freed_with_the_second() -> TestResult {
    let (server, orders) = start().await?;
    let one = super::order(&orders, 1).await?;
    let both = Order { scan: Some(one.invoice.clone()), ..one };
    orders.insert(&both).await?;
    orders.update(super::key(1), |order| order.scan = None).await?;
    assert_eq!(super::agreed(&server.snapshot()).len(), 1);
    // To the other field and back, in one write each.
    let back = |order: &mut Order| order.scan = Some(order.invoice.clone());
    orders.update(super::key(1), back).await?;
    let new = super::upload(&orders, 1, b"new".to_vec()).await?;
    orders.update(super::key(1), |order| order.invoice = new.clone()).await?;
    assert_eq!(super::agreed(&server.snapshot()).len(), 2);
    orders.delete(super::key(1)).await?;
    assert!(super::agreed(&server.snapshot()).is_empty());
    Ok(())
}

/// A cover with two references.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "cover_{id:4}", rename_all = "PascalCase")]
struct Cover {
    tenant: String,
    id: u32,
    #[entity(blob)]
    image: BlobRef,
    #[entity(blob)]
    thumb: Option<BlobRef>,
}

/// The same, as a program has it that knows one of them.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "cover_{id:4}", rename_all = "PascalCase")]
struct PlainCover {
    tenant: String,
    id: u32,
    #[entity(blob)]
    image: BlobRef,
}

/// The same, as a program has it for which the other one is a text.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "cover_{id:4}", rename_all = "PascalCase")]
struct TextCover {
    tenant: String,
    id: u32,
    #[entity(blob)]
    image: BlobRef,
    thumb: Option<String>,
}

/// A program gives an entity another reference. A property that is no reference for this program names the old
/// blob.
#[tokio::test]
async fn a_blob_stays_that_a_reference_of_another_version_names() -> TestResult {
    let (server, _) = start().await?;
    let covers = of::<Cover>(&server)?;
    let (plain, texts) = (of::<PlainCover>(&server)?, of::<TextCover>(&server)?);
    let key = |id: u32| Cover::key("contoso", id);
    for id in [1, 2] {
        let image = covers.upload_reader(key(id), &b"an image"[..]).send().await?;
        let (tenant, thumb) = ("contoso".into(), Some(image.clone()));
        covers.insert(&Cover { tenant, id, image, thumb }).await?;
    }
    let (one, two) = (PlainCover::key("contoso", 1), TextCover::key("contoso", 2));
    let image = plain.upload_reader(one, &b"new"[..]).send().await?;
    let one = PlainCover::key("contoso", 1);
    plain.update(one, |cover| cover.image = image.clone()).await?;
    let image = texts.upload_reader(two, &b"new"[..]).send().await?;
    let two = TextCover::key("contoso", 2);
    texts.update(two, |cover| cover.image = image.clone()).await?;
    for id in [1, 2] {
        let cover = covers.get(key(id)).await?.unwrap().entity;
        assert_eq!(covers.download(&cover.image).bytes().await?, "new");
        assert_eq!(covers.download(&cover.thumb.unwrap()).bytes().await?, "an image");
        assert!(covers.delete(key(id)).await?);
    }
    assert_eq!(server.snapshot().blobs("orders").count(), 0);
    Ok(())
}

#[tokio::test]
async fn ranges_beyond_the_content_are_cut_or_refused() -> TestResult {
    let (_server, orders) = start().await?;
    let some = super::upload(&orders, 1, b"0123456789".to_vec()).await?;
    let empty = super::upload(&orders, 1, Vec::new()).await?;
    for check in [None, Some(rowkey::blob::Check::Crc64)] {
        let read = async |reference: &BlobRef, range: std::ops::Range<u64>| {
            let mut download = orders.download(reference).range(range);
            if let Some(check) = check {
                download = download.check(check);
            }
            download.bytes().await
        };
        assert_eq!(read(&some, 5..100).await?, "56789");
        assert_eq!(read(&some, 5..5).await.unwrap_err().kind(), ErrorKind::Invalid);
        for (reference, range) in [(&some, 10..20), (&some, 11..20), (&empty, 0..10)] {
            let error = read(reference, range.clone()).await.unwrap_err();
            assert_eq!(error.code(), Some(&rowkey::ErrorCode::INVALID_RANGE), "{range:?}: {error}");
        }
    }
    assert_eq!(orders.download(&empty).range(..).bytes().await?, "");
    Ok(())
}
