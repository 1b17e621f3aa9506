//! Responses of the service to stores, for stubs.
//!
//! A unit test of a service stubs the requests of a store without knowing its rows, messages and blobs:
//! [`store`] takes them from the store itself, which runs each write once in memory. [`row`], [`copy`],
//! [`rows`] and [`copies`] make single responses for mocks that a test writes by hand. All other responses
//! are in [`rowkey::answers`](rowkey_client::answers).
//!
//! ```
//! use rowkey::service::Service;
//! use rowkey::store::{Store, answers};
//! use rowkey::{Credential, Entity, StorageAccount};
//! use wiremock::MockServer;
//!
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(store, partition = "{tenant}", row = "user_{id:6}")]
//! #[entity(unique(name = by_email, value = "{email:lower}"))]
//! struct User { tenant: String, id: u32, email: String }
//!
//! # #[cfg(feature = "wiremock-0_6")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = MockServer::start().await;
//! let account = StorageAccount::builder()
//!     .endpoint(Service::Table, &server.uri())?
//!     .endpoint(Service::Queue, &server.uri())?
//!     .credential(Credential::anonymous())
//!     .build()?;
//! let users = Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
//!
//! let ada = User { tenant: "contoso".into(), id: 1, email: "ada@contoso.com".into() };
//! let stubs = answers::store(&users).inserts(&ada).mount(&server).await?;
//!
//! users.insert(&ada).await?;
//! assert_eq!(users.find(User::by_email("ada@contoso.com")).await?.ok_or("not found")?.entity, ada);
//! // The plan has no such row.
//! let bob = User { id: 2, email: "bob@contoso.com".into(), ..ada };
//! let error = users.insert(&bob).await.unwrap_err();
//! assert!(error.to_string().contains("(request POST users("), "{error}");
//! assert!(!stubs.unanswered().is_empty());
//! # server.reset().await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "wiremock-0_6"))]
//! # fn main() {}
//! ```

use rowkey_client::answers::{self, Answer, Stubs};
use rowkey_client::edm::Value;
use rowkey_client::index::{PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY};
use rowkey_client::{Entity, Error, ErrorCode, ErrorKind, Key, Result, Table};

use crate::execute::announce::{BACKLOGS, backlog_partition};
use crate::row::{FORMAT, INDEX, Keys, index_keys, keys_of};
use crate::store::Store;

/// Returns the stored row of an entity, as the response to Get Entity. The store plans and writes it in memory:
/// its properties are those of the store, in the store's encoding, and its Timestamp is
/// [`WRITTEN_AT`](rowkey_client::answers::WRITTEN_AT).
///
/// Fails if the store refuses the entity.
///
/// ```
/// # use rowkey::store::{Store, answers};
/// # use rowkey::{Entity, StorageAccount};
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
/// # struct Order { tenant: String, id: u32, customer: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let orders = Store::<Order>::builder(account.table("orders")).build()?;
/// let order = Order { tenant: "contoso".into(), id: 1, customer: "ada".into() };
/// let row = answers::row(&orders, &order).await?;
/// assert_eq!(row.status, 200);
/// let copy = answers::copy(&orders, &order, "by_customer").await?;
/// assert!(String::from_utf8_lossy(&copy.body).contains("customer_ada"));
///
/// // The responses to queries: a page of the index, and a page of entities.
/// let page = answers::copies(&orders, [&order], "by_customer").await?;
/// let page = page.continued(("contoso", Some("customer_ada_order_000002")));
/// assert_eq!(answers::rows(&orders, [&order]).await?.status, page.status);
/// # Ok(()) }
/// ```
pub async fn row<E>(store: &Store<E>, entity: &E) -> Result<Answer>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let stubs = Stubs::new().holding(store.insert(entity)).await?;
    Ok(stubs.row(store.table(), &keys_of(entity)?))
}

/// Returns an entity's row in an index or its claim of a unique value, as the response to Get Entity.
///
/// `index` is the declared name. Fails with [`ErrorKind::Invalid`] if the type has no such index, or if the entity
/// has no row in it.
pub async fn copy<E>(store: &Store<E>, entity: &E, index: &str) -> Result<Answer>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let keys = copy_keys(entity, index)?;
    let stubs = Stubs::new().holding(store.insert(entity)).await?;
    Ok(stubs.row(table_of(store, index), &keys))
}

