//! Transactions of a store: atomic changes of several entities with all their rows.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::rounds::Rounds;
use rowkey_client::table::EncodedRow;
use rowkey_client::{ETag, Entity, Error, ErrorKind, Key, Properties, Receipt, Result};

use super::if_match::IfMatch;
use super::version::Version;
use super::{Patch, Store, is_race, parts};
use crate::declaring::settling::Settled;
use crate::execute::settler::Settler;
use crate::execute::{Executor, Ran};
use crate::layer::deciding::Deciding;
use crate::plan::explain::Explanation;
use crate::plan::{Plan, Write};
use crate::row::declared::prefix;
use crate::row::op::{Op, Target};
use crate::row::{Keys, keys_of, not_of_a_store};
use steps::{Add, Beside, Changed, Refused, Upserted};

mod steps;

/// A transaction that is being built, from [`Store::transaction`].
///
/// All entities must be in one partition of one table. With all their rows they may have at most 100
/// operations in 4 MiB. If one entity gives up a value in an index of the partition, another may take it in
/// the same transaction. A unique value that one entity gives up is free only after the commit, so no other
/// entity of the same transaction can take it.
///
/// [`update`](Self::update), [`try_update`](Self::try_update), [`upsert`](Self::upsert) and
/// [`patch`](Self::patch) read the entity that they change when the transaction is submitted. If another
/// writer changes one of these entities in between, nothing is written, and the transaction is made again: it
/// reads all entities again, and all changes run again. It gives up after 40 rounds, like [`Store::update`].
/// The conditions of [`replace_if`](Self::replace_if) and [`delete_if`](Self::delete_if) and inserts of
/// entities that exist end it at once.
///
/// Cost in requests: one read for each entity that is not inserted, and the transaction. Declarations elsewhere
/// add their requests once for the transaction and once for each of their targets.
///
/// ```
/// # use rowkey::store::Store;
/// # use rowkey::{Entity, StorageAccount};
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
///
/// // Without versions: the transaction reads what it changes.
/// accounts.transaction().upsert(&from).update(Account::key("north", 2), |to| to.cents += 100).submit().await?;
/// assert_eq!(accounts.get(Account::key("north", 2)).await?.ok_or("not found")?.entity.cents, 400);
/// # Ok(()) }
/// ```
#[must_use = "a transaction does nothing until `submit`"]
pub struct Transaction<'t, E, R = ()> {
    store: &'t Store<E>,
    steps: Vec<Step<'t>>,
    /// The declaration and the address of each target.
    targets: Vec<(String, Result<String>)>,
    settlers: Vec<Arc<dyn Settler>>,
    refusal: R,
}

/// The type parameter of a [`Transaction`] with changes that may refuse: [`Transaction::try_update`].
#[derive(Debug)]
pub struct Refusing<R>(Arc<Mutex<Option<R>>>);

struct Step<'t> {
    partition_key: Result<String>,
    add: Box<dyn Add + 't>,
}

/// The result of a transaction. Two are equal if their versions and what is settled are.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The new version of each entity, in order; `None` for a deleted entity.
    pub versions: Vec<Option<Version>>,
    /// Whether everything outside the transaction agrees already. A worker settles pending targets.
    pub settled: Settled,
    /// What all requests of the transaction used.
    pub receipt: Receipt,
}

impl PartialEq for Submitted {
    fn eq(&self, other: &Self) -> bool {
        let Self { versions, settled, receipt: _ } = self;
        *versions == other.versions && *settled == other.settled
    }
}

impl Eq for Submitted {}

