//! Large entities: properties that are too big for a row are stored in blobs, and the row says where.
//!
//! A row points to a blob that is there, whatever fails and whoever writes at the same time: blobs are
//! written before their row and freed after it, each has a name that no blob ever had, and rows are
//! only ever written under the ETag that was read. What remains of writes that failed is found by a
//! [`Sweep`].
//!
//! - `pointer`: what the row holds, and how blobs are named: the stored format
//! - `coding`: bytes counted, hashed and compressed
//! - `store`: blobs written, read and freed
//! - `write`: rows written, and what then becomes of blobs
//! - `read`: entities read, and single properties piece by piece
//! - `sweep`: what no row names
//!
//! The rows are described in the book, under "Large entities".

mod coding;
mod pointer;
mod read;
mod store;
mod sweep;
mod write;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use rowkey::{Container, Entity, Table};

use crate::guard::Guard;
pub use read::Reading;
use store::Store;
pub use sweep::{Sweep, Swept};

/// A table whose entities may be larger than rows: their large properties are in blobs.
///
/// A String or a Binary over the [`threshold`](Self::threshold), and each that is
/// [always](Self::always) in a blob, is written to a blob of its own; in the row, `Image` is left out
/// and `Image_Blob` says where it is and what its SHA-256 is. Everything else is stored as it is.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_large::Large;
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{album}", row = "{number:4}")]
/// struct Photo {
///     album: String,
///     number: u32,
///     title: String,
///     image: Vec<u8>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("photos").create().await?;
/// # account.container("images").create().await?;
/// let photos = Large::<Photo>::new(account.table("photos"), account.container("images"));
///
/// let image = vec![7; 3_000_000];
/// let photo = Photo { album: "leeds".into(), number: 1, title: "Snow".into(), image };
/// photos.insert(&photo).await?;
/// let stored = photos.get(Photo::key("leeds", 1)).await?.ok_or("not there")?;
/// assert_eq!(stored.entity, photo);
///
/// // The image is the same, and is not sent again.
/// photos.update(Photo::key("leeds", 1), |photo| photo.title = "Snow in May".into()).await?;
/// # Ok(())
/// # }
/// ```
///
/// All that writes or deletes such entities does it through this. What deletes rows in the
/// [table](Self::table) leaves their blobs to the [sweep](Self::sweep); what writes rows there may take
/// their addresses away or bring old ones back. Merging properties that are not large in the table is
/// fine.
///
/// An entity with properties that must be encrypted is refused: `rowkey_encryption` and this do not
/// combine.
pub struct Large<E> {
    store: Store,
    entity: PhantomData<fn() -> E>,
}

/// Making one.
impl<E: Entity> Large<E> {
    /// The entities of type `E` in `table`, with their large properties in `container`. Both must
    /// exist. Several tables of an account may share a container; tables of the same name, of several
    /// accounts, must not.
    pub fn new(table: Table, container: Container) -> Self {
        const { assert!(E::ENCRYPTED.is_empty(), "encrypted fields are written by a store") };
        Self { store: Store::new(table, container), entity: PhantomData }
    }

    /// Over how many bytes a String or Binary goes to a blob: 32 KiB unless set, 64 KiB at most.
    /// Counted as the service counts, two bytes for each UTF-16 unit of a String.
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.store.threshold = bytes.min(store::MAX_PROPERTY);
        self
    }

    /// Puts the properties with these names into blobs whatever their size, so that a
    /// [link](Self::link) to them can always be made.
    #[must_use]
    pub fn always<N: Into<String>>(mut self, properties: impl IntoIterator<Item = N>) -> Self {
        self.store.always = properties.into_iter().map(Into::into).collect();
        self
    }

    /// Compresses what is written to blobs, with gzip, where that makes it shorter. What is read may
    /// be either.
    #[must_use]
    pub fn compress(mut self) -> Self {
        self.store.compress = true;
        self
    }

    /// What blobs of the property with this name say that they are, `image/jpeg` for instance, to
    /// whoever opens a [link](Self::link). Unless set, it is that of bytes or of plain text.
    #[must_use]
    pub fn content_type(mut self, property: &str, content_type: &str) -> Self {
        self.store.content_types.push((property.to_owned(), content_type.to_owned()));
        self
    }

    /// How long a blob is left alone that no row names, because the one who wrote it may be about to
    /// write the row: a day unless set. All programs that use the container must agree on it.
    ///
    /// A row is written while half of it is left. So it must be four times as long as an operation
    /// may take ([`timeout`](rowkey::ClientOptions::timeout)); writing fails with
    /// [`ErrorKind::Invalid`](rowkey::ErrorKind::Invalid) if it is not.
    #[must_use]
    pub fn guard(mut self, guard: Duration) -> Self {
        self.store.guard = Guard(guard);
        self
    }

    /// How many blobs of an entity are read or written at once, 4 unless set.
    #[must_use]
    pub fn concurrency(mut self, blobs: usize) -> Self {
        self.store.concurrency = blobs.max(1);
        self
    }

    /// The table itself, which knows of no blobs.
    pub fn table(&self) -> &Table {
        &self.store.table
    }

    /// The container of the blobs.
    pub fn container(&self) -> &Container {
        &self.store.container
    }
}

impl<E> Clone for Large<E> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), entity: PhantomData }
    }
}

impl<E> fmt::Debug for Large<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Large")
            .field("table", &self.store.table.name())
            .field("container", &self.store.container.name())
            .finish_non_exhaustive()
    }
}
