//! Entities put together from rows and blobs, and single properties read and written piece by piece.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use rowkey::blob::Download;
use rowkey::sas::{BlobPermissions, BlobSas};
use rowkey::{DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Result, Stored};
use rowkey_patterns::rounds::{Rounds, was_lost};

use super::Large;
use super::coding::{Decoder, Encoder, Tally, damaged};
use super::pointer::{self, Encoding, Kind, Pointer, SUFFIX, bytes_of};
use super::store::{Fresh, OPERATION, Store, Upload};
use super::write::not_found;

/// Reading.
impl<E: Entity + Send + 'static> Large<E> {
    /// Reads the entity at `key` with its large properties, or `None` when there is none: one
    /// request, and one for each property that is in a blob, several at a time.
    ///
    /// Fails with [`ErrorKind::Damaged`] if a blob is not what was written. If the entity is replaced
    /// meanwhile, it is read again.
    ///
    /// To read the row alone, read a projection that leaves large properties out:
    /// `large.table().get_as::<Caption>(key)`.
    pub async fn get(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        let read = async {
            let Some(Stored { entity, etag, timestamp }) = self.whole(&key).await? else {
                return Ok(None);
            };
            Ok(Some(Stored { entity: entity.read_as()?, etag, timestamp }))
        };
        read.await.map_err(|error: Error| self.store.error(error))
    }

    /// Reads the large properties of a row that was read from the [table](Self::table) with all its
    /// properties, by a query for instance; `None` if somebody replaced or deleted the entity
    /// meanwhile.
    pub async fn complete(&self, stored: Stored<DynamicEntity>) -> Result<Option<Stored<E>>> {
        let Stored { entity, etag, timestamp } = stored;
        let read = async {
            let Some(entity) = self.store.complete(entity).await? else { return Ok(None) };
            Ok(Some(Stored { entity: entity.read_as()?, etag, timestamp }))
        };
        read.await.map_err(|error: Error| self.store.error(error))
    }

    /// Begins to read a property piece by piece, in bounded memory; of a String, its UTF-8. `None` when
    /// there is no entity at `key`, or none with the property.
    pub async fn read(&self, key: Key<E>, property: &str) -> Result<Option<Reading>> {
        let open =
            async {
                let mut missing = None;
                loop {
                    let Some(stored) = self.store.row(key.clone().cast()).await? else {
                        return Ok(None);
                    };
                    let Some(pointer) = Pointer::of(&stored.entity, property)? else {
                        return Ok(stored.entity.get(property).and_then(bytes_of).map(
                            |(_, bytes)| Reading::whole(self, Bytes::copy_from_slice(bytes)),
                        ));
                    };
                    let blob = self.store.blobs.blob(&pointer.blob);
                    if let Some(download) = blob.read().open().await? {
                        return Ok(Some(Reading::of(self, pointer, download)));
                    }
                    if missing.replace(stored.etag.clone()) == Some(stored.etag) {
                        return Err(dangling());
                    }
                }
            };
        open.await.map_err(|error: Error| self.store.error(error))
    }

    /// Writes a Binary property piece by piece, in bounded memory, into a blob, and then its address
    /// into the row of the entity at `key`, whoever else writes other properties of it meanwhile.
    ///
    /// Fails with [`ErrorKind::NotFound`] if there is no such entity: insert it first, without the
    /// property.
    pub async fn write<S, F>(&self, key: Key<E>, property: &str, content: S) -> Result<ETag>
    where
        S: Stream<Item = Result<Bytes, F>> + Send,
        F: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut fresh = Fresh::default();
        let written = self.store.write(key.cast(), property, content, &mut fresh).await;
        self.store.settle(written, fresh).await
    }

    /// A signature to be, for reading the blob of a property without the account's key: say how long
    /// it is good and sign it. `None` when there is no entity at `key`, or the property is not in a
    /// blob; see [`always`](Self::always).
    ///
    /// It opens this version of the property, which is gone when another takes its place. What was
    /// compressed says so in its `Content-Encoding`, and programs that speak HTTP unpack it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use rowkey_large::Large;
    /// # #[derive(Entity)]
    /// # #[entity(partition = "{album}", row = "{number:4}")]
    /// # struct Photo { album: String, number: u32, image: Vec<u8> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_server::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.table("photos").create().await?;
    /// # account.container("images").create().await?;
    /// let photos = Large::<Photo>::new(account.table("photos"), account.container("images"));
    /// photos.insert(&Photo { album: "leeds".into(), number: 1, image: vec![7; 100_000] }).await?;
    ///
    /// let link = photos.link(Photo::key("leeds", 1), "image").await?.ok_or("no image")?;
    /// let url = link.valid_for(Duration::from_secs(600)).sign(&account)?.url();
    /// assert!(url.contains("/images/photos/"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn link(&self, key: Key<E>, property: &str) -> Result<Option<BlobSas>> {
        let Some(stored) = self.store.row(key.cast()).await? else { return Ok(None) };
        let pointer = Pointer::of(&stored.entity, property);
        let pointer = pointer.map_err(|error| self.store.error(error))?;
        Ok(pointer.map(|pointer| {
            let sas = BlobSas::blob(self.store.container.name(), pointer.blob);
            sas.permissions(BlobPermissions::READ)
        }))
    }

    /// The entity with everything that belongs to it, not yet of its type.
    pub(super) async fn whole(&self, key: &Key<E>) -> Result<Option<Stored<DynamicEntity>>> {
        let mut missing = None;
        loop {
            let Some(stored) = self.store.row(key.clone().cast()).await? else { return Ok(None) };
            let Stored { entity, etag, timestamp } = stored;
            if let Some(entity) = self.store.complete(entity).await? {
                return Ok(Some(Stored { entity, etag, timestamp }));
            }
            // A blob is freed after another version has taken the place of the row that named it.
            if missing.replace(etag.clone()) == Some(etag) {
                return Err(dangling());
            }
        }
    }
}

