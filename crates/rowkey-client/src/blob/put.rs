//! Writing a blob in one request.

use bytes::Bytes;
use rowkey_wire::blob as wire;
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::etag::Match;
use rowkey_wire::shown;

use super::conditions::safety;
use super::container::written;
use super::handle::Blob;
use super::{ContentHeaders, Written};
use crate::blob::wire::encode;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::service::wire::metadata::metadata_error;

/// The checksum that protects content in transit. The service checks what is written, and the
/// client checks what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// CRC64: detects damage at the lowest cost.
    Crc64,
    /// MD5: other tools can compare it, too.
    Md5,
}

/// The result of a write that happens only if the blob does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The blob exists already and was not changed.
    Exists,
    /// The blob did not exist and was written.
    Inserted(Written),
}

/// The headers and the metadata of a blob.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) headers: ContentHeaders,
    pub(super) metadata: Vec<(String, String)>,
}

/// A write: in one request, from [`Blob::put`], or in pieces, from [`Blob::upload`].
#[must_use = "nothing is written before `send` or `insert`"]
pub struct Put<C = Bytes> {
    pub(super) blob: Blob,
    pub(super) content: C,
    pub(super) description: Description,
    pub(super) check: Option<Check>,
}

impl<C> Put<C> {
    pub(super) fn new(blob: Blob, content: C) -> Self {
        Self { blob, content, description: Description::default(), check: None }
    }

    /// Sets the content type. Default: `application/octet-stream`, by the service.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.description.headers.content_type = Some(content_type.to_owned());
        self
    }

    /// Sets all content headers.
    pub fn headers(mut self, headers: ContentHeaders) -> Self {
        self.description.headers = headers;
        self
    }

    /// Sets the metadata.
    pub fn metadata(mut self, pairs: &[(&str, &str)]) -> Self {
        self.description.metadata = owned(pairs);
        self
    }

    /// Protects the content in transit with a checksum, one for each block. With [`Check::Md5`],
    /// the blob's `Content-MD5` is that of the whole content.
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }
}

impl Put {
    /// Writes the blob, whether or not it exists.
    pub async fn send(self) -> Result<Written> {
        let Self { blob, content, description, check } = self;
        write(&blob, content, &description, check).await
    }

    /// Writes the blob if it does not exist.
    ///
    /// ```
    /// use rowkey::blob::Insertion;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// # let blob = files.blob("notes/1.txt");
    /// assert!(matches!(blob.put("first").insert().await?, Insertion::Inserted(_)));
    /// assert!(matches!(blob.put("second").insert().await?, Insertion::Exists));
    /// # Ok(()) }
    /// ```
    pub async fn insert(mut self) -> Result<Insertion> {
        self.blob.conditions.none_match = Some(Match::Any);
        insertion(self.send().await)
    }
}

shown! {
    /// Does not show the content.
    [C] Put<C>: blob
}

pub(super) async fn write(
    blob: &Blob,
    content: Bytes,
    description: &Description,
    check: Option<Check>,
) -> Result<Written> {
    let call = blob.call("PutBlob", safety(&blob.conditions)).expecting(&[409, 412]);
    let named = |error: Error| error.of(call.operation, call.resource);
    let headers = description.headers.wire().map_err(named)?;
    let sums = sums(check, &content);
    let metadata = pairs(&description.metadata);
    let (path, conditions) = (blob.path(), &blob.conditions);
    let request = encode::put_block_blob(path, content, &headers, metadata, &sums, conditions)
        .map_err(|error| named(metadata_error(error)))?;
    let reply = blob.send(request, call).await?;
    written(&reply, &call)
}

/// Turns the error that the blob exists into a value.
pub(super) fn insertion(result: Result<Written>) -> Result<Insertion> {
    match result {
        Ok(written) => Ok(Insertion::Inserted(written)),
        // After an unknown outcome, this call itself may have written the blob.
        Err(error)
            if error.kind() == ErrorKind::AlreadyExists && error.outcome() == Outcome::Rejected =>
        {
            Ok(Insertion::Exists)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn sums(check: Option<Check>, body: &[u8]) -> wire::Sums {
    let mut sums = Checksum::new(check == Some(Check::Md5), check == Some(Check::Crc64));
    sums.update(body);
    let (md5, crc64) = sums.finish();
    wire::Sums { md5, crc64 }
}

pub(super) fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn pairs(metadata: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
