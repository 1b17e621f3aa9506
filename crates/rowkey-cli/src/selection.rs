//! Which entities of a table a command copies or exports.

use clap::Args;
use rowkey::edm::DateTime;
use rowkey::patterns::job::Walk;
use rowkey::{DynamicEntity, Filter, Operator, Partition, Table};

use crate::age;
use crate::error::{Error, Result};

/// Flags that narrow what a command reads.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only entities that match this OData filter, such as `Cents gt 500L`. The service reads the whole table for it nevertheless.
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Only the partition with this PartitionKey.
    #[arg(long, value_name = "KEY")]
    partition: Option<String>,
    /// Only entities that were written within this time, such as 30m, 12h or 7d, or since a time such as 2026-11-20T00:00:00Z. The
    /// service reads the whole table for it, and entities that were deleted are not found.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

impl Selection {
    /// The entities of a table, in ranges that are split while they are read.
    pub(crate) fn walk(&self, table: &Table) -> Result<Walk<DynamicEntity>> {
        Ok(self.in_order(table)?.split_automatically())
    }

    /// The entities of a table in the order of their keys, one range.
    pub(crate) fn in_order(&self, table: &Table) -> Result<Walk<DynamicEntity>> {
        let filter = self.filter.as_deref().map(Filter::raw).transpose();
        let filter = filter.map_err(|error| Error::usage(format!("--filter: {error}")))?;
        let since = self.since.as_deref().map(age::time).transpose();
        let since = since.map_err(|error| error.during("--since"))?;
        let since = since.map(|time| Filter::dynamic("Timestamp", Operator::GreaterOrEqual, time));
        let partition = self.partition.clone();
        Ok(Walk::new(table, move |table| {
            let query = match &partition {
                Some(key) => table.query(Partition::<DynamicEntity>::new(&**key)),
                None => table.scan(),
            };
            filter.iter().chain(&since).cloned().fold(query, rowkey::Query::filter)
        }))
    }

    /// The flags as text, to which a checkpoint is tied.
    pub(crate) fn parameter(&self) -> String {
        format!("{:?} {:?} {:?}", self.filter, self.partition, self.since)
    }

    /// Refuses what would select other entities when the command is repeated to go on from a checkpoint.
    pub(crate) fn check_repeatable(&self) -> Result<()> {
        if let Some(since) = &self.since
            && since.parse::<DateTime>().is_err()
        {
            let time = age::time(since).map_err(|error| error.during("--since"))?;
            return Err(Error::usage(format!(
                "--since {since} is another time when the command goes on from its checkpoint; write --since {time}"
            )));
        }
        Ok(())
    }
}
