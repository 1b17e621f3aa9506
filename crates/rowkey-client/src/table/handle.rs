//! The handle of a table: operations on one entity, and on the table itself.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rowkey_entity::entity::Write;
use rowkey_entity::internals::{Row, not_of_a_store};
use rowkey_entity::{Entity, Key, Partition, Projection, Stored};
use rowkey_wire::etag::{ETag, Match};

use super::query::Query;
use super::requests::gone;
use super::transaction::Transaction;
use crate::account::StorageAccount;
use crate::cost::Meter;
use crate::error::{ErrorKind, Result};
use crate::options::ClientOptions;
use crate::service;
use crate::table::wire::encode;
use crate::transport::{Call, Safety};

/// A table of an account.
///
/// Created by [`StorageAccount::table`], which sends and checks nothing: a handle to a table that
/// does not exist is valid until it is used. Clones are cheap and share connections.
#[derive(Clone)]
pub struct Table {
    name: Arc<str>,
    account: StorageAccount,
}

/// Operations on the table itself.
impl Table {
    pub(crate) fn new(account: StorageAccount, name: &str) -> Self {
        Self { name: name.into(), account }
    }

    /// The table's name. The service compares names case-insensitively.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account of the table, with the options of this handle.
    pub fn account(&self) -> &StorageAccount {
        &self.account
    }

    /// Whether two handles are of one table of one account.
    #[doc(hidden)]
    pub fn is_same_table(&self, other: &Self) -> bool {
        self.place() == other.place()
    }

    /// The address of the table, the same for all handles of it: `localhost` and the addresses of this machine's loopback are one.
    /// Has no secret.
    #[doc(hidden)]
    pub fn place(&self) -> String {
        let endpoint = self.endpoint().trim_end_matches('/');
        format!("{}/{}", of_one_host(endpoint), self.name.to_ascii_lowercase())
    }

    /// The same table with other options.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rowkey::{ClientOptions, StorageAccount};
    ///
    /// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// let table = account.table("orders");
    /// let options = table.account().options().clone();
    /// let hasty = table.with_options(ClientOptions { timeout: Duration::from_secs(2), ..options });
    /// assert_eq!(hasty.account().options().timeout, Duration::from_secs(2));
    /// # Ok::<_, rowkey::Error>(())
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_options(&self, options: ClientOptions) -> Self {
        Self { name: self.name.clone(), account: self.account.with_options(options) }
    }

    /// Returns a handle for the same table with one more [meter](crate::cost::Meter), which counts its requests.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let meter = rowkey::cost::Meter::new();
    /// account.table("orders").with_meter(&meter).create().await?;
    /// assert_eq!(meter.usage().requests(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use = "the handle itself does not change"]
    pub fn with_meter(&self, meter: &Meter) -> Self {
        Self { account: self.account.with_meter(meter), ..self.clone() }
    }

    /// Creates the table. Fails with [`ErrorKind::AlreadyExists`] if it exists.
    ///
    /// The name of a deleted table is blocked for about 40 seconds; creating it again then fails
    /// with [`ErrorCode::TABLE_BEING_DELETED`](crate::ErrorCode::TABLE_BEING_DELETED).
    /// [Create Table](https://learn.microsoft.com/rest/api/storageservices/create-table)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("orders");
    /// table.create().await?;
    /// let again = table.create().await.unwrap_err();
    /// assert_eq!(again.kind(), rowkey::ErrorKind::AlreadyExists);
    /// # Ok(()) }
    /// ```
    pub async fn create(&self) -> Result<()> {
        let call = Call::new("CreateTable", &self.name, Safety::Insert).expecting(&[409]);
        self.send(encode::create_table(&self.name), call).await?;
        Ok(())
    }

    /// Creates the table unless it exists. Returns whether it was created.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("orders");
    /// assert!(table.create_if_missing().await?);
    /// assert!(!table.create_if_missing().await?);
    /// # Ok(()) }
    /// ```
    pub async fn create_if_missing(&self) -> Result<bool> {
        let call = Call::new("CreateTable", &self.name, Safety::Conditional).expecting(&[409]);
        let result = self.send(encode::create_table(&self.name), call).await;
        service::unless(ErrorKind::AlreadyExists, result)
    }

