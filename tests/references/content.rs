//! The content of references: streamed up and down with few pieces in memory, in parts, compared with its digest,
//! and read through links.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use rowkey::blob::ContentHeaders;
use rowkey::store::Store;
use rowkey::{BlobRef, ErrorKind};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;
use tokio::io::AsyncReadExt as _;

use super::{Order, agreed, key, order, start, stored, upload};

const MIB: usize = 1 << 20;

/// A piece of the content, which is counted as long as it is in memory.
struct Piece {
    bytes: Vec<u8>,
    live: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The future of an upload of a stream that borrows is `Send`, so that a server can spawn what makes it. The test is
/// that this compiles.
#[expect(clippy::manual_async_fn, reason = "the future is `Send` by what the function returns")]
fn of_words(
    orders: Store<Order>,
    words: Vec<String>,
) -> impl Future<Output = rowkey::Result<BlobRef>> + Send + 'static {
    async move {
        let pieces = stream::iter(&words).map(|word| Ok::<_, io::Error>(Bytes::from(word.clone())));
        orders.upload(key(1), pieces).send().await
    }
}

#[tokio::test]
async fn an_upload_of_a_stream_that_borrows_is_send() -> TestResult {
    let (_server, orders) = start().await?;
    let scan = of_words(orders, vec!["two ".into(), "words".into()]).await?;
    assert_eq!(scan.length(), 9);
    Ok(())
}

#[tokio::test]
async fn sixty_four_mebibytes_pass_with_few_of_them_in_memory() -> TestResult {
    let (server, orders) = start().await?;
    let (live, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let pieces = (0..64_u8).map(|number| {
        let now = live.fetch_add(1, Ordering::Relaxed) + 1;
        most.fetch_max(now, Ordering::Relaxed);
        let piece = Piece { bytes: vec![number; MIB], live: Arc::clone(&live) };
        Ok::<_, io::Error>(Bytes::from_owner(piece))
    });
    // Blocks of one piece are passed on as they are.
    let journal = server.journal();
    let up = orders.upload(key(1), stream::iter(pieces)).block_size(MIB).concurrency(3);
    let large = up.length(64 << 20).send().await?;
    assert_eq!(server.journal().since(&journal).count(Operation::PutBlock), 64);
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 3 + 2, "{most} of 64 pieces were in memory");
    assert_eq!((live.load(Ordering::Relaxed), large.length()), (0, 64 << 20));

    let mut content = orders.download(&large).open().await?;
    let (mut received, mut longest) = (0, 0);
    while let Some(piece) = content.next().await? {
        assert!(piece.iter().all(|byte| usize::from(*byte) * MIB <= received + piece.len()));
        (received, longest) = (received + piece.len(), longest.max(piece.len()));
    }
    assert_eq!((received, content.left()), (64 * MIB, 0));
    assert!(longest <= MIB, "a piece of {longest} bytes");

    orders.insert(&Order { invoice: large, ..order(&orders, 1).await? }).await?;
    Ok(())
}

#[tokio::test]
async fn content_is_read_whole_in_parts_as_a_stream_and_as_a_reader() -> TestResult {
    let (server, orders) = start().await?;
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let up = orders.upload_reader(key(1), &bytes[..]).block_size(100_000).concurrency(1);
    let invoice = up.send().await?;
    assert_eq!(orders.download(&invoice).bytes().await?, bytes);
    assert_eq!(orders.download(&invoice).range(10..20).bytes().await?, bytes[10..20]);
    assert_eq!(orders.download(&invoice).range(299_990..).bytes().await?, bytes[299_990..]);
    let check = rowkey::blob::Check::Crc64;
    assert_eq!(orders.download(&invoice).check(check).bytes().await?, bytes);
    let mut read = Vec::new();
    orders.download(&invoice).open().await?.reader().read_to_end(&mut read).await?;
    assert_eq!(read, bytes);
    // A connection that breaks is continued.
    let cut = server.inject(Fault::on(Operation::GetBlob).times(1).truncate(1000));
    assert_eq!(orders.download(&invoice).bytes().await?, bytes);
    drop(cut);

    let empty = upload(&orders, 1, Vec::new()).await?;
    assert_eq!(empty.length(), 0);
    assert!(orders.download(&empty).bytes().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_stream_that_fails_or_has_another_length_uploads_nothing() -> TestResult {
    let (server, orders) = start().await?;
    let pieces = |lengths: &'static [usize]| {
        let pieces = lengths.iter().map(|length| match length {
            0 => Err(io::Error::other("the client went away")),
            length => Ok(Bytes::from(vec![7; *length])),
        });
        stream::iter(pieces)
    };
    for (lengths, length, what) in [
        (&[10, 0][..], None, "stream of the upload failed"),
        (&[10, 10][..], Some(21), "stream of the upload failed"),
        (&[10, 10][..], Some(19), "stream of the upload failed"),
        (&[60_000, 60_000, 0][..], None, "stream of the upload failed"),
    ] {
        let mut up = orders.upload(key(1), pieces(lengths)).block_size(50_000);
        if let Some(length) = length {
            up = up.length(length);
        }
        let error = up.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(what), "{error}");
        let source = std::error::Error::source(&error).expect("the error of the stream");
        let source = source.to_string();
        assert!(source.contains("went away") || source.contains("expected length"), "{source}");
    }
    assert!(stored(&server.snapshot()).is_empty());
    let exact = orders.upload(key(1), pieces(&[10, 10])).length(20).send().await?;
    assert_eq!(exact.length(), 20);
    Ok(())
}

