//! What is in a container.

use std::sync::Arc;

use crate::blob::wire::decode;
use crate::blob::wire::encode::{self, ListBlobs};
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::Properties;
use super::container::{Container, incomplete};
use crate::error::{Error, Result};
use crate::service::listing::{
    self, ListingContinuation, ListingPage, Next, Of, Read, check_page_size, fingerprint,
};
use crate::service::progress::{Limits, limits};
use crate::service::unreadable;
use crate::table::Stream;
use crate::transport::{Call, Safety};

const OPERATION: &str = "ListBlobs";

/// A listing of blobs in the order of their names, from [`Container::blobs`].
#[derive(Debug)]
#[must_use = "nothing is listed until `stream`, `all` or `folder`"]
pub struct Blobs {
    container: Container,
    prefix: Option<String>,
    delimiter: Option<String>,
    show: Show,
    page_size: Option<u32>,
    resume: Option<ListingContinuation>,
    limits: Limits,
    error: Option<Error>,
}

/// A blob in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobItem {
    /// The name.
    pub name: String,
    /// The snapshot that this is, see [`Blob::at_snapshot`](super::Blob::at_snapshot); `None`: the
    /// blob itself.
    pub snapshot: Option<String>,
    /// What is known of it; metadata only if it was asked for.
    pub properties: Properties,
}

/// What a folder shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A blob.
    Blob(Box<BlobItem>),
    /// What the names of more blobs begin with, the delimiter included.
    Prefix(String),
}

/// What is shown besides.
#[derive(Clone, Copy, Debug, Default)]
struct Show {
    metadata: bool,
    snapshots: bool,
    uncommitted: bool,
}

impl Blobs {
    pub(super) fn new(container: Container) -> Self {
        let (prefix, delimiter, page_size) = (None, None, None);
        let (resume, error) = (None, None);
        let (show, limits) = (Show::default(), Limits::default());
        Self { container, prefix, delimiter, show, page_size, resume, limits, error }
    }

    /// Only blobs whose names begin with `prefix`.
    pub fn starting_with(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// With the metadata of each blob.
    pub fn with_metadata(mut self) -> Self {
        self.show.metadata = true;
        self
    }

    /// With the snapshots of each blob, before it. Not in a [`folder`](Self::folder).
    pub fn with_snapshots(mut self) -> Self {
        self.show.snapshots = true;
        self
    }

    /// With blobs of which there are only blocks, as an upload leaves that did not come to its end.
    pub fn with_uncommitted(mut self) -> Self {
        self.show.uncommitted = true;
        self
    }

    /// How many entries a page has at most, 1 to 5000.
    pub fn page_size(mut self, entries: u32) -> Self {
        self.error = check_page_size(entries).err().or(self.error);
        self.page_size = Some(entries);
        self
    }

    limits!();

    /// Goes on where `continuation` points; it must come from the same listing.
    pub fn resume(mut self, continuation: ListingContinuation) -> Self {
        self.resume = Some(continuation);
        self
    }

    /// The blobs, one by one, asking for the next page when one is used up.
    pub fn stream(self) -> Stream<BlobItem> {
        listing::entries(self.pages())
    }

    /// The blobs, page by page.
    pub fn pages(self) -> Stream<ListingPage<BlobItem>> {
        let blobs = |entry| match entry {
            Entry::Blob(blob) => Some(*blob),
            // Without a delimiter there are none.
            Entry::Prefix(_) => None,
        };
        let pages = self.begin().map_ok(move |ListingPage { entries, continuation }| ListingPage {
            entries: entries.into_iter().filter_map(blobs).collect(),
            continuation,
        });
        pages.boxed()
    }

    /// All blobs.
    pub async fn all(self) -> Result<Vec<BlobItem>> {
        self.stream().try_collect().await
    }

    /// What a folder would show if `delimiter`, usually `/`, divided folders in names: the blobs
    /// whose names have no delimiter after the prefix, and in the place of all others what their
    /// names begin with, once each.
    pub fn folder(self, delimiter: &str) -> Stream<Entry> {
        listing::entries(self.folder_pages(delimiter))
    }

    /// What [`folder`](Self::folder) shows, page by page.
    pub fn folder_pages(mut self, delimiter: &str) -> Stream<ListingPage<Entry>> {
        if self.show.snapshots {
            self.error = Some(Error::invalid("snapshots cannot be listed by folder"));
        }
        self.delimiter = Some(delimiter.to_owned());
        self.begin()
    }

    fn begin(mut self) -> Stream<ListingPage<Entry>> {
        let Show { metadata, snapshots, uncommitted } = self.show;
        let shown = [metadata, snapshots, uncommitted].map(|shown| if shown { "1" } else { "" });
        let texts = [
            OPERATION,
            self.container.name(),
            self.prefix.as_deref().unwrap_or_default(),
            self.delimiter.as_deref().unwrap_or_default(),
        ];
        let fingerprint = fingerprint(texts.into_iter().chain(shown));
        let error = self.error.take().map_or(Ok(()), Err);
        let resume = self.resume.take();
        let begun = error.and_then(|()| Next::resume(resume, fingerprint));
        let begun = begun.map_err(|error| error.of(OPERATION, self.container.name()));
        let (resource, limits) = (self.container.name().into(), self.limits);
        let of = Of { operation: OPERATION, resource, fingerprint, limits };
        listing::pages(begun.map(|next| (self, next)), of, Self::page)
    }

    async fn page(self: Arc<Self>, next: Option<Next>) -> Result<Read<Entry>> {
        let host = Next::host(next.as_ref());
        let call = Call::new(OPERATION, self.container.name(), Safety::Read).at(host);
        let request = encode::list_blobs(
            self.container.name(),
            &ListBlobs {
                prefix: self.prefix.as_deref(),
                delimiter: self.delimiter.as_deref(),
                marker: Next::marker(next.as_ref()),
                max: self.page_size,
                metadata: self.show.metadata,
                snapshots: self.show.snapshots,
                uncommitted: self.show.uncommitted,
                copy: false,
            },
        );
        let reply = self.container.send(request, call).await?;
        let page = decode::blobs(&reply.body).map_err(|error| unreadable(error, &call, &reply))?;
        let items = page.items.into_iter().map(entry).collect::<Option<_>>();
        let items = items.ok_or_else(|| incomplete(&call, &reply))?;
        Ok((items, Next::after(&reply, page.next)))
    }
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
