//! The handle of a table: operations on one entity, and on the table itself.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rowkey_wire::etag::{ETag, Match};
use rowkey_wire::odata::Fields;

use super::failed::FailedRow;
use super::name;
use super::query::Query;
use super::transaction::Transaction;
use crate::account::StorageAccount;
use crate::entity::property::PropertyError;
use crate::entity::row::{RowReader, RowWriter};
use crate::entity::{DecodeError, Entity, Projection, Stored, Write};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::key::{Key, Partition};
use crate::options::ClientOptions;
use crate::service;
use crate::table::wire::decode as headers;
use crate::table::wire::encode::{self, Flavor};
use crate::table::wire::odata::decode::{self, BodyError};
use crate::table::wire::odata::encode::{EntityError, EntityWriter};
use crate::transport::{Call, Pipeline, Reply, Request, Safety};

/// A table of an account.
///
/// Created by [`StorageAccount::table`], which sends and checks nothing: a handle to a table that
/// does not exist is valid until it is used. Clones are cheap and share connections.
#[derive(Clone)]
pub struct Table {
    name: Box<str>,
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
        match self.send(encode::create_table(&self.name), call).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            Err(error) => Err(error),
        }
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
        match self.send(encode::delete_table(&self.name), call).await {
            // The error code for a missing table depends on the service.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(error.outcome() == Outcome::Unknown)
            }
            result => result.map(|_| true),
        }
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
        let Write { entity, condition } = write.into();
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
        let Write { entity, condition } = write.into();
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

/// Initial capacity in bytes, enough for most entities.
const ROOM: usize = 1024;

/// An entity encoded as text, ready to be sent, without its type.
pub(crate) struct Row {
    /// PartitionKey and RowKey.
    pub(crate) keys: (String, String),
    pub(crate) body: Vec<u8>,
}

impl Row {
    pub(crate) fn of<E: Entity>(entity: &E) -> Result<Self> {
        const { not_of_a_store::<E>() };
        Self::unguarded(entity)
    }

    /// Like `of`, for a type that may belong to a store.
    pub(crate) fn unguarded<E: Entity>(entity: &E) -> Result<Self> {
        Self::encode(ROOM, entity, &[])
    }

    /// Like `of`, with room for an entity like one of `before` bytes, so that the buffer need not
    /// grow.
    pub(crate) fn like<E: Entity>(before: Option<usize>, entity: &E) -> Result<Self> {
        const { not_of_a_store::<E>() };
        Self::encode(before.map_or(ROOM, |before| before + before / 16), entity, &[])
    }

    /// Encodes the entity with the properties that its store encrypts afterwards still in plain
    /// text.
    pub(crate) fn plain<E: Entity>(entity: &E) -> Result<Self> {
        Self::encode(ROOM, entity, E::ENCRYPTED)
    }

    fn encode<E: Entity>(
        room: usize,
        entity: &E,
        encrypted: &'static [&'static str],
    ) -> Result<Self> {
        let keys = Key::of(entity).into_parts().map_err(|error| key_error(&error))?;
        let mut out = RowWriter::new(room, &keys.0, &keys.1).encrypting(encrypted);
        entity.encode(&mut out);
        Ok(Self { body: finish(out)?, keys })
    }

    pub(crate) fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }
}

/// Refuses at compile time to write an entity without its store, which keeps other rows in step
/// with it.
pub(crate) const fn not_of_a_store<E: Entity>() {
    assert!(
        !E::STORE,
        "this type has #[entity(store)]: write and delete it through `rowkey_store::Store`, which keeps \
         its indexes, claims and other rows in step"
    );
}

fn finish(out: RowWriter) -> Result<Vec<u8>> {
    let out = out.finish().map_err(|(name, error)| property_error(&name, &error))?;
    EntityWriter::finish(out).map_err(|error| match error {
        EntityError::InvalidName { .. } => Error::invalid(error.to_string()),
        _ => Error::too_large(error.to_string()),
    })
}

/// The error for a value that cannot be stored in a property.
pub(crate) fn property_error(name: &str, error: &PropertyError) -> Error {
    Error::invalid(format!("property `{name}`: {error}"))
}

/// The operations without the types of entities, so that they are compiled only once.
impl Table {
    pub(crate) fn pipeline(&self) -> &Pipeline {
        self.account.pipeline()
    }

    pub(crate) fn flavor(&self) -> Flavor {
        self.account.flavor()
    }

    pub(crate) fn endpoint(&self) -> &str {
        self.pipeline().endpoints().base(rowkey_wire::auth::Service::Table)
    }

    /// Empty if there is no secondary endpoint.
    pub(crate) fn secondary_endpoint(&self) -> &str {
        let place = self.pipeline().endpoints().of(rowkey_wire::auth::Service::Table);
        place.and_then(|place| place.secondary.as_ref()).map_or("", |endpoint| endpoint.base())
    }

    /// Checks the table's name and sends the request.
    pub(crate) async fn send(&self, request: Request, call: Call<'_>) -> Result<Reply> {
        self.check_name(call.operation)?;
        self.pipeline().send(request, call).await
    }

    pub(crate) fn check_name(&self, operation: &'static str) -> Result<()> {
        name::check(&self.name)
            .map_err(|error| Error::invalid(error.to_string()).of(operation, &self.name))
    }

    pub(crate) async fn insert_row(&self, row: Result<Row>) -> Result<ETag> {
        let call = Call::new("InsertEntity", &self.name, Safety::Insert).expecting(&[409]);
        let row = row.map_err(|error| error.of(call.operation, call.resource))?;
        let reply = self.send(encode::insert(&self.name, row.body.into()), call).await?;
        written(&reply, &call)
    }

