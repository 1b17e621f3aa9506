//! Blobs: read, describe, copy and delete.

use bytes::Bytes;
use rowkey_wire::auth::Service;
use rowkey_wire::blob::name;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::shown;

use super::append::Append;
use super::conditions::{Conditions, safety};
use super::container::{check_container, incomplete, written};
use super::lease::{Lease, Target};
use super::put::Put;
use super::read::{Content, Read};
use super::upload::Upload;
use super::{ContentHeaders, CopyStatus, Properties, Written};
use crate::account::StorageAccount;
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, BlobPath, Conditions as Wire, DeleteSnapshots};
use crate::cost::Meter;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::options::ClientOptions;
use crate::service::wire::metadata::metadata_error;
use crate::transport::{Call, Pipeline, Reply, Request, Safety};

/// A blob, or a snapshot of one.
///
/// Created by [`Container::blob`](super::Container::blob), which sends nothing and checks nothing. Clones are
/// cheap and share connections.
///
/// The last writer wins, unless the handle has conditions or a lease:
///
/// ```
/// # use rowkey::StorageAccount;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let container = account.container("indexes");
/// # container.create().await?;
/// # container.blob("jones").put("1\n2\n").send().await?;
/// let index = container.blob("jones");
/// let read = index.get().await?.ok_or("no such index")?;
/// let mut list = read.bytes.to_vec();
/// list.extend_from_slice(b"3\n");
///
/// // Only if it was not written since it was read.
/// let unchanged = index.with_conditions(&read.properties.etag);
/// unchanged.put(list).send().await?;
/// let error = unchanged.put("lost update").send().await.unwrap_err();
/// assert_eq!(error.kind(), rowkey::ErrorKind::Conflict);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Blob {
    container: Box<str>,
    name: Box<str>,
    snapshot: Option<Box<str>>,
    pub(super) conditions: Wire,
    account: StorageAccount,
}

/// A copy that was started, from [`Blob::copy_from`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// The blob's new `ETag` and time.
    pub written: Written,
    /// The id of the copy, for [`Blob::abort_copy`].
    pub id: String,
    /// The status of the copy. Within an account, copies are complete with the response; large ones
    /// may still be pending.
    pub status: CopyStatus,
}

/// The handle itself.
impl Blob {
    pub(super) fn new(account: StorageAccount, container: &str, name: &str) -> Self {
        let (container, name) = (container.into(), name.into());
        Self { container, name, snapshot: None, conditions: Wire::NONE, account }
    }

    /// Returns the blob's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the blob's container.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Returns the account, with the options of this handle.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// Returns a handle for the same blob with other options.
    #[must_use = "the handle itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self { account: self.account.with_options(options), ..self.clone() }
    }

    /// Returns a handle for the same blob with one more [meter](crate::cost::Meter), which counts its requests.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # account.container("files").create().await?;
    /// let meter = rowkey::cost::Meter::new();
    /// let file = account.container("files").blob("notes.txt");
    /// assert!(file.with_meter(&meter).get().await?.is_none());
    /// assert_eq!(meter.usage().requests(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_meter(&self, meter: &Meter) -> Self {
        Self { account: self.account.with_meter(meter), ..self.clone() }
    }

    /// Returns a handle for the same blob whose operations succeed only if these conditions hold.
    /// An [`ETag`](crate::ETag) alone requires that the blob has not changed since it was read.
    ///
    /// ```
    /// use rowkey::ErrorKind;
    /// use rowkey::blob::Conditions;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.with_conditions(Conditions::missing()).put("first").send().await?;
    /// let read = blob.get().await?.ok_or("just put")?;
    ///
    /// // A reader that has the content asks whether there is newer one.
    /// let newer = blob.with_conditions(Conditions::changed(&read.properties.etag));
    /// assert_eq!(newer.get().await.unwrap_err().kind(), ErrorKind::NotModified);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_conditions(&self, conditions: impl Into<Conditions>) -> Self {
        let mut blob = self.clone();
        conditions.into().place(&mut blob.conditions);
        blob
    }

    /// Returns a handle for the same blob whose operations carry the id of this lease, and fail
    /// with [`ErrorKind::Leased`] after it was lost.
    #[must_use = "the handle itself does not change"]
    pub fn with_lease(&self, lease: &Lease) -> Self {
        let mut blob = self.clone();
        blob.conditions.lease = Some(lease.guid());
        blob
    }

    /// Returns a handle for a snapshot of the blob, by its name from [`snapshot`](Self::snapshot)
    /// or a listing. It can be read, copied from and deleted.
    #[must_use = "the handle itself does not change"]
    pub fn at_snapshot(&self, snapshot: &str) -> Self {
        Self { snapshot: Some(snapshot.into()), ..self.clone() }
    }
}