impl Store {
    async fn write<S, F>(
        &self,
        key: Key<DynamicEntity>,
        property: &str,
        content: S,
        fresh: &mut Fresh,
    ) -> Result<ETag>
    where
        S: Stream<Item = Result<Bytes, F>> + Send,
        F: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if property.ends_with(SUFFIX) {
            let what = format!("names that end in {SUFFIX} are those of addresses");
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        self.guard.check(self.rows.options().timeout)?;
        let mut stored = self.row(key.clone()).await?.ok_or_else(not_found)?;
        let encoding = self.compress.then_some(Encoding::Gzip);
        let blob = pointer::new_name(self.table.name(), &stored.entity, property)?;
        let mut pointer =
            Pointer { blob, kind: Kind::Binary, length: 0, sha256: String::new(), encoding };
        let upload =
            Upload { property: property.to_owned(), pointer: pointer.clone(), since: self.now() };
        fresh.push(upload);
        let tally = Arc::new(Mutex::new(Tally::default()));
        let metadata = pointer::metadata(&stored.entity);
        let metadata = [(metadata[0].0, &*metadata[0].1), (metadata[1].0, &*metadata[1].1)];
        self.blobs
            .blob(&pointer.blob)
            .upload(encoded(content, encoding, Arc::clone(&tally)))
            .headers(self.headers(property, pointer.kind, encoding))
            .metadata(&metadata)
            .send()
            .await?;
        (pointer.length, pointer.sha256) =
            tally.lock().unwrap_or_else(PoisonError::into_inner).finish();
        let text = pointer.print()?;
        let mut rounds = Rounds::new(&self.table, key.parts().ok());
        loop {
            let mut row = stored.entity.clone();
            row.remove(property);
            row.set(Pointer::name(property), text.as_str());
            match self.put_row(&row, Some(&stored.entity), Some(stored.etag), fresh).await {
                Err(error) if was_lost(&error) && rounds.again().await => {
                    stored = self.row(key.clone()).await?.ok_or_else(not_found)?;
                }
                written => return written,
            }
        }
    }
}

