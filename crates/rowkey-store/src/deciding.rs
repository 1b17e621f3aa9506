//! Reads that decide: what a write, a claim or a repair depends on is read on the primary.

use rowkey::{
    ClientOptions, Clock, DynamicEntity, ETag, Entity, Error, Key, Projection, Query, Result,
    RetryOptions, ScanPolicy, Stored, Table, Transaction,
};

use crate::layer::Layers;
use crate::row::{Head, Keys};

/// A table whose reads decide.
///
/// It reads from the primary alone, however the account is set up: a secondary may be minutes behind,
/// and what it says must not become a write. Its queries may scan, because a job that has to read a
/// whole table is no mistake of a filter.
///
/// ```
/// use rowkey::{ClientOptions, StorageAccount};
/// use rowkey_store::Deciding;
///
/// let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
/// let options = ClientOptions { read_from_secondary: true, ..ClientOptions::default() };
/// let table = account.with_options(options).table("orders");
/// assert!(!Deciding::new(&table).table().account().options().read_from_secondary);
/// # Ok::<_, rowkey::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Deciding {
    table: Table,
    repeating: Table,
}

impl Deciding {
    /// The same table, read on the primary.
    pub fn new(table: &Table) -> Self {
        let options = ClientOptions {
            read_from_secondary: false,
            scan_policy: ScanPolicy::Allow,
            ..table.account().options().clone()
        };
        let retry = RetryOptions { repeat_inserts: true, ..options.retry.clone() };
        let repeating = ClientOptions { retry, ..options.clone() };
        Self { table: table.with_options(options), repeating: table.with_options(repeating) }
    }

    /// The table. Its options are those of the handle that was given, but for reads from the secondary.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Reads one entity. One request.
    pub async fn get<E: Entity>(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        self.table.get(key).await
    }

    /// Reads some properties of one entity. One request.
    pub async fn get_as<P: Projection>(&self, key: Key<impl Entity>) -> Result<Option<Stored<P>>> {
        self.table.get_as(key).await
    }

    /// A query of a partition.
    pub fn query<E: Entity + Send + 'static>(&self, partition: rowkey::Partition<E>) -> Query<E> {
        self.table.query(partition)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.table.account().clock()
    }

    pub(crate) async fn row(&self, keys: &Keys) -> Result<Option<Stored<DynamicEntity>>> {
        self.row_as(keys).await
    }

    pub(crate) async fn row_as<P: Projection>(&self, keys: &Keys) -> Result<Option<Stored<P>>> {
        let read = self.get_as(Key::<DynamicEntity>::new(&*keys.0, &*keys.1)).await;
        // A read without an answer applied nothing.
        read.map_err(Error::not_applied)
    }

    /// Reads an entity with what its layers need.
    pub(crate) async fn head<E: Entity>(
        &self,
        layers: &Layers,
        keys: &Keys,
    ) -> Result<Option<Stored<Head<E>>>> {
        // A read without an answer applied nothing.
        let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
        layers.head(&self.table, key).await.map_err(Error::not_applied)
    }

    /// A transaction that is not sent again if it inserts and its answer is lost.
    pub(crate) fn transaction(&self) -> Transaction {
        self.table.transaction()
    }

    /// Sends a transaction of one operation; the ETag that it gave, `None` for a deletion.
    pub(crate) async fn write(&self, transaction: Transaction) -> Result<Option<ETag>> {
        Ok(transaction.submit().await?.pop().flatten())
    }

    /// Inserts a row whose repetition is recognised by its content.
    pub(crate) async fn insert(&self, row: &DynamicEntity) -> Result<ETag> {
        self.repeating.insert(row).await
    }
}