/// The content.
impl Blob {
    /// Writes content in one request. Nothing is sent before [`Put::send`] or [`Put::insert`].
    ///
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// let headers = [("author", "ada")];
    /// blob.put("a note").content_type("text/plain").metadata(&headers).send().await?;
    /// let properties = blob.properties().await?.ok_or("just put")?;
    /// assert_eq!(properties.headers.content_type.as_deref(), Some("text/plain"));
    /// assert_eq!((properties.length, &*properties.metadata["author"]), (6, "ada"));
    /// # Ok(()) }
    /// ```
    pub fn put(&self, content: impl Into<Bytes>) -> Put {
        Put::new(self.clone(), content.into())
    }

    /// Writes content from a stream, of which only a few pieces are in memory. Nothing is sent
    /// before [`Put::send`] or [`Put::insert`].
    ///
    /// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list)
    ///
    /// ```
    /// use futures_util::stream;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// let pieces = (0..100).map(|_| Ok::<_, std::io::Error>(bytes::Bytes::from(vec![7; 1000])));
    /// blob.upload(stream::iter(pieces)).block_size(32 << 10).concurrency(2).send().await?;
    /// assert_eq!(blob.properties().await?.ok_or("just put")?.length, 100_000);
    /// # Ok(()) }
    /// ```
    pub fn upload<S, E>(&self, content: S) -> Put<Upload<S>>
    where
        S: futures_core::Stream<Item = Result<Bytes, E>> + Send,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Put::new(self.clone(), Upload::new(content))
    }

    /// Reads the whole blob into memory, or returns `None` if it does not exist.
    ///
    /// [Get Blob](https://learn.microsoft.com/rest/api/storageservices/get-blob)
    pub async fn get(&self) -> Result<Option<Content>> {
        self.read().bytes().await
    }

    /// Reads the blob or a part of it, into memory or piece by piece. Nothing is sent before
    /// [`Read::bytes`] or [`Read::open`].
    ///
    /// ```
    /// use rowkey::blob::Check;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.put("0123456789").send().await?;
    /// let middle = blob.read().range(2..5).check(Check::Crc64).bytes().await?.ok_or("just put")?;
    /// assert_eq!((&*middle.bytes, middle.properties.length), (&b"234"[..], 10));
    /// # Ok(()) }
    /// ```
    pub fn read(&self) -> Read {
        Read::new(self.clone())
    }

    /// Creates an empty append blob. An existing blob is replaced, unless the handle has
    /// [`Conditions::missing`].
    ///
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob)
    pub async fn create_append(&self) -> Result<Written> {
        self.create_append_with(&ContentHeaders::default(), &[]).await
    }

    /// Creates an empty append blob with content headers and metadata, as
    /// [`create_append`](Self::create_append) does.
    pub async fn create_append_with(
        &self,
        headers: &ContentHeaders,
        metadata: &[(&str, &str)],
    ) -> Result<Written> {
        let call = self.call("PutBlob", safety(&self.conditions)).expecting(&[409]);
        let named = |error: Error| error.of(call.operation, call.resource);
        let headers = headers.wire().map_err(named)?;
        let pairs = metadata.iter().copied();
        let request = encode::put_append(self.path(), &headers, pairs, &self.conditions)
            .map_err(|error| named(metadata_error(error)))?;
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// Writes a block at the end of an append blob. Nothing is sent before [`Append::send`].
    ///
    /// [Append Block](https://learn.microsoft.com/rest/api/storageservices/append-block)
    ///
    /// ```
    /// use rowkey::ErrorKind;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.create_append().await?;
    /// let first = blob.append("one line\n").at(0).send().await?;
    /// assert_eq!((first.offset, first.blocks), (0, 1));
    ///
    /// let elsewhere = blob.append("another line\n").at(0).send().await.unwrap_err();
    /// assert_eq!(elsewhere.kind(), ErrorKind::Conflict);
    /// let full = blob.append("another line\n").max_size(10).send().await.unwrap_err();
    /// assert_eq!(full.kind(), ErrorKind::TooLarge);
    /// # Ok(()) }
    /// ```
    pub fn append(&self, block: impl Into<Bytes>) -> Append {
        Append::new(self.clone(), block.into())
    }

    /// Replaces this blob with a copy of another blob of the same account, or of a snapshot. The
    /// conditions of `source` apply to the source, those of this handle to this blob.
    ///
    /// [Copy Blob](https://learn.microsoft.com/rest/api/storageservices/copy-blob)
    ///
    /// ```
    /// use rowkey::blob::CopyStatus;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.put("a note").send().await?;
    /// let copy = files.blob("notes/copy.txt");
    /// assert_eq!(copy.copy_from(&blob).await?.status, CopyStatus::Success);
    /// assert_eq!(copy.get().await?.ok_or("just copied")?.bytes, "a note");
    /// # Ok(()) }
    /// ```
    pub async fn copy_from(&self, source: &Self) -> Result<Copied> {
        let call = self.call("CopyBlob", safety(&self.conditions));
        check(&call, Some(&source.name))?;
        let from = encode::get(source.path(), source.snapshot.as_deref(), None, &Wire::NONE);
        let from = self.pipeline().source(source.pipeline(), Service::Blob, &from.target);
        let from = from.map_err(|error| error.of(call.operation, call.resource))?;
        let copy =
            encode::Copy { source: &from, source_conditions: &source.conditions, sync: false };
        let request =
            encode::copy(self.path(), &copy, [], &self.conditions).map_err(metadata_error)?;
        let reply = self.send(request, call).await?;
        let copy = decode::copied(&reply.headers).ok_or_else(|| incomplete(&call, &reply))?;
        let status = CopyStatus::of(&copy).ok_or_else(|| incomplete(&call, &reply))?;
        Ok(Copied { written: written(&reply, &call)?, id: copy.id, status })
    }

    /// Aborts a pending copy to this blob, which then has no content. Returns `false` if this copy is
    /// not pending any more, for example because it is complete. One request.
    ///
    /// Of the handle's conditions only its lease applies. `id` is that of
    /// [`Copied`](Copied::id) or of [`Properties::copy_id`].
    ///
    /// [Abort Copy Blob](https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// # blob.put("a note").send().await?;
    /// let copy = files.blob("notes/copy.txt");
    /// let copied = copy.copy_from(&blob).await?;
    /// assert!(!copy.abort_copy(&copied.id).await?, "it is complete");
    /// # Ok(()) }
    /// ```
    pub async fn abort_copy(&self, id: &str) -> Result<bool> {
        // A second attempt is refused if the first one aborted the copy.
        let call = self.call("AbortCopyBlob", Safety::Conditional).expecting(&[409]);
        let request = encode::abort_copy(self.path(), id, &self.conditions);
        match self.send(request, call).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&ErrorCode::NO_PENDING_COPY_OPERATION) => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
    }
}

