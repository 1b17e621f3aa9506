//! Listings of a container's blobs.

use std::sync::Arc;

use super::Properties;
use super::container::{Container, incomplete};
use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, ListBlobs};
use crate::error::{Error, Result};
use crate::paging::listing::{Listing, NextPage, PageEntries};
use crate::service::unreadable;
use crate::transport::{Call, Safety};

const OPERATION: &str = "ListBlobs";

/// A blob in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobItem {
    /// The name.
    pub name: String,
    /// The name of the snapshot, for [`Blob::at_snapshot`](super::Blob::at_snapshot); `None`: the
    /// blob itself.
    pub snapshot: Option<String>,
    /// Its properties; metadata only if the listing includes it.
    pub properties: Properties,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A blob.
    Blob(Box<BlobItem>),
    /// A subfolder: the common prefix of the names of its blobs, including the delimiter.
    Prefix(String),
}

impl Container {
    /// Lists the blobs of the container, in the order of their names. Nothing is sent yet.
    ///
    /// [List Blobs](https://learn.microsoft.com/rest/api/storageservices/list-blobs)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// for name in ["notes/1.txt", "notes/2.txt", "readme.txt"] {
    ///     files.blob(name).put("text").metadata(&[("author", "ada")]).send().await?;
    /// }
    /// let notes = files.blobs().starting_with("notes/").with_metadata().all().await?;
    /// assert_eq!(notes.len(), 2);
    /// assert_eq!(notes[0].properties.metadata["author"], "ada");
    /// # Ok(()) }
    /// ```
    pub fn blobs(&self) -> Listing<BlobItem> {
        Listing::of_container(self.account(), self.name(), OPERATION, |listing, next| {
            Box::pin(async move {
                let (entries, next) = page(&listing, next).await?;
                let blobs = entries.into_iter().filter_map(|entry| match entry {
                    Entry::Blob(blob) => Some(*blob),
                    // Without a delimiter, there are no prefixes.
                    Entry::Prefix(_) => None,
                });
                Ok((blobs.collect(), next))
            })
        })
    }
}

impl Listing<BlobItem> {
    /// Includes the snapshots of each blob, before the blob. Not in a [`folder`](Self::folder).
    pub fn with_snapshots(mut self) -> Self {
        self.include.snapshots = true;
        self
    }

    /// Includes blobs that have only uncommitted blocks, such as those of an unfinished upload.
    pub fn with_uncommitted(mut self) -> Self {
        self.include.uncommitted = true;
        self
    }

    /// Lists one folder, with `delimiter`, usually `/`, between folders in names: the blobs whose
    /// names have no delimiter after the prefix, and for all others each common prefix once.
    ///
    /// ```
    /// use rowkey::blob::Entry;
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let files = account.container("files");
    /// # files.create().await?;
    /// for name in ["notes/1.txt", "notes/2.txt", "readme.txt"] {
    ///     files.blob(name).put("text").send().await?;
    /// }
    /// let top = files.blobs().folder("/").all().await?;
    /// assert!(matches!(&top[0], Entry::Prefix(notes) if notes == "notes/"));
    /// assert!(matches!(&top[1], Entry::Blob(readme) if readme.name == "readme.txt"));
    /// # Ok(()) }
    /// ```
    pub fn folder(mut self, delimiter: &str) -> Listing<Entry> {
        if self.include.snapshots {
            self.refuse(Error::invalid("snapshots cannot be listed by folder"));
        }
        self.delimiter = Some(delimiter.to_owned());
        self.showing(|listing, next| Box::pin(async move { page(&listing, next).await }))
    }
}

async fn page<T>(listing: &Arc<Listing<T>>, next: Option<NextPage>) -> Result<PageEntries<Entry>> {
    let Some(name) = &listing.container else { return Ok((Vec::new(), None)) };
    let container = listing.account.container(name);
    let host = NextPage::host(next.as_ref());
    let call = Call::new(OPERATION, container.name(), Safety::Read).at(host);
    let request = encode::list_blobs(
        container.name(),
        &ListBlobs {
            prefix: listing.prefix.as_deref(),
            delimiter: listing.delimiter.as_deref(),
            marker: NextPage::marker(next.as_ref()),
            max: listing.page_size,
            metadata: listing.include.metadata,
            snapshots: listing.include.snapshots,
            uncommitted: listing.include.uncommitted,
            copy: false,
        },
    );
    let reply = container.send(request, call).await?;
    let page = decode::blobs(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
    let items = page.items.into_iter().map(entry).collect::<Option<_>>();
    let items = items.ok_or_else(|| incomplete(&call, &reply))?;
    Ok((items, NextPage::after(&reply, page.next)))
}

fn entry(item: decode::Item) -> Option<Entry> {
    Some(match item {
        decode::Item::Blob(blob) => Entry::Blob(Box::new(BlobItem {
            name: blob.name,
            snapshot: blob.snapshot,
            properties: Properties::of(blob.properties)?,
        })),
        decode::Item::Prefix(prefix) => Entry::Prefix(prefix),
    })
}