impl<'t, E: Entity + Clone + Send + Sync + 'static> Transaction<'t, E> {
    pub(super) fn new(store: &'t Store<E>) -> Self {
        let settlers = vec![Arc::clone(&store.inner.of_type) as Arc<dyn Settler>];
        Self { store, steps: Vec::new(), targets: Vec::new(), settlers, refusal: () }
    }

    /// Changes an entity with a function that may refuse. Then nothing is written, and the error of the
    /// function is the inner result of `submit`. Otherwise like [`update`](Self::update).
    ///
    /// All functions of one transaction that may refuse have one type of errors.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{bank}", row = "account_{id:6}")]
    /// # struct Account { bank: String, id: u32, cents: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let accounts = Store::<Account>::builder(account.table("accounts")).build()?;
    /// # accounts.create_if_missing().await?;
    /// # for id in [1, 2] { accounts.insert(&Account { bank: "north".into(), id, cents: 500 }).await?; }
    /// let transfer = |cents| {
    ///     let pay = move |from: &mut Account| {
    ///         from.cents = from.cents.checked_sub(cents).filter(|left| *left >= 0).ok_or("too little")?;
    ///         Ok::<_, &str>(())
    ///     };
    ///     let (from, to) = (Account::key("north", 1), Account::key("north", 2));
    ///     accounts.transaction().try_update(from, pay).update(to, move |to| to.cents += cents)
    /// };
    /// assert!(transfer(300).submit().await?.is_ok());
    /// assert_eq!(transfer(300).submit().await?.unwrap_err(), "too little");
    /// assert_eq!(accounts.get(Account::key("north", 2)).await?.ok_or("not found")?.entity.cents, 800);
    /// # Ok(()) }
    /// ```
    pub fn try_update<R: Send + 't>(
        self,
        key: Key<E>,
        change: impl FnMut(&mut E) -> std::result::Result<(), R> + Send + 't,
    ) -> Transaction<'t, E, Refusing<R>> {
        let Self { store, steps, targets, settlers, refusal: () } = self;
        let refusal = Refusing(Arc::default());
        Transaction { store, steps, targets, settlers, refusal }.try_update(key, change)
    }

    /// Sends the transaction, which is committed as a whole or not at all.
    ///
    /// Fails with [`ErrorKind::Conflict`] if an entity has another version than the one given, with
    /// [`ErrorKind::NotFound`] if an entity that is changed does not exist, and with
    /// [`ErrorKind::AlreadyExists`] in the cases of [`Store::insert`].
    /// [`ErrorDetails::operation_index`](rowkey_client::ErrorDetails::operation_index) is the number of the
    /// operation that is the cause, counted from 0 in the order in which they were added; targets and tasks
    /// are not counted. A row that the store adds, such as a copy or a claim, counts as part of the entity that
    /// requires it.
    pub async fn submit(self) -> Result<Submitted> {
        self.sent().await
    }
}

impl<'t, E: Entity + Clone + Send + Sync + 'static, R: Send + 't> Transaction<'t, E, Refusing<R>> {
    /// Changes another entity with a function that may refuse. If several refuse, the first one counts.
    #[expect(clippy::needless_pass_by_value, reason = "keys are passed as to `Store::update`")]
    pub fn try_update(
        self,
        key: Key<E>,
        mut change: impl FnMut(&mut E) -> std::result::Result<(), R> + Send + 't,
    ) -> Self {
        let (store, refusal) = (self.store, Arc::clone(&self.refusal.0));
        self.changed(store, &key, None, move |entity: &mut E, _: &mut Properties, _: &[String]| {
            change(entity).map_err(|refused| {
                *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                Error::refused(ErrorKind::Invalid, "a change of the transaction refused")
            })
        })
    }

    /// Sends the transaction, unless a change refuses: then its error is the inner result, and nothing was
    /// written. Otherwise like `submit` of a transaction whose changes do not refuse.
    pub async fn submit(self) -> Result<std::result::Result<Submitted, R>> {
        let refusal = Arc::clone(&self.refusal.0);
        match self.sent().await {
            Ok(submitted) => Ok(Ok(submitted)),
            Err(error) => match refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(refused) => Ok(Err(refused)),
                None => Err(error),
            },
        }
    }
}