    /// Like [`create_if_missing`](Self::create_if_missing), but waits until the name is free again
    /// if a table with this name was deleted shortly before: the service blocks the name for about
    /// 40 seconds.
    ///
    /// `longest` limits the total wait, by the account's [clock](crate::Clock). If the name is
    /// still blocked then, the last error is returned.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use rowkey::StorageAccount;
    /// # use rowkey_emulator::{Server, ServerClock};
    /// # #[derive(Debug)]
    /// # struct OfServer(ServerClock);
    /// # impl rowkey::Clock for OfServer {
    /// #     fn now(&self) -> chrono::DateTime<chrono::Utc> { self.0.now().to_chrono() }
    /// #     fn elapsed(&self) -> Duration { Duration::from_micros(self.0.now().ticks() as u64 / 10) }
    /// #     fn sleep(&self, duration: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    /// #         self.0.advance(duration);
    /// #         Box::pin(async {})
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Server::builder().manual_clock().start().await?;
    /// # let account = StorageAccount::builder()
    /// #     .connection_string(server.connection_string())?
    /// #     .clock(OfServer(server.clock().clone()))
    /// #     .build()?;
    /// # let table = account.table("orders");
    /// table.create().await?;
    /// table.delete_table().await?;
    /// assert!(table.create_if_missing().await.is_err(), "the name is blocked");
    /// assert!(table.create_if_missing_within(Duration::from_secs(60)).await?);
    /// # Ok(()) }
    /// ```
    pub async fn create_if_missing_within(&self, longest: Duration) -> Result<bool> {
        service::create_within(&self.account, longest, || self.create_if_missing()).await
    }

    /// Deletes the table and all its entities. Fails with [`ErrorKind::NotFound`] if it does not
    /// exist.
    ///
    /// [Delete Table](https://learn.microsoft.com/rest/api/storageservices/delete-table)
    pub async fn delete_table(&self) -> Result<()> {
        let call = Call::new("DeleteTable", &self.name, Safety::Conditional).expecting(&[404]);
        self.send(encode::delete_table(&self.name), call).await?;
        Ok(())
    }

    /// Deletes the table if it exists. Returns whether it existed.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("orders");
    /// # table.create().await?;
    /// assert!(table.delete_table_if_exists().await?);
    /// assert!(!table.delete_table_if_exists().await?);
    /// # Ok(()) }
    /// ```
    pub async fn delete_table_if_exists(&self) -> Result<bool> {
        let call = Call::new("DeleteTable", &self.name, Safety::Conditional).expecting(&[404]);
        // The error code for a missing table depends on the service.
        let result = self.send(encode::delete_table(&self.name), call).await;
        service::unless(ErrorKind::NotFound, result)
    }
}

/// Operations on single entities.
impl Table {
    /// Inserts a new entity. Fails with [`ErrorKind::AlreadyExists`] if an entity with its keys
    /// exists.
    ///
    /// [Insert Entity](https://learn.microsoft.com/rest/api/storageservices/insert-entity)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// orders.insert(&order(1, 995)).await?;
    /// let again = orders.insert(&order(1, 100)).await.unwrap_err();
    /// assert_eq!(again.kind(), rowkey::ErrorKind::AlreadyExists);
    /// # Ok(()) }
    /// ```
    pub fn insert<E: Entity>(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = Row::of(entity);
        async move { self.insert_row(row).await }
    }

