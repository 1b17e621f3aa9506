//! Uploads of content that entities refer to, from streams and readers.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use rowkey_client::blob::{Check, ContentHeaders};
use rowkey_client::internals::shown;
use rowkey_client::{BlobRef, Entity, Key, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

use super::{Store, parts};
use crate::row::Keys;
use crate::row::blobs::{Blobs, hexadecimal};
use crate::row::declared::prefix;
use crate::row::op::Op;

/// The length of the pieces that are read from an `AsyncRead`.
const PIECE: usize = 64 << 10;

/// An error of the content that is uploaded.
type Cause = Box<dyn std::error::Error + Send + Sync>;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Uploads content for the entity with this key, from a stream, with a few blocks in memory. Nothing is
    /// sent before [`Upload::send`], which returns the reference for a field of type [`BlobRef`].
    ///
    /// Put the reference into the entity within an hour, in the same program: a later write is refused. Only the
    /// entity with this key can have it. The blob is deleted when the entity drops the reference; if it never gets
    /// it, [`sweep`](Self::sweep) deletes the blob two hours after the upload.
    ///
    /// Costs one request for content of up to one block (8 MiB by default), and one for each block and one more
    /// for longer content.
    ///
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob),
    /// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list)
    ///
    /// ```
    /// use futures_util::stream;
    /// use rowkey::store::Store;
    /// use rowkey::{BlobRef, Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{album}", row = "photo_{number:4}")]
    /// struct Photo {
    ///     album: String,
    ///     number: u32,
    ///     #[entity(blob)]
    ///     image: BlobRef,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let photos = Store::<Photo>::builder(account.table("photos"))
    ///     .queue(account.queue("photos"))
    ///     .blobs(account.container("photos"))
    ///     .build()?;
    /// photos.create_if_missing().await?;
    ///
    /// // For instance the body of a request.
    /// let pieces = (0..100).map(|_| Ok::<_, std::io::Error>(bytes::Bytes::from(vec![7; 1000])));
    /// let upload = photos.upload(Photo::key("leeds", 1), stream::iter(pieces));
    /// let image = upload.content_type("image/jpeg").length(100_000).send().await?;
    /// photos.insert(&Photo { album: "leeds".into(), number: 1, image }).await?;
    ///
    /// let photo = photos.get(Photo::key("leeds", 1)).await?.ok_or("not there")?.entity;
    /// assert_eq!(photo.image.length(), 100_000);
    /// assert_eq!(photos.download(&photo.image).bytes().await?, vec![7; 100_000]);
    /// # Ok(()) }
    /// ```
    pub fn upload<'c, C: Into<Cause> + 'c>(
        &'c self,
        key: Key<E>,
        content: impl Stream<Item = std::result::Result<Bytes, C>> + Send + 'c,
    ) -> Upload<'c, E> {
        const {
            assert!(!E::DECLARED.references.is_empty(), "the type has no field of type `BlobRef`");
        }
        Upload {
            store: self,
            key,
            content: content.map(|piece| piece.map_err(Into::into)).boxed(),
            headers: ContentHeaders::default(),
            length: None,
            block_size: None,
            concurrency: None,
        }
    }

    /// Uploads content for the entity with this key from a reader, such as a file, as [`upload`](Self::upload) does
    /// from a stream.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{BlobRef, Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{album}", row = "photo_{number:4}")]
    /// # struct Photo { album: String, number: u32, #[entity(blob)] image: BlobRef }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let photos = Store::<Photo>::builder(account.table("photos"))
    /// #     .queue(account.queue("photos")).blobs(account.container("photos")).build()?;
    /// # photos.create_if_missing().await?;
    /// let file: &[u8] = b"a file, or a socket";
    /// let image = photos.upload_reader(Photo::key("leeds", 1), file).send().await?;
    /// assert_eq!(image.length(), 19);
    /// # Ok(()) }
    /// ```
    pub fn upload_reader<'c>(
        &'c self,
        key: Key<E>,
        content: impl AsyncRead + Send + 'c,
    ) -> Upload<'c, E> {
        self.upload(key, pieces(content))
    }
}

/// An upload for an entity, from [`Store::upload`].
#[must_use = "nothing is uploaded before `send`"]
pub struct Upload<'c, E> {
    store: &'c Store<E>,
    key: Key<E>,
    content: BoxStream<'c, std::result::Result<Bytes, Cause>>,
    headers: ContentHeaders,
    length: Option<u64>,
    block_size: Option<usize>,
    concurrency: Option<usize>,
}