/// Returns the rows of entities, as the response to Query Entities: for a wide type, all rows of each.
pub async fn rows<'a, E>(
    store: &Store<E>,
    entities: impl IntoIterator<Item = &'a E>,
) -> Result<Answer>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let (stubs, entities) = held(store, entities).await?;
    let heads = entities.into_iter().map(keys_of).collect::<Result<Vec<_>>>()?;
    Ok(stubs.rows(store.table(), |keys, properties| {
        let text = |name: &str| match properties.iter().find(|(own, _)| own == name) {
            Some((_, Value::String(text))) => Some(text.as_str()),
            _ => None,
        };
        let has = |name: &str| properties.iter().any(|(own, _)| own == name);
        // The further rows of a wide entity name their head, and no index.
        let is_further = has(FORMAT) && !has(INDEX) && !has(PRIMARY_PARTITION_KEY);
        let head = text(PRIMARY_ROW_KEY).filter(|_| is_further);
        let row = head.unwrap_or(&keys.1);
        heads.iter().any(|(partition, head)| *partition == keys.0 && head == row)
    }))
}

/// Returns the rows of entities in an index, as the response to Query Entities: a page of the index. Entities
/// that have no row in the index are left out.
///
/// [`Answer::continued`] adds a continuation token.
pub async fn copies<'a, E>(
    store: &Store<E>,
    entities: impl IntoIterator<Item = &'a E>,
    index: &str,
) -> Result<Answer>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let position = position::<E>(index)?;
    let (stubs, entities) = held(store, entities).await?;
    let mut wanted = Vec::new();
    for entity in entities {
        wanted.extend(index_keys(entity, position)?);
    }
    Ok(stubs.rows(table_of(store, index), |keys, _| wanted.contains(keys)))
}

/// Returns the response to a successful transaction of this number of writes.
///
/// ```
/// use rowkey::store::answers;
///
/// assert_eq!(answers::committed(3).status, 202);
/// ```
pub fn committed(operations: usize) -> Answer {
    answers::committed((0..operations).map(|_| answers::written()))
}

/// Begins stubs for the writes of a store.
pub fn store<E>(store: &Store<E>) -> StoreStubs<'_, E> {
    StoreStubs { store, opens: false, steps: Vec::new(), failures: Vec::new() }
}

/// Stubs for whole writes of a store, from [`store`].
///
/// Each write is run once in memory, so that the stubs answer what its plan requires: rows in all partitions,
/// messages and blobs. Tables of one name in two accounts are two tables, if the addresses of the accounts differ.
/// No request is required, so the stubs serve a version of the store that sends fewer.
/// Other requests fail, and their errors name them. [`Stubs`] has the rules.
///
/// ```
/// # use rowkey::service::Service;
/// # use rowkey::store::{Store, answers};
/// # use rowkey::{Credential, Entity, StorageAccount};
/// # use wiremock::MockServer;
/// # #[derive(Clone, Debug, PartialEq, Entity)]
/// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// # #[entity(index(name = by_customer, row = "customer_{customer}", many))]
/// # struct Order { tenant: String, id: u32, customer: String }
/// # #[cfg(feature = "wiremock-0_6")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = MockServer::start().await;
/// # let account = StorageAccount::builder()
/// #     .endpoint(Service::Table, &server.uri())?
/// #     .credential(Credential::anonymous())
/// #     .build()?;
/// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
/// # let order = |id, customer: &str| Order { tenant: "contoso".into(), id, customer: customer.into() };
/// # use rowkey::{ErrorCode, ErrorKind};
/// let stubs = answers::store(&orders)
///     .opens()
///     .holds(&order(1, "ada"))
///     .upserts(&order(2, "bob"))
///     // The service commits it, and the connection dies before the answer.
///     .lost()
///     .deletes(&order(3, "eve"))
///     .updates(&order(4, "kim"), &order(4, "lee"))
///     // The next write of order 4 is refused, because another writer changed it.
///     .refused(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED)
///     .stubs()
///     .await?;
/// println!("{}", stubs.plan().join("\n"));
/// stubs.mount(&server).await;
///
/// let orders = orders.open().await?;
/// orders.upsert(&order(2, "bob")).await?;
/// assert!(orders.delete(Order::key("contoso", 3)).await?);
/// // The store reads again and succeeds.
/// orders.update(Order::key("contoso", 4), |order| order.customer = "lee".into()).await?;
/// assert_eq!(orders.count(Order::by_customer("contoso", "lee")).await?, 1);
///
/// let taken = orders.insert(&order(4, "kim")).await.unwrap_err();
/// assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
/// # Ok(()) }
/// # #[cfg(not(feature = "wiremock-0_6"))]
/// # fn main() {}
/// ```
#[must_use = "nothing is answered before `mount`"]
pub struct StoreStubs<'s, E> {
    store: &'s Store<E>,
    opens: bool,
    steps: Vec<Step<E>>,
    failures: Vec<(Keys, Option<ErrorCode>)>,
}

