//! The list of one value: found, changed under the ETag that was read, split when it is long.
//!
//! The list's first blob holds its keys, or, of a long list, where its chunks are. A chunk that is
//! full or empty is closed in one write, after which it says where its keys went, and whoever meets it
//! brings the first blob up to date. So a key is in one place at any time, and dying anywhere leaves
//! nothing that the next one does not finish, but for chunks that were never used.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::blob::{Conditions, Insertion};
use rowkey::{Blob, Container, ETag, Error, ErrorKind, Outcome, Result};

use super::format::{Chunk, Listed, Page, blob_name};
use crate::name;

/// How often the first blob of a list is written against other writers to finish a move.
const MAX_FINISHES: u32 = 8;

/// The lists of an index.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) container: Container,
    pub(super) name: Box<str>,
    /// How many keys a blob has at most.
    pub(super) max: usize,
    /// How many chunks are read at once.
    pub(super) concurrency: usize,
}

/// The place in a list where a key is or would be, as it was read.
#[derive(Debug)]
pub(super) struct Slot {
    value: String,
    /// The chunk; `None`: the list's first blob.
    chunk: Option<Chunk>,
    /// `None` if there is no list.
    etag: Option<ETag>,
    keys: Vec<Listed>,
    key: Listed,
}

/// What a conditional write of a blob came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Yes,
    /// Somebody else was faster.
    No,
    /// One or the other.
    Unknown,
}

impl Slot {
    /// Whether the key is in the list.
    pub(super) fn contains(&self) -> bool {
        self.keys.binary_search(&self.key).is_ok()
    }
}

impl Lists {
    /// The place of a key; `None` if others changed the list meanwhile.
    pub(super) async fn locate(&self, value: &str, key: &Listed) -> Result<Option<Slot>> {
        let slot = |chunk, etag, keys| {
            Ok(Some(Slot { value: value.to_owned(), chunk, etag, keys, key: key.clone() }))
        };
        let Some((root, etag)) = self.read(value, None).await? else {
            return slot(None, None, Vec::new());
        };
        let chunks = match root {
            Page::Keys(keys) => return slot(None, Some(etag), keys),
            Page::Chunks(chunks) => chunks,
            Page::Moved(_) => return Err(misplaced()),
        };
        let at = chunks.partition_point(|chunk| chunk.from <= *key).saturating_sub(1);
        let Some(chunk) = chunks.get(at) else {
            // The last chunk went; so does the list.
            self.delete(value, None, etag).await?;
            return Ok(None);
        };
        match self.read(value, Some(&chunk.id)).await? {
            Some((Page::Keys(keys), etag)) => slot(Some(chunk.clone()), Some(etag), keys),
            Some((Page::Moved(to), _)) => {
                self.finish(value, &chunk.id, &to).await?;
                Ok(None)
            }
            Some((Page::Chunks(_), _)) => Err(misplaced()),
            None => self.is_gone(value, &etag).await.map(|()| None),
        }
    }

    /// Puts the key of a slot into its list, or takes it away; says whether that was done. If not,
    /// others changed the list: locate it again, and decide again.
    pub(super) async fn set(&self, slot: Slot, present: bool) -> Result<bool> {
        let Slot { value, chunk, etag, mut keys, key } = slot;
        match (keys.binary_search(&key), present) {
            (Ok(_), true) | (Err(_), false) => return Ok(true),
            (Err(at), true) => keys.insert(at, key),
            (Ok(at), false) => drop(keys.remove(at)),
        }
        let Some(etag) = etag else {
            return Ok(self.create(&value, None, &Page::Keys(keys)).await? == Written::Yes);
        };
        if keys.is_empty() {
            let Some(chunk) = chunk else { return self.delete(&value, None, etag).await };
            return self.close(&value, &chunk, etag, Vec::new()).await;
        }
        let id = chunk.as_ref().map(|chunk| &*chunk.id);
        if keys.len() <= self.max {
            return Ok(self.replace(&value, id, etag, &Page::Keys(keys)).await? == Written::Yes);
        }
        self.split(&value, chunk, etag, &keys).await
    }