impl<'t, E, R> Transaction<'t, E, R>
where
    E: Entity + Clone + Send + Sync + 'static,
    R: Send + Sync,
{
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
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
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
        match self.join(store) {
            Ok(()) => self.insert_into(store, entity),
            Err(error) => self.refuse(error),
        }
    }

    /// Reads the entity at a key, changes it, and writes it if it is unchanged.
    ///
    /// `change` runs when the transaction is submitted, and again each time another writer comes first. So it
    /// must not have effects of its own; it may store results in variables, where the last run counts.
    /// Properties that the type does not have are kept.
    ///
    /// [`submit`](Transaction::submit) fails with [`ErrorKind::NotFound`] if the entity does not exist, and
    /// with [`ErrorKind::Invalid`] if the change alters a part of the key.
    #[expect(clippy::needless_pass_by_value, reason = "keys are passed as to `Store::update`")]
    pub fn update(self, key: Key<E>, mut change: impl FnMut(&mut E) + Send + 't) -> Self {
        let store = self.store;
        self.changed(store, &key, None, move |entity: &mut E, _: &mut Properties, _: &[String]| {
            change(entity);
            Ok(())
        })
    }

    /// Inserts or replaces an entity.
    pub fn upsert(self, entity: &'t E) -> Self {
        let store = self.store;
        self.step(keys_of(entity), |keys| Upserted { store, keys, after: entity })
    }

    /// Changes single properties of an entity, of this store or another store of the same table, as
    /// [`Store::patch`] describes them. A patch with a [condition](Patch::if_version) that the entity does not
    /// meet ends the transaction with [`ErrorKind::Conflict`].
    ///
    /// In a transaction a patch always reads the entity.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, open: bool }
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "customer")]
    /// # struct Customer { tenant: String, orders: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// let customers = Store::<Customer>::builder(orders.table().clone()).build()?;
    /// # customers.insert(&Customer { tenant: "contoso".into(), orders: 0 }).await?;
    /// let order = Order { tenant: "contoso".into(), id: 1, open: true };
    /// let counts = customers.patch(Customer::key("contoso")).set(Customer::ORDERS, 1);
    /// orders.transaction().insert(&order).patch(counts).submit().await?;
    /// # Ok(()) }
    /// ```
    pub fn patch<F>(mut self, patch: Patch<'t, F>) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        match self.join(patch.store()).and_then(|()| patch.into_parts()) {
            Ok((store, key, condition, change)) => self.changed(store, &key, condition, change),
            Err(error) => self.refuse(error),
        }
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
    pub fn row<T: Entity>(mut self, row: &T) -> Self {
        const { not_of_a_store::<T>() };
        let row = EncodedRow::of(row);
        let partition_key = match &row {
            Ok(row) => Ok(row.keys().0.to_owned()),
            // The step below returns the error.
            Err(_) => Ok(first_partition(&self.steps).unwrap_or_default()),
        };
        self.steps.push(Step { partition_key, add: Box::new(Beside(row)) });
        self
    }

    /// Adds a target of a declaration of this store, by the declaration's name. Use it for work after the
    /// commit that cannot be derived from an entity, such as sending a message;
    /// [`Settling::entity`](crate::Settling::entity) finds no entity there.
    ///
    /// The op row stores the `address`, which may be about 400,000 characters long. If `address` is an
    /// error, [`submit`](Self::submit) returns it.
    pub fn target(mut self, declaration: &str, address: Result<String>) -> Self {
        self.targets.push((declaration.to_owned(), address));
        self
    }

    async fn sent(self) -> Result<Submitted> {
        let store = self.store;
        let run = async {
            let submitted = self.run().await?;
            let settled = submitted.settled;
            Ok((submitted, Some(settled)))
        };
        let (submitted, receipt) = store.measured("Transaction", run).await?;
        Ok(Submitted { receipt, ..submitted })
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
            let error = match executor.run(plan).await {
                Ok(Ran::Done { etags, settled }) => {
                    let versions = versions(etags, &deleted, &mark);
                    return Ok(Submitted { versions, settled, receipt: Receipt::default() });
                }
                Ok(Ran::Stale(error)) => error,
                Err(error) if self.runs_again(&error) => error,
                Err(error) => return Err(error),
            };
            if !rounds.again().await {
                return Err(error);
            }
        }
    }

    /// Whether another writer came first, and changed only entities that are read again.
    fn runs_again(&self, error: &Error) -> bool {
        let runs_again = |step: &Step<'_>| step.add.runs_again();
        is_race(error)
            && match error.details().operation_index {
                Some(at) => self.steps.get(at).is_some_and(runs_again),
                None => self.steps.iter().any(runs_again),
            }
    }

    /// Explains the transaction without sending it. Sends the reads of the plan, and runs the changes.
    pub async fn explain(&self) -> Result<Explanation> {
        self.store.explained_by(&self.settlers, self.plan()).await
    }

    async fn plan(&self) -> Result<Plan> {
        let mut plan = plan(&self.store.inner.deciding, &self.steps).await?;
        for (declaration, address) in &self.targets {
            let mut found = None;
            for one in &self.store.inner.declarations {
                if one.name() == declaration {
                    found = Some(one);
                    break;
                }
            }
            let Some(found) = found else {
                let what = format!("the store has no declaration `{declaration}`");
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("give it to `StoreBuilder::with`"));
            };
            let address = match address {
                Ok(address) => address.clone(),
                Err(error) => return Err(same(error)),
            };
            found.check(&address)?;
            plan.target(Target {
                row_key: String::new(),
                of: prefix::<E>().to_owned(),
                declaration: declaration.clone(),
                address,
            });
        }
        Ok(plan)
    }

    /// Prepares the transaction for entities of another store.
    fn join<F>(&mut self, store: &Store<F>) -> Result<()>
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        let (own, other) = (&self.store.inner.table, &store.inner.table);
        if own.name() != other.name() || own.account().name() != other.account().name() {
            let what = "a transaction has one table, and the other store has another";
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        let is_known = |settler: &Arc<dyn Settler>| settler.of() == prefix::<F>();
        if !self.settlers.iter().any(is_known) {
            self.settlers.push(Arc::clone(&store.inner.of_type) as Arc<dyn Settler>);
        }
        Ok(())
    }

    fn insert_into<F>(self, store: &'t Store<F>, entity: &'t F) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        self.change(keys_of(entity), store, Some(entity), None)
    }

    fn change<F>(
        self,
        keys: Result<Keys>,
        store: &'t Store<F>,
        after: Option<&'t F>,
        condition: Option<IfMatch>,
    ) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        self.step(keys, |keys| steps::Written { store, keys, after, condition })
    }

    fn changed<F>(
        self,
        store: &'t Store<F>,
        key: &Key<F>,
        condition: Option<IfMatch>,
        change: impl FnMut(&mut F, &mut Properties, &[String]) -> Result<()> + Send + 't,
    ) -> Self
    where
        F: Entity + Clone + Send + Sync + 'static,
    {
        let change = Mutex::new(change);
        self.step(parts(key), |keys| Changed { store, keys, condition, change })
    }

    /// Adds a step about the row at these keys.
    fn step<A: Add + 't>(mut self, keys: Result<Keys>, step: impl FnOnce(Keys) -> A) -> Self {
        match keys {
            Ok(keys) => {
                let partition_key = Ok(keys.0.clone());
                self.steps.push(Step { partition_key, add: Box::new(step(keys)) });
                self
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Adds a step that fails.
    fn refuse(mut self, error: Error) -> Self {
        self.steps.push(Step { partition_key: Err(error), add: Box::new(Refused) });
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
            step.add.add(&mut plan).await.map_err(refused)?;
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

impl<E, R> fmt::Debug for Transaction<'_, E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}
