//! Deciding reads: reads on the primary, for writes, claims and repairs that depend on them. What the errors of the
//! conditional writes that follow mean.

use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::{
    ClientOptions, Clock, DynamicEntity, ETag, Entity, Error, ErrorKind, Key, Outcome, Projection,
    Query, Result, RetryOptions, ScanPolicy, Stored, Table, Transaction,
};

use crate::row::{Keys, Marked};

/// A table for reads that decide.
///
/// It reads only the primary and ignores the account's `read_from_secondary`: a secondary may be minutes
/// behind, and stale data must not decide a write. Its queries may scan, because jobs read whole
/// tables on purpose.
///
/// ```
/// use rowkey::store::Deciding;
/// use rowkey::{ClientOptions, StorageAccount};
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
    /// Returns the same table, read on the primary.
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

    /// Returns the table. Its options are those of the given handle, except for reads from the
    /// secondary.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Reads one entity. One request.
    ///
    /// ```
    /// # use rowkey::store::Deciding;
    /// # use rowkey::{DynamicEntity, Key, Partition, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("events");
    /// # table.create().await?;
    /// # table.insert(&DynamicEntity::new("device-7", "1")).await?;
    /// let deciding = Deciding::new(&table);
    /// let event = deciding.get(Key::<DynamicEntity>::new("device-7", "1")).await?.ok_or("not found")?;
    /// let all = deciding.query(Partition::<DynamicEntity>::new("device-7")).all().await?;
    /// assert_eq!(all, [event]);
    /// # Ok(()) }
    /// ```
    pub async fn get<E: Entity>(&self, key: Key<E>) -> Result<Option<Stored<E>>> {
        self.table.get(key).await
    }

    /// Reads selected properties of one entity. One request.
    pub async fn get_as<P: Projection>(&self, key: Key<impl Entity>) -> Result<Option<Stored<P>>> {
        self.table.get_as(key).await
    }

    /// Queries a partition.
    pub fn query<E: Entity + Send + 'static>(
        &self,
        partition: rowkey_client::Partition<E>,
    ) -> Query<E> {
        self.table.query(partition)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.table.account().clock()
    }

    pub(crate) fn row<'a>(
        &'a self,
        keys: &'a Keys,
    ) -> BoxFuture<'a, Result<Option<Stored<DynamicEntity>>>> {
        async move { self.row_as(keys).await }.boxed()
    }

    pub(crate) async fn row_as<P: Projection>(&self, keys: &Keys) -> Result<Option<Stored<P>>> {
        let read = self.get_as(Key::<DynamicEntity>::new(&*keys.0, &*keys.1)).await;
        // An unanswered read changed nothing.
        read.map_err(|error| error.with_outcome(Outcome::Rejected))
    }

    /// Begins a transaction that is not sent again if it inserts and its response is lost.
    pub(crate) fn transaction(&self) -> Transaction {
        self.table.transaction()
    }

    /// Sends a transaction of one operation; returns its ETag, or `None` for a deletion.
    pub(crate) async fn write(&self, transaction: Transaction) -> Result<Option<ETag>> {
        Ok(transaction.submit().await?.pop().flatten())
    }

    /// Inserts a row. If the response is lost, compares the stored row to recognize its own insert.
    pub(crate) async fn insert(&self, row: &DynamicEntity) -> Result<ETag> {
        self.repeating.insert(row).await
    }
}

/// Whether a row is unchanged since it was read.
pub(crate) async fn is_still(deciding: &Deciding, keys: &Keys, etag: &ETag) -> Result<bool> {
    let now = deciding.row_as::<Marked>(keys).await?;
    Ok(now.is_some_and(|now| now.etag == *etag))
}

/// Whether a conditional write was refused because of another writer.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::Rejected
        && error.code() != Some(&rowkey_client::ErrorCode::TABLE_NOT_FOUND)
        && error.code() != Some(&rowkey_client::ErrorCode::CONTAINER_NOT_FOUND)
        && matches!(
            error.kind(),
            ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound
        )
}

/// Whether the answer to a write arrived and cannot be decoded. The same request would get the same answer, so
/// repeating it does not help.
pub(crate) fn is_undecodable(error: &Error) -> bool {
    error.kind() == ErrorKind::Decode && error.outcome() == Outcome::Unknown
}