/// Properties, metadata, snapshots and deletion.
impl Blob {
    /// Returns the blob's `ETag`, length, headers, metadata and lease, or `None` if it does not
    /// exist.
    ///
    /// [Get Blob Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-properties)
    pub async fn properties(&self) -> Result<Option<Properties>> {
        let call = self.call("GetBlobProperties", Safety::Read).expecting(&[304, 404]);
        let snapshot = self.snapshot.as_deref();
        let request = encode::get_properties(self.path(), snapshot, &self.conditions);
        match self.send(request, call).await {
            Ok(reply) => match Properties::of_answer(&reply.headers) {
                Some(properties) => Ok(Some(properties)),
                None => Err(incomplete(&call, &reply)),
            },
            Err(error) if is_missing_blob(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the content headers. Those that are `None` are cleared.
    ///
    /// [Set Blob Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-properties)
    ///
    /// ```
    /// use rowkey::blob::ContentHeaders;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.put("{}").send().await?;
    /// let json = Some("application/json".to_owned());
    /// let headers = ContentHeaders { content_type: json.clone(), ..ContentHeaders::default() };
    /// blob.set_properties(&headers).await?;
    /// blob.set_metadata(&[("author", "ada")]).await?;
    /// assert_eq!(blob.properties().await?.ok_or("just put")?.headers.content_type, json);
    /// # Ok(()) }
    /// ```
    pub async fn set_properties(&self, headers: &ContentHeaders) -> Result<Written> {
        let call = self.call("SetBlobProperties", Safety::Conditional);
        let headers = headers.wire().map_err(|error| error.of(call.operation, call.resource))?;
        let request = encode::set_properties(self.path(), &headers, &self.conditions);
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// Replaces all metadata with these names and values, 8 KiB at most.
    ///
    /// [Set Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata)
    pub async fn set_metadata(&self, pairs: &[(&str, &str)]) -> Result<Written> {
        let call = self.call("SetBlobMetadata", Safety::Conditional);
        let request = encode::set_metadata(self.path(), pairs.iter().copied(), &self.conditions)
            .map_err(|error| metadata_error(error).of(call.operation, call.resource))?;
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    /// Creates a snapshot of the blob and returns its name, for [`at_snapshot`](Self::at_snapshot).
    ///
    /// Not retried if the outcome of an attempt is unknown, because that could create two
    /// snapshots.
    /// [Snapshot Blob](https://learn.microsoft.com/rest/api/storageservices/snapshot-blob)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// blob.put("first").send().await?;
    /// let first = blob.snapshot().await?;
    /// blob.put("second").send().await?;
    /// assert_eq!(blob.at_snapshot(&first).get().await?.ok_or("it exists")?.bytes, "first");
    ///
    /// assert_eq!(files.blobs().with_snapshots().all().await?.len(), 2);
    ///
    /// assert!(blob.delete().await.is_err(), "it has a snapshot");
    /// blob.delete_snapshots().await?; // or both in one request:
    /// blob.delete_with_snapshots().await?;
    /// # Ok(()) }
    /// ```
    pub async fn snapshot(&self) -> Result<String> {
        let call = self.call("SnapshotBlob", Safety::Never);
        let request =
            encode::snapshot(self.path(), [], &self.conditions).map_err(metadata_error)?;
        let reply = self.send(request, call).await?;
        decode::snapshot(&reply.headers).ok_or_else(|| incomplete(&call, &reply))
    }

    /// Deletes the blob, or the snapshot if the handle is for one.
    ///
    /// Fails with [`ErrorKind::NotFound`] if it does not exist, and
    /// with [`ErrorCode::SNAPSHOTS_PRESENT`] if it has snapshots.
    /// [Delete Blob](https://learn.microsoft.com/rest/api/storageservices/delete-blob)
    pub async fn delete(&self) -> Result<()> {
        self.remove(self.alone(), &[412]).await
    }

    /// Deletes the blob, or the snapshot if the handle is for one, if it exists. Returns whether it
    /// existed.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// # blob.put("a note").send().await?;
    /// assert!(blob.delete_if_exists().await?);
    /// assert!(!blob.delete_if_exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_if_exists(&self) -> Result<bool> {
        match self.remove(self.alone(), &[404, 412]).await {
            Ok(()) => Ok(true),
            Err(error) if is_missing_blob(&error) => Ok(error.outcome() == Outcome::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Deletes the blob and all its snapshots.
    pub async fn delete_with_snapshots(&self) -> Result<()> {
        self.remove(DeleteSnapshots::Include, &[412]).await
    }

    /// Deletes all snapshots of the blob, but not the blob.
    pub async fn delete_snapshots(&self) -> Result<()> {
        self.remove(DeleteSnapshots::Only, &[412]).await
    }

    fn alone(&self) -> DeleteSnapshots<'_> {
        self.snapshot.as_deref().map_or(DeleteSnapshots::None, DeleteSnapshots::One)
    }

    async fn remove(&self, what: DeleteSnapshots<'_>, expected: &'static [u16]) -> Result<()> {
        let call = self.call("DeleteBlob", Safety::Conditional).expecting(expected);
        self.send(encode::delete(self.path(), what, &self.conditions), call).await?;
        Ok(())
    }

    /// The request that deletes the blob, or the snapshot.
    pub(super) fn deletion(&self) -> Request {
        encode::delete(self.path(), self.alone(), &self.conditions)
    }
}

/// Helpers of the other modules.
impl Blob {
    pub(super) fn path(&self) -> BlobPath<'_> {
        BlobPath { container: &self.container, blob: &self.name }
    }

    pub(super) fn snapshot_id(&self) -> Option<&str> {
        self.snapshot.as_deref()
    }

    pub(super) fn call(&self, operation: &'static str, safety: Safety) -> Call<'_> {
        Call::new(operation, &self.container, safety)
    }

    pub(super) fn pipeline(&self) -> &Pipeline {
        self.account.pipeline()
    }

    pub(super) fn target(&self) -> Target {
        let conditions = self.conditions.clone();
        Target::blob(self.account.clone(), &self.container, &self.name, conditions)
    }

    /// Checks the names and sends the request.
    pub(super) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        check(&call, Some(&self.name))?;
        self.pipeline().send(request, call).await
    }

    /// Checks the names, sends the request, and reads only the head of the response.
    pub(super) async fn open(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        check(&call, Some(&self.name))?;
        self.pipeline().open(request, call).await
    }
}

/// Refuses names that the service refuses, and names that a URL cannot carry: `.` and `..` segments
/// are removed from URLs in transit.
pub(crate) fn check(call: &Call<'_>, blob: Option<&str>) -> Result<()> {
    check_container(call)?;
    let Some(blob) = blob else { return Ok(()) };
    let named = |error: Error| error.of(call.operation, call.resource);
    name::check_blob(blob).map_err(|error| named(Error::invalid(error.to_string())))?;
    if blob.split('/').any(|part| matches!(part, "." | "..")) {
        let what = "no part of a blob's name between slashes can be `.` or `..`";
        return Err(named(Error::invalid(what)));
    }
    Ok(())
}

/// Whether the blob does not exist. A missing container is a different error.
pub(super) fn is_missing_blob(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && error.code() != Some(&ErrorCode::CONTAINER_NOT_FOUND)
}

shown! {
    /// Does not show the blob's name, just as keys of entities are not shown.
    Blob: container, account
}
