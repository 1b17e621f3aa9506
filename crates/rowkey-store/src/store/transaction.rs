//! Transactions of a store: atomic changes of several entities with all their rows.

use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey::rounds::Rounds;
use rowkey::table::EncodedRow;
use rowkey::{ETag, Entity, Error, ErrorKind, Key, Result};

use super::{Inner, ReadHead, Store, parts};
use crate::deciding::Deciding;
use crate::execute::settle::{Settled, Settler};
use crate::execute::{Executor, Ran};
use crate::if_match::IfMatch;
use crate::plan::{Edit, Explanation, Op, Plan, Source, Target, Write};
use crate::row::{Keys, keys_of, not_of_a_store};
use crate::version::Version;

/// A transaction that is being built, from [`Store::transaction`].
///
/// All entities must be in one partition of one table. With all their rows they may have at most 100
/// operations in 4 MiB. If one entity gives up a value in an index of the partition, another may take it in
/// the same transaction. A unique value that one entity gives up is free only after the commit, so no other
/// entity of the same transaction can take it.
///
/// ```
/// # use rowkey::{Entity, StorageAccount};
/// # use rowkey_store::Store;
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{bank}", row = "account_{id:6}")]
/// struct Account { bank: String, id: u32, cents: i64 }
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{bank}", row = "transfer_{number:6}")]
/// struct Transfer { bank: String, number: u32, cents: i64 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let accounts = Store::<Account>::builder(account.table("accounts")).build()?;
/// # accounts.create_if_missing().await?;
/// # let holder = |id, cents| Account { bank: "north".into(), id, cents };
/// let (from, to) = (holder(1, 500), holder(2, 0));
/// let opened = accounts.transaction().insert(&from).insert(&to).submit().await?;
///
/// let (paid, received) = (holder(1, 200), holder(2, 300));
/// let [Some(of_from), Some(of_to)] = &opened.versions[..] else { panic!("two were inserted") };
/// let transfer = accounts
///     .transaction()
///     .replace_if(&paid, of_from.clone())
///     .replace_if(&received, of_to.clone())
///     .row(&Transfer { bank: "north".into(), number: 1, cents: 300 });
/// println!("{}", transfer.explain().await?);
/// let closes = transfer.submit().await?.versions[0].clone().ok_or("it is replaced")?;
///
/// accounts.transaction().delete_if(&Account::key("north", 1), closes).submit().await?;
/// assert!(!accounts.exists(Account::key("north", 1)).await?);
/// # Ok(()) }
/// ```
#[must_use = "a transaction does nothing until `submit`"]
pub struct Transaction<'t, E> {
    store: &'t Store<E>,
    steps: Vec<Step<'t>>,
    /// The contributor and the address of each target.
    targets: Vec<(String, Result<String>)>,
    settlers: Vec<Arc<dyn Settler>>,
}

/// A step of the transaction: adds its part to a plan.
type Add<'t> = Box<dyn for<'p> Fn(&'p mut Plan) -> BoxFuture<'p, Result<()>> + Send + Sync + 't>;

struct Step<'t> {
    partition_key: Result<String>,
    add: Add<'t>,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The new version of each entity, in order; `None` for a deleted entity.
    pub versions: Vec<Option<Version>>,
    /// Whether everything outside the transaction agrees already. A worker settles pending targets.
    pub settled: Settled,
}

