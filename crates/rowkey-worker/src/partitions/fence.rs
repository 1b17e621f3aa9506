//! Fences: rows by which the service refuses the late writes of a program that no longer owns a partition.
//!
//! A fence is two rows in the PartitionKey that is written. `fence` has the largest token that has claimed it, and is
//! changed under its ETag, so tokens only grow. `fence_<token>` exists while no larger token has claimed it.
//! Each guarded transaction contains an empty merge of that row, which fails if the row does not exist. A
//! transaction is applied as a whole or not at all, so nothing is written after the row is gone, however late
//! the request arrives. Its ETag does not matter, so guarded transactions of one owner do not make each other
//! fail.

use std::fmt;

use rowkey_client::edm::Value;
use rowkey_client::{
    DynamicEntity, ETag, Error, ErrorKind, Match, Outcome, Partition, Result, Table, Transaction,
};
use rowkey_store::Deciding;

use crate::errors::may_be_applied;

/// The RowKey of the row with the largest token.
const LAST: &str = "fence";
/// The prefix of the RowKey of the row that exists while its token is the largest.
const VALID: &str = "fence_";
/// The exclusive end of the range of both.
const END: &str = "fence`";
/// The property with the token.
const TOKEN: &str = "FenceToken";
/// How often a claim begins again after another write to its rows.
const MAX_TRIES: usize = 8;

/// Guards the transactions on one PartitionKey: they fail once a later owner has claimed it.
///
/// Created by [`Owned::fence`](super::Owned::fence). The two rows of a fence have the RowKeys `fence` and `fence_`
/// with the token. Do not use these RowKeys for entities.
#[derive(Clone)]
pub struct Fence {
    table: Deciding,
    partition_key: String,
    token: u64,
}

impl Fence {
    /// Claims a PartitionKey for a token that grows with each owner, such as
    /// [`Held::token`](rowkey_patterns::lease_lock::Held::token) of a lease lock. [`Owned::fence`](super::Owned::fence)
    /// does this for the owner of a partition. Two requests, on the primary; one if this token has claimed it
    /// before.
    ///
    /// Fails with [`ErrorKind::Leased`] if a larger token has claimed it.
    ///
    /// ```
    /// use rowkey::worker::partitions::Fence;
    /// use rowkey::{DynamicEntity, ErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// let table = account.table("balances");
    /// table.create().await?;
    /// let first = Fence::claim(&table, "ada", 7).await?;
    /// let balance = DynamicEntity::new("ada", "balance");
    /// first.submit(table.transaction().insert(&balance)).await?;
    ///
    /// // The next owner claims it. The first one wakes up and writes.
    /// let second = Fence::claim(&table, "ada", 8).await?;
    /// let late = first.submit(table.transaction().upsert(&balance)).await.unwrap_err();
    /// assert_eq!(late.kind(), ErrorKind::Leased);
    /// second.submit(table.transaction().upsert(&balance)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn claim(table: &Table, partition_key: &str, token: u64) -> Result<Self> {
        let fence =
            Self { table: Deciding::new(table), partition_key: partition_key.to_owned(), token };
        let mut last_error = None;
        for _ in 0..MAX_TRIES {
            let rows = Partition::<DynamicEntity>::new(partition_key).row_keys(LAST..END);
            let rows = fence.table.table().query(rows).all().await?;
            let last = rows.iter().find(|row| row.entity.row_key == LAST);
            let largest = last.map(|row| fence.read(&row.entity)).transpose()?;
            if largest.is_some_and(|largest| largest > token) {
                return Err(fence.passed());
            }
            let valid = fence.valid_row();
            if largest == Some(token) && rows.iter().any(|row| row.entity.row_key == valid.row_key)
            {
                return Ok(fence);
            }
            let mut newest = DynamicEntity::new(partition_key, LAST);
            newest.set(TOKEN, token.to_string());
            let transaction = fence.table.table().transaction();
            let mut transaction = match last {
                Some(row) => transaction.replace((&newest, row.etag.clone())),
                None => transaction.insert(&newest),
            };
            for row in rows.iter().map(|row| &row.entity) {
                if row.row_key.starts_with(VALID) && row.row_key != valid.row_key {
                    transaction = transaction.delete(row.key(), Match::Any);
                }
            }
            match transaction.upsert(&valid).submit().await {
                Ok(_) => return Ok(fence),
                // Another owner claims it, or this claim was applied and its answer lost: the next look tells.
                Err(error) if may_be_applied(&error) => last_error = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last_error.unwrap_or_else(|| fence.passed()))
    }

    /// The token of the owner, which is larger than those of all earlier ones.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The PartitionKey that it guards.
    pub fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// Sends a transaction on the fence's PartitionKey that is applied only while no later owner has claimed it.
    /// It costs no more requests than [`Transaction::submit`], and one of the 100 operations.
    ///
    /// Fails with [`ErrorKind::Leased`] if a later owner has. Nothing is written then; drop the results,
    /// because the other owner does the work again. With [`Outcome::Unknown`], an earlier attempt with a lost
    /// response may have been applied before the claim. Otherwise it returns and fails as `submit` does.
    pub async fn submit(&self, transaction: Transaction) -> Result<Vec<Option<ETag>>> {
        let valid = self.valid_row();
        let guard = self.table.table().transaction().merge((&valid, Match::Any));
        match guard.append(transaction).submit().await {
            Ok(mut etags) => {
                etags.remove(0);
                Ok(etags)
            }
            Err(error) => match error.details().operation_index {
                // The answer to an earlier attempt was lost, and it may have come before the claim.
                Some(0)
                    if error.kind() == ErrorKind::NotFound
                        && error.outcome() == Outcome::Unknown =>
                {
                    let what = "a later owner has claimed this PartitionKey; an attempt before, whose answer was \
                                lost, may have been applied";
                    let error =
                        Error::refused(ErrorKind::Leased, what).with_outcome(Outcome::Unknown);
                    let error = error.of("Fence", self.table.table().name());
                    Err(error.advise("drop this work; the present owner reads what was written"))
                }
                Some(0) if error.kind() == ErrorKind::NotFound => Err(self.passed()),
                // As the caller counts.
                index => Err(error.at_operation(index.and_then(|index| index.checked_sub(1)))),
            },
        }
    }

    /// The row that exists while this token is the largest.
    fn valid_row(&self) -> DynamicEntity {
        DynamicEntity::new(&*self.partition_key, format!("{VALID}{:020}", self.token))
    }

    fn read(&self, row: &DynamicEntity) -> Result<u64> {
        let token = match row.properties.get(TOKEN) {
            Some(Value::String(token)) => token.parse().ok(),
            _ => None,
        };
        token.ok_or_else(|| {
            let what = "the row `fence` is not one that a fence wrote; it has no token";
            Error::refused(ErrorKind::Decode, what).of("Fence", self.table.table().name())
        })
    }

    fn passed(&self) -> Error {
        let what = "a later owner has claimed this PartitionKey; nothing was written";
        let error = Error::refused(ErrorKind::Leased, what).of("Fence", self.table.table().name());
        error.advise("drop this work; the present owner does it")
    }
}

impl fmt::Debug for Fence {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("table", self.table.table())
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
