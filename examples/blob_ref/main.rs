//! Photos in blobs that entities refer to: streamed up and down, linked to, and deleted with their entities.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use futures_util::stream;
use rowkey::store::Store;
use rowkey::{BlobRef, Entity, ManualClock, Projection, StorageAccount};
use rowkey_emulator::{Operation, Server};
use tokio::io::AsyncReadExt as _;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album}", row = "photo_{number:4}", rename_all = "PascalCase")]
struct Photo {
    album: String,
    number: u32,
    title: String,
    #[entity(blob)]
    image: BlobRef,
}

/// What a list of photos shows.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Shown {
    title: String,
    #[entity(blob)]
    image: BlobRef,
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
    let store = photos(&connect(&server)?)?;
    store.create_if_missing().await?;
    let key = || Photo::key("leeds", 1);

    // The body of a request, whose length its header states. It is never in memory as a whole.
    let body = stream::iter((0..300).map(|_| Ok::<_, std::io::Error>(vec![7; 10_000].into())));
    let upload = store.upload(key(), body).length(3_000_000).content_type("image/jpeg");
    let image = upload.send().await?;
    let snow = Photo { album: "leeds".into(), number: 1, title: "Snow".into(), image };
    store.insert(&snow).await?;
    assert_eq!(server.journal().count(Operation::PutBlob), 1);
    assert_eq!(server.journal().count(Operation::Transaction), 1);

    // A list of photos reads rows alone, and links to the images.
    let album = store.table().query(Photo::partition("leeds")).project::<Shown>().all().await?;
    for Shown { title, image } in album.iter().map(|stored| &stored.entity) {
        let link = store.link(image, Duration::from_secs(15 * 60))?;
        assert!(link.url().contains(image.name()));
        println!(
            "{title}: {} bytes of {}",
            image.length(),
            image.content_type().unwrap_or("any type")
        );
    }

    // Whole, in parts, or as a reader.
    let image = store.get(key()).await?.ok_or("just inserted")?.entity.image;
    let mut content = store.download(&image).open().await?;
    let mut received = 0;
    while let Some(piece) = content.next().await? {
        received += piece.len() as u64;
    }
    assert_eq!(received, image.length());
    assert_eq!(store.download(&image).range(10..20).bytes().await?.len(), 10);
    let mut header = [0; 4];
    store.download(&image).open().await?.reader().read_exact(&mut header).await?;

    // Another image takes the place of the first, whose blob is deleted.
    let small: &[u8] = b"a smaller image";
    let other = store.upload_reader(key(), small).send().await?;
    store.update(key(), |photo| photo.image = other.clone()).await?;
    assert_eq!(blobs(&store).await?, 1);

    // An upload whose entity is never written is swept two hours later.
    store.upload_reader(Photo::key("leeds", 2), small).send().await?;
    server.clock().advance(Duration::from_secs(2 * 60 * 60));
    let store = photos(&connect(&server)?)?;
    println!("the sweep deleted {} blob", store.sweep().run().await?.total.repaired);
    assert_eq!(blobs(&store).await?, 1);

    store.delete(key()).await?;
    assert_eq!(blobs(&store).await?, 0);
    Ok(())
}

/// The number of blobs in the container of the store.
async fn blobs(store: &Store<Photo>) -> rowkey::Result<usize> {
    Ok(store.table().account().container("photos").blobs().all().await?.len())
}
