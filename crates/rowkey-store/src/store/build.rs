//! Building a store: checks the requirements of its declarations before anything is sent.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use rowkey::entity::OlderRows;
use rowkey::index::{ListPlace, Scope};
use rowkey::{Container, Entity, Error, ErrorKind, Queue, Result, Table};

use super::{Inner, Store};
use crate::blobs::Blobs;
use crate::deciding::Deciding;
use crate::execute::announce::Announcer;
use crate::layer::{Layer, Layers};
use crate::plan::blob_field::BlobFields;
use crate::plan::blob_list::BlobList;
use crate::plan::index::LocalIndexes;
use crate::plan::list::Lists;
use crate::plan::older::OlderVersions;
use crate::plan::remote::RemoteIndex;
use crate::plan::remote_list::RemoteList;
use crate::plan::unique::UniqueValues;
use crate::plan::{Contributor, MAX_OPERATIONS};
use crate::seal::{Sealed, Sealer};
use crate::wide::Wide;

/// Builds a [`Store`]; from [`Store::builder`].
///
/// ```
/// # use rowkey::{Entity, StorageAccount};
/// # use rowkey_store::Store;
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{tenant}", row = "note_{id:6}")]
/// #[entity(unique(name = by_title, value = "{title}"))]
/// struct Note {
///     tenant: String,
///     id: u32,
///     title: String,
///     #[entity(blob)]
///     text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let lacks_a_queue = Store::<Note>::builder(account.table("notes"))
///     .blobs(account.container("notes"))
///     .build();
/// assert!(lacks_a_queue.unwrap_err().to_string().contains("queue"));
///
/// let notes = Store::<Note>::builder(account.table("notes"))
///     .blobs(account.container("notes"))
///     .queue(account.queue("notes"))
///     .build()?;
/// notes.create_if_missing().await?;
/// let text = "long ".repeat(100_000);
/// notes.insert(&Note { tenant: "contoso".into(), id: 1, title: "First".into(), text }).await?;
/// let first = notes.find(Note::by_title("First")).await?.ok_or("not found")?;
/// assert_eq!(first.entity.text.len(), 500_000);
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct StoreBuilder<E> {
    table: Table,
    queue: Option<Queue>,
    container: Option<Container>,
    sealer: Option<Arc<dyn Sealer>>,
    contributors: Vec<Box<dyn Contributor<E>>>,
    settles: bool,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Returns a builder for a store of the entities in `table`.
    pub fn builder(table: Table) -> StoreBuilder<E> {
        const {
            assert!(E::STORE, "the type is not declared for a store: add `store` to #[entity(..)]");
        }
        StoreBuilder {
            table,
            queue: None,
            container: None,
            sealer: None,
            contributors: Vec::new(),
            settles: false,
            entity: PhantomData,
        }
    }

    /// Creates the table, and the queue and the container if the store has them, if they do not exist.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.inner.table.create_if_missing().await?;
        if let Some(announcer) = &self.inner.announcer {
            let queue =
                announcer.queue().with_options(self.inner.table.account().options().clone());
            queue.create_if_missing().await?;
        }
        if let Some(blobs) = &self.inner.blobs {
            blobs.deciding().create_if_missing().await?;
        }
        Ok(())
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> StoreBuilder<E> {
    /// Sets the queue for work after the commit. Required by unique values, and by indexes and lists outside
    /// the partition. Stores of the same table may share a queue.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Sets the container for fields with `blob` and for `list(.., blob)`. Several stores may share one: the
    /// names of a store's blobs begin with the name of its table.
    pub fn blobs(mut self, container: Container) -> Self {
        self.container = Some(container);
        self
    }

    /// Sets the keys of the fields that are marked `#[entity(encrypt)]`, such as a
    /// `rowkey_encryption::KeyRing`. Every write encrypts these fields before they are sent, and every
    /// read decrypts them.
    pub fn keys(mut self, ring: impl Sealer + 'static) -> Self {
        self.sealer = Some(Arc::new(ring));
        self
    }

    /// Adds a contributor that writes rows in the transaction of the entity.
    pub fn with(mut self, contributor: impl Contributor<E> + 'static) -> Self {
        self.contributors.push(Box::new(contributor));
        self
    }

    /// Adds a contributor that names targets. It requires a queue.
    pub fn following(mut self, contributor: impl Contributor<E> + 'static) -> Self {
        self.settles = true;
        self.with(contributor)
    }

    /// Builds the store. Sends nothing. [`Store::open`] reads the declarations of programs of other versions.
    ///
    /// Fails with [`ErrorKind::Invalid`] if a declaration lacks something that it requires (a queue, a
    /// container, keys), if two contributors have the same name, or if one change could have more than 100
    /// operations.
    pub fn build(self) -> Result<Store<E>> {
        let Self { table, queue, container, sealer, contributors: added, settles, .. } = self;
        let refused =
            |what: String| Error::refused(ErrorKind::Invalid, what).of("Store", table.name());
        let mut contributors: Vec<Box<dyn Contributor<E>>> =
            vec![Box::new(LocalIndexes), Box::new(Lists), Box::new(UniqueValues)];
        if E::OLDER != OlderRows::NONE {
            contributors.push(Box::new(OlderVersions));
        }
        contributors.extend(RemoteIndex::all::<E>().map(|index| Box::new(index) as _));
        contributors.extend(RemoteList::all::<E>(Inner::<E>::of()).map(|list| Box::new(list) as _));
        let blobs = container.map(|container| Blobs::new(container, table.name()));
        let in_blobs = E::LISTS.iter().find(|list| list.place == ListPlace::Blob);
        let in_blobs = in_blobs.map(|list| list.name).or(E::BLOBS.first().map(|(name, _)| *name));
        match (&blobs, in_blobs) {
            (Some(blobs), _) => {
                contributors.extend(BlobList::all::<E>(blobs).map(|list| Box::new(list) as _));
                if !E::BLOBS.is_empty() {
                    contributors.push(Box::new(BlobFields::of::<E>(blobs, Inner::<E>::of())));
                }
            }
            (None, Some(name)) => {
                let what = format!("`{name}` is kept in blobs, which needs a container");
                return Err(refused(what).advise("give one to `StoreBuilder::blobs`"));
            }
            (None, None) => {}
        }
        let given = added.len();
        contributors.extend(added);
        for (at, contributor) in contributors.iter().enumerate() {
            let name = contributor.name();
            if contributors[..at].iter().any(|other| other.name() == name) {
                return Err(refused(format!("two contributors have the name `{name}`")));
            }
        }
        // The rows of the entity and the op row.
        let rows = E::MAX_ROWS + 1;
        let most = contributors.iter().map(|one| one.operations()).sum::<usize>() + rows;
        if most > MAX_OPERATIONS {
            let what = format!(
                "a change of one entity may have {most} operations; a transaction has at most \
                 {MAX_OPERATIONS}"
            );
            return Err(refused(what)
                .advise("declare fewer indexes, or move some to partitions of their own"));
        }
        let indexes = E::INDEXES.iter().filter(|index| index.scope != Scope::SamePartition);
        let lists = E::LISTS.iter().filter(|list| list.place != ListPlace::Partition);
        let elsewhere = indexes.map(|index| index.name).chain(lists.map(|list| list.name));
        let elsewhere = elsewhere.chain(in_blobs).next();
        if queue.is_none() && (settles || elsewhere.is_some() || E::OLDER.elsewhere) {
            let whom =
                elsewhere.unwrap_or(if settles { "a contributor" } else { "an older version" });
            let what = format!("`{whom}` is settled after the commit, which needs a queue");
            return Err(refused(what).advise("give one to `StoreBuilder::queue`"));
        }
        if sealer.is_some() == E::ENCRYPTED.is_empty() {
            let (what, advice) = match E::ENCRYPTED.first() {
                Some(field) => (
                    format!("`{field}` is encrypted, which needs keys"),
                    "give a ring of them to `StoreBuilder::keys`",
                ),
                None => (
                    "it has keys, but no field of the type is encrypted".to_owned(),
                    "mark encrypted fields with #[entity(encrypt)]",
                ),
            };
            return Err(refused(what).advise(advice));
        }
        let deciding = Deciding::new(&table);
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if let Some(blobs) = blobs.as_ref().filter(|_| !E::BLOBS.is_empty()) {
            let fields = BlobFields::of::<E>(blobs, Inner::<E>::of());
            layers.push(Box::new(fields.sealed_by::<E>(sealer.as_ref())));
        }
        // It closes after the fields in blobs, when the row has the keys of their encrypted contents, and
        // so seals the pointers to the blobs, too.
        if let Some(sealer) = sealer.clone() {
            layers.push(Box::new(Sealed { sealer, names: E::ENCRYPTED }));
        }
        let layers = Layers::new(layers, Wide::of::<E>());
        let announcer = queue.map(|queue| Arc::new(Announcer::new(&queue)));
        Ok(Store {
            inner: Arc::new(Inner {
                table,
                deciding,
                contributors,
                layers,
                sealer,
                added: given,
                announcer,
                manifest: OnceLock::new(),
                blobs,
            }),
        })
    }
}

impl<E> fmt::Debug for StoreBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
