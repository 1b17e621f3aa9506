//! Futures of calls that borrow are `Send`, so that a server can spawn what makes them. The test is that this compiles.

#![expect(
    clippy::manual_async_fn,
    reason = "their futures are `Send` by what the functions return"
)]

use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use rowkey::blob::Written;
use rowkey::{Blob, Result};

fn sendable<'f, T>(
    future: impl Future<Output = T> + Send + 'f,
) -> impl Future<Output = T> + Send + 'f {
    future
}

/// Pieces that borrow the text.
fn pieces(text: &str) -> impl Stream<Item = io::Result<Bytes>> + Send + '_ {
    stream::iter(text.split(' ')).map(|word| Ok(Bytes::copy_from_slice(word.as_bytes())))
}

/// A stream over a local value, in a future that must be `Send` for all lifetimes.
fn of_a_local(blob: Blob) -> impl Future<Output = Result<Written>> + Send + 'static {
    async move {
        let text = String::from("a text of several words");
        blob.upload(pieces(&text)).send().await
    }
}

/// With a closure over references.
fn of_a_slice(blob: Blob) -> impl Future<Output = Result<Written>> + Send + 'static {
    async move {
        let words = vec!["a".to_owned(), "b".to_owned()];
        let pieces = stream::iter(&words).map(|word| Ok::<_, io::Error>(Bytes::from(word.clone())));
        blob.upload(pieces).block_size(1 << 20).concurrency(2).send().await
    }
}

/// The same where the future is boxed, as `#[async_trait]` does.
fn boxed<'a>(blob: &'a Blob, words: &'a [String]) -> BoxFuture<'a, Result<Written>> {
    Box::pin(async move {
        let pieces = stream::iter(words.iter().map(|word| Ok::<_, io::Error>(word.clone().into())));
        blob.upload(pieces).send().await
    })
}

/// A stream behind a mutable reference.
fn of_a_reference<'a, S>(
    blob: &'a Blob,
    content: &'a mut S,
) -> impl Future<Output = Result<Written>> + Send + 'a
where
    S: Stream<Item = io::Result<Bytes>> + Send + Unpin,
{
    async move { blob.upload(content).send().await }
}

/// A boxed stream with any cause of an error.
fn of_a_box<'a>(
    blob: &'a Blob,
    content: BoxStream<'a, std::result::Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>,
) -> BoxFuture<'a, Result<Written>> {
    Box::pin(async move { blob.upload(content).send().await })
}

/// With an insertion, an async block in the stream, and a borrowed stream of futures.
fn of_futures(blob: Blob) -> impl Future<Output = Result<()>> + Send + 'static {
    async move {
        let words = vec!["a".to_owned(), "b".to_owned()];
        let pieces = stream::iter(&words).then(|word| async move {
            Ok::<_, io::Error>(Bytes::copy_from_slice(word.as_bytes()))
        });
        blob.upload(pieces).insert().await.map(drop)
    }
}

#[tokio::test]
async fn an_upload_of_a_stream_that_borrows_is_send() {
    let account = rowkey::StorageAccount::from_connection_string("UseDevelopmentStorage=true");
    let blob = account.unwrap().container("texts").blob("text");
    // Not polled: what is checked is that they compile.
    drop(sendable(of_a_local(blob.clone())));
    drop(sendable(of_a_slice(blob.clone())));
    drop(sendable(of_futures(blob.clone())));
    let words = ["a".to_owned()];
    drop(sendable(boxed(&blob, &words)));
    drop(sendable(of_a_box(&blob, stream::empty().boxed())));
    let mut content = stream::iter([Ok(Bytes::new())]);
    drop(sendable(of_a_reference(&blob, &mut content)));
}