    /// All keys of a value, in order.
    pub(super) async fn keys(&self, value: &str) -> Result<Vec<Listed>> {
        // A chunk that is gone was gone from the first blob before.
        let mut seen = None;
        loop {
            let (chunks, etag) = match self.read(value, None).await? {
                None => return Ok(Vec::new()),
                Some((Page::Keys(keys), _)) => return Ok(keys),
                Some((Page::Chunks(chunks), etag)) => (chunks, etag),
                Some((Page::Moved(_), _)) => return Err(misplaced()),
            };
            let read = chunks.into_iter().map(|chunk| self.chunk_keys(value, chunk.id));
            let read: Vec<_> = read.collect();
            let parts: Option<Vec<Vec<Listed>>> = stream::iter(read)
                .buffered(self.concurrency)
                .try_collect::<Vec<_>>()
                .await?
                .into_iter()
                .collect();
            if let Some(parts) = parts {
                return Ok(parts.concat());
            }
            if seen.replace(etag.clone()) == Some(etag) {
                return Err(missing());
            }
        }
    }

    /// The keys of a chunk, and of those it was moved to; `None` if it is gone.
    async fn chunk_keys(&self, value: &str, id: String) -> Result<Option<Vec<Listed>>> {
        let mut keys = Vec::new();
        let mut ids = vec![id];
        while let Some(id) = ids.pop() {
            match self.read(value, Some(&id)).await? {
                None => return Ok(None),
                Some((Page::Keys(more), _)) => keys.extend(more),
                Some((Page::Moved(to), _)) => ids.extend(to.into_iter().rev().map(|to| to.id)),
                Some((Page::Chunks(_), _)) => return Err(misplaced()),
            }
        }
        Ok(Some(keys))
    }

