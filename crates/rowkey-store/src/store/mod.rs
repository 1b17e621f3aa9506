//! The store: one handle through which a type is written and read.
//!
//! - this file: [`Store`], and what each write does
//! - `build`: [`StoreBuilder`]
//! - `explain`: plans that are not run
//! - `patch`: single properties
//! - `manifest`: programs of several versions side by side
//! - `list`: reads of all entities that have a value
//! - `query`: many entities, page by page
//! - `read`: reads by key and through an index
//! - `transaction`: [`Transaction`], several entities at a time
//! - `verify`, `delete`, `bulk`, `rewriting`: jobs over many entities
//! - `sweep`: a job over the blobs
//! - `work`: settling what writers left

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use rowkey::table::EncodedRow;
use rowkey::{
    DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Match, Outcome, Properties, Result, Stored,
    Table,
};

use crate::blobs::Blobs;
use crate::deciding::Deciding;
use crate::execute::announce::Announcer;
use crate::execute::rounds::Rounds;
use crate::execute::settle::{Settled, Settler};
use crate::execute::{Executor, Ran};
use crate::job::Report;
use crate::layer::Layers;
use crate::plan::blob_field::{self, BlobFields};
use crate::plan::{Change, Contribution, Contributor, Edit, Op, Plan, ReadRow, Source, Write};
use crate::row::{Closed, Head, HeadRow, Keys, digest, keys_of};
use crate::seal::Sealer;
use crate::together::try_all;
use crate::version::{Version, Versioned};
use crate::wide;

mod build;
mod bulk;
mod clean;
mod delete;
mod explain;
mod list;
mod manifest;
mod patch;
mod query;
mod read;
mod rewriting;
mod settle;
mod sweep;
mod transaction;
mod verify;
mod work;

pub use build::StoreBuilder;
pub use bulk::Group;
pub use delete::Deletions;
pub use explain::Explain;
use manifest::Manifest;
pub use manifest::Stage;
pub use patch::Patch;
pub use query::{Page, Query, Selection};
pub use sweep::Sweeping;
pub use transaction::{Submitted, Transaction};
pub use work::Worked;

/// A store of one type of entity: all that the type declares is kept in step by each write.
///
/// ```
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_store::Store;
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// #[entity(index(name = by_name, row = "name_{name}", many))]
/// #[entity(unique(name = by_email, value = "{email:lower}"))]
/// struct User { tenant: String, id: u32, name: String, email: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
/// users.create_if_missing().await?;
///
/// let ada =
///     User { tenant: "contoso".into(), id: 1, name: "Ada".into(), email: "Ada@contoso.com".into() };
/// users.insert(&ada).await?;
/// let found = users.find(User::by_email("ada@contoso.com")).await?.ok_or("not found")?;
/// assert_eq!(found.entity, ada);
///
/// let other = User { tenant: "fabrikam".into(), id: 2, ..ada.clone() };
/// let taken = users.insert(&other).await.unwrap_err();
/// assert_eq!(taken.index(), Some("by_email"));
///
/// users.update(User::key("contoso", 1), |user| user.name = "Ada L.".into()).await?;
/// # Ok(()) }
/// ```
///
/// A [`Table`] reads such a type and does not write it. This does not compile:
///
/// ```compile_fail
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
/// # struct User { tenant: String, id: u32 }
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
/// let user = User { tenant: "contoso".into(), id: 1 };
/// let _past_the_store = account.table("users").insert(&user);
/// ```
///
/// Cost in requests: a type whose declarations all lie in its partition is written by one transaction,
/// and each of `insert` and `replace_if` is that request alone or with one read. Declarations elsewhere
/// add a message, the op row's deletion, and what their pages say.
pub struct Store<E> {
    inner: Arc<Inner<E>>,
}

