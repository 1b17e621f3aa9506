//! Rows taken apart and put together: which properties go to blobs, and blobs written, read and
//! freed. Knows nothing of the entities' type.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::blob::ContentHeaders;
use rowkey::edm::Value;
use rowkey::{
    ClientOptions, Container, DynamicEntity, Error, ErrorKind, Key, Result, RetryOptions, Stored,
    Table,
};

use super::coding;
use super::pointer::{self, Encoding, Kind, Pointer, SUFFIX, bytes_of};
use crate::guard::Guard;

pub(super) const OPERATION: &str = "LargeEntity";

/// Bytes in a String or Binary property.
pub(super) const MAX_PROPERTY: usize = 64 * 1024;
const THRESHOLD: usize = 32 * 1024;
const CONCURRENCY: usize = 4;

/// A table and a container, and what goes where.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) table: Table,
    pub(super) container: Container,
    /// The table for whoever decides by what is read, and must not repeat an insert: a row that is
    /// inserted late names blobs that may be gone.
    pub(super) rows: Table,
    /// The container for the same.
    pub(super) blobs: Container,
    pub(super) threshold: usize,
    pub(super) always: Vec<String>,
    pub(super) content_types: Vec<(String, String)>,
    pub(super) compress: bool,
    pub(super) guard: Guard,
    pub(super) concurrency: usize,
}

/// Blobs that were written for a row that is not written yet.
#[derive(Debug, Default)]
pub(super) struct Fresh(Vec<Upload>);

#[derive(Debug)]
pub(super) struct Upload {
    pub(super) property: String,
    pub(super) pointer: Pointer,
    /// The service wrote or refreshed it after this.
    pub(super) since: DateTime<Utc>,
}

impl Store {
    pub(super) fn new(table: Table, container: Container) -> Self {
        let options = table.options();
        let rows = table.with_options(ClientOptions {
            read_from_secondary: false,
            retry: RetryOptions { repeat_inserts: false, ..options.retry.clone() },
            ..options.clone()
        });
        let options = container.options().clone();
        let blobs = container.with_options(ClientOptions { read_from_secondary: false, ..options });
        Self {
            table,
            container,
            rows,
            blobs,
            threshold: THRESHOLD,
            always: Vec::new(),
            content_types: Vec::new(),
            compress: false,
            guard: Guard::default(),
            concurrency: CONCURRENCY,
        }
    }

    /// The row as it is now.
    pub(super) async fn row(
        &self,
        key: Key<DynamicEntity>,
    ) -> Result<Option<Stored<DynamicEntity>>> {
        self.rows.get(key).await
    }

    /// Writes what is large of `entity` to blobs and returns the row that names them. A blob of
    /// `before`, the row as it is, or of an earlier round serves again if the value is the same.
    ///
    /// Nothing is written if the row would be refused.
    pub(super) async fn stow(
        &self,
        entity: DynamicEntity,
        before: Option<&DynamicEntity>,
        fresh: &mut Fresh,
    ) -> Result<DynamicEntity> {
        self.guard.check(self.rows.options().timeout)?;
        let mut row = DynamicEntity::new(&*entity.partition_key, &*entity.row_key);
        let mut writes = Vec::new();
        for (name, value) in entity.iter() {
            if name.ends_with(SUFFIX) {
                let what = format!(
                    "the entity has a property `{name}`; names that end in {SUFFIX} are \
                                    those of addresses"
                );
                return Err(Error::refused(ErrorKind::Invalid, what).advise("give it another name"));
            }
            let Some((kind, bytes)) = bytes_of(value).filter(|_| self.is_large(name, value)) else {
                row.set(name, value.clone());
                continue;
            };
            let known = before.map(|before| Pointer::of(before, name)).transpose()?.flatten();
            let known = known.filter(|pointer| pointer.holds(kind, bytes));
            let again = fresh.find(name, kind, bytes);
            let pointer = if let Some(pointer) = known.or(again) {
                pointer
            } else {
                let zipped = self.compress.then(|| coding::compressed(bytes)).flatten();
                let pointer = Pointer {
                    blob: pointer::new_name(self.table.name(), &entity, name)?,
                    kind,
                    length: bytes.len() as u64,
                    sha256: pointer::hash(bytes),
                    encoding: zipped.as_ref().map(|_| Encoding::Gzip),
                };
                let content = Bytes::from(zipped.unwrap_or_else(|| bytes.to_vec()));
                writes.push((name.to_owned(), pointer.clone(), content));
                pointer
            };
            row.set(Pointer::name(name), pointer.print()?);
        }
        DynamicEntity::of(&row).map_err(|error| {
            if error.kind() != ErrorKind::TooLarge {
                return error;
            }
            error.advise("put more of its properties into blobs: lower the threshold")
        })?;
        self.upload(&row, writes, fresh).await?;
        Ok(row)
    }

    /// Whether a value of this property belongs into a blob, by its size as the service counts it.
    fn is_large(&self, name: &str, value: &Value) -> bool {
        let size = match value {
            Value::Binary(bytes) => bytes.len(),
            Value::String(text) => 2 * text.encode_utf16().count(),
            _ => return false,
        };
        size > self.threshold || self.always.iter().any(|always| always == name)
    }