impl<E: Entity + Clone + Send + Sync + 'static> Upload<'_, E> {
    /// Sets the content type, which readers of a [link](Store::link) see and which the reference states. Default:
    /// `application/octet-stream`, by the service.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.headers.content_type = Some(content_type.to_owned());
        self
    }

    /// Sets all content headers of the blob, such as a file name for readers of a link.
    ///
    /// ```
    /// use rowkey::blob::ContentHeaders;
    /// # use rowkey::store::Store;
    /// # use rowkey::{BlobRef, Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{album}", row = "photo_{number:4}")]
    /// # struct Photo { album: String, number: u32, #[entity(blob)] image: BlobRef }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let photos = Store::<Photo>::builder(account.table("photos"))
    /// #     .queue(account.queue("photos")).blobs(account.container("photos")).build()?;
    /// # photos.create_if_missing().await?;
    /// let headers = ContentHeaders {
    ///     content_type: Some("image/jpeg".into()),
    ///     content_disposition: Some("attachment; filename=snow.jpg".into()),
    ///     ..ContentHeaders::default()
    /// };
    /// let upload = photos.upload_reader(Photo::key("leeds", 1), &b"jpeg"[..]);
    /// let image = upload.headers(headers).block_size(4 << 20).concurrency(2).send().await?;
    /// assert_eq!(image.content_type(), Some("image/jpeg"));
    /// # Ok(()) }
    /// ```
    pub fn headers(mut self, headers: ContentHeaders) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the expected length in bytes, for instance the `Content-Length` of a request. Content of another length
    /// is not uploaded: [`send`](Self::send) fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid).
    pub fn length(mut self, bytes: u64) -> Self {
        self.length = Some(bytes);
        self
    }

    /// Sets the size of a block, as [`Put::block_size`](rowkey_client::blob::Put::block_size) does. Default: 8 MiB.
    pub fn block_size(mut self, bytes: usize) -> Self {
        self.block_size = Some(bytes);
        self
    }

    /// Sets how many blocks are sent at a time, 1 or more. Two more are in memory. Default: 4.
    pub fn concurrency(mut self, blocks: usize) -> Self {
        self.concurrency = Some(blocks);
        self
    }

    /// Uploads the content and returns the reference to it.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid) if the stream fails, with its error as the source, or has another
    /// [`length`](Self::length). If this fails or is dropped, a sweep removes what is left.
    pub async fn send(self) -> Result<BlobRef> {
        let Self { store, key, content, headers, length, block_size, concurrency } = self;
        let sent = async {
            let owner = parts(&key)?;
            let (blobs, of) = (store.inner.blobs()?, prefix::<E>());
            let clock = store.inner.deciding.clock();
            let name = blobs.reference_name(of, Op::random(clock.now())?.mark(), &owner.1);
            let sending = Sending { headers, length, block_size, concurrency };
            let (content, content_type) = sending.send((blobs, &name), &owner, content).await?;
            // Later than the time at which the service wrote the blob, by at most the time of one answer.
            let uploaded = clock.now();
            Ok(BlobRef::uploaded(blobs.path(&name), content, content_type, (owner, uploaded)))
        };
        sent.await.map_err(|error| store.named("Upload", error))
    }
}

/// An upload, without the type of the entity.
struct Sending {
    headers: ContentHeaders,
    length: Option<u64>,
    block_size: Option<usize>,
    concurrency: Option<usize>,
}

/// The length and the SHA-256 of content.
type Digest = (u64, String);

impl Sending {
    /// Uploads the content. Returns what it was, and the content type.
    fn send<'c>(
        self,
        (blobs, name): (&'c Blobs, &'c str),
        owner: &'c Keys,
        content: BoxStream<'c, std::result::Result<Bytes, Cause>>,
    ) -> BoxFuture<'c, Result<(Digest, Option<String>)>> {
        let Self { headers, length, block_size, concurrency } = self;
        let tally = Arc::new(Mutex::new(Tally { length: 0, sha256: Sha256::new() }));
        let content = tallied(content, Arc::clone(&tally), length);
        let content_type = headers.content_type.clone();
        let mut put = blobs.deciding().blob(name).upload(content).headers(headers);
        if let Some(bytes) = block_size {
            put = put.block_size(bytes);
        }
        if let Some(blocks) = concurrency {
            put = put.concurrency(blocks);
        }
        let [(partition, of_partition), (row, of_row)] = Blobs::owner_metadata(owner);
        put = put.metadata(&[(partition, &*of_partition), (row, &*of_row)]).check(Check::Crc64);
        async move {
            put.send().await?;
            let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            let sha256 = hexadecimal(&tally.sha256.clone().finalize());
            Ok(((tally.length, sha256), content_type))
        }
        .boxed()
    }
}

shown!([E] Upload<'_, E>: length);

/// Counts and digests what is uploaded.
struct Tally {
    length: u64,
    sha256: Sha256,
}

/// The content, counted; fails if it is not of the expected length.
fn tallied(
    content: BoxStream<'_, std::result::Result<Bytes, Cause>>,
    tally: Arc<Mutex<Tally>>,
    expected: Option<u64>,
) -> BoxStream<'_, std::result::Result<Bytes, Cause>> {
    let at_end = Arc::clone(&tally);
    let end = stream::once(async move {
        let length = at_end.lock().unwrap_or_else(PoisonError::into_inner).length;
        match expected {
            Some(expected) if length < expected => Err(of_length(expected)),
            _ => Ok(Bytes::new()),
        }
    });
    let content = content.map(move |piece| {
        let piece = piece?;
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.length += piece.len() as u64;
        if let Some(expected) = expected.filter(|expected| tally.length > *expected) {
            return Err(of_length(expected));
        }
        tally.sha256.update(&piece);
        Ok(piece)
    });
    content.chain(end).boxed()
}

fn of_length(expected: u64) -> Cause {
    format!("the content does not have the expected length of {expected} bytes").into()
}

/// Reads pieces until the end.
fn pieces<R: AsyncRead + Send>(reader: R) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold(Box::pin(reader), |mut reader| async move {
        let mut piece = vec![0; PIECE];
        let read = poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut piece);
            ready!(reader.as_mut().poll_read(context, &mut buffer))?;
            Poll::Ready(Ok::<_, io::Error>(buffer.filled().len()))
        });
        let read = read.await?;
        piece.truncate(read);
        Ok((read > 0).then(|| (Bytes::from(piece), reader)))
    })
}
