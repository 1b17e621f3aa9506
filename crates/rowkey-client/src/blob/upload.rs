//! Uploads a stream in blocks, only a few of which are in memory.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_wire::blob::BlockSource;
use rowkey_wire::blob::checksum::Checksum;
use rowkey_wire::etag::Match;
use rowkey_wire::limits::MAX_BLOCKS;
use rowkey_wire::shown;
use uuid::Uuid;

use super::Written;
use super::conditions::safety;
use super::container::written;
use super::handle::Blob;
use super::put::{self, Check, Description, Insertion, Put};
use crate::blob::wire::encode;
use crate::error::{Error, Result};
use crate::service::wire::metadata::metadata_error;
use crate::transport::Safety;

const BLOCK_SIZE: usize = 8 << 20;
const MAX_BLOCK_SIZE: usize = 4000 << 20;
const CONCURRENCY: usize = 4;

/// The content of a [`Blob::upload`], from a stream.
///
/// The upload sends several blocks concurrently and retries each failed block separately. The blob
/// changes once, after all blocks have arrived. At most `concurrency + 2` blocks are in memory. The
/// service deletes the blocks of an unfinished upload after a week.
pub struct Upload<S> {
    content: S,
    block_size: usize,
    concurrency: usize,
}

impl<S> Upload<S> {
    pub(super) fn new(content: S) -> Self {
        Self { content, block_size: BLOCK_SIZE, concurrency: CONCURRENCY }
    }
}

impl<S, E> Put<Upload<S>>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Sets the size of a block, from 1 byte to 4000 MiB. A blob has at most 50,000 blocks, so the
    /// block size limits its length. The default of 8 MiB allows 390 GiB.
    pub fn block_size(mut self, bytes: usize) -> Self {
        self.content.block_size = bytes;
        self
    }

    /// Sets how many blocks are sent at a time, 1 or more. Default: 4.
    pub fn concurrency(mut self, blocks: usize) -> Self {
        self.content.concurrency = blocks;
        self
    }

    /// Writes the blob, whether or not it exists.
    ///
    /// If the stream fails, this returns [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the
    /// stream's error as its source, and the blob does not change.
    pub async fn send(self) -> Result<Written> {
        let Self { blob, content: upload, description, check } = self;
        let Upload { content, block_size, concurrency } = upload;
        if !(1..=MAX_BLOCK_SIZE).contains(&block_size) || concurrency == 0 {
            let what = "block_size must be 1 byte to 4000 MiB, and concurrency at least 1";
            return Err(Error::invalid(what).of("PutBlockList", blob.container()));
        }
        let sum = Arc::new(Mutex::new(Checksum::new(check == Some(Check::Md5), false)));
        let content = Box::pin(content);
        let blocks = Blocks { content, left: Bytes::new(), size: block_size, sum, ended: false };
        Sender { blob, description, check, concurrency }.run(blocks).await
    }

    /// Writes the blob if it does not exist. The service checks this only at the end, after all
    /// blocks were sent.
    pub async fn insert(mut self) -> Result<Insertion> {
        self.blob.conditions.none_match = Some(Match::Any);
        put::insertion(self.send().await)
    }
}

/// Sends blocks and commits them.
struct Sender {
    blob: Blob,
    description: Description,
    check: Option<Check>,
    concurrency: usize,
}

impl Sender {
    async fn run<S, E>(mut self, blocks: Blocks<S>) -> Result<Written>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let named = |error: Error| error.of("PutBlock", self.blob.container());
        let sum = Arc::clone(&blocks.sum);
        let mut blocks = blocks.into_stream();
        let first = blocks.try_next().await.map_err(named)?.unwrap_or_default();
        let Some(second) = blocks.try_next().await.map_err(named)? else {
            return put::write(&self.blob, first, &self.description, self.check).await;
        };
        // Each upload has its own block ids, so that concurrent uploads do not mix.
        let upload = self.blob.pipeline().guid();
        let begun = stream::iter([Ok(first), Ok(second)]);
        let sent: Vec<String> = begun
            .chain(blocks)
            .enumerate()
            .map(|(number, block)| self.block(upload, number, block))
            .buffered(self.concurrency)
            .try_collect()
            .await?;
        let (md5, _) = sum.lock().unwrap_or_else(PoisonError::into_inner).clone().finish();
        self.description.headers.content_md5 = self.description.headers.content_md5.or(md5);
        self.commit(&sent).await
    }

    async fn block(&self, upload: Uuid, number: usize, block: Result<Bytes>) -> Result<String> {
        let call = self.blob.call("PutBlock", Safety::Conditional);
        let named = |error: Error| error.of(call.operation, call.resource);
        let block = block.map_err(named)?;
        if number >= MAX_BLOCKS {
            let what = format!("the content is longer than {MAX_BLOCKS} blocks");
            return Err(named(Error::too_large(what).advise("send larger blocks")));
        }
        let id = block_id(upload, number);
        let sums = put::sums(self.check, &block);
        let request = encode::put_block(self.blob.path(), &id, block, &sums, &self.blob.conditions);
        self.blob.send(request, call).await?;
        Ok(id)
    }

    async fn commit(&self, blocks: &[String]) -> Result<Written> {
        let Self { blob, description, .. } = self;
        let call = blob.call("PutBlockList", safety(&blob.conditions)).expecting(&[409, 412]);
        let named = |error: Error| error.of(call.operation, call.resource);
        let headers = description.headers.wire().map_err(named)?;
        let blocks = blocks.iter().map(|id| (BlockSource::Latest, id.as_str()));
        let metadata = put::pairs(&description.metadata);
        let path = blob.path();
        let request = encode::put_block_list(path, blocks, &headers, metadata, &blob.conditions)
            .map_err(|error| named(metadata_error(error)))?;
        let reply = blob.send(request, call).await?;
        written(&reply, &call)
    }
}

