//! Downloads of content that entities refer to: as a stream, in parts or whole, and links to it.

use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use futures_util::future::{self, BoxFuture, FutureExt as _};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_client::blob::{self, Check};
use rowkey_client::internals::shown;
use rowkey_client::sas::{BlobPermissions, Sas, SasToken};
use rowkey_client::{BlobRef, Entity, Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, ReadBuf};

use super::Store;
use crate::row::blobs::{Blobs, hexadecimal};

/// The most memory that is reserved at once for the length that a reference states.
const MAX_RESERVED: u64 = 64 << 20;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads the content of a reference. Nothing is sent before [`Download::open`], which reads it piece by piece,
    /// or [`Download::bytes`], which reads it into memory.
    ///
    /// Reads the container and the blob that the reference names, with the account of the store's container. The
    /// entity is not read: if it was changed since the reference was read, the blob may be gone.
    pub fn download(&self, reference: &BlobRef) -> Download<'_, E> {
        Download { store: self, reference: reference.clone(), range: None, check: None }
    }

    /// Returns a link with which anyone can read the content for this time, a SAS for the blob. Nothing is sent.
    ///
    /// It requires https, unless the account is an emulator. It has no start, so a clock that is ahead of the
    /// service does not delay it, and it ends by the clock of this machine. A link stays valid when the entity drops
    /// the reference, but the blob is deleted. For other permissions, headers or addresses, or an account without a
    /// key, sign one for [`BlobRef::container`] and [`BlobRef::name`] with [`Sas::blob`].
    ///
    /// [Create a service SAS](https://learn.microsoft.com/rest/api/storageservices/create-service-sas)
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{BlobRef, Entity, StorageAccount};
    /// # use std::time::Duration;
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
    /// # let image = photos.upload_reader(Photo::key("leeds", 1), &b"jpeg"[..]).send().await?;
    /// # let photo = Photo { album: "leeds".into(), number: 1, image };
    /// let link = photos.link(&photo.image, Duration::from_secs(15 * 60))?;
    /// // For instance the `src` of an image on a page.
    /// assert!(link.url().contains(photo.image.name()));
    /// # Ok(()) }
    /// ```
    pub fn link(&self, reference: &BlobRef, valid_for: Duration) -> Result<SasToken> {
        let account = self.inner.blobs()?.container().account();
        Sas::blob(reference.container(), reference.name())
            .permissions(BlobPermissions::READ)
            .valid_for(valid_for)
            .sign(account)
    }
}

/// The bounds of a part.
type Range = (Bound<u64>, Bound<u64>);

/// Starts to read content.
fn begin(
    blobs: &Blobs,
    reference: BlobRef,
    range: Option<Range>,
    check: Option<Check>,
) -> BoxFuture<'_, Result<Content>> {
    async move {
        // The secondary may not have the blob yet.
        for container in [blobs.container(), blobs.deciding()] {
            let account = container.account();
            let mut read = account.container(reference.container()).blob(reference.name()).read();
            if let Some(range) = range {
                read = read.range(range);
            }
            if let Some(check) = check {
                read = read.check(check);
            }
            let Some(download) = read.open().await? else { continue };
            if download.properties.length != reference.length() {
                return Err(damaged("length"));
            }
            let digest = range.is_none().then(Sha256::new);
            return Ok(Content { download, digest, sha256: reference.sha256().into() });
        }
        let what = "the blob of the reference does not exist";
        Err(Error::refused(ErrorKind::NotFound, what).advise(
            "read the entity again, it may have been changed; `Store::verify` reports entities whose blobs are \
             missing",
        ))
    }
    .boxed()
}

/// A read of the content of a reference, from [`Store::download`].
#[must_use = "nothing is read before `bytes` or `open`"]
pub struct Download<'s, E> {
    store: &'s Store<E>,
    reference: BlobRef,
    range: Option<Range>,
    check: Option<Check>,
}

