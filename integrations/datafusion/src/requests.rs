//! What a plan requests of tables: how much the service reads for it, the ranges of keys, and what is sent.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use rowkey::Cost;

use crate::columns::{PARTITION_KEY, ROW_KEY, Rows, TIMESTAMP};
use crate::keys::{Interval, Keys, Span};
use crate::scan::{EntitySource, Range};

/// The most rows that a query may read of a whole table without a word.
const FEW: usize = 1_000;
/// The most ranges that are shown.
const SHOWN: usize = 20;

/// What each response has.
const KEYS: [&str; 3] = [PARTITION_KEY, ROW_KEY, TIMESTAMP];

/// What a plan requests of one table, as [`requests`] finds it.
///
/// Shown, it has the keys and values of the query's conditions: treat it as you treat the query.
#[derive(Clone)]
pub struct TableRequests {
    table: String,
    account: String,
    cost: Cost,
    spans: Vec<Span>,
    filter: Option<String>,
    select: Vec<String>,
    limit: Option<usize>,
    /// Whether it waits for what a join needs.
    waits: bool,
    reads_all: bool,
}

impl TableRequests {
    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The name of its account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// How much the service reads for the most expensive range.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// The fewest requests that the scan sends: one for each range. Each page of 1,000 rows is another one.
    ///
    /// None, if what a join needs decides which of the ranges are read.
    pub fn least(&self) -> usize {
        match self.limit {
            _ if self.waits => 0,
            // Later ranges are not read if the first ones have enough rows.
            Some(_) => 1,
            None => self.spans.len(),
        }
    }

    /// Whether the service may read the whole table, or a range of partitions, for more than 1,000 rows.
    pub const fn is_table_scan(&self) -> bool {
        self.reads_all
    }
}

/// What a plan requests of tables, an item for each scan. Sends nothing.
///
/// ```
/// use rowkey_datafusion::{Accounts, SessionOptions, requests, session_of};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("orders").create().await?;
/// # account.table("orders").insert(&rowkey::DynamicEntity::new("contoso", "1")).await?;
/// # let session = session_of(&Accounts::of([account])?, SessionOptions::default())?;
/// let query = session.sql("SELECT * FROM orders WHERE PartitionKey = 'contoso' AND RowKey = '1'").await?;
/// let requests = requests(&query.create_physical_plan().await?);
/// assert_eq!(requests[0].cost(), rowkey::Cost::PointQuery);
/// assert_eq!(requests[0].least(), 1);
/// # Ok(()) }
/// ```
pub fn requests(plan: &Arc<dyn ExecutionPlan>) -> Vec<TableRequests> {
    let mut found = Vec::new();
    collect(plan, &mut found);
    found
}

/// The names of the tables of which a plan reads more than 1,000 rows from more than single partitions.
pub fn table_scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut names: Vec<_> = requests(plan)
        .into_iter()
        .filter(TableRequests::is_table_scan)
        .map(|scan| scan.table)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn collect(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<TableRequests>) {
    if let Some(requests) = of_scan(plan) {
        found.push(requests);
    }
    plan.children().into_iter().for_each(|child| collect(child, found));
}

fn of_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<TableRequests> {
    let exec = plan.downcast_ref::<DataSourceExec>()?;
    let (config, source) = exec.downcast_to_file_source::<EntitySource>()?;
    let files = config.file_groups.iter().flat_map(|group| group.files());
    let spans: Vec<Span> = files
        .filter_map(|file| file.extension::<Arc<Range>>())
        .map(|range| range.span.clone())
        .collect();
    let cost = spans.iter().map(cost).max().unwrap_or(Cost::PointQuery);
    let read = &source.read;
    // Rows that are read and do not count would make a limit mean nothing.
    let is_whole =
        read.filter.is_none() && read.check == Keys::default() && *read.rows == Rows::ALL;
    let is_few = config.limit.is_some_and(|limit| limit <= FEW) && is_whole;
    Some(TableRequests {
        table: source.table.name().to_owned(),
        account: source.table.account().name().to_owned(),
        cost,
        spans,
        // A filter that cannot be sent fails when it is.
        filter: read.filter.as_ref().and_then(|filter| filter.to_odata().ok()),
        select: source.select(),
        limit: config.limit,
        waits: source.waits(),
        reads_all: cost == Cost::TableScan && !is_few,
    })
}

fn cost(span: &Span) -> Cost {
    if span.is_point() {
        Cost::PointQuery
    } else if !span.is_of_one_partition() {
        Cost::TableScan
    } else if span.row.is_all() {
        Cost::PartitionScan
    } else {
        Cost::RangeQuery
    }
}

impl fmt::Debug for TableRequests {
    /// Does not show keys and values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRequests")
            .field("table", &self.table)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for TableRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.table, self.cost)?;
        let at_least = match self.least() {
            1 => "at least 1".to_owned(),
            0 => "as a join needs".to_owned(),
            least => format!("at least {least}"),
        };
        writeln!(
            f,
            "  requests: {at_least}, one for each range, and one for each further 1,000 rows"
        )?;
        for (number, span) in self.spans.iter().take(SHOWN).enumerate() {
            let label = if number == 0 { "ranges:  " } else { "         " };
            let conditions: Vec<_> = condition("PartitionKey", &span.partition)
                .into_iter()
                .chain(condition("RowKey", &span.row))
                .collect();
            let conditions = if conditions.is_empty() {
                "all keys".to_owned()
            } else {
                conditions.join(" and ")
            };
            writeln!(f, "  {label} {conditions}")?;
        }
        if let Some(more) = self.spans.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(f, "            and {more} more")?;
        }
        if let Some(filter) = &self.filter {
            writeln!(f, "  $filter:  {filter}")?;
        }
        writeln!(
            f,
            "  $select:  {}",
            KEYS.into_iter()
                .chain(self.select.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(",")
        )?;
        if let Some(limit) = self.limit {
            writeln!(f, "  limit:    {limit}")?;
        }
        Ok(())
    }
}

/// The bounds of a key; `None` if it has none.
fn condition(name: &str, keys: &Interval) -> Option<String> {
    if keys.is_all() {
        return None;
    }
    if let Some(key) = keys.point() {
        return Some(format!("{name} = {}", quoted(key)));
    }
    let from = match &keys.from {
        Bound::Included(key) => Some(format!("{name} >= {}", quoted(key))),
        Bound::Excluded(key) => Some(format!("{name} > {}", quoted(key))),
        Bound::Unbounded => None,
    };
    let to = match &keys.to {
        Bound::Included(key) => Some(format!("{name} <= {}", quoted(key))),
        Bound::Excluded(key) => Some(format!("{name} < {}", quoted(key))),
        Bound::Unbounded => None,
    };
    Some(from.into_iter().chain(to).collect::<Vec<_>>().join(" and "))
}

/// A key as a literal of SQL.
fn quoted(key: &str) -> String {
    format!("'{}'", key.replace('\'', "''"))
}
