//! Photos as large entities: the title is in the row and the image in a blob, written and read as one.
//! A new title does not send the image again, a link lets a browser fetch it, and what an upload that
//! was broken off leaves behind is swept away.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use rowkey::{Entity, ManualClock, Match, Projection, StorageAccount};
use rowkey_large::Large;
use rowkey_server::{Fault, Operation, Server};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{album}", row = "{number:4}", rename_all = "PascalCase")]
struct Photo {
    album: String,
    number: u32,
    title: String,
    image: Vec<u8>,
}

/// What a list of photos shows: the row has it all, and no blob is read.
#[derive(Debug, Projection)]
#[entity(rename_all = "PascalCase")]
struct Caption {
    title: String,
}

/// An image without compression, as cameras make them: red by column, green by row.
fn image_of(side: u32) -> Vec<u8> {
    let mut image = format!("P6 {side} {side} 255\n").into_bytes();
    for at in 0..side * side {
        let shade = |part: u32| u8::try_from(part * 255 / side).unwrap_or(u8::MAX);
        image.extend([shade(at % side), shade(at / side), 128]);
    }
    image
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The clock is moved by hand, so that nobody waits a day for the sweep.
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock)
        .build()?;
    account.table("photos").create().await?;
    account.container("images").create().await?;
    let photos = Large::<Photo>::new(account.table("photos"), account.container("images"))
        .always(["Image"])
        .content_type("Image", "image/x-portable-pixmap")
        .compress();

    // 3 MB, three times what a row can hold: the blob first, then the row that names it.
    let snow =
        Photo { album: "leeds".into(), number: 1, title: "Snow".into(), image: image_of(1000) };
    photos.insert(&snow).await?;
    let stored = photos.get(Photo::key("leeds", 1)).await?.ok_or("just inserted")?;
    assert_eq!(stored.entity, snow);
    let [blob] = &account.container("images").blobs().all().await?[..] else {
        return Err("one blob".into());
    };
    println!("{} bytes are {} in the blob {}", snow.image.len(), blob.properties.length, blob.name);

    // The image stays where it is when something else changes.
    let puts = server.journal().count(Operation::PutBlob);
    photos.update(Photo::key("leeds", 1), |photo| photo.title = "Snow in May".into()).await?;
    assert_eq!(server.journal().count(Operation::PutBlob), puts);
    let caption = photos.table().get_as::<Caption>(Photo::key("leeds", 1)).await?;
    println!("without its image: {:?}", caption.ok_or("it is there")?.entity.title);

    // Whoever has the link fetches the image from the service itself, for ten minutes.
    let link = photos.link(Photo::key("leeds", 1), "Image").await?.ok_or("it is in a blob")?;
    let token = link.valid_for(Duration::from_secs(600)).sign(&account)?;
    let visitor = StorageAccount::from_connection_string(&token.connection_string())?;
    let image = visitor.container("images").blob(&blob.name).get().await?.ok_or("it is there")?;
    let headers = image.properties.headers;
    assert_eq!(headers.content_type.as_deref(), Some("image/x-portable-pixmap"));
    assert_eq!(headers.content_encoding.as_deref(), Some("gzip"), "browsers unpack it");

    // A larger one comes in pieces and takes the place of the first, whose blob is freed.
    let pieces = image_of(2000).chunks(1 << 20).map(Bytes::copy_from_slice).collect::<Vec<_>>();
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    photos.write(Photo::key("leeds", 1), "Image", pieces).await?;
    let mut reading = photos.read(Photo::key("leeds", 1), "Image").await?.ok_or("just written")?;
    let mut length = 0;
    while let Some(piece) = reading.next().await? {
        length += piece.len() as u64;
    }
    assert_eq!(length, reading.length());
    println!("{length} bytes were written and read in pieces");

    // The program dies between blob and row: its last request is never answered.
    let broken = server.inject(Fault::on(Operation::InsertEntity).close_before_commit());
    let rain = Photo { number: 2, title: "Rain".into(), ..snow };
    assert!(photos.insert(&rain).await.is_err());
    drop(broken);
    assert_eq!(photos.get(Photo::key("leeds", 2)).await?, None);
    assert_eq!(account.container("images").blobs().starting_with("photos/").all().await?.len(), 2);

    // A blob that no row names is left alone for a day: its writer may be slow. Then it goes.
    let swept = photos.sweep().run().await?;
    assert_eq!((swept.young, swept.freed), (2, 0));
    server.clock().advance(Duration::from_secs(25 * 60 * 60));
    let later = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()?;
    let photos = Large::<Photo>::new(later.table("photos"), later.container("images"));
    let swept = photos.sweep().run().await?;
    assert_eq!((swept.in_use, swept.freed), (1, 1));
    println!("the sweep freed {} of {} blobs", swept.freed, swept.blobs);

    photos.delete(Photo::key("leeds", 1), Match::Any).await?;
    let left = later.container("images").blobs().starting_with("photos/").all().await?;
    assert!(left.is_empty(), "a deleted photo leaves nothing");
    Ok(())
}