impl<'t, E: Entity + Clone + Send + Sync + 'static> Transaction<'t, E> {
    pub(super) fn new(store: &'t Store<E>) -> Self {
        let settlers = vec![Arc::clone(&store.inner) as Arc<dyn Settler>];
        Self { store, steps: Vec::new(), targets: Vec::new(), settlers }
    }

    /// Inserts a new entity.
    pub fn insert(self, entity: &'t E) -> Self {
        let store = self.store;
        self.insert_into(store, entity)
    }

    /// Inserts a new entity of another store of the same table.
    ///
    /// Both stores must share a queue, because changes left to workers are settled only when the workers
    /// of both stores have received the message.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # use rowkey_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, open: bool }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id| Order { tenant: "contoso".into(), id, open: true };
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "item_{order:6}_{line:2}")]
    /// # struct Item { tenant: String, order: u32, line: u32 }
    /// let items = Store::<Item>::builder(orders.table().clone()).build()?;
    /// let item = Item { tenant: "contoso".into(), order: 1, line: 1 };
    /// orders.transaction().insert(&order(1)).with(&items, &item).submit().await?;
    /// assert!(items.exists(Item::key("contoso", 1, 1)).await?);
    /// # Ok(()) }
    /// ```
    pub fn with<F>(mut self, store: &'t Store<F>, entity: &'t F) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        let (own, other) = (&self.store.inner.table, &store.inner.table);
        if own.name() != other.name() || own.account().name() != other.account().name() {
            let what = "a transaction has one table, and the other store has another";
            let partition_key = Err(Error::refused(ErrorKind::Invalid, what));
            let add = boxed(|_| async { Ok(()) }.boxed());
            self.steps.push(Step { partition_key, add });
            return self;
        }
        let is_known = |settler: &Arc<dyn Settler>| settler.of() == Inner::<F>::of();
        if !self.settlers.iter().any(is_known) {
            self.settlers.push(Arc::clone(&store.inner) as Arc<dyn Settler>);
        }
        self.insert_into(store, entity)
    }

    /// Replaces an entity that has this version, or meets this [condition](IfMatch). One read.
    pub fn replace_if(self, entity: &'t E, version: impl Into<IfMatch>) -> Self {
        let store = self.store;
        self.change(keys_of(entity), store, Some(entity), Some(version.into()))
    }

    /// Deletes an entity that has this version, or meets this [condition](IfMatch), with all its rows. One
    /// read.
    pub fn delete_if(self, key: &Key<E>, version: impl Into<IfMatch>) -> Self {
        let store = self.store;
        self.change(parts(key), store, None, Some(version.into()))
    }

    /// Inserts a new row of a plain type. (Add an entity of another store by [`with`](Self::with);
    /// the compiler enforces this.)
    pub fn row<R: Entity>(mut self, row: &R) -> Self {
        const { not_of_a_store::<R>() };
        let row = EncodedRow::of(row);
        let partition_key = match &row {
            Ok(row) => Ok(row.keys().0.to_owned()),
            // The step below returns the error.
            Err(_) => Ok(first_partition(&self.steps).unwrap_or_default()),
        };
        let row = row.map_err(Arc::new);
        let add = boxed(move |plan: &mut Plan| {
            let added = match &row {
                Ok(row) => plan.push(Edit {
                    row_key: row.keys().1.to_owned(),
                    write: Write::Insert(row.clone()),
                    source: Source::Note,
                }),
                Err(error) => Err(same(error)),
            };
            async { added }.boxed()
        });
        self.steps.push(Step { partition_key, add });
        self
    }

    /// Adds a target of a contributor of this store, by the contributor's name. Use it for work after the
    /// commit that cannot be derived from an entity, such as sending a message;
    /// [`Settling::entity`](crate::Settling::entity) finds no entity there.
    ///
    /// The op row stores the `address`, which may be about 400,000 characters long. If `address` is an
    /// error, [`submit`](Self::submit) returns it.
    pub fn target(mut self, contributor: &str, address: Result<String>) -> Self {
        self.targets.push((contributor.to_owned(), address));
        self
    }

    /// Sends the transaction, which is committed as a whole or not at all.
    ///
    /// Fails with [`ErrorKind::Conflict`] if an entity has another version than the one given, and with
    /// [`ErrorKind::AlreadyExists`] in the cases of [`Store::insert`].
    /// [`ErrorDetails::operation_index`](rowkey::ErrorDetails::operation_index) is the number of the
    /// operation that is the cause, counted from 0 in the order in which they were added; targets and tasks
    /// are not counted. A row that the store adds, such as a copy or a claim, counts as part of the entity that
    /// requires it.
    pub async fn submit(self) -> Result<Submitted> {
        let table = self.store.inner.table.clone();
        self.run().await.map_err(|error| error.of("Transaction", table.name()))
    }

    async fn run(self) -> Result<Submitted> {
        let inner = &self.store.inner;
        let executor = Executor {
            table: inner.deciding.clone(),
            announcer: inner.announcer.clone(),
            settlers: self.settlers.clone(),
        };
        let mut rounds = Rounds::new(&inner.table, first_partition(&self.steps));
        loop {
            let plan = self.plan().await?;
            let (mark, deleted) = (plan.op.mark().to_owned(), deleted(&plan));
            match executor.run(plan).await? {
                Ran::Done { etags, settled } => {
                    return Ok(Submitted { versions: versions(etags, &deleted, &mark), settled });
                }
                Ran::Stale(error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Explains the transaction without sending it. Sends the reads of the plan.
    pub async fn explain(&self) -> Result<Explanation> {
        Explanation::of(&self.plan().await?)
    }

    async fn plan(&self) -> Result<Plan> {
        let mut plan = plan(&self.store.inner.deciding, &self.steps).await?;
        for (contributor, address) in &self.targets {
            let mut found = None;
            for one in &self.store.inner.contributors {
                if one.name() == contributor {
                    found = Some(one);
                    break;
                }
            }
            let Some(found) = found else {
                let what = format!("the store has no contributor `{contributor}`");
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("give it to `StoreBuilder::following`"));
            };
            let address = match address {
                Ok(address) => address.clone(),
                Err(error) => return Err(same(error)),
            };
            found.check(&address)?;
            plan.target(Target {
                row_key: String::new(),
                of: Inner::<E>::of().to_owned(),
                contributor: contributor.clone(),
                address,
            });
        }
        Ok(plan)
    }

    fn insert_into<F>(self, store: &'t Store<F>, entity: &'t F) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        self.change(keys_of(entity), store, Some(entity), None)
    }

    fn change<F>(
        mut self,
        keys: Result<Keys>,
        store: &'t Store<F>,
        after: Option<&'t F>,
        condition: Option<IfMatch>,
    ) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        let (partition_key, keys) = match keys {
            Ok(keys) => (Ok(keys.0.clone()), keys),
            Err(error) => (Err(error), Keys::default()),
        };
        let condition = Arc::new(condition);
        let keys = Arc::new(keys);
        let add = boxed(move |plan| add(store, plan, &keys, after, &condition));
        self.steps.push(Step { partition_key, add });
        self
    }
}