    /// Reads the entity at `key`, or returns `None` if it does not exist.
    ///
    /// A missing *table* is an error.
    /// [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// orders.insert(&order(1, 995)).await?;
    /// let stored = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// assert_eq!(stored.entity, order(1, 995));
    /// assert!(orders.get(Order::key("contoso", 2)).await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn get<E: Entity>(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        let Some(reply) = self.get_body(key.parts(), None).await? else { return Ok(None) };
        self.decode_one(&reply).map(Some)
    }

    /// Reads some properties of the entity at `key`.
    ///
    /// ```
    /// use rowkey::Projection;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// #[derive(Debug, PartialEq, Projection)]
    /// struct Price { cents: i64 }
    ///
    /// orders.insert(&order(1, 995)).await?;
    /// let price = orders.get_as::<Price>(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// assert_eq!(price.entity, Price { cents: 995 });
    /// # Ok(()) }
    /// ```
    pub async fn get_as<P: Projection>(&self, key: Key<impl Entity>) -> Result<Option<Stored<P>>> {
        let Some(reply) = self.get_body(key.parts(), P::COLUMNS).await? else { return Ok(None) };
        self.decode_one(&reply).map(Some)
    }

    /// Replaces an entity: stored properties that `entity` does not write are erased.
    ///
    /// This includes properties that `E` does not know, because a newer program or another one
    /// added them. [`update`](Self::update) and [`merge`](Self::merge) keep such properties, and so
    /// does a field [`#[entity(rest)]`](crate::Properties).
    ///
    /// `table.replace(&stored)` takes the ETag that the [`Stored`] entity was read with, and fails
    /// with [`ErrorKind::Conflict`] if another writer changed the entity in between. With
    /// `(&entity, Match::Any)` the last writer wins. Fails with [`ErrorKind::NotFound`] if the
    /// entity does not exist.
    /// [Update Entity](https://learn.microsoft.com/rest/api/storageservices/update-entity2)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # use rowkey::{ErrorKind, Match};
    /// orders.insert(&order(1, 995)).await?;
    /// let read = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// orders.replace((&order(1, 100), Match::Any)).await?;
    ///
    /// let stale = orders.replace(&read.map(|order| order.cents += 5)).await.unwrap_err();
    /// assert_eq!(stale.kind(), ErrorKind::Conflict);
    /// # Ok(()) }
    /// ```
    pub fn replace<'a, E: Entity + 'a>(
        &self,
        write: impl Into<Write<'a, E>>,
    ) -> impl Future<Output = Result<ETag>> + Send {
        let Write { entity, condition, .. } = write.into();
        let row = Row::of(entity);
        async move { self.replace_row(row, Some(&condition)).await }
    }

    /// Merges an entity into the stored one: stored properties that `entity` does not write are
    /// kept.
    ///
    /// A field that is `None` is not written, so its property keeps its value: a Merge cannot
    /// remove a property. [`update`](Self::update) can.
    ///
    /// The condition is as for [`replace`](Self::replace).
    /// [Merge Entity](https://learn.microsoft.com/rest/api/storageservices/merge-entity)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # use rowkey::Match;
    /// orders.insert(&Order { note: Some("fragile".into()), ..order(1, 995) }).await?;
    /// orders.merge((&order(1, 100), Match::Any)).await?;
    /// let merged = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?.entity;
    /// assert_eq!((merged.cents, merged.note.as_deref()), (100, Some("fragile")));
    /// # Ok(()) }
    /// ```
    pub fn merge<'a, E: Entity + 'a>(
        &self,
        write: impl Into<Write<'a, E>>,
    ) -> impl Future<Output = Result<ETag>> + Send {
        let Write { entity, condition, .. } = write.into();
        let row = Row::of(entity);
        async move { self.merge_row(row, Some(&condition)).await }
    }

    /// Replaces the entity if it exists, and inserts it otherwise.
    ///
    /// Stored properties that `entity` does not write are erased, as by [`replace`](Self::replace).
    ///
    /// [Insert Or Replace Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// orders.upsert(&Order { note: Some("fragile".into()), ..order(1, 995) }).await?;
    /// orders.upsert(&order(1, 100)).await?;
    /// let stored = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// assert_eq!(stored.entity, order(1, 100));
    /// # Ok(()) }
    /// ```
    pub fn upsert<E: Entity>(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = Row::of(entity);
        async move { self.replace_row(row, None).await }
    }

    /// Merges into the entity if it exists, and inserts it otherwise.
    ///
    /// [Insert Or Merge Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// orders.upsert_merge(&Order { note: Some("fragile".into()), ..order(1, 995) }).await?;
    /// orders.upsert_merge(&order(1, 100)).await?;
    /// let stored = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// assert_eq!(stored.entity.note.as_deref(), Some("fragile"));
    /// # Ok(()) }
    /// ```
    pub fn upsert_merge<E: Entity>(&self, entity: &E) -> impl Future<Output = Result<ETag>> + Send {
        let row = Row::of(entity);
        async move { self.merge_row(row, None).await }
    }

    /// Deletes the entity at `key`, under the ETag it was read with (`&stored`) or unconditionally
    /// ([`Match::Any`]). Fails with [`ErrorKind::NotFound`] if it does not exist, and with
    /// [`ErrorKind::Conflict`] if it has another ETag.
    ///
    /// [Delete Entity](https://learn.microsoft.com/rest/api/storageservices/delete-entity1)
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # use rowkey::{ErrorKind, Match};
    /// orders.insert(&order(1, 995)).await?;
    /// let read = orders.get(Order::key("contoso", 1)).await?.ok_or("not found")?;
    /// orders.delete(Order::key("contoso", 1), &read).await?;
    /// let missing = orders.delete(Order::key("contoso", 1), Match::Any).await.unwrap_err();
    /// assert_eq!(missing.kind(), ErrorKind::NotFound);
    /// # Ok(()) }
    /// ```
    pub fn delete<E: Entity>(
        &self,
        key: Key<E>,
        condition: impl Into<Match>,
    ) -> impl Future<Output = Result<()>> + Send {
        const { not_of_a_store::<E>() };
        let condition = condition.into();
        async move { self.delete_row(key.parts(), &condition, &[404, 412]).await.map(drop) }
    }

    /// Deletes the entity at `key` if it exists. Returns whether it existed.
    ///
    /// ```
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # use rowkey::Match;
    /// orders.insert(&order(1, 995)).await?;
    /// assert!(orders.delete_if_exists(Order::key("contoso", 1), Match::Any).await?);
    /// assert!(!orders.delete_if_exists(Order::key("contoso", 1), Match::Any).await?);
    /// # Ok(()) }
    /// ```
    pub fn delete_if_exists<E: Entity>(
        &self,
        key: Key<E>,
        condition: impl Into<Match>,
    ) -> impl Future<Output = Result<bool>> + Send {
        const { not_of_a_store::<E>() };
        let condition = condition.into();
        async move { gone(self.delete_row(key.parts(), &condition, &[404, 412]).await) }
    }

    /// A query of a partition, or of a part of one. Nothing is sent yet.
    pub fn query<E: Entity + Send + 'static>(&self, partition: Partition<E>) -> Query<E> {
        Query::of_partition(self.clone(), partition)
    }

    /// A query of all entities of type `E` in all partitions: a table scan.
    ///
    /// It requests the keys that begin like the templates of `E`. If `E` has indexes in other
    /// partitions or is an `EntitySet`, rows with a `PrimaryRowKey` are copies in an index, and are
    /// skipped. ([`DynamicEntity`](crate::DynamicEntity) reads every row.)
    ///
    /// ```
    /// use rowkey::ScanPolicy;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, cents: i64, note: Option<String> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = account.table("orders");
    /// # orders.create().await?;
    /// # let order = |id, cents| Order { tenant: "contoso".into(), id, cents, note: None };
    /// # for id in 1..=5 { orders.insert(&order(id, i64::from(id) * 100)).await?; }
    /// let all = orders.scan::<Order>().scan_policy(ScanPolicy::Allow).all().await?;
    /// assert_eq!(all.len(), 5);
    /// # Ok(()) }
    /// ```
    pub fn scan<E: Entity + Send + 'static>(&self) -> Query<E> {
        Query::of_table(self.clone())
    }

    /// Begins an entity group transaction. Nothing is sent before
    /// [`submit`](Transaction::submit).
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).field("account", &self.account).finish()
    }
}