impl<'s, E: Entity + Clone + Send + Sync + 'static> Download<'s, E> {
    /// Reads only these bytes, counted from 0, in one request. The digest of a part is not known and not compared.
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
    /// # let image = photos.upload_reader(Photo::key("leeds", 1), &b"0123456789"[..]).send().await?;
    /// # let photo = Photo { album: "leeds".into(), number: 1, image };
    /// use rowkey::blob::Check;
    ///
    /// let part = photos.download(&photo.image).range(2..5).check(Check::Crc64).bytes().await?;
    /// assert_eq!(part, "234");
    /// # Ok(()) }
    /// ```
    pub fn range(mut self, range: impl RangeBounds<u64>) -> Self {
        self.range = Some((range.start_bound().cloned(), range.end_bound().cloned()));
        self
    }

    /// Compares each part with a checksum of the service, as [`Read::check`](blob::Read::check) does: one request
    /// for each 4 MiB. Whole content is compared with the digest in the reference in any case.
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Starts to read the content piece by piece; never more than one piece is in memory.
    ///
    /// Fails with [`ErrorKind::NotFound`] if the blob does not exist, and with [`ErrorKind::Damaged`] if it has another
    /// length than the reference. The end of whole content with another SHA-256 is an error of kind `Damaged`,
    /// too: do not use the content then.
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
    /// # let image = photos.upload_reader(Photo::key("leeds", 1), &[7; 100_000][..]).send().await?;
    /// # let photo = Photo { album: "leeds".into(), number: 1, image };
    /// let mut content = photos.download(&photo.image).open().await?;
    /// let mut received = 0;
    /// while let Some(piece) = content.next().await? {
    ///     received += piece.len() as u64;
    /// }
    /// assert_eq!((received, content.left()), (photo.image.length(), 0));
    /// # Ok(()) }
    /// ```
    pub async fn open(self) -> Result<Content> {
        let store = self.store;
        self.begin().await.map_err(|error| store.named("Download", error))
    }

    fn begin(self) -> BoxFuture<'s, Result<Content>> {
        let Self { store, reference, range, check } = self;
        match store.inner.blobs() {
            Ok(blobs) => begin(blobs, reference, range, check),
            Err(error) => future::ready(Err(error)).boxed(),
        }
    }

    /// Reads the content into memory. Fails like [`open`](Self::open).
    pub async fn bytes(self) -> Result<Bytes> {
        let store = self.store;
        let read = async {
            let mut content = self.begin().await?;
            let first = content.next().await?.unwrap_or_default();
            if content.left() == 0 {
                return Ok(first);
            }
            let length = (first.len() as u64 + content.left()).min(MAX_RESERVED);
            let mut bytes = BytesMut::with_capacity(usize::try_from(length).unwrap_or(0));
            bytes.extend_from_slice(&first);
            while let Some(piece) = content.next().await? {
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes.freeze())
        };
        read.await.map_err(|error| store.named("Download", error))
    }
}

shown!([E] Download<'_, E>: reference);

/// The content of a reference, read piece by piece; from [`Download::open`].
///
/// If the connection breaks, the rest is requested again, as by [`blob::Download`].
pub struct Content {
    download: blob::Download,
    /// The digest of what was read so far; `None` for a part, and after it was compared.
    digest: Option<Sha256>,
    sha256: Box<str>,
}

impl Content {
    /// Returns the number of bytes that are left to read.
    pub fn left(&self) -> u64 {
        self.download.left()
    }

    /// Returns the next piece, of any length, or `None` at the end. The digest is compared before the last piece is
    /// returned.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let piece = self.download.next().await?;
        if let (Some(digest), Some(piece)) = (&mut self.digest, &piece) {
            digest.update(piece);
        }
        if self.left() == 0
            && let Some(digest) = self.digest.take()
            && hexadecimal(&digest.finalize()) != *self.sha256
        {
            return Err(damaged("SHA-256"));
        }
        Ok(piece)
    }

    /// Returns the pieces as a stream, which ends after an error.
    ///
    /// ```
    /// use futures_util::TryStreamExt as _;
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
    /// # let image = photos.upload_reader(Photo::key("leeds", 1), &[7; 100_000][..]).send().await?;
    /// # let photo = Photo { album: "leeds".into(), number: 1, image };
    /// // For instance the body of a response.
    /// let pieces = photos.download(&photo.image).open().await?.stream();
    /// let lengths: Vec<_> = pieces.map_ok(|piece| piece.len()).try_collect().await?;
    /// assert_eq!(lengths.iter().sum::<usize>(), 100_000);
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> BoxStream<'static, Result<Bytes>> {
        stream::try_unfold(self, |mut content| async move {
            Ok(content.next().await?.map(|piece| (piece, content)))
        })
        .boxed()
    }

    /// Returns the content as an `AsyncRead`. An error of the read has the error of the store as its source.
    ///
    /// ```
    /// use tokio::io::AsyncReadExt as _;
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
    /// # let image = photos.upload_reader(Photo::key("leeds", 1), &b"a header, and more"[..]).send().await?;
    /// # let photo = Photo { album: "leeds".into(), number: 1, image };
    /// let mut reader = photos.download(&photo.image).open().await?.reader();
    /// let mut header = [0; 8];
    /// reader.read_exact(&mut header).await?;
    /// assert_eq!(&header, b"a header");
    /// # Ok(()) }
    /// ```
    pub fn reader(self) -> ContentReader {
        let pieces = self.stream().map_err(io::Error::other).boxed();
        ContentReader { pieces, left: Bytes::new() }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("left", &self.left()).finish_non_exhaustive()
    }
}

fn damaged(what: &str) -> Error {
    let what = format!("the blob does not match its reference: the {what} differs");
    Error::refused(ErrorKind::Damaged, what).advise(
        "read it again; if that does not help, another program wrote to the blob: restore it, or upload the \
         content again",
    )
}

/// The content of a reference as an `AsyncRead`; from [`Content::reader`].
pub struct ContentReader {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// The rest of the last piece.
    left: Bytes,
}

impl AsyncRead for ContentReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left.is_empty() {
            match ready!(self.pieces.poll_next_unpin(context)) {
                Some(piece) => self.left = piece?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.left.len().min(buffer.remaining());
        buffer.put_slice(&self.left.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ContentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentReader").finish_non_exhaustive()
    }
}
