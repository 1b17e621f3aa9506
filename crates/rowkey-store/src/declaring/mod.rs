//! The trait of declarations, through which types and programs add to a write plan.

use async_trait::async_trait;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::entity::Older;
use rowkey_client::internals::shown;
use rowkey_client::{
    DynamicEntity, Entity, Error, ErrorKind, Key, Properties, Result, Table, table::EncodedRow,
};
use rowkey_patterns::job::Verdict;

use crate::layer::{Layers, old_keys};
use crate::plan::inline::{Effect, Inline};
use crate::plan::{Edit, Plan, Source, Write};
use crate::row::op::{Op, Target};
use crate::row::{Closed, Content, Keys, index_keys, not_of_a_store};

pub(crate) mod settling;

use settling::{Settled, Settling};

/// A change of one entity: its state before and after the write.
///
/// An insert has no `before`, a deletion has no `after`.
pub struct Change<'a, E> {
    /// The entity as it was read on the primary. With a type that expires, it may be an expired entity that
    /// another one replaces; see [`to_readers`](Self::to_readers).
    pub before: Option<&'a E>,
    /// The entity as it will be written.
    pub after: Option<&'a E>,
    pub(crate) keys: &'a Keys,
    pub(crate) op: &'a Op,
    pub(crate) rewrites: bool,
    /// Whether `before` had expired, and `after` is another entity that takes its place.
    pub(crate) is_over_expired: bool,
    /// Whether the rows at the keys of the entity's copies may belong to another program, so that
    /// they must be read.
    pub(crate) reads_copies: bool,
    /// The mark of `before`.
    pub(crate) mark: Option<&'a str>,
    /// `before` as it is stored, if the type has layers.
    pub(crate) stored: Option<&'a Closed>,
    /// Properties unknown to the type, written together with `after`.
    pub(crate) unknown: &'a Properties,
    /// `after` as the layers closed it.
    pub(crate) closed: Option<&'a Closed>,
    /// The rows left by an older version of the type, if one wrote `before`.
    pub(crate) older: Option<&'a Older>,
}

impl<E> std::fmt::Debug for Change<'_, E> {
    /// Shows neither keys nor entities.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change")
            .field("has_before", &self.before.is_some())
            .field("has_after", &self.after.is_some())
            .field("op", self.op)
            .finish_non_exhaustive()
    }
}

impl<E> Clone for Change<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Change<'_, E> {}

impl<'a, E: Entity> Change<'a, E> {
    /// Returns the content of `after` to write.
    pub(crate) fn content(&self, after: &'a E) -> Content<'a, E> {
        Content::of(after, self.unknown, self.closed)
    }

    /// Returns the keys of the entity's present row in the index at `position`. Invalid keys count
    /// as no row, because such a row was never written.
    pub(crate) fn old_keys(&self, position: usize) -> Option<Keys> {
        match self.older {
            Some(older) => old_keys(older, &E::DECLARED.indexes[position]),
            None => self.before.and_then(|entity| index_keys(entity, position).ok().flatten()),
        }
    }
}

impl<'a, E> Change<'a, E> {
    /// The PartitionKey of the entity.
    pub fn partition_key(&self) -> &'a str {
        &self.keys.0
    }

    /// The RowKey of the entity.
    pub fn row_key(&self) -> &'a str {
        &self.keys.1
    }

    /// Whether all rows of the entity are written again, including those that the change does not alter,
    /// as [`Store::rewrite`](crate::Store::rewrite) and repairs do.
    pub fn is_rewrite(&self) -> bool {
        self.rewrites
    }

    /// The change as readers see it: without `before` if that entity had expired and another one takes its place,
    /// which is then an insert, as if a job had removed the expired entity first.
    ///
    /// Rows that count or copy entities need both states, because they still have the expired one.
    ///
    /// ```
    /// use rowkey::store::Change;
    ///
    /// /// Whether a reader finds one entity more after the change.
    /// fn adds<E>(change: Change<'_, E>) -> bool {
    ///     let change = change.to_readers();
    ///     change.before.is_none() && change.after.is_some()
    /// }
    /// ```
    #[must_use]
    pub fn to_readers(mut self) -> Self {
        if self.is_over_expired {
            self.before = None;
        }
        self
    }

    /// The operation: its mark and its time, which stay the same when the plan is made again.
    pub fn op(&self) -> &'a Op {
        self.op
    }
}