/// The id of a block. All ids of a blob must have the same length.
fn block_id(upload: Uuid, number: usize) -> String {
    let mut id = [0; 24];
    id[..16].copy_from_slice(upload.as_bytes());
    id[16..].copy_from_slice(&(number as u64).to_be_bytes());
    STANDARD.encode(id)
}

/// Splits the content into blocks.
struct Blocks<S> {
    content: Pin<Box<S>>,
    /// The rest of the last piece.
    left: Bytes,
    size: usize,
    /// Of the blocks so far.
    sum: Arc<Mutex<Checksum>>,
    ended: bool,
}

impl<S, E> Blocks<S>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// The blocks as a stream. Made here and not where it is read, so that the future of an upload is `Send` for
    /// content that borrows.
    fn into_stream<'c>(self) -> BoxStream<'c, Result<Bytes>>
    where
        S: Send + 'c,
        E: 'c,
    {
        stream::try_unfold(self, |mut blocks| async move {
            Ok(blocks.next().await?.map(|block| (block, blocks)))
        })
        .boxed()
    }

    /// The next block: a whole one, or the last.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut block = BytesMut::new();
        while block.len() < self.size {
            if self.left.is_empty() {
                match self.pull().await? {
                    Some(piece) => self.left = piece,
                    None => break,
                }
            }
            let missing = self.size - block.len();
            let piece = self.left.split_to(missing.min(self.left.len()));
            if piece.len() == self.size {
                // A piece of exactly one block is passed on without a copy.
                self.sum_up(&piece);
                return Ok(Some(piece));
            }
            block.extend_from_slice(&piece);
        }
        self.sum_up(&block);
        Ok((!block.is_empty()).then(|| block.freeze()))
    }

    fn sum_up(&self, block: &[u8]) {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).update(block);
    }

    async fn pull(&mut self) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        match self.content.next().await {
            Some(Ok(piece)) => Ok(Some(piece)),
            Some(Err(error)) => {
                Err(Error::invalid("the stream of the upload failed").with_source(error))
            }
            None => {
                self.ended = true;
                Ok(None)
            }
        }
    }
}

shown!([S] Upload<S>: block_size, concurrency);

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(pieces: &[&'static str], size: usize) -> Vec<Bytes> {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| Ok::<_, Error>(Bytes::from_static(piece.as_bytes())))
            .collect();
        let mut blocks = Blocks {
            content: Box::pin(stream::iter(pieces)),
            left: Bytes::new(),
            size,
            sum: Arc::new(Mutex::new(Checksum::new(false, false))),
            ended: false,
        };
        let mut cut = Vec::new();
        while let Some(block) = blocks.next().await.unwrap() {
            cut.push(block);
        }
        cut
    }

    #[tokio::test]
    async fn pieces_of_any_length_are_regrouped_into_blocks_of_equal_length() {
        assert_eq!(cut(&["ab", "", "cdefg", "h"], 3).await, ["abc", "def", "gh"]);
        assert_eq!(cut(&["abcdef"], 3).await, ["abc", "def"]);
        assert_eq!(cut(&["a", "b", "c"], 1).await, ["a", "b", "c"]);
        assert!(cut(&["", ""], 3).await.is_empty());
    }

    #[test]
    fn block_ids_have_equal_length_and_differ_between_uploads() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(block_id(one, 0).len(), block_id(one, MAX_BLOCKS).len());
        assert_ne!(block_id(one, 0), block_id(other, 0));
    }
}