/// The pieces as the blob gets them; what they were is counted in `tally`.
fn encoded<S, F>(
    content: S,
    encoding: Option<Encoding>,
    tally: Arc<Mutex<Tally>>,
) -> impl Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + Send
where
    S: Stream<Item = Result<Bytes, F>> + Send,
    F: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let content = Box::pin(content);
    stream::try_unfold(Some((content, Encoder::new(encoding), tally)), |state| async move {
        let Some((mut content, mut encoder, tally)) = state else { return Ok(None) };
        match content.next().await {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(piece)) => {
                tally.lock().unwrap_or_else(PoisonError::into_inner).add(&piece);
                let encoded = encoder.push(&piece)?;
                Ok(Some((Bytes::from(encoded), Some((content, encoder, tally)))))
            }
            None => Ok(Some((Bytes::from(encoder.finish()?), None))),
        }
    })
}

/// A property that is read piece by piece, from [`Large::read`].
///
/// Whether it is what was written is known at its end, so take the end for a part of it: until
/// [`next`](Self::next) has returned `None`, what came may be damaged.
pub struct Reading {
    table: Box<str>,
    length: u64,
    source: Source,
}

enum Source {
    /// It was in the row.
    Row(Option<Bytes>),
    Blob(Box<InBlob>),
}

struct InBlob {
    download: Download,
    pointer: Pointer,
    decoder: Decoder,
    tally: Tally,
    /// What has come and is not decoded.
    piece: Bytes,
    ended: bool,
    damaged: bool,
}

impl Reading {
    fn whole<E: Entity>(large: &Large<E>, bytes: Bytes) -> Self {
        let table = large.table().name().into();
        Self { table, length: bytes.len() as u64, source: Source::Row(Some(bytes)) }
    }

    fn of<E: Entity>(large: &Large<E>, pointer: Pointer, download: Download) -> Self {
        let (table, length) = (large.table().name().into(), pointer.length);
        let decoder = Decoder::new(pointer.encoding);
        let blob = InBlob {
            download,
            pointer,
            decoder,
            tally: Tally::default(),
            piece: Bytes::new(),
            ended: false,
            damaged: false,
        };
        Self { table, length, source: Source::Blob(Box::new(blob)) }
    }

    /// How many bytes it has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next piece, of any length, or `None` when all has come and is what was written. Otherwise
    /// fails with [`ErrorKind::Damaged`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match &mut self.source {
            Source::Row(bytes) => Ok(bytes.take()),
            Source::Blob(blob) => {
                blob.next().await.map_err(|error| error.of(OPERATION, &self.table))
            }
        }
    }

    /// The pieces as a stream, which ends after an error.
    pub fn stream(self) -> rowkey::table::Stream<Bytes> {
        stream::try_unfold(self, |mut reading| async move {
            Ok(reading.next().await?.map(|piece| (piece, reading)))
        })
        .boxed()
    }
}

impl InBlob {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.damaged {
            return Err(damaged());
        }
        while !self.ended {
            let decoded = if !self.piece.is_empty() {
                self.decoder.pull(&mut self.piece)
            } else if let Some(piece) = self.download.next().await? {
                self.piece = piece;
                continue;
            } else {
                self.ended = true;
                self.decoder.finish()
            };
            if let Ok(decoded) = &decoded {
                self.tally.add(decoded);
            }
            let Pointer { length, sha256, .. } = &self.pointer;
            self.damaged = decoded.is_err()
                || self.tally.length() > *length
                || (self.ended && self.tally.finish() != (*length, sha256.clone()));
            if self.damaged {
                return Err(damaged());
            }
            let decoded = decoded?;
            if !decoded.is_empty() {
                return Ok(Some(decoded));
            }
        }
        Ok(None)
    }
}

#[cold]
fn dangling() -> Error {
    let what = "the row names a blob that is not there";
    Error::refused(ErrorKind::Decode, what)
        .advise("something that knows nothing of large entities deleted the blob or wrote the row")
}

impl fmt::Debug for Reading {
    /// Shows how long it is, not what is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("length", &self.length).finish_non_exhaustive()
    }
}