/// An addition to each write of an `E`: rows in the entity's partition, or changes in other places.
///
/// The indexes, unique values, lists and blobs of a type, which its derive is told with attributes, are declarations.
/// A program adds others with [`StoreBuilder::with`](crate::StoreBuilder::with): those of this library, such as
/// [`View`](crate::View), and its own.
///
/// All methods except [`create_if_missing`](Self::create_if_missing), [`settle`](Self::settle),
/// [`verify`](Self::verify) and [`examine_total`](Self::examine_total) are pure. They are called
/// again whenever the plan is made again because a row that it read has changed. Rows are written in
/// the transaction of the entity. Targets are settled after the commit, by the same call, by a worker,
/// or by both.
///
/// Implementations with one of these four methods have the attribute [`async_trait`](rowkey_client::async_trait).
///
/// Limit: the [`operations`](Self::operations) of all declarations, those of the entity and the op row
/// are at most 100 together.
///
/// ```
/// # use rowkey::store::Store;
/// # use rowkey::{DynamicEntity, Entity, Key, Result, StorageAccount};
/// use rowkey::store::{Change, Contribution, Declaration};
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{team}", row = "task_{id:4}")]
/// struct Task { team: String, id: u32 }
///
/// /// Counts the tasks of each team in a row of its partition.
/// struct Counter;
///
/// impl Declaration<Task> for Counter {
///     fn name(&self) -> &str {
///         "counter"
///     }
///
///     fn operations(&self) -> usize {
///         1
///     }
///
///     fn reads(&self, _: Change<'_, Task>) -> Result<Vec<String>> {
///         Ok(vec!["counter".into()])
///     }
///
///     fn contribute(&self, change: Change<'_, Task>, plan: &mut Contribution<'_>) -> Result<()> {
///         let more = i64::from(change.after.is_some()) - i64::from(change.before.is_some());
///         plan.edit("counter", |row| {
///             let new = || DynamicEntity::new(change.partition_key(), "counter");
///             let counter = row.get_or_insert_with(new);
///             let count: i64 = counter.get_as("Count").unwrap_or(0);
///             counter.set("Count", count + more);
///             Ok(())
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let tasks = Store::<Task>::builder(account.table("tasks")).with(Counter).build()?;
/// # tasks.create_if_missing().await?;
/// for id in 0..3 {
///     tasks.insert(&Task { team: "core".into(), id }).await?;
/// }
/// tasks.delete(Task::key("core", 1)).await?;
/// let counter = tasks.table().get(Key::<DynamicEntity>::new("core", "counter")).await?;
/// assert_eq!(counter.ok_or("no counter")?.entity.get_as::<i64>("Count")?, 2);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Declaration<E>: Send + Sync {
    /// The name of the declaration. Targets are stored under it, so do not change it while any are
    /// pending.
    fn name(&self) -> &str;

    /// The most operations that it adds to the transaction of one entity.
    fn operations(&self) -> usize;

    /// The RowKeys of the rows in the entity's partition that it edits. They are read together on
    /// the primary before [`contribute`](Self::contribute) is called.
    fn reads(&self, change: Change<'_, E>) -> Result<Vec<String>> {
        let _ = change;
        Ok(Vec::new())
    }

    /// Adds rows and targets for the change. An error refuses the write before anything is sent.
    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()>;

    /// Whether it [names targets](Contribution::target), which need the queue of the store. Default: `false`.
    ///
    /// [`StoreBuilder::build`](crate::StoreBuilder::build) then fails without a queue. If this is wrong and the store has
    /// no queue, a write that names a target is refused before anything is sent.
    fn needs_queue(&self) -> bool {
        false
    }

    /// Creates what it writes to besides the table of the store, such as the table of a view or the queue of tasks,
    /// if it does not exist. [`Store::create_if_missing`](crate::Store::create_if_missing) calls it. Default: nothing.
    async fn create_if_missing(&self) -> Result<()> {
        Ok(())
    }

    /// Refuses a target of [`Transaction::target`](crate::Transaction::target) that could never be
    /// settled, before anything is sent.
    fn check(&self, address: &str) -> Result<()> {
        let _ = address;
        Ok(())
    }

    /// Whether a settled target is never settled again. Default: `false`.
    ///
    /// If a request of the write was not answered, targets are settled once more when it can no
    /// longer take effect. This is right for rows, which a late request may have changed, but would
    /// send a message twice.
    fn settles_once(&self) -> bool {
        false
    }

    /// The requests that [`settle`](Self::settle) sends for one target without failures and competing writers, for
    /// [explanations](crate::Explanation::usage). Default: reads of the target and of the entity, and one transaction.
    ///
    /// Leave out the read of the entity at the end, which the store sends once for all targets of an entity: it is added
    /// if this has a write and the declaration does not [settle once](Self::settles_once).
    ///
    /// ```
    /// use rowkey::cost::{Class, Usage};
    /// # use rowkey::store::{Change, Contribution, Declaration};
    /// # use rowkey::Result;
    ///
    /// /// Puts a message for each change.
    /// struct Announce;
    ///
    /// impl<E> Declaration<E> for Announce {
    /// #     fn name(&self) -> &str { "announce" }
    /// #     fn operations(&self) -> usize { 0 }
    /// #     fn contribute(&self, _: Change<'_, E>, _: &mut Contribution<'_>) -> Result<()> { Ok(()) }
    ///     fn settling_usage(&self, _: &str) -> Usage {
    ///         Usage::of(Class::QueueClass1, 1)
    ///     }
    ///     // .. and the other methods
    /// }
    /// # assert_eq!(Declaration::<rowkey::DynamicEntity>::settling_usage(&Announce, "").requests(), 1);
    /// ```
    fn settling_usage(&self, address: &str) -> Usage {
        let _ = address;
        Usage::of(Class::TableRead, 2) + Usage::of(Class::TableBatchWrite, 1)
    }

    /// Makes one target agree with the present state of the entity. Only called for targets that
    /// [`contribute`](Self::contribute) named.
    ///
    /// It may be called late, twice, and concurrently. Read the target first, then the entity with
    /// [`Settling::entity`], then write the target on condition that it is unchanged. In this order a
    /// late call finds the target changed, and its write is refused.
    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        let _ = (settling, address);
        let what = format!("`{}` names a target but does not implement `settle`", self.name());
        Err(Error::refused(ErrorKind::Unexpected, what))
    }

    /// Checks whether one target agrees with the entity, without writing anything. Used by
    /// [`Store::verify`](crate::Store::verify) and [`Store::repair`](crate::Store::repair), which settles
    /// targets that do not agree. Without this method each target counts as right.
    ///
    /// Edited rows need no method: they are stale if a rewrite of the unchanged entity would change them.
    async fn verify(&self, settling: &Settling<E>, address: &str) -> Result<Verdict> {
        let _ = (settling, address);
        Ok(Verdict::Right)
    }

    /// Checks a target that is a total of several entities, such as the sums of a group, and corrects it if
    /// `repairs` is set. Used by [`Store::verify`](crate::Store::verify) and
    /// [`Store::repair`](crate::Store::repair), once per run for each target.
    ///
    /// Returns [`Verdict::Skipped`] if writers changed the target each time. Without this method each target
    /// counts as right.
    async fn examine_total(&self, address: &str, repairs: bool) -> Result<Verdict> {
        let _ = (address, repairs);
        Ok(Verdict::Right)
    }

    /// Returns the target whose total a row is; `None` for other rows.
    fn total_of(&self, row: &DynamicEntity) -> Option<String> {
        let _ = row;
        None
    }

    /// Whether the target `named`, which an entity names, includes the target `address` of a row. They are equal,
    /// unless a target is many rows.
    #[doc(hidden)]
    fn includes(&self, named: &str, address: &str) -> bool {
        named == address
    }

    /// Returns the types that it writes through their stores, and an error if it cannot be used.
    #[doc(hidden)]
    fn writes(&self) -> Result<Vec<StoredType>> {
        Ok(Vec::new())
    }

    /// Returns the entity and the target that a row in another place belongs to; `None` for rows of other
    /// origin. A row is orphaned if its entity does not name the target.
    fn target_of(&self, row: &DynamicEntity) -> Option<(Key<E>, String)> {
        let _ = row;
        None
    }
}