#[tokio::test]
async fn a_missing_or_damaged_blob_is_an_error_and_is_reported() -> TestResult {
    let (server, orders) = start().await?;
    let mut invoices = Vec::new();
    for id in 1..4 {
        let order = order(&orders, id).await?;
        orders.insert(&order).await?;
        invoices.push(order.invoice);
    }
    let container = orders.table().account().container("orders");
    container.blob(invoices[0].name()).delete().await?;
    container.blob(invoices[1].name()).put("secret").send().await?;
    container.blob(invoices[2].name()).put(vec![9; 1000]).send().await?;
    let mut errors = Vec::new();
    for invoice in &invoices {
        errors.push(orders.download(invoice).bytes().await.unwrap_err());
    }
    let kinds: Vec<_> = errors.iter().map(rowkey::Error::kind).collect();
    assert_eq!(kinds, [ErrorKind::NotFound, ErrorKind::Damaged, ErrorKind::Damaged]);
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("does not exist") && texts[0].contains("Store::verify"), "{texts:?}");
    assert!(texts[1].contains("the length differs"), "{texts:?}");
    assert!(texts[2].contains("the SHA-256 differs"), "{texts:?}");
    // Of a part the digest is not known.
    assert_eq!(orders.download(&invoices[2]).range(..3).bytes().await?, [9; 3][..]);
    let report = orders.repair().run().await?;
    assert_eq!((report.parts["Invoice"].missing, report.parts["Invoice"].right), (1, 2));
    // The entity is read and written in any case.
    let new = upload(&orders, 1, b"again".to_vec()).await?;
    orders.update(key(1), |order| order.invoice = new.clone()).await?;
    for id in [2, 3] {
        assert!(orders.delete(key(id)).await?);
    }
    agreed(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_link_reads_the_content_for_its_time() -> TestResult {
    let (server, orders) = start().await?;
    let headers = ContentHeaders {
        content_type: Some("image/jpeg".into()),
        content_disposition: Some("attachment; filename=snow.jpg".into()),
        ..ContentHeaders::default()
    };
    let up = orders.upload_reader(key(1), &b"jpeg"[..]).headers(headers);
    let image = up.send().await?;
    let link = orders.link(&image, Duration::from_secs(600))?;
    assert!(!link.url().contains("st="), "no start that a clock ahead would delay");
    let answer = reqwest::get(link.url().clone()).await?;
    assert_eq!(answer.headers()["content-type"], "image/jpeg");
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename=snow.jpg");
    assert_eq!(answer.bytes().await?, "jpeg");
    let deletion = reqwest::Client::new().delete(link.url().clone()).send().await?;
    assert_eq!(deletion.status(), 403);
    server.clock().advance(Duration::from_secs(601));
    assert_eq!(reqwest::get(link.url().clone()).await?.status(), 403);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_is_not_answered_is_sent_again() -> TestResult {
    let (server, orders) = start().await?;
    for operation in [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList] {
        let down = server.inject(Fault::on(operation).times(1).reject(ErrorCode::SERVER_BUSY));
        let up = orders.upload_reader(key(1), &[7; 100][..]);
        let up = if operation == Operation::PutBlob { up } else { up.block_size(30) };
        let uploaded = up.send().await?;
        drop(down);
        assert_eq!(orders.download(&uploaded).bytes().await?, vec![7; 100]);
    }
    Ok(())
}