    pub(crate) async fn replace_row(
        &self,
        row: Result<Row>,
        condition: Option<&Match>,
    ) -> Result<ETag> {
        let operation = if condition.is_some() { "UpdateEntity" } else { "InsertOrReplaceEntity" };
        let call = Call::new(operation, &self.name, Safety::Conditional).expecting(&[404, 412]);
        let row = row.map_err(|error| error.of(call.operation, call.resource))?;
        let keys = (&*row.keys.0, &*row.keys.1);
        let request = encode::replace(&self.name, keys, condition, Bytes::from(row.body));
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    pub(crate) async fn merge_row(
        &self,
        row: Result<Row>,
        condition: Option<&Match>,
    ) -> Result<ETag> {
        let operation = if condition.is_some() { "MergeEntity" } else { "InsertOrMergeEntity" };
        let call = Call::new(operation, &self.name, Safety::Conditional).expecting(&[404, 412]);
        let row = row.map_err(|error| error.of(call.operation, call.resource))?;
        let keys = (&*row.keys.0, &*row.keys.1);
        let body = Bytes::from(row.body);
        let request = encode::merge(self.flavor(), &self.name, keys, condition, body);
        let reply = self.send(request, call).await?;
        written(&reply, &call)
    }

    async fn delete_row(
        &self,
        keys: Result<(&str, &str), &crate::key::KeyError>,
        condition: &Match,
        expected: &'static [u16],
    ) -> Result<Reply> {
        let call = Call::new("DeleteEntity", &self.name, Safety::Conditional).expecting(expected);
        let keys = keys.map_err(|error| key_error(error).of(call.operation, call.resource))?;
        self.send(encode::delete(&self.name, keys, condition), call).await
    }

    pub(crate) async fn get_body(
        &self,
        keys: Result<(&str, &str), &crate::key::KeyError>,
        select: Option<&[&str]>,
    ) -> Result<Option<Reply>> {
        let call = Call::new("GetEntity", &self.name, Safety::Read).expecting(&[404]);
        let (partition_key, row_key) =
            keys.map_err(|error| key_error(error).of(call.operation, call.resource))?;
        let request = encode::get(&self.name, partition_key, row_key, select);
        match self.send(request, call).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if is_missing_entity(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn decode_one<P: Projection>(&self, reply: &Reply) -> Result<Stored<P>> {
        let call = Call::new("GetEntity", &self.name, Safety::Read);
        decode_body(&reply.body, headers::etag_text(&reply.headers))
            .map_err(|error| error.of_answer(&call, reply))
    }
}

/// Decodes the body of a point get. The ETag of the header, which equals that of the body, takes
/// precedence.
pub(crate) fn decode_body<P: Projection>(body: &[u8], etag: Option<&str>) -> Result<Stored<P>> {
    let mut fields = Fields::default();
    decode::entity(body, &mut fields).map_err(body_error)?;
    let mut stored = Stored::decode(&mut fields)
        .map_err(|error| Error::of_rows(vec![FailedRow::of(&RowReader::new(&fields), &error)]))?;
    if let Some(etag) = etag.filter(|etag| *etag != stored.etag.as_str()) {
        stored.etag = ETag::new(etag);
    }
    Ok(stored)
}

impl<P: Projection> Stored<P> {
    /// Reads an entity of a response with minimal metadata.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        const {
            assert!(
                !P::IS_OPENED,
                "this type has encrypted fields or is wide: read it through `rowkey_store::Store`, which opens its rows"
            );
            assert!(
                P::BLOBS.is_empty(),
                "this type has fields in blobs, #[entity(blob)]: read it through `rowkey_store::Store`"
            );
        }
        let etag = fields.etag.take();
        let row = RowReader::new(fields);
        let timestamp = row.timestamp()?;
        let entity = P::decode(&row)?;
        let etag = match etag {
            Some(etag) => ETag::new(etag),
            // Without metadata the ETag can be derived from the Timestamp.
            None => ETag::from_timestamp(timestamp),
        };
        Ok(Self { entity, etag, timestamp })
    }
}

/// The ETag of a write that succeeded.
fn written(reply: &Reply, call: &Call<'_>) -> Result<ETag> {
    headers::etag(&reply.headers).ok_or_else(|| {
        Error::decode("the write succeeded but the answer has no ETag").of_answer(call, reply)
    })
}

/// Maps the absence of the resource to `false`. If an earlier attempt of the same call may have
/// deleted the resource, that attempt is assumed to have succeeded.
fn gone(result: Result<Reply>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound && is_resource(&error) => {
            Ok(error.outcome() == Outcome::Unknown)
        }
        Err(error) => Err(error),
    }
}

/// Whether a point get failed because the entity does not exist. A missing table is another error.
pub(crate) fn is_missing_entity(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && is_resource(error)
}

fn is_resource(error: &Error) -> bool {
    error.code() != Some(&crate::ErrorCode::TABLE_NOT_FOUND)
}

impl Error {
    /// The error of an operation whose key is invalid: nothing was sent.
    #[cold]
    pub fn no_such_key(error: &crate::key::KeyError) -> Self {
        key_error(error)
    }
}

#[cold]
pub(crate) fn key_error(error: &crate::key::KeyError) -> Error {
    match error {
        crate::key::KeyError::Invalid(rowkey_wire::key::KeyError::TooLong { .. }) => {
            Error::too_large(error.to_string())
        }
        _ => Error::invalid(error.to_string()),
    }
}

#[cold]
pub(crate) fn body_error(error: BodyError) -> Error {
    Error::decode(error.to_string())
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).field("account", &self.account).finish()
    }
}
