//! rowkey, as its documentation uses it.

use futures_util::TryStreamExt as _;
use rowkey::{StorageAccount, Table};

use super::run::{Client, Result, TABLE, WRITTEN};
use crate::model::Reading;
use crate::sign::{ACCOUNT, KEY};

#[derive(Debug)]
pub struct Ours {
    table: Table,
    written: Table,
}

impl Ours {
    pub fn new(host: &str) -> Result<Self> {
        let account = StorageAccount::from_connection_string(&format!(
            "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{host}/{ACCOUNT}"
        ))?;
        Ok(Self { table: account.table(TABLE), written: account.table(WRITTEN) })
    }
}

impl Client for Ours {
    async fn get(&self, partition: &str, row: &str) -> Result<bool> {
        Ok(self.table.get(Reading::key(partition, row)).await?.is_some())
    }

    async fn insert(&self, reading: &Reading) -> Result<()> {
        self.written.insert(reading).await?;
        Ok(())
    }

    async fn transact(&self, readings: &[Reading]) -> Result<usize> {
        let begun = self.written.transaction();
        let all = readings.iter().fold(begun, rowkey::Transaction::insert);
        Ok(all.submit().await?.iter().flatten().count())
    }

    async fn query(&self, partition: &str) -> Result<usize> {
        let mut entities = self.table.query(Reading::partition(partition)).stream();
        let mut count = 0;
        while let Some(entity) = entities.try_next().await? {
            count += usize::from(!entity.entity.row.is_empty());
        }
        Ok(count)
    }
}