/// Returns the partition of the first step that has one.
fn first_partition(steps: &[Step<'_>]) -> Option<String> {
    steps.iter().find_map(|step| step.partition_key.as_ref().ok().cloned())
}

/// Makes a plan of all steps.
fn plan<'a>(deciding: &'a Deciding, steps: &'a [Step<'a>]) -> BoxFuture<'a, Result<Plan>> {
    async move {
        if steps.is_empty() {
            return Err(Error::refused(ErrorKind::Invalid, "the transaction has no operations"));
        }
        let op = Op::random(deciding.clock().now())?;
        let mut plan = Plan::new(first_partition(steps).unwrap_or_default(), op);
        for (number, step) in steps.iter().enumerate() {
            let refused = |error: Error| error.at_operation(Some(number));
            match &step.partition_key {
                Ok(own) if *own == plan.partition_key => {}
                Ok(_) => {
                    let what = "the entity is in another partition than the first";
                    return Err(refused(
                        Error::refused(ErrorKind::Invalid, what)
                            .advise("write those of one partition in one transaction"),
                    ));
                }
                Err(error) => return Err(refused(same(error))),
            }
            plan.begin_step(number);
            (step.add)(&mut plan).await.map_err(refused)?;
        }
        plan.end_step();
        Ok(plan)
    }
    .boxed()
}

/// Returns the same error once more: errors cannot be cloned. Its text has the advice already.
fn same(error: &Error) -> Error {
    Error::refused(error.kind(), error.to_string()).advise("")
}

/// Returns which heads a plan deletes, in their order.
fn deleted(plan: &Plan) -> Vec<bool> {
    plan.heads().map(|edit| matches!(edit.write, Write::Delete(_))).collect()
}

/// Returns the versions of the heads that were written.
fn versions(etags: Vec<Option<ETag>>, deleted: &[bool], mark: &str) -> Vec<Option<Version>> {
    let versions = etags.into_iter().zip(deleted).map(|(etag, deleted)| {
        let of_etag = |etag| Version::of_head(&etag);
        (!deleted).then(|| etag.map_or_else(|| Version::of_mark(mark), of_etag))
    });
    versions.collect()
}

/// Helps the compiler infer that a closure borrows only from the plan.
fn boxed<'t>(
    add: impl for<'p> Fn(&'p mut Plan) -> BoxFuture<'p, Result<()>> + Send + Sync + 't,
) -> Add<'t> {
    Box::new(add)
}

/// Adds a change of one entity, on condition that it is new or meets the condition.
fn add<'p, F: Entity + Clone + Send + Sync + 'static>(
    store: &Store<F>,
    plan: &'p mut Plan,
    keys: &Arc<Keys>,
    after: Option<&F>,
    condition: &Arc<Option<IfMatch>>,
) -> BoxFuture<'p, Result<()>> {
    let (store, keys, condition) = (store.clone(), Arc::clone(keys), Arc::clone(condition));
    let after = after.cloned();
    async move {
        let before: Option<ReadHead<F>> = match &*condition {
            None => None,
            Some(condition) => Some(store.read_if(&keys, condition).await?),
        };
        plan.heads_read += usize::from(condition.is_some());
        store.add(plan, &keys, before.as_ref(), after.as_ref()).await
    }
    .boxed()
}

impl<E> fmt::Debug for Transaction<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}