struct Inner<E> {
    /// Reads that decide nothing go here.
    table: Table,
    deciding: Deciding,
    contributors: Vec<Box<dyn Contributor<E>>>,
    layers: Layers,
    sealer: Option<Arc<dyn Sealer>>,
    /// How many of them the program gave.
    added: usize,
    announcer: Option<Arc<Announcer>>,
    /// What it acts on if it was opened.
    manifest: OnceLock<Manifest>,
    /// `None` if nothing of the type is kept in blobs.
    blobs: Option<Blobs>,
}

/// A step of a job over rows of the table.
pub type Step =
    Box<dyn Fn(rowkey::Page<DynamicEntity>) -> BoxFuture<'static, Result<Report>> + Send + Sync>;

/// What a write gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The new version of the entity.
    pub version: Version,
    /// Whether everything elsewhere agrees already. What is pending is settled by a worker.
    pub settled: Settled,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Stores a new entity. Without declarations elsewhere one request.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is one with its keys, and if a value is taken;
    /// [`ErrorDetails::index`](rowkey::ErrorDetails::index) then says of which declaration.
    pub async fn insert(&self, entity: &E) -> Result<Written> {
        let keys = keys_of(entity).map_err(|error| self.named("Insert", error))?;
        let written = self.write(&keys, None, Some(entity), &mut self.rounds(&keys)).await;
        written
            .map(|(written, _)| version_of(&written))
            .map_err(|error| self.named("Insert", error))
    }

    /// Writes an entity over one of this version. One read and the write.
    ///
    /// Stored properties that the type does not know, because a newer program or another one wrote them,
    /// stay as they are, in the entity and in its whole copies; so it is with every write of a store over
    /// an entity that is there. A [`Table`](Table::replace) erases them.
    ///
    /// Fails with [`ErrorKind::Conflict`] if the entity has another version or is not there.
    pub async fn replace_if(&self, entity: &E, version: &Version) -> Result<Written> {
        let replace = async {
            let keys = keys_of(entity)?;
            let before = self.read_version(&keys, version).await?;
            let Some(before) = before else { return Err(conflict()) };
            let mut rounds = self.rounds(&keys);
            let written = self.write(&keys, Some(before), Some(entity), &mut rounds).await;
            written.map(|(written, _)| version_of(&written))
        };
        replace.await.map_err(|error| self.named("Replace", error))
    }

    /// Stores an entity, whether or not there is one with its keys. One read and the write.
    pub async fn upsert(&self, entity: &E) -> Result<Written> {
        let upsert = async {
            let keys = keys_of(entity)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let before = self.read_before(&keys).await?;
                let error = match self.write(&keys, before, Some(entity), &mut rounds).await {
                    Ok((written, _)) => return Ok(version_of(&written)),
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        upsert.await.map_err(|error| self.named("Upsert", error))
    }

    /// Reads the entity, changes it and writes it under the version that was read, again and again while
    /// other writers come first. Two requests without declarations elsewhere.
    ///
    /// Properties that the type does not know stay as they are. `change` may run several times. Fails with [`ErrorKind::NotFound`] if there is no entity, and with
    /// [`ErrorKind::Invalid`] if the change alters a part of the key.
    pub async fn update(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) + Send,
    ) -> Result<Versioned<E>> {
        let change = |entity: &mut E| {
            change(entity);
            Ok::<_, std::convert::Infallible>(())
        };
        match self.try_update(key, change).await? {
            Ok(versioned) => Ok(versioned),
            Err(refused) => match refused {},
        }
    }

    /// The same with a change that may refuse: then nothing is written, and its error is the inner one.
    pub async fn try_update<R: Send>(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) -> std::result::Result<(), R> + Send,
    ) -> Result<std::result::Result<Versioned<E>, R>> {
        self.update_whole(key, |entity, _| change(entity)).await
    }

    /// The same with a change of the properties that the type does not know as well.
    async fn update_whole<R: Send>(
        &self,
        key: Key<E>,
        mut change: impl FnMut(&mut E, &mut Properties) -> std::result::Result<(), R> + Send,
    ) -> Result<std::result::Result<Versioned<E>, R>> {
        let update = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let Some(mut before) = self.read(&keys).await? else {
                    return Err(Error::refused(ErrorKind::NotFound, "there is no such entity"));
                };
                let mut after = before.entity.clone();
                if let Err(refused) = change(&mut after, &mut before.head.unknown) {
                    return Ok(Err(refused));
                }
                if keys_of(&after)? != keys {
                    let what = "the change alters a part of the key, and keys cannot change";
                    return Err(Error::refused(ErrorKind::Invalid, what)
                        .advise("delete the entity and insert the other one, in one transaction"));
                }
                let written = self.write(&keys, Some(before), Some(&after), &mut rounds).await;
                let error = match written {
                    Ok((written, _)) => {
                        let version = version_of(&written).version;
                        return Ok(Ok(Versioned { entity: after, version }));
                    }
                    Err(error) => error,
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        update.await.map_err(|error| self.named("Update", error))
    }

    /// Writes the entity as it is, with all that belongs to it: what a declaration brings that was added
    /// since the entity was written, and what another program damaged. Says whether there was one. One
    /// read and the write of everything.
    ///
    /// A unique value is not claimed again; [`repair`](Self::repair) does that.
    pub async fn rewrite(&self, key: Key<E>) -> Result<bool> {
        let rewrite = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let Some(before) = self.read_before(&keys).await? else { return Ok(false) };
                let after = before.entity.clone();
                let rounds_left = &mut rounds;
                let written =
                    self.write_all(&keys, Some(before), Some(&after), true, rounds_left).await;
                let Err(error) = written else { return Ok(true) };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        rewrite.await.map_err(|error| self.named("Rewrite", error))
    }

    /// Deletes the entity with all that belongs to it; says whether there was one. One read and the
    /// write.
    pub async fn delete(&self, key: Key<E>) -> Result<bool> {
        let delete = async {
            let keys = parts(&key)?;
            let mut rounds = self.rounds(&keys);
            loop {
                let Some(before) = self.read_before(&keys).await? else { return Ok(false) };
                let Err(error) = self.write(&keys, Some(before), None, &mut rounds).await else {
                    return Ok(true);
                };
                if !is_race(&error) || !rounds.again().await {
                    return Err(error);
                }
            }
        };
        delete.await.map_err(|error| self.named("Delete", error))
    }

    /// Deletes the entity if it is of this version. One read and the write.
    ///
    /// Fails with [`ErrorKind::Conflict`] if it has another version or is not there.
    pub async fn delete_if(&self, key: Key<E>, version: &Version) -> Result<()> {
        let delete = async {
            let keys = parts(&key)?;
            let before = self.read_version(&keys, version).await?;
            let Some(before) = before else { return Err(conflict()) };
            self.write(&keys, Some(before), None, &mut self.rounds(&keys)).await.map(drop)
        };
        delete.await.map_err(|error| self.named("Delete", error))
    }

    /// A transaction of several entities, of this type and of others in the same table and partition.
    pub fn transaction(&self) -> Transaction<'_, E> {
        Transaction::new(self)
    }

    /// The table of the entities.
    pub fn table(&self) -> &Table {
        &self.inner.table
    }

    fn rounds(&self, keys: &Keys) -> Rounds<'_> {
        Rounds::new(&self.inner.table, keys)
    }

    /// Writes one change: makes its plan and runs it, again while rows that it reads change.
    async fn write(
        &self,
        keys: &Keys,
        before: Option<ReadHead<E>>,
        after: Option<&E>,
        rounds: &mut Rounds<'_>,
    ) -> Result<(OneWritten, Op)> {
        self.write_all(keys, before, after, false, rounds).await
    }

    /// The same; if it `rewrites`, with all that belongs to the entity, not only what changes.
    async fn write_all(
        &self,
        keys: &Keys,
        before: Option<ReadHead<E>>,
        after: Option<&E>,
        rewrites: bool,
        rounds: &mut Rounds<'_>,
    ) -> Result<(OneWritten, Op)> {
        let executor = self.executor();
        loop {
            let op = Op::random(self.inner.deciding.clock().now())?;
            let mut plan = Plan::new(keys.0.clone(), op.clone());
            plan.rewrites = rewrites;
            self.add(&mut plan, keys, before.as_ref(), after).await?;
            // Boxed, so that the futures of programs that write stay small.
            match Box::pin(executor.run(plan)).await? {
                Ran::Done { etags, settled } => {
                    let etag = etags.into_iter().next().flatten();
                    return Ok((OneWritten { etag, settled, mark: op.mark().to_owned() }, op));
                }
                Ran::Stale(error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Adds a change of one entity to a plan, with all that it brings with it.
    async fn add(
        &self,
        plan: &mut Plan,
        keys: &Keys,
        before: Option<&ReadHead<E>>,
        after: Option<&E>,
    ) -> Result<()> {
        self.inner.check_writer().await?;
        let op = plan.op.clone();
        let layers = &self.inner.layers;
        let unknown = match (before, after) {
            (Some(before), Some(after)) => before.unknown.clone().beside(after),
            _ => Properties::new(),
        };
        let closed = match after {
            Some(entity) => {
                let (table, stored) =
                    (self.inner.deciding.table(), before.and_then(ReadHead::closed));
                layers.close(table, plan, stored, (entity, &unknown)).await?
            }
            None => None,
        };
        let change = Change {
            before: before.map(|head| &head.entity),
            after,
            keys,
            op: &op,
            // An entity of an older version is written with all that belongs to it now.
            rewrites: plan.rewrites || before.is_some_and(|head| head.older.is_some()),
            // Without a mark another program may have written the entity, and it has no copies.
            reads_copies: before
                .is_some_and(|head| plan.rewrites || head.mark.is_none() || head.older.is_some()),
            unknown: &unknown,
            closed: closed.as_ref(),
            older: before.and_then(|head| head.older.as_ref()),
        };
        let row = after.map(|entity| {
            let content = change.content(entity);
            EncodedRow::of(&HeadRow { keys, content, mark: op.mark() })
        });
        let write = match (before, row.transpose()?) {
            (None, None) => return Ok(()),
            (None, Some(row)) => Write::Insert(row),
            (Some(before), Some(row)) => Write::Replace(row, Match::ETag(before.etag.clone())),
            (Some(before), None) => Write::Delete(Match::ETag(before.etag.clone())),
        };
        plan.push(Edit { row_key: keys.1.clone(), write, source: Source::Head })?;
        wide::add(plan, keys, before.and_then(ReadHead::closed), closed.as_ref())?;
        for contributor in &self.inner.contributors {
            self.contribute(plan, &**contributor, change).await?;
        }
        // Blobs go last, when nothing that is settled needs them any more.
        let stored = before.and_then(ReadHead::closed);
        for blob in BlobFields::freed(E::BLOBS, stored, closed.as_ref()) {
            let (contributor, of) = (blob_field::NAME, Inner::<E>::of());
            Contribution { plan, contributor, of, row_key: &keys.1, layers }.target(blob);
        }
        Ok(())
    }

    /// Adds what one contributor brings with a change.
    async fn contribute(
        &self,
        plan: &mut Plan,
        contributor: &dyn Contributor<E>,
        change: Change<'_, E>,
    ) -> Result<()> {
        let keys = change.keys;
        let reads: BTreeSet<_> = contributor.reads(change)?.into_iter().collect();
        let reads = reads.into_iter().filter(|row_key| !plan.rows.contains_key(row_key));
        let reads = reads.map(|row_key| async move {
            let stored = self.inner.deciding.row(&(keys.0.clone(), row_key.clone())).await?;
            let before = stored.map(|stored| (stored.entity, stored.etag));
            let after = before.as_ref().map(|(row, _)| row.clone());
            Ok::<_, Error>((row_key, ReadRow { before, after }))
        });
        let read = try_all(reads, usize::MAX).await?;
        plan.rows.extend(read);
        let name = contributor.name();
        let mut contribution = Contribution {
            plan,
            contributor: name,
            of: Inner::<E>::of(),
            row_key: &keys.1,
            layers: &self.inner.layers,
        };
        contributor
            .contribute(change, &mut contribution)
            .map_err(|error| error.during(name.to_owned()))
    }

    /// Reads the head on the primary, as what is written over: fields in blobs are not read, unless a
    /// contributor of the program may look at them.
    async fn read_before(&self, keys: &Keys) -> Result<Option<ReadHead<E>>> {
        let read = self.inner.deciding.head(&self.inner.deciding_layers(), keys).await?;
        Ok(read.map(ReadHead::of))
    }

    /// Reads the head on the primary.
    async fn read(&self, keys: &Keys) -> Result<Option<ReadHead<E>>> {
        let read = self.inner.deciding.head(&self.inner.layers, keys).await?;
        Ok(read.map(ReadHead::of))
    }

    /// Reads the head on the primary; `None` if it is not of this version.
    async fn read_version(&self, keys: &Keys, version: &Version) -> Result<Option<ReadHead<E>>> {
        let Inner { deciding, .. } = &*self.inner;
        if !version.has_digest() {
            let head = self.read_before(keys).await?;
            return Ok(head.filter(|head| version.is(&head.etag, head.mark.as_deref(), None)));
        }
        let Some(stored) = deciding.row(keys).await? else { return Ok(None) };
        let digest = digest(&stored.entity);
        let layers = self.inner.deciding_layers();
        let head = layers.open(deciding.table(), stored).await?.map(ReadHead::of);
        Ok(head.filter(|head| version.is(&head.etag, head.mark.as_deref(), Some(digest))))
    }

    fn executor(&self) -> Executor {
        Executor {
            table: self.inner.deciding.clone(),
            announcer: self.inner.announcer.clone(),
            settlers: vec![Arc::clone(&self.inner) as Arc<dyn Settler>],
        }
    }

    #[cold]
    fn named(&self, operation: &'static str, error: Error) -> Error {
        error.of(operation, self.inner.table.name())
    }
}

/// What a write of one entity gave.
struct OneWritten {
    etag: Option<ETag>,
    mark: String,
    settled: Settled,
}

fn version_of(written: &OneWritten) -> Written {
    let version = match &written.etag {
        Some(etag) => Version::of_head(etag),
        // The answer was lost; the mark tells as much.
        None => Version::of_mark(&written.mark),
    };
    Written { version, settled: written.settled }
}

/// A head that was read to be written.
struct ReadHead<E> {
    head: Head<E>,
    etag: ETag,
}

impl<E> Deref for ReadHead<E> {
    type Target = Head<E>;

    fn deref(&self) -> &Head<E> {
        &self.head
    }
}

impl<E> ReadHead<E> {
    fn of(stored: Stored<Head<E>>) -> Self {
        Self { head: stored.entity, etag: stored.etag }
    }

    fn closed(&self) -> Option<&Closed> {
        self.head.closed.as_ref()
    }
}

fn parts<E>(key: &Key<E>) -> Result<Keys> {
    let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
    Ok((partition_key.to_owned(), row_key.to_owned()))
}

fn conflict() -> Error {
    let what = "it was changed or deleted since it was read";
    Error::refused(ErrorKind::Conflict, what).advise("read it again")
}

/// Whether another writer came first, so that reading and writing again may succeed.
fn is_race(error: &Error) -> bool {
    error.outcome() != Outcome::Unknown
        && error.details().index.is_none()
        && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict)
}

impl<E> Clone for Store<E> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<E> fmt::Debug for Store<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("table", &self.inner.table.name()).finish_non_exhaustive()
    }
}