/// One entity or write.
#[derive(Clone)]
enum Step<E> {
    Holds(E),
    Inserts(E),
    Upserts(E),
    Updates(E),
    Deletes(E),
}

impl<E> Step<E> {
    fn entity(&self) -> &E {
        match self {
            Self::Holds(entity)
            | Self::Inserts(entity)
            | Self::Upserts(entity)
            | Self::Updates(entity)
            | Self::Deletes(entity) => entity,
        }
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> StoreStubs<'_, E> {
    /// Adds an entity that exists when the test begins, with all its rows, messages and blobs.
    pub fn holds(self, entity: &E) -> Self {
        self.step(Step::Holds(entity.clone()))
    }

    /// Answers [`Store::open`], any number of times: the manifest exists when the test begins, and all declarations of
    /// the store are readable.
    pub fn opens(mut self) -> Self {
        self.opens = true;
        self
    }

    /// Adds an insert of this entity, or of one with the same keys and declared values.
    pub fn inserts(self, entity: &E) -> Self {
        self.step(Step::Inserts(entity.clone()))
    }

    /// Adds an insert or a replacement of this entity.
    pub fn upserts(self, entity: &E) -> Self {
        self.step(Step::Upserts(entity.clone()))
    }

    /// Adds a change of an entity by `update`, `patch`, `replace_if` or `rewrite`. `before` exists when the
    /// test begins, unless an earlier step has its keys.
    pub fn updates(self, before: &E, after: &E) -> Self {
        self.given(before).step(Step::Updates(after.clone()))
    }

    /// Adds a deletion. The entity exists when the test begins, unless an earlier step has its keys.
    pub fn deletes(self, entity: &E) -> Self {
        self.given(entity).step(Step::Deletes(entity.clone()))
    }

    /// Refuses the commit of the write that was added last, once, and changes nothing. Codes for this are
    /// [`ErrorCode::UPDATE_CONDITION_NOT_SATISFIED`] (412) and [`ErrorCode::ENTITY_ALREADY_EXISTS`] (409).
    pub fn refused(self, code: ErrorCode) -> Self {
        self.failing(Some(code))
    }

    /// Commits the write that was added last, and closes the connection without an answer, once.
    #[cfg(feature = "wiremock-0_6")]
    pub fn lost(self) -> Self {
        self.failing(None)
    }

    /// Runs the writes in memory and returns the stubs. Sends nothing.
    ///
    /// Fails if the store refuses an entity, for example because of its keys.
    pub async fn stubs(self) -> Result<Stubs> {
        let Self { store, opens, steps, failures } = self;
        let mut stubs = Stubs::new();
        // On an empty table all declarations are readable.
        if opens {
            stubs = stubs.holding(store.announce_declarations()).await?;
        }
        // What exists comes first, because planned writes see it.
        for step in &steps {
            if let Step::Holds(entity) = step {
                stubs = stubs.holding(store.insert(entity)).await?;
            }
        }
        // What the first run stores and the second does not, the program remembers: key records.
        let earlier = planned(store, &steps, stubs.fork()).await?;
        let mut stubs = planned(store, &steps, stubs).await?.remembering(&earlier);
        let table = store.table().name();
        if store.has_announcer() {
            // If the queue takes no message, a row in one of these partitions takes its place.
            for number in 0..BACKLOGS {
                let op = "op_0000000000000000000_0000000000000000";
                stubs = stubs.allowing(store.table(), &backlog_partition(number), op);
            }
        }
        for ((partition, row), code) in failures {
            let key = Key::<E>::new(&*partition, &*row);
            stubs = match code {
                Some(code) => stubs.refusing(table, &key, code),
                #[cfg(feature = "wiremock-0_6")]
                None => stubs.losing(table, &key),
                #[cfg(not(feature = "wiremock-0_6"))]
                None => stubs,
            };
        }
        Ok(stubs)
    }

    /// Runs the writes in memory and mounts the stubs on a server of wiremock, as [`Stubs::mount`] does.
    #[cfg(feature = "wiremock-0_6")]
    pub async fn mount(self, server: &wiremock::MockServer) -> Result<Stubs> {
        let stubs = self.stubs().await?;
        stubs.mount(server).await;
        Ok(stubs)
    }

    fn step(mut self, step: Step<E>) -> Self {
        self.steps.push(step);
        self
    }

    fn given(self, entity: &E) -> Self {
        let keys = keys_of(entity).ok();
        let is_known = self.steps.iter().any(|step| keys_of(step.entity()).ok() == keys);
        if is_known { self } else { self.holds(entity) }
    }

    fn failing(mut self, code: Option<ErrorCode>) -> Self {
        let last = self.steps.last().and_then(|step| keys_of(step.entity()).ok());
        self.failures.extend(last.map(|keys| (keys, code)));
        self
    }
}

impl<E> std::fmt::Debug for StoreStubs<'_, E> {
    /// Does not show the entities.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreStubs").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

/// Plans the writes of all steps.
async fn planned<E>(store: &Store<E>, steps: &[Step<E>], mut stubs: Stubs) -> Result<Stubs>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    for step in steps {
        let key = key_of(step.entity())?;
        stubs = match step {
            Step::Holds(_) => stubs,
            Step::Inserts(entity) => stubs.planning(store.insert(entity)).await?,
            Step::Upserts(entity) => stubs.planning(store.upsert(entity)).await?,
            Step::Updates(after) => {
                stubs.planning(store.update(key, |entity| entity.clone_from(after))).await?
            }
            Step::Deletes(_) => stubs.planning(store.delete(key)).await?,
        };
    }
    Ok(stubs)
}

