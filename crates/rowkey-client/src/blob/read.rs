//! Reading a blob or a part of it, resuming after a lost connection.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use http::header::CONTENT_RANGE;
use rowkey_wire::etag::Match;

use super::container::incomplete;
use super::handle::{Blob, is_missing_blob};
use super::part::{self, MAX_PART, Part};
use super::{Check, Properties};
use crate::blob::wire::encode::{self, Conditions as Wire};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::paging::Stream;
use crate::transport::http::Chunks;
use crate::transport::{Reply, Safety};

const OPERATION: &str = "GetBlob";

/// The most memory that is reserved at once for a response's announced length.
const MAX_RESERVED: u64 = 64 << 20;

/// A blob in memory, or a part of one.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// The bytes.
    pub bytes: Bytes,
    /// The blob's properties. The length is that of the whole blob.
    pub properties: Properties,
}

/// A read of a blob, from [`Blob::read`].
#[derive(Debug)]
#[must_use = "nothing is read before `bytes` or `open`"]
pub struct Read {
    blob: Blob,
    range: Option<(u64, Option<u64>)>,
    /// Whether the range is empty.
    empty: bool,
    check: Option<Check>,
}

impl Read {
    pub(super) fn new(blob: Blob) -> Self {
        Self { blob, range: None, empty: false, check: None }
    }

    /// Reads only these bytes, counted from 0. A range that extends beyond the end of the blob is
    /// cut; one that begins beyond it fails with
    /// [`ErrorCode::INVALID_RANGE`](crate::ErrorCode::INVALID_RANGE).
    pub fn range(mut self, range: impl RangeBounds<u64>) -> Self {
        let first = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        self.empty = end.is_some_and(|end| end <= first);
        self.range = match (first, end) {
            (0, None) => None,
            (first, end) => Some((first, end.map(|end| end.saturating_sub(1)))),
        };
        self
    }

    /// Compares the content with a checksum from the service, and fails with [`ErrorKind::Damaged`] if they
    /// differ.
    ///
    /// A whole blob that has an MD5 (see [`ContentHeaders`](super::ContentHeaders)) is compared with it at
    /// the end. Everything else takes one request for each 4 MiB, the longest range for which the service
    /// computes a checksum.
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Reads the content into memory. Returns `None` if the blob does not exist.
    ///
    /// With conditions, fails with [`ErrorKind::NotModified`] if the blob has not changed.
    pub async fn bytes(self) -> Result<Option<Content>> {
        let Some(mut download) = self.open().await? else { return Ok(None) };
        let first = download.next().await?.unwrap_or_default();
        let Some(second) = download.next().await? else {
            return Ok(Some(Content { bytes: first, properties: download.properties }));
        };
        let announced = (first.len() + second.len()) as u64 + download.left();
        let room = usize::try_from(announced.min(MAX_RESERVED)).unwrap_or(0);
        let mut bytes = BytesMut::with_capacity(room);
        bytes.extend_from_slice(&first);
        bytes.extend_from_slice(&second);
        while let Some(piece) = download.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(Some(Content { bytes: bytes.freeze(), properties: download.properties }))
    }

