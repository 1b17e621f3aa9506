//! Which entities of a table a command reads.

use clap::Args;
use rowkey::edm::DateTime;
use rowkey::patterns::job::{Job, Keys, Walk};
use rowkey::{DynamicEntity, Filter, Partition, Query, TIMESTAMP, Table};

use crate::duration;
use crate::error::{Error, Result};
use crate::jobs::Runner;

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
    /// The flag that selects by more than keys, if there is one.
    pub(crate) fn narrows_by_content(&self) -> Option<&'static str> {
        let filter = self.filter.is_some().then_some("--filter");
        self.since.is_some().then_some("--since").or(filter)
    }

    /// What the flags select. A job that goes on has the same times as when it began.
    pub(crate) fn of(&self, runner: &Runner) -> Result<Selected> {
        Selected::new(self.filter.as_deref(), self.partition.clone())?
            .since(self.since.as_deref(), runner)
    }
}

/// The entities that a command reads.
#[derive(Clone)]
pub(crate) struct Selected {
    filter: Option<Filter>,
    partition: Option<String>,
    since: Option<DateTime>,
    before: Option<DateTime>,
    /// What a checkpoint is tied to: flags as they were given, and the times that they meant.
    parameters: Vec<(&'static str, String)>,
}

impl Selected {
    pub(crate) fn new(filter: Option<&str>, partition: Option<String>) -> Result<Self> {
        let parameters = vec![
            ("filter", filter.unwrap_or_default().to_owned()),
            ("partition", partition.as_ref().map_or(String::new(), |key| format!("={key}"))),
        ];
        let filter = filter.map(Filter::raw).transpose();
        let filter = filter.map_err(|error| Error::usage(format!("--filter: {error}")))?;
        Ok(Self { filter, partition, since: None, before: None, parameters })
    }

    /// Only those whose Timestamp is not before a time.
    pub(crate) fn since(mut self, text: Option<&str>, runner: &Runner) -> Result<Self> {
        self.since = self.time(["since", "since_time"], "--since", text, runner)?;
        Ok(self)
    }

    /// Only those whose Timestamp is before a time.
    pub(crate) fn before(mut self, text: Option<&str>, runner: &Runner) -> Result<Self> {
        self.before = self.time(["older_than", "before_time"], "--older-than", text, runner)?;
        Ok(self)
    }

    fn time(
        &mut self,
        [name, meant]: [&'static str; 2],
        flag: &str,
        text: Option<&str>,
        runner: &Runner,
    ) -> Result<Option<DateTime>> {
        let Some(text) = text else { return Ok(None) };
        let begun = runner.resumed(meant).and_then(|time| time.parse().ok());
        let time = begun.map_or_else(|| duration::time(text), Ok);
        let time = time.map_err(|error| Error::usage(format!("{flag}: {error}")))?;
        self.parameters.extend([(name, text.to_owned()), (meant, time.to_string())]);
        Ok(Some(time))
    }

    pub(crate) fn query(
        &self,
    ) -> impl Fn(&Table) -> Query<DynamicEntity> + Send + Sync + 'static + use<> {
        let Self { filter, partition, since, before, .. } = self.clone();
        move |table| {
            let query = match &partition {
                Some(key) => table.query(Partition::<DynamicEntity>::new(&**key)),
                None => table.scan::<DynamicEntity>(),
            };
            let since = since.map(|time| TIMESTAMP.ge(time));
            let before = before.map(|time| TIMESTAMP.lt(time));
            let filters = filter.iter().cloned().chain(since).chain(before);
            filters.fold(query, Query::filter)
        }
    }

    /// The entities of a table in the order of their keys, one range.
    pub(crate) fn in_order(&self, table: &Table) -> Walk<DynamicEntity> {
        Walk::new(table, self.query())
    }

    /// The same in ranges that are split while they are read. A partition has nothing to split.
    pub(crate) fn walk(&self, table: &Table) -> Walk<DynamicEntity> {
        let walk = self.in_order(table);
        if self.partition.is_some() { walk } else { walk.split_automatically() }
    }

    /// Ties the checkpoint of a job to what is selected.
    pub(crate) fn tie<'j, W>(&self, job: Job<'j, W>) -> Job<'j, W> {
        let parameters = self.parameters.iter();
        parameters.fold(job, |job, (name, value)| job.parameter(*name, value))
    }

    /// The keys alone, for a job that counts.
    pub(crate) fn keys(&self, table: &Table) -> Walk<Keys> {
        let query = self.query();
        let walk = Walk::new(table, move |table| query(table).project::<Keys>());
        if self.partition.is_some() { walk } else { walk.split_automatically() }
    }
}