/// A type that is written through a store: its table with the account, and the beginning of its RowKeys.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredType(String, &'static str);

impl StoredType {
    /// The type whose RowKeys in `table` begin with `of`.
    pub(crate) fn of(table: &Table, of: &'static str) -> Self {
        Self(format!("{}/{}", table.account().name(), table.name()), of)
    }
}

/// The additions of one declaration to a plan.
pub struct Contribution<'p> {
    pub(crate) plan: &'p mut Plan,
    pub(crate) declaration: &'p str,
    /// The type of the entity, as the prefix of its RowKeys.
    pub(crate) of: &'static str,
    pub(crate) row_key: &'p str,
    pub(crate) layers: &'p Layers,
}

impl Contribution<'_> {
    /// Inserts a row in the entity's partition. If a row with its keys exists, the write fails with
    /// [`ErrorKind::AlreadyExists`].
    pub fn insert<R: Entity>(&mut self, row: &R) -> Result<()> {
        const { not_of_a_store::<R>() };
        let row = EncodedRow::of(row)?;
        let (partition_key, row_key) = row.keys();
        if partition_key != self.plan.partition_key {
            let what = format!("`{}` adds a row in another partition", self.declaration);
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("name it as a target, and write it when that is settled"));
        }
        let row_key = row_key.to_owned();
        self.plan.push(Edit { row_key, write: Write::Insert(row), source: Source::Note })
    }

    /// Edits a row that [`Declaration::reads`] named. `None` means that the row does not exist; setting
    /// `None` deletes it. Several edits of one row are applied in order and written once, on condition
    /// that the row is unchanged since it was read.
    pub fn edit(
        &mut self,
        row_key: &str,
        edit: impl FnOnce(&mut Option<DynamicEntity>) -> Result<()>,
    ) -> Result<()> {
        let Some(row) = self.plan.rows.get_mut(row_key) else {
            let what = format!("`{}` edits a row that it did not read", self.declaration);
            return Err(Error::refused(ErrorKind::Unexpected, what)
                .advise("name the row in `Declaration::reads`"));
        };
        edit(&mut row.after)?;
        let has_its_keys = row.after.as_ref().is_none_or(|row| {
            row.row_key == row_key && row.partition_key == self.plan.partition_key
        });
        if !has_its_keys {
            let what = format!("`{}` changes the keys of a row that it edits", self.declaration);
            return Err(Error::refused(ErrorKind::Unexpected, what)
                .advise("keep the keys of the row that `Declaration::reads` named"));
        }
        Ok(())
    }

    /// Names a target: something in another place that must agree with the entity after the commit.
    /// Targets are settled in the order in which they are named; a target that is named twice is settled
    /// once.
    ///
    /// ```
    /// # use rowkey::store::{Contribution, Declaration, Store};
    /// # use rowkey::{DynamicEntity, Entity, Key, Result, StorageAccount, Table};
    /// use rowkey::async_trait;
    /// use rowkey::store::{Change, Settled, Settling};
    ///
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{team}", row = "task_{id:4}")]
    /// # struct Task { team: String, id: u32 }
    /// /// Keeps a row in another table while a task exists.
    /// struct Mirror(Table);
    ///
    /// #[async_trait]
    /// impl Declaration<Task> for Mirror {
    /// #     fn name(&self) -> &str { "mirror" }
    /// #     fn operations(&self) -> usize { 0 }
    ///     fn needs_queue(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn contribute(&self, change: Change<'_, Task>, plan: &mut Contribution<'_>) -> Result<()> {
    ///         plan.target(change.row_key());
    ///         Ok(())
    ///     }
    ///
    ///     async fn settle(&self, settling: &Settling<Task>, address: &str) -> Result<Settled> {
    ///         let key = || Key::<DynamicEntity>::new("tasks", address);
    ///         let target = self.0.get(key()).await?;
    ///         match (settling.entity().await?, target) {
    ///             (Some(_), None) => {
    ///                 let row = DynamicEntity::new("tasks", address);
    ///                 settling.wrote(self.0.insert(&row).await)
    ///             }
    ///             (None, Some(row)) => settling.wrote(self.0.delete(key(), row.etag).await),
    ///             _ => Ok(Settled::Done),
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let mirror = account.table("mirror");
    /// # mirror.create().await?;
    /// let tasks = Store::<Task>::builder(account.table("tasks"))
    ///     .queue(account.queue("tasks"))
    ///     .with(Mirror(mirror.clone()))
    ///     .build()?;
    /// # tasks.create_if_missing().await?;
    /// tasks.insert(&Task { team: "core".into(), id: 1 }).await?;
    /// assert!(mirror.get(Key::<DynamicEntity>::new("tasks", "task_0001")).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn target(&mut self, address: impl Into<String>) {
        let target = self.named(address.into());
        self.plan.target(target);
    }

    /// Names a target that the writer itself settles, unless another writer comes first.
    pub(crate) fn target_inline(&mut self, address: String, effect: Effect) {
        let target = self.named(address);
        self.plan.target(target.clone());
        self.plan.inline.push(Inline { target, effect });
    }

    fn named(&self, address: String) -> Target {
        Target {
            row_key: self.row_key.to_owned(),
            of: self.of.to_owned(),
            declaration: self.declaration.to_owned(),
            address,
        }
    }
}

shown!([] Contribution<'_>: declaration);