    /// Starts to read the content piece by piece. Returns `None` if the blob does not exist.
    ///
    /// With conditions, fails with [`ErrorKind::NotModified`] if the blob has not changed.
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
    /// blob.put(vec![7; 100_000]).send().await?;
    /// let mut download = blob.read().open().await?.ok_or("just put")?;
    /// let mut received = 0;
    /// while let Some(piece) = download.next().await? {
    ///     received += piece.len();
    /// }
    /// assert_eq!((received, download.left()), (100_000, 0));
    /// # Ok(()) }
    /// ```
    pub async fn open(self) -> Result<Option<Download>> {
        let Self { blob, range, empty, check } = self;
        if empty {
            let error = Error::invalid("the range has no bytes");
            return Err(error.of(OPERATION, blob.container()));
        }
        let begun = match (check, range) {
            (None, _) | (Some(Check::Md5), None) => get(&blob, range, None, &blob.conditions).await,
            (Some(check), range) => {
                let (first, last) = range.unwrap_or((0, None));
                let most = first.saturating_add(MAX_PART - 1);
                let part = (first, Some(last.map_or(most, |last| last.min(most))));
                match get(&blob, Some(part), Some(check), &blob.conditions).await {
                    // An empty blob has no ranges and nothing to compare.
                    Err(error) if range.is_none() && error.details().status == Some(416) => {
                        get(&blob, None, None, &blob.conditions).await
                    }
                    begun => begun,
                }
            }
        };
        let mut reply = match begun {
            Ok(reply) => reply,
            Err(error) if is_missing_blob(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let call = blob.call(OPERATION, Safety::Read);
        let properties =
            Properties::of_answer(&reply.headers).ok_or_else(|| incomplete(&call, &reply))?;
        let at = range.map_or(0, |(first, _)| first);
        let end = match range {
            Some((_, Some(last))) => last.saturating_add(1).min(properties.length),
            _ => properties.length,
        };
        let chunks = reply.rest.take().ok_or_else(|| incomplete(&call, &reply))?;
        let mut download =
            Download { blob, properties, chunks, at, end, failures: 0, check, part: None };
        let answered = match answered_range(&reply.headers) {
            Some((_, last)) => last.saturating_add(1),
            None => end,
        };
        if let Some(check) = check.filter(|_| at < end) {
            download.part = Part::begin(check, answered.min(end), &reply.headers);
            if download.part.is_none() {
                // A whole blob without an MD5.
                download.next_part(check).await?;
            }
        }
        Ok(Some(download))
    }
}

/// A blob that is read piece by piece.
///
/// If the connection breaks, the rest is requested on condition that the blob has not changed; if
/// it has, this fails with [`ErrorKind::Conflict`]. Each piece may take the
/// [`attempt_timeout`](crate::ClientOptions::attempt_timeout) of the handle's options.
#[non_exhaustive]
pub struct Download {
    /// The blob's properties. The length is that of the whole blob.
    pub properties: Properties,
    blob: Blob,
    chunks: Chunks,
    /// The position of the next piece.
    at: u64,
    end: u64,
    /// The number of connections that broke since the last piece.
    failures: u32,
    check: Option<Check>,
    /// The part that is being received, if it is checked.
    part: Option<Part>,
}

impl Download {
    /// Returns the number of bytes that are left to read.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// The end of the range that was requested last.
    fn stop(&self) -> u64 {
        self.part.as_ref().map_or(self.end, |part| part.end)
    }

    /// Returns the next piece, of any length, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(check) = self.check.filter(|_| self.at == self.stop() && self.left() > 0) {
                self.next_part(check).await?;
            }
            let left = self.stop().saturating_sub(self.at);
            let (what, source) = match self.chunks.next().await {
                Ok(Some(piece)) if piece.is_empty() => continue,
                Ok(Some(piece)) if piece.len() as u64 > left => {
                    let what = "the response is longer than the requested range";
                    return Err(Error::decode(what).of(OPERATION, self.blob.container()));
                }
                Ok(Some(piece)) => {
                    self.at += piece.len() as u64;
                    self.failures = 0;
                    self.sum_up(&piece)?;
                    return Ok(Some(piece));
                }
                Ok(None) if left == 0 => return Ok(None),
                Ok(None) => ("the answer was cut off", None),
                Err(broken) => (broken.what, broken.source),
            };
            if left == 0 {
                // Everything has been received; how the connection ended does not matter.
                return Ok(None);
            }
            self.failures += 1;
            if self.failures >= self.blob.account().options().retry.max_attempts {
                let call = self.blob.call(OPERATION, Safety::Read);
                let (kind, outcome) = (ErrorKind::Unavailable, Outcome::Unknown);
                let error = Error::transport(&call, kind, what, outcome, self.failures);
                return Err(match source {
                    Some(source) => error.with_source(source),
                    None => error,
                });
            }
            self.resume().await?;
        }
    }

    /// Returns the pieces as a stream, which ends after an error.
    pub fn stream(self) -> Stream<Bytes> {
        stream::try_unfold(self, |mut download| async move {
            Ok(download.next().await?.map(|piece| (piece, download)))
        })
        .boxed()
    }

    /// Adds a piece to the checksum of its part, and compares it at the part's end.
    fn sum_up(&mut self, piece: &[u8]) -> Result<()> {
        let at = self.at;
        let Some(part) = &mut self.part else { return Ok(()) };
        part.update(piece);
        if at < part.end || part.is_whole() {
            return Ok(());
        }
        let what = "the response is damaged: its checksum differs";
        Err(Error::damaged(what).of(OPERATION, self.blob.container()))
    }

    /// Requests the next part with its checksum.
    async fn next_part(&mut self, check: Check) -> Result<()> {
        let end = self.at.saturating_add(MAX_PART).min(self.end);
        let reply = self.ask(end, Some(check)).await?;
        let call = self.blob.call(OPERATION, Safety::Read);
        let part = Part::begin(check, end, &reply.headers);
        self.part = Some(part.ok_or_else(|| incomplete(&call, &reply))?);
        Ok(())
    }

    /// Requests the rest of the last range again. Its checksum, if any, came with the first
    /// response.
    async fn resume(&mut self) -> Result<()> {
        self.ask(self.stop(), None).await?;
        Ok(())
    }

    /// Requests the bytes before `end` that are left, if the blob has not changed.
    async fn ask(&mut self, end: u64, check: Option<Check>) -> Result<Reply> {
        let same = Wire {
            matches: Some(Match::ETag(self.properties.etag.clone())),
            lease: self.blob.conditions.lease,
            ..Wire::NONE
        };
        let range = Some((self.at, Some(end - 1)));
        let mut reply = get(&self.blob, range, check, &same).await?;
        let call = self.blob.call(OPERATION, Safety::Read);
        // A server that ignores the range would start from the beginning.
        if answered_range(&reply.headers).map(|(first, _)| first) != Some(self.at) {
            let what = "the answer is not the part that was asked for";
            return Err(Error::decode(what).of_answer(&call, &reply));
        }
        self.chunks = reply.rest.take().ok_or_else(|| incomplete(&call, &reply))?;
        Ok(reply)
    }
}

async fn get(
    blob: &Blob,
    range: Option<(u64, Option<u64>)>,
    check: Option<Check>,
    conditions: &Wire,
) -> Result<Reply> {
    let call = blob.call(OPERATION, Safety::Read).expecting(&[304, 404]);
    let sum = check.map(part::wanted);
    let range = range.map(|(first, last)| encode::Range { first, last, sum });
    blob.open(encode::get(blob.path(), blob.snapshot_id(), range, conditions), call).await
}

/// The first and the last byte in the `Content-Range` of a response, such as `bytes 5-9/100`.
fn answered_range(headers: &HeaderMap) -> Option<(u64, u64)> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, last) = range.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

impl fmt::Debug for Content {
    /// Shows the length, not the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("length", &self.bytes.len())
            .field("etag", &self.properties.etag)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("blob", &self.blob)
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}