/// An endpoint with one name for this machine.
fn of_one_host(endpoint: &str) -> Cow<'_, str> {
    let whole = || {
        let (scheme, rest) = endpoint.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // The colons of an IPv6 address are in brackets.
        let at = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        let (host, port) = authority.split_at(at.unwrap_or(authority.len()));
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_local = host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback());
        is_local.then(|| format!("{scheme}://localhost{port}{path}"))
    };
    whole().map_or(Cow::Borrowed(endpoint), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_on_this_machine_is_the_same_under_each_name_of_the_machine() {
        let table = |endpoint: &str, name: &str| {
            let text = format!("AccountName=a;AccountKey=YmFy;TableEndpoint={endpoint}");
            StorageAccount::from_connection_string(&text).unwrap().table(name)
        };
        let one = table("http://127.0.0.1:10002/a", "orders");
        for other in [
            "http://localhost:10002/a",
            "http://LOCALHOST:10002/a/",
            "http://[::1]:10002/a",
            "http://127.0.0.2:10002/a",
        ] {
            assert!(one.is_same_table(&table(other, "Orders")), "{other}");
        }
        for other in [
            "http://localhost:10003/a",
            "http://localhost:10002/b",
            "https://localhost:10002/a",
            "http://10.0.0.1:10002/a",
            "http://localhost/a",
        ] {
            assert!(!one.is_same_table(&table(other, "orders")), "{other}");
        }
        assert!(!one.is_same_table(&table("http://localhost:10002/a", "staff")));
        assert_eq!(one.place(), "http://localhost:10002/a/orders");
    }
}