    /// The ids of all chunks that the list leads to.
    pub(super) async fn chunk_ids(&self, value: &str) -> Result<Vec<String>> {
        let chunks = |page| match page {
            Ok(Some((Page::Chunks(chunks) | Page::Moved(chunks), _))) => Ok(chunks),
            // What cannot be read leads nowhere.
            Ok(_) => Ok(Vec::new()),
            Err(error) if Error::kind(&error) == ErrorKind::Decode => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let id = |chunk: Chunk| chunk.id;
        let mut ids: Vec<_> = chunks(self.read(value, None).await)?.into_iter().map(id).collect();
        let mut at = 0;
        while let Some(id) = ids.get(at) {
            let moved = chunks(self.read(value, Some(id)).await)?;
            ids.extend(moved.into_iter().map(|chunk| chunk.id));
            at += 1;
        }
        Ok(ids)
    }

    /// Divides keys that are too many for a blob.
    async fn split(
        &self,
        value: &str,
        chunk: Option<Chunk>,
        etag: ETag,
        keys: &[Listed],
    ) -> Result<bool> {
        let (low, high) = keys.split_at(keys.len() / 2);
        let from = match (&chunk, low.first()) {
            (Some(chunk), _) => chunk.from.clone(),
            (None, Some(first)) => first.clone(),
            (None, None) => return Ok(false),
        };
        let Some(middle) = high.first().cloned() else { return Ok(false) };
        let halves =
            [Chunk { id: name::unused()?, from }, Chunk { id: name::unused()?, from: middle }];
        for (half, keys) in halves.iter().zip([low, high]) {
            let page = Page::Keys(keys.to_vec());
            if self.create(value, Some(&half.id), &page).await? != Written::Yes {
                // Its own name: the answer was lost, and verification finds what is not used.
                return Ok(false);
            }
        }
        let Some(chunk) = chunk else {
            let page = Page::Chunks(halves.to_vec());
            let written = self.replace(value, None, etag, &page).await?;
            if written == Written::No {
                self.forget(value, &halves).await;
            }
            return Ok(written == Written::Yes);
        };
        self.close(value, &chunk, etag, halves.to_vec()).await
    }

    /// Closes a chunk, whose keys are in those it is moved to, and then finishes the move.
    async fn close(&self, value: &str, chunk: &Chunk, etag: ETag, to: Vec<Chunk>) -> Result<bool> {
        match self.replace(value, Some(&chunk.id), etag, &Page::Moved(to.clone())).await? {
            Written::Yes => {}
            Written::No => {
                self.forget(value, &to).await;
                return Ok(false);
            }
            Written::Unknown => return Ok(false),
        }
        // The key is where it should be. What is left is done by the next one who comes if this fails.
        if let Err(error) = self.finish(value, &chunk.id, &to).await {
            tracing::warn!(%error, "a chunk of an index was moved and is left to be tidied");
        }
        Ok(true)
    }

    /// Puts what a closed chunk was moved to into its place in the first blob, and then deletes it.
    /// Where many write at once it may be left to another.
    async fn finish(&self, value: &str, id: &str, to: &[Chunk]) -> Result<()> {
        for _ in 0..MAX_FINISHES {
            let Some((Page::Chunks(mut chunks), etag)) = self.read(value, None).await? else {
                return Ok(());
            };
            let Some(at) = chunks.iter().position(|chunk| chunk.id == id) else { return Ok(()) };
            chunks.splice(at..=at, to.iter().cloned());
            let done = if chunks.is_empty() {
                self.delete(value, None, etag).await?
            } else {
                self.replace(value, None, etag, &Page::Chunks(chunks)).await? == Written::Yes
            };
            if done {
                self.blob(value, Some(id)).delete_if_exists().await?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Finishes the moves of chunks whose first blob does not know of them yet.
    pub(super) async fn tidy(&self, value: &str) -> Result<()> {
        let Some((Page::Chunks(chunks), _)) = self.read(value, None).await? else { return Ok(()) };
        for chunk in chunks {
            if let Some((Page::Moved(to), _)) = self.read(value, Some(&chunk.id)).await? {
                self.finish(value, &chunk.id, &to).await?;
            }
        }
        Ok(())
    }

    /// Deletes chunks that nothing names: whoever they were for was not the first.
    async fn forget(&self, value: &str, chunks: &[Chunk]) {
        for chunk in chunks {
            if let Err(error) = self.blob(value, Some(&chunk.id)).delete_if_exists().await {
                tracing::warn!(%error, "an unused chunk of an index is left to be found");
            }
        }
    }

    /// An error unless the first blob has changed since: it names a chunk that is not there.
    async fn is_gone(&self, value: &str, etag: &ETag) -> Result<()> {
        match self.blob(value, None).properties().await? {
            Some(properties) if properties.etag == *etag => Err(missing()),
            _ => Ok(()),
        }
    }
}

/// Single blobs.
impl Lists {
    pub(super) fn blob(&self, value: &str, chunk: Option<&str>) -> Blob {
        let name = blob_name(&self.name, value);
        match chunk {
            None => self.container.blob(&name),
            Some(id) => self.container.blob(&format!("{name}/{id}")),
        }
    }

    pub(super) async fn read(
        &self,
        value: &str,
        chunk: Option<&str>,
    ) -> Result<Option<(Page, ETag)>> {
        let Some(content) = self.blob(value, chunk).get().await? else { return Ok(None) };
        Ok(Some((Page::parse(&content.bytes, value)?, content.properties.etag)))
    }

    async fn create(&self, value: &str, chunk: Option<&str>, page: &Page) -> Result<Written> {
        let put = self.blob(value, chunk).put(page.print(value)?).content_type(CONTENT_TYPE);
        match put.insert().await {
            Ok(Insertion::Inserted(_)) => Ok(Written::Yes),
            Ok(Insertion::Exists) => Ok(Written::No),
            Err(error) => lost(error),
        }
    }

    async fn replace(
        &self,
        value: &str,
        chunk: Option<&str>,
        etag: ETag,
        page: &Page,
    ) -> Result<Written> {
        let blob = self.blob(value, chunk).with_conditions(Conditions::unchanged(&etag));
        match blob.put(page.print(value)?).content_type(CONTENT_TYPE).send().await {
            Ok(_) => Ok(Written::Yes),
            Err(error) => lost(error),
        }
    }

    async fn delete(&self, value: &str, chunk: Option<&str>, etag: ETag) -> Result<bool> {
        let blob = self.blob(value, chunk).with_conditions(etag);
        match blob.delete_if_exists().await {
            Ok(deleted) => Ok(deleted),
            Err(error) => lost(error).map(|written| written == Written::Yes),
        }
    }
}

const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// A refusal because of what somebody else wrote, or this one, whose answer was lost: whoever reads
/// again sees. All else stays an error.
fn lost(error: Error) -> Result<Written> {
    let missing = error.code() == Some(&rowkey::ErrorCode::CONTAINER_NOT_FOUND);
    match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound if !missing => {
            Ok(if error.outcome() == Outcome::Unknown { Written::Unknown } else { Written::No })
        }
        _ => Err(error),
    }
}

#[cold]
fn misplaced() -> Error {
    let what = "a blob of the index is not the part of a list that its name says";
    Error::refused(ErrorKind::Decode, what).advise("something else wrote to it: repair the index")
}

#[cold]
fn missing() -> Error {
    let what = "a list of the index names a chunk that is not there";
    Error::refused(ErrorKind::Decode, what).advise("something else deleted it: repair the index")
}