async fn held<'a, E>(
    store: &Store<E>,
    entities: impl IntoIterator<Item = &'a E>,
) -> Result<(Stubs, Vec<&'a E>)>
where
    E: Entity + Clone + Send + Sync + 'static,
{
    let entities: Vec<_> = entities.into_iter().collect();
    let mut stubs = Stubs::new();
    for entity in &entities {
        stubs = stubs.holding(store.insert(entity)).await?;
    }
    Ok((stubs, entities))
}

fn key_of<E: Entity>(entity: &E) -> Result<Key<E>> {
    let (partition, row) = keys_of(entity)?;
    Ok(Key::new(&*partition, &*row))
}

/// The table of an index.
fn table_of<'s, E>(store: &'s Store<E>, index: &str) -> &'s Table
where
    E: Entity + Clone + Send + Sync + 'static,
{
    store.index_table(index).unwrap_or_else(|| store.table())
}

fn position<E: Entity>(name: &str) -> Result<usize> {
    E::DECLARED.indexes.iter().position(|index| index.name == name).ok_or_else(|| {
        let names: Vec<_> = E::DECLARED.indexes.iter().map(|index| index.name).collect();
        let what = format!("the type has no index `{name}`; it has: {}", names.join(", "));
        Error::refused(ErrorKind::Invalid, what)
    })
}

fn copy_keys<E: Entity>(entity: &E, name: &str) -> Result<Keys> {
    let keys = index_keys(entity, position::<E>(name)?)?;
    keys.ok_or_else(|| {
        let what = format!("the entity has no row in the index `{name}`");
        Error::refused(ErrorKind::Invalid, what)
    })
}
