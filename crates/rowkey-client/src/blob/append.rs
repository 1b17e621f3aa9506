//! Appending blocks to an append blob.

use bytes::Bytes;
use rowkey_wire::blob as wire;
use rowkey_wire::etag::ETag;

use super::container::{incomplete, written};
use super::handle::Blob;
use super::put::{Check, sums};
use crate::blob::wire::{decode, encode};
use crate::error::{Error, Outcome, Result};
use crate::transport::Safety;

/// A write at the end of an append blob, from [`Blob::append`].
#[derive(Debug)]
#[must_use = "nothing is written before `send`"]
pub struct Append {
    blob: Blob,
    block: Bytes,
    limits: wire::AppendLimits,
    check: Option<Check>,
}

/// A block that was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The position of the block in the blob.
    pub offset: u64,
    /// The number of blocks in the blob now, 50,000 at most.
    pub blocks: u32,
    /// The blob's `ETag`.
    pub etag: ETag,
}

impl Append {
    pub(super) fn new(blob: Blob, block: Bytes) -> Self {
        Self { blob, block, limits: wire::AppendLimits::default(), check: None }
    }

    /// Appends only if the blob has exactly this length. Otherwise fails with
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
    ///
    /// This makes the operation safe to retry: if the response to an attempt is lost, the service
    /// refuses the next attempt, and the content at this position shows whether the first one was
    /// applied.
    pub fn at(mut self, position: u64) -> Self {
        self.limits.position = Some(position);
        self
    }

    /// Appends only if the blob does not become longer than this. Otherwise fails with
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.limits.max_size = Some(bytes);
        self
    }

    /// Protects the block in transit with a checksum.
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Appends the block, 100 MiB at most.
    ///
    /// Without [`at`](Self::at), it is not retried if it is unknown whether it was applied. The
    /// error's [`outcome`](Error::outcome) is then [`Outcome::Unknown`], and the caller decides
    /// whether to append again, which may store the block twice.
    pub async fn send(self) -> Result<Appended> {
        let Self { blob, block, limits, check } = self;
        let safety = if limits.position.is_some() { Safety::Conditional } else { Safety::Never };
        let call = blob.call("AppendBlock", safety).expecting(&[412]);
        if block.is_empty() {
            let error = Error::invalid("an appended block must have at least one byte");
            return Err(error.of(call.operation, call.resource));
        }
        let sums = sums(check, &block);
        let conditions = &blob.conditions;
        let request = encode::append_block(blob.path(), block.clone(), &limits, &sums, conditions);
        let reply = match (blob.send(request, call).await, limits.position) {
            (Ok(reply), _) => reply,
            (Err(error), Some(position))
                if error.details().status == Some(412) && error.outcome() == Outcome::Unknown =>
            {
                return landed(&blob, &block, position).await?.ok_or(error);
            }
            (Err(error), _) => return Err(error),
        };
        let appended = decode::appended(&reply.headers).ok_or_else(|| incomplete(&call, &reply))?;
        let decode::Appended { offset, blocks } = appended;
        let etag = written(&reply, &call)?.etag;
        Ok(Appended { offset, blocks, etag })
    }
}

/// Finds out whether an earlier attempt appended the block, so that this refusal is only its
/// consequence: the bytes at `position` are then those of the block.
async fn landed(blob: &Blob, block: &Bytes, position: u64) -> Result<Option<Appended>> {
    let mut reader = blob.clone();
    let lease = reader.conditions.lease;
    reader.conditions = encode::Conditions { lease, ..encode::Conditions::NONE };
    let Some(properties) = reader.properties().await? else { return Ok(None) };
    let end = position + block.len() as u64;
    if properties.length < end {
        return Ok(None);
    }
    let there = reader.read().range(position..end).bytes().await?;
    let Some(there) = there.filter(|there| there.bytes == block) else { return Ok(None) };
    let blocks = properties.blocks.unwrap_or_default();
    Ok(Some(Appended { offset: position, blocks, etag: there.properties.etag }))
}