    async fn upload(
        &self,
        row: &DynamicEntity,
        writes: Vec<(String, Pointer, Bytes)>,
        fresh: &mut Fresh,
    ) -> Result<()> {
        let metadata = pointer::metadata(row);
        let metadata = [(metadata[0].0, &*metadata[0].1), (metadata[1].0, &*metadata[1].1)];
        let mut writing = Vec::new();
        for (property, pointer, content) in writes {
            let since = self.now();
            let headers = self.headers(&property, pointer.kind, pointer.encoding);
            let blob = self.blobs.blob(&pointer.blob);
            writing.push(async move {
                blob.put(content).headers(headers).metadata(&metadata).send().await
            });
            // One whose writing fails may be there all the same.
            fresh.0.push(Upload { property, pointer, since });
        }
        stream::iter(writing)
            .buffer_unordered(self.concurrency)
            .try_for_each(|_| std::future::ready(Ok(())))
            .await
    }

    /// What a blob of the property says that it is.
    pub(super) fn headers(
        &self,
        property: &str,
        kind: Kind,
        encoding: Option<Encoding>,
    ) -> ContentHeaders {
        let chosen = self.content_types.iter().find(|(name, _)| name == property);
        let usual = match kind {
            Kind::Binary => "application/octet-stream",
            Kind::String => "text/plain; charset=utf-8",
        };
        ContentHeaders {
            content_type: Some(chosen.map_or(usual, |(_, chosen)| chosen).to_owned()),
            content_encoding: encoding.map(|Encoding::Gzip| "gzip".to_owned()),
            ..ContentHeaders::default()
        }
    }

    /// Makes sure, before a row is written, that no sweep frees its new blobs while that is under
    /// way: those that are not that young any more are made young again.
    pub(super) async fn keep(&self, row: &DynamicEntity, fresh: &mut Fresh) -> Result<()> {
        let young = self.guard.young(self.rows.options().timeout);
        let metadata = pointer::metadata(row);
        let metadata = [(metadata[0].0, &*metadata[0].1), (metadata[1].0, &*metadata[1].1)];
        for upload in &mut fresh.0 {
            let now = self.now();
            if now - upload.since < young || !names(row, &upload.pointer.blob)? {
                continue;
            }
            match self.blobs.blob(&upload.pointer.blob).set_metadata(&metadata).await {
                Ok(_) => upload.since = now,
                Err(error) if error.is_not_found() => {
                    let what = "a blob was swept because its row was not written in time";
                    return Err(Error::refused(ErrorKind::Unavailable, what)
                        .advise("write the entity again, or guard blobs for longer")
                        .with_source(error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The entity that a row stands for; `None` if a blob is not there, as when another version of
    /// the row has taken its place.
    pub(super) async fn complete(&self, row: DynamicEntity) -> Result<Option<DynamicEntity>> {
        let pointers = Pointer::all(&row)?;
        let read = pointers.into_iter().map(|(property, pointer)| async move {
            let value = self.value(&pointer).await?;
            Ok::<_, Error>((property.to_owned(), value))
        });
        let read: Vec<_> = read.collect();
        let values: Vec<_> = stream::iter(read).buffered(self.concurrency).try_collect().await?;
        let mut entity = row;
        for (property, value) in values {
            let Some(value) = value else { return Ok(None) };
            entity.remove(&Pointer::name(&property));
            entity.set(property, value);
        }
        Ok(Some(entity))
    }

    async fn value(&self, pointer: &Pointer) -> Result<Option<Value>> {
        let Some(content) = self.blobs.blob(&pointer.blob).get().await? else {
            return Ok(None);
        };
        let Pointer { encoding, length, sha256, .. } = pointer;
        let bytes = coding::value(content.bytes.into(), *encoding, *length, sha256)?;
        pointer.kind.value(bytes).ok_or_else(coding::damaged).map(Some)
    }

    /// Deletes blobs that no row names. One that is left is not lost: the sweep finds it.
    pub(super) async fn free(&self, blobs: impl IntoIterator<Item = Pointer>) {
        let freeing = blobs.into_iter().map(|pointer| {
            let blob = self.blobs.blob(&pointer.blob);
            async move { blob.delete_if_exists().await }
        });
        let freeing: Vec<_> = freeing.collect();
        let mut freeing = stream::iter(freeing).buffer_unordered(self.concurrency);
        while let Some(freed) = freeing.next().await {
            if let Err(error) = freed {
                tracing::warn!(%error, "a blob that nothing names any more is left to the sweep");
            }
        }
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.table.account().clock().now()
    }

    pub(super) fn error(&self, error: Error) -> Error {
        error.of(OPERATION, self.table.name())
    }
}

impl Fresh {
    pub(super) fn push(&mut self, upload: Upload) {
        self.0.push(upload);
    }

    fn find(&self, property: &str, kind: Kind, bytes: &[u8]) -> Option<Pointer> {
        let same =
            |upload: &&Upload| upload.property == property && upload.pointer.holds(kind, bytes);
        self.0.iter().find(same).map(|upload| upload.pointer.clone())
    }

    /// Whether there are any, and a row names one of them: then it was written by this call.
    pub(super) fn is_in(&self, row: &DynamicEntity) -> bool {
        self.0.iter().any(|upload| names(row, &upload.pointer.blob).unwrap_or(false))
    }

    /// Those that a row does not name; all of them if there is no row.
    pub(super) fn unless_in(self, row: Option<&DynamicEntity>) -> impl Iterator<Item = Pointer> {
        let pointers = self.0.into_iter().map(|upload| upload.pointer);
        pointers.filter(move |p| !row.is_some_and(|row| names(row, &p.blob).unwrap_or(true)))
    }
}

/// Whether a row names this blob.
pub(super) fn names(row: &DynamicEntity, blob: &str) -> Result<bool> {
    Ok(Pointer::all(row)?.iter().any(|(_, pointer)| pointer.blob == blob))
}
