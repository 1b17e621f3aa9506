//! What writes leave behind that failed: blobs that no row names, found and freed.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::blob::BlobItem;
use rowkey::service::ListingContinuation;
use rowkey::{ETag, Entity, Key, Result};

use super::Large;
use super::pointer;
use super::store::{OPERATION, Store, names};
use crate::guard::service_time;

/// How many rows are read at a time.
const AT_ONCE: usize = 16;

/// A job that frees the blobs that no row names, from [`Large::sweep`].
///
/// Each page of the container is a step, and after each the [`Swept`] says where to go on, in another
/// process if need be. Failing anywhere does no harm, and several jobs at a time do none either.
///
/// A blob goes if it is older than the [guard](Large::guard), by the service's clock, if its row, read
/// after it was listed, does not name it, and if it is then still the blob that was listed. A writer
/// that takes long makes its blobs young again before it writes its row.
///
/// ```
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
/// let mut sweep = photos.sweep();
/// while let Some(swept) = sweep.step().await? {
///     println!("{} of {} blobs freed", swept.freed, swept.blobs);
///     let _to_be_stored = swept.continuation.map(|place| place.to_string());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "the job does nothing until `step` or `run`"]
pub struct Sweep<E> {
    large: Large<E>,
    page_size: Option<u32>,
    next: Option<ListingContinuation>,
    done: bool,
}

/// What a step found and did, or all of them. Each blob is counted once: `blobs` is the sum of the
/// other numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Blobs that were listed.
    pub blobs: u64,
    /// Those that are younger than the guard.
    pub young: u64,
    /// Those that a row names.
    pub in_use: u64,
    /// Those that no row named. Now they are gone.
    pub freed: u64,
    /// Those that somebody else freed or wrote to meanwhile.
    pub changed: u64,
    /// The names of those that do not say which row they belong to: something else put them there,
    /// and they stay.
    pub unknown: Vec<String>,
    /// Where the next step begins: text to store, and to give to [`resume`](Sweep::resume). `None` at
    /// the end.
    pub continuation: Option<ListingContinuation>,
}

impl<E: Entity + Send + 'static> Large<E> {
    /// A job that frees the blobs that no row names: see [`Sweep`].
    ///
    /// It costs two requests for each page of 5,000 blobs, one for each row that has blobs older than
    /// the guard, and one for each blob that is freed.
    pub fn sweep(&self) -> Sweep<E> {
        Sweep { large: self.clone(), page_size: None, next: None, done: false }
    }
}

impl<E: Entity + Send + 'static> Sweep<E> {
    /// How many blobs a step lists at most, 1 to 5000.
    pub fn page_size(self, blobs: u32) -> Self {
        Self { page_size: Some(blobs), ..self }
    }

    /// Goes on where an earlier job stopped.
    pub fn resume(self, continuation: ListingContinuation) -> Self {
        Self { next: Some(continuation), ..self }
    }

    /// Lists a page and frees what has to be freed of it; `None` when there is nothing left. After an
    /// error the next step does the same page again.
    pub async fn step(&mut self) -> Result<Option<Swept>> {
        if self.done {
            return Ok(None);
        }
        let store = &self.large.store;
        let swept = store.sweep(self.page_size, self.next.clone()).await;
        let swept = swept.map_err(|error| store.error(error))?;
        self.next.clone_from(&swept.continuation);
        self.done = self.next.is_none();
        Ok(Some(swept))
    }

    /// Takes all steps that are left and adds up what they did.
    pub async fn run(mut self) -> Result<Swept> {
        let mut all = Swept::default();
        while let Some(swept) = self.step().await? {
            all.add(swept);
        }
        Ok(all)
    }
}

/// The blobs of one row that are old enough.
struct Old {
    row: (String, String),
    blobs: Vec<(String, ETag)>,
}

impl Store {
    async fn sweep(
        &self,
        page_size: Option<u32>,
        next: Option<ListingContinuation>,
    ) -> Result<Swept> {
        let mut listing = self.blobs.blobs().starting_with(&pointer::prefix(self.table.name()));
        if let Some(blobs) = page_size {
            listing = listing.page_size(blobs);
        }
        if let Some(continuation) = next {
            listing = listing.resume(continuation);
        }
        let mut swept = Swept::default();
        // Asked before, so that ages seem smaller rather than larger than they are.
        let mark = format!("{}.sweep", self.table.name().to_lowercase());
        let now = service_time(&self.blobs, &mark).await?;
        let Some(page) = listing.with_metadata().pages().try_next().await? else {
            return Ok(swept);
        };
        swept.blobs = page.entries.len() as u64;
        swept.continuation = page.continuation;
        let mut rows: Vec<Old> = Vec::new();
        for BlobItem { name, properties, .. } in page.entries {
            let Some(row) = pointer::row_of(properties.metadata.iter()) else {
                swept.unknown.push(name);
                continue;
            };
            if !self.guard.is_over(properties.modified, now) {
                swept.young += 1;
                continue;
            }
            let blob = (name, properties.etag);
            match rows.last_mut().filter(|last| last.row == row) {
                // The blobs of a row are listed one after the other.
                Some(last) => last.blobs.push(blob),
                None => rows.push(Old { row, blobs: vec![blob] }),
            }
        }
        let mut done = stream::iter(rows).map(|old| self.free_old(old)).buffer_unordered(AT_ONCE);
        while let Some(counts) = done.next().await {
            swept.add(counts?);
        }
        Ok(swept)
    }

    async fn free_old(&self, old: Old) -> Result<Swept> {
        let mut swept = Swept::default();
        let (partition_key, row_key) = old.row;
        let row = self.row(Key::new(partition_key, row_key)).await?;
        for (name, etag) in old.blobs {
            if row.as_ref().map(|row| names(&row.entity, &name)).transpose()? == Some(true) {
                swept.in_use += 1;
                continue;
            }
            let listed = self.blobs.blob(&name).with_conditions(etag);
            match listed.delete_if_exists().await {
                Ok(true) => swept.freed += 1,
                Ok(false) => swept.changed += 1,
                Err(error) if error.is_conflict() => swept.changed += 1,
                Err(error) => return Err(error.of(OPERATION, self.table.name())),
            }
        }
        Ok(swept)
    }
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.blobs += other.blobs;
        self.young += other.young;
        self.in_use += other.in_use;
        self.freed += other.freed;
        self.changed += other.changed;
        self.unknown.extend(other.unknown);
    }
}

impl<E> fmt::Debug for Sweep<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep").field("large", &self.large).finish_non_exhaustive()
    }
}
