//! Photos as large entities: the title is in the row and the image in a blob, written and read as one entity.
//! A new title does not upload the image again, a list of titles reads no image, and blobs left by an
//! interrupted upload are swept.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::store::Store;
use rowkey::{Entity, ManualClock, Projection, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album}", row = "photo_{number:4}", rename_all = "PascalCase")]
struct Photo {
    album: String,
    number: u32,
    title: String,
    #[entity(blob, threshold = 16384, compress)]
    description: String,
    #[entity(blob)]
    image: Vec<u8>,
}

/// The properties for a list of photos: all are in the row, so no blob is read.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Caption {
    title: String,
}

fn photos(account: &StorageAccount) -> rowkey::Result<Store<Photo>> {
    Store::builder(account.table("photos"))
        .queue(account.queue("photos"))
        .blobs(account.container("photos"))
        .build()
}

/// An account whose clock is moved by hand with that of the server.
fn connect(server: &Server) -> rowkey::Result<StorageAccount> {
    StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = connect(&server)?;
    let store = photos(&account)?;
    store.create_if_missing().await?;

    // 3 MB, three times the limit of a row: the blob first, then the row with its name.
    let album = || "leeds".to_owned();
    let description = "It snowed in May. ".to_owned();
    let image = vec![7; 3_000_000];
    let snow = Photo { album: album(), number: 1, title: "Snow".into(), description, image };
    store.insert(&snow).await?;
    let key = || Photo::key("leeds", 1);
    assert_eq!(store.get(key()).await?.ok_or("just inserted")?.entity, snow);

    // The image stays where it is when something else changes.
    let puts = server.journal().count(Operation::PutBlob);
    store.patch(key()).set(Photo::TITLE, "Snow in May").send().await?;
    assert_eq!(server.journal().count(Operation::PutBlob), puts);

    // A list of titles reads rows alone.
    let album_of = store.table().query(Photo::partition("leeds")).project::<Caption>();
    let captions = album_of.all().await?;
    println!("without its image: {:?}", captions[0].entity.title);
    assert_eq!(server.journal().count(Operation::GetBlob), 1);

    // A short description is in the row. A long one moves into a blob, in gzip, and back when it is shorter again.
    let blobs = async || account.container("photos").blobs().all().await;
    let long = snow.description.repeat(10_000);
    store.update(key(), |photo| photo.description.clone_from(&long)).await?;
    let stored: Vec<_> = blobs().await?.iter().map(|blob| blob.properties.length).collect();
    assert!(stored.len() == 2 && stored.iter().any(|length| *length < 10_000), "{stored:?}");
    store.update(key(), |photo| photo.description.truncate(100)).await?;
    assert_eq!(blobs().await?.len(), 1);

    // Another image takes the place of the first, whose blob is deleted.
    store.update(key(), |photo| photo.image = vec![8; 500_000]).await?;
    assert_eq!(blobs().await?.len(), 1);

    // The program stops between blob and row.
    let held = server.inject(Fault::on(Operation::Transaction).hold());
    let rain = Photo { number: 2, title: "Rain".into(), ..snow };
    tokio::select! {
        _ = store.insert(&rain) => {}
        () = held.wait_until_held() => {}
    }
    held.discard();

    // A worker and a sweep of a program that starts later end the write and delete its blob.
    server.clock().advance(Duration::from_secs(60 * 60));
    let store = photos(&connect(&server)?)?;
    store.work_once().await?;
    let swept = store.sweep().run().await?;
    println!("the sweep deleted {} blob", swept.total.repaired);
    let left = connect(&server)?.container("photos").blobs().all().await?.len();
    let right = usize::from(store.get(Photo::key("leeds", 2)).await?.is_some()) + 1;
    assert_eq!(left, right, "a blob for each photo");

    store.delete(key()).await?;
    Ok(())
}
