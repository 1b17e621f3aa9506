//! Advices about references to blobs.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select;
use rowkey::store::Store;
use rowkey::{BlobRef, Entity, Key, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;

use super::{Case, case, refused, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album}", row = "photo_{number:4}")]
struct Photo {
    album: String,
    number: u32,
    #[entity(blob)]
    image: BlobRef,
}

async fn photos() -> TestResult<(Server, StorageAccount, Store<Photo>)> {
    let (server, account) = start().await?;
    let photos = Store::<Photo>::builder(account.table("photos"))
        .queue(account.queue("photos"))
        .blobs(account.container("photos"))
        .build()?;
    photos.create_if_missing().await?;
    Ok((server, account, photos))
}

fn key(number: u32) -> Key<Photo> {
    Photo::key("leeds", number)
}

async fn photo(photos: &Store<Photo>, number: u32) -> rowkey::Result<Photo> {
    let image = photos.upload_reader(key(number), &b"an image"[..]).send().await?;
    Ok(Photo { album: "leeds".into(), number, image })
}

pub(super) const CASES: &[Case] = &[
    case("upload the content shortly before the entity is written", || {
        async {
            let (server, account, photos) = photos().await?;
            let old = photo(&photos, 1).await?;
            for _ in 0..901 {
                server.clock().advance(Duration::from_secs(4));
                account.clock().sleep(Duration::from_secs(4)).await;
            }
            let error = refused(photos.insert(&old).await)?;
            photos.insert(&photo(&photos, 1).await?).await?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "keep the reference of the stored entity, as `Store::update` does, or upload the content",
        || {
            async {
                let (_server, _, photos) = photos().await?;
                photos.insert(&photo(&photos, 1).await?).await?;
                let read = photos.get(key(1)).await?.ok_or("not there")?.entity;
                photos.upsert(&photo(&photos, 1).await?).await?;
                let error = refused(photos.upsert(&read).await)?;
                photos.update(key(1), |_| ()).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("upload the content for each entity: its blob is deleted with it", || {
        async {
            let (_server, _, photos) = photos().await?;
            let image = photo(&photos, 1).await?.image;
            let other = Photo { album: "leeds".into(), number: 2, image };
            let error = refused(photos.insert(&other).await)?;
            photos.insert(&photo(&photos, 2).await?).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("read the entity: if it does not have the reference, upload the content again", || {
        async {
            let (_server, _, photos) = photos().await?;
            let one = photo(&photos, 1).await?;
            photos.insert(&one).await?;
            photos.delete(key(1)).await?;
            let error = refused(photos.insert(&one).await)?;
            assert!(photos.get(key(1)).await?.is_none());
            photos.insert(&photo(&photos, 1).await?).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("wait for the other call, or upload the content for each", || {
        async {
            let (server, _, photos) = photos().await?;
            let one = photo(&photos, 1).await?;
            let held = server.inject(Fault::on(Operation::Transaction).hold());
            let mut insert = pin!(photos.insert(&one));
            select(insert.as_mut(), pin!(held.wait_until_held())).await;
            let error = refused(photos.insert(&one).await)?;
            drop(held);
            insert.await?;
            photos.upsert(&one).await?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "read the entity again, it may have been changed; `Store::verify` reports entities whose blobs are missing",
        || {
            async {
                let (_server, account, photos) = photos().await?;
                let one = photo(&photos, 1).await?;
                photos.insert(&one).await?;
                photos.upsert(&photo(&photos, 1).await?).await?;
                let error = refused(photos.download(&one.image).bytes().await)?;
                let now = photos.get(key(1)).await?.ok_or("not there")?.entity;
                photos.download(&now.image).bytes().await?;
                account.container("photos").blob(now.image.name()).delete().await?;
                assert_eq!(photos.verify().run().await?.part("image").missing, 1);
                Ok(error)
            }
            .boxed()
        },
    ),
    case(
        "read it again; if that does not help, another program wrote to the blob: restore it, or upload the content \
         again",
        || {
            async {
                let (_server, account, photos) = photos().await?;
                let one = photo(&photos, 1).await?;
                photos.insert(&one).await?;
                account.container("photos").blob(one.image.name()).put("short").send().await?;
                let error = refused(photos.download(&one.image).bytes().await)?;
                let new = photo(&photos, 1).await?;
                photos.upsert(&new).await?;
                photos.download(&new.image).bytes().await?;
                Ok(error)
            }
            .boxed()
        },
    ),
];
