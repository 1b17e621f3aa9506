//! Building a store: checks the requirements of its declarations before anything is sent.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use rowkey_client::{Container, Entity, Queue, Result, Table};

use super::{Inner, Store};
use crate::declarations::{self, Means};
use crate::declaring::{Declaration, StoredType};
use crate::execute::announce::Announcer;
use crate::execute::settler::TypeSettler;
use crate::layer::blob_field::BlobFields;
use crate::layer::deciding::Deciding;
use crate::layer::place::OtherTables;
use crate::layer::seal::{Sealed, Sealer};
use crate::layer::wide::Wide;
use crate::layer::{Layer, Layers};
use crate::plan::MAX_OPERATIONS;
use crate::row::blobs::Blobs;
use crate::row::declared::{
    Given, check_container, check_names, check_queue_and_keys, prefix, refused,
};

/// Builds a [`Store`]; from [`Store::builder`].
///
/// ```
/// # use rowkey::store::Store;
/// # use rowkey::{Entity, StorageAccount};
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
    /// Tables by the names of indexes and lists.
    tables: Vec<(String, Table)>,
    sealer: Option<Arc<dyn Sealer>>,
    declarations: Vec<Box<dyn Declaration<E>>>,
    reads_copies: bool,
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
            tables: Vec::new(),
            sealer: None,
            declarations: Vec::new(),
            reads_copies: false,
            entity: PhantomData,
        }
    }

    /// Creates everything that the store writes to, if it does not exist: the table, those of declarations with
    /// `table = ".."`, the queue and the container, and what its declarations write to, such as the table of a
    /// [`View`](crate::View) and the queue of tasks with its dead letters. One request each.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.inner.table.create_if_missing().await?;
        let mut created: Vec<&Table> = Vec::new();
        for other in self.inner.tables.iter() {
            if !created.iter().any(|table| table.is_same_table(other.table())) {
                let missing = other.table().create_if_missing().await;
                missing.map_err(|error| other.named(error))?;
                created.push(other.table());
            }
        }
        if let Some(announcer) = &self.inner.announcer {
            let queue =
                announcer.queue().with_options(self.inner.table.account().options().clone());
            queue.create_if_missing().await?;
        }
        if let Some(blobs) = &self.inner.blobs {
            blobs.deciding().create_if_missing().await?;
        }
        for declaration in &self.inner.declarations {
            declaration.create_if_missing().await?;
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

    /// Sets the container for fields with `blob`, values and references, and for `list(.., blob)`. Several stores may
    /// share one: the names of a store's blobs begin with the name of its table.
    pub fn blobs(mut self, container: Container) -> Self {
        self.container = Some(container);
        self
    }

    /// Sets the table of an index or a list that is declared with `table = ".."`: a table in another account, one with
    /// other client options, or one of another name. Without it, the rows are in the table of the declared name in the
    /// account of the entities.
    ///
    /// The table must not be that of the entities, nor have rows of the same declaration of another store: the keys
    /// of a row do not name the table of its entity. All programs that write the entities must be given the same
    /// table. A write does not fail while the account of the table is unavailable; a worker settles it
    /// ([`Written::settled`](crate::Written::settled)).
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(index(name = by_customer, table = "customers", partition = "{customer}", row = "{tenant}_{id:6}"))]
    /// struct Order { tenant: String, id: u32, customer: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let key = "Zm9vYmFyYmF6";
    /// # let server = rowkey_emulator::Server::builder().account("current", [key]).account("archive", [key]).start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let text = server.connection_string().replace(account.name(), "archive");
    /// # let archive = StorageAccount::from_connection_string(&text)?;
    /// let orders = Store::<Order>::builder(account.table("orders"))
    ///     .queue(account.queue("orders"))
    ///     .index_table("by_customer", archive.table("customers"))
    ///     .build()?;
    /// orders.create_if_missing().await?;
    /// orders.insert(&Order { tenant: "contoso".into(), id: 1, customer: "ada".into() }).await?;
    /// assert!(orders.find(Order::by_customer("ada", "contoso", 1)).await?.is_some());
    /// let stored = orders.index_table("by_customer").ok_or("no such index")?;
    /// assert_eq!(stored.account().name(), "archive");
    /// # Ok(()) }
    /// ```
    ///
    /// [`build`](Self::build) fails if the type has no index or list of this name, or if it is not declared with
    /// `table = ".."`.
    pub fn index_table(mut self, name: &str, table: Table) -> Self {
        self.tables.push((name.to_owned(), table));
        self
    }

    /// Sets the keys of the fields that are marked `#[entity(encrypt)]`, such as a
    /// `rowkey::encryption::KeyRing`. Every write encrypts these fields before they are sent, and every
    /// read decrypts them.
    pub fn keys(mut self, ring: impl Sealer + 'static) -> Self {
        self.sealer = Some(Arc::new(ring));
        self
    }

    /// Reads every copy in the entity's partition before it is replaced or deleted, and leaves rows of other
    /// programs alone: a write that would replace one fails, and names the index.
    ///
    /// Without this, the store replaces the copies of an entity that it wrote without reading them, and a row
    /// with which another program overwrote a copy is lost. Costs one read for each copy that a write
    /// replaces or deletes. Use it if other programs write to the partitions of the entities.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{DynamicEntity, Entity, ErrorKind, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # #[entity(index(name = by_desk, row = "desk_{desk}"))]
    /// # struct Order { tenant: String, id: u32, desk: String, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = Store::<Order>::builder(account.table("orders")).reads_copies().build()?;
    /// # orders.create_if_missing().await?;
    /// # orders.insert(&Order { tenant: "contoso".into(), id: 1, desk: "a".into(), cents: 5 }).await?;
    /// // Another program overwrites the copy at this desk.
    /// orders.table().upsert(&DynamicEntity::new("contoso", "desk_a")).await?;
    ///
    /// let update = orders.update(Order::key("contoso", 1), |order| order.cents = 7);
    /// let refused = update.await.unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    /// assert_eq!(refused.details().index, Some("by_desk"));
    /// # Ok(()) }
    /// ```
    pub fn reads_copies(mut self) -> Self {
        self.reads_copies = true;
        self
    }

    /// Adds a declaration of the program to those of the type. If it names targets, it
    /// [requires a queue](Declaration::needs_queue).
    pub fn with(mut self, declaration: impl Declaration<E> + 'static) -> Self {
        self.declarations.push(Box::new(declaration));
        self
    }

    /// Builds the store. Sends nothing. [`Store::open`] reads the declarations of programs of other versions.
    ///
    /// Fails with [`ErrorKind::Invalid`](rowkey_client::ErrorKind::Invalid) if a declaration lacks something that
    /// it requires (a queue, a container, keys, a table of its own), if two declarations have the same name, if one
    /// change could have more than 100 operations, or if copies lead back to entities of this type.
    pub fn build(self) -> Result<Store<E>> {
        let Self { table, queue, container, sealer, reads_copies, .. } = self;
        let added = self.declarations;
        let refused = |what: String| refused(what, table.name());
        let stopped = sealer.as_ref().map(|sealer| sealer.stopped());
        let blobs = container.map(|container| Blobs::new(container, table.name()));
        let tables = OtherTables::of(&E::DECLARED, &table, &self.tables, &refused)?;
        let of = prefix::<E>();
        let means = Means { of, blobs: blobs.as_ref(), tables: &tables };
        let mut declarations = declarations::all::<E>(means);
        check_container(&E::DECLARED, blobs.is_some(), &refused)?;
        let own = StoredType::of(&table, of);
        for declaration in &added {
            let written = declaration.writes().map_err(|error| error.of("Store", table.name()))?;
            if written.contains(&own) {
                let what = format!(
                    "`{}` copies into entities of the store's own type",
                    declaration.name()
                );
                return Err(refused(what).advise(
                    "copy into another type: copies that lead back to their source would write it again and again",
                ));
            }
        }
        let given_declarations = added.len();
        declarations.extend(added);
        let mut names = declarations::NAMES.to_vec();
        // The rows of the entity and the op row.
        let mut most = E::DECLARED.wide.rows + 1;
        for declaration in &declarations {
            most += declaration.operations();
        }
        let others = declarations.iter().map(|one| one.name());
        let declared = declarations.len() - given_declarations;
        // Those of the type have the reserved names, each once.
        names.extend(others.enumerate().filter_map(|(at, name)| {
            (at >= declared || !declarations::NAMES.contains(&name)).then_some(name)
        }));
        // A declaration with a table has the name of both.
        for other in tables.iter() {
            names.push(other.declaration());
        }
        check_names(&names, &refused)?;
        if most > MAX_OPERATIONS {
            let what = format!(
                "a change of one entity may have {most} operations; a transaction has at most \
                 {MAX_OPERATIONS}"
            );
            return Err(refused(what)
                .advise("declare fewer indexes, or move some to partitions of their own"));
        }
        let settles = declarations[declared..].iter().find(|one| one.needs_queue());
        let settles = settles.map(|one| one.name());
        let given = Given { queue: queue.is_some(), stopped, settles };
        check_queue_and_keys(&E::DECLARED, given, &refused)?;
        let deciding = Deciding::new(&table);
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if let (Some(blobs), false) = (&blobs, E::DECLARED.blobs.is_empty()) {
            let fields = BlobFields::of::<E>(blobs, of);
            layers.push(Box::new(fields.sealed_by::<E>(sealer.as_ref())));
        }
        // It closes after the fields in blobs, when the row has the keys of their encrypted contents, and
        // so seals the pointers to the blobs, too.
        if let Some(sealer) = sealer.clone() {
            layers.push(Box::new(Sealed::of::<E>(sealer)));
        }
        let layers = Layers::new(layers, Wide::of::<E>());
        let announcer = queue.map(|queue| Arc::new(Announcer::new(&queue)));
        Ok(Store {
            inner: Arc::new(Inner {
                table,
                of_type: Arc::new(TypeSettler {
                    deciding,
                    announcer,
                    declarations,
                    added: given_declarations,
                    layers,
                }),
                sealer,
                reads_copies,
                manifest: OnceLock::new(),
                blobs,
                tables,
            }),
        })
    }
}

impl<E> fmt::Debug for StoreBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
