//! Writes: `INSERT INTO` a table.
//!
//! - this file: [`WriteMode`], and the plan of an `INSERT` · `fit`: the columns of the rows become those of the table
//! - `write`: writes the rows of each partition of the input · `total`: adds the counts, and decides whether there were too many rejects

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use rowkey::Table;

use crate::columns::Rows;
use crate::error;
use crate::scan::whole;

mod fit;
mod total;
mod write;

pub(crate) use total::TotalExec;
pub(crate) use write::WriteExec;

/// What `INSERT INTO` does with a row whose key an entity has already. `REPLACE INTO` upserts with either.
///
/// Rows are written as they are read, in entity group transactions of up to 100 rows of a partition, and are not undone: an `INSERT` that is
/// interrupted or fails leaves the rows that it has written.
///
/// ```
/// use std::sync::Arc;
///
/// use rowkey_datafusion::{TableSource, WriteMode, session};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("airports");
/// table.create().await?;
/// let airports = TableSource::open(&table).column("country", rowkey::edm::Type::String);
/// let session = session();
/// session.register_table("airports", Arc::new(airports.write(WriteMode::Upsert).await?))?;
/// for name in ["SE", "Sweden"] {
///     let insert = format!("INSERT INTO airports (PartitionKey, RowKey, country) VALUES ('airport', 'ARN', '{name}')");
///     session.sql(&insert).await?.collect().await?;
/// }
/// # let key = rowkey::Key::<rowkey::DynamicEntity>::new("airport", "ARN");
/// # assert_eq!(table.get(key).await?.ok_or("absent")?.entity.get_as::<String>("country")?, "Sweden");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// The row is rejected, and counts against [`Open::rejects`](crate::Open::rejects); the other rows are written.
    ///
    /// A row whose entity is stored already with exactly its properties counts as written. So an `INSERT` that was interrupted can be run
    /// again if it selects the same rows; rows that differ from what it left are rejected. Of two different rows with one key, one is rejected.
    #[default]
    Insert,
    /// The entity is replaced: properties that the row has not are lost. An `INSERT` can be run again, with the rows of either run.
    ///
    /// Of two rows with one key, either may be left.
    Upsert,
}

/// What rows are written to, and how.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) table: Table,
    /// The columns of the rows.
    pub(crate) schema: SchemaRef,
    /// Which rows of the table are those of its type.
    pub(crate) rows: Arc<Rows>,
    pub(crate) mode: WriteMode,
    /// With more rejects than these the statement fails.
    pub(crate) most_rejects: u64,
}

/// The plan that writes the rows of a plan, and has one row with the number of those that are written.
pub(crate) fn insert(
    target: Target,
    input: Arc<dyn ExecutionPlan>,
    operation: InsertOp,
) -> Result<Arc<dyn ExecutionPlan>> {
    let name = target.table.name().to_owned();
    let mode = match operation {
        InsertOp::Append => target.mode,
        InsertOp::Replace => WriteMode::Upsert,
        InsertOp::Overwrite => {
            return Err(error::plan(format!(
                "INSERT OVERWRITE would delete all other entities of the table {name}, and is not supported; use REPLACE INTO to \
                 replace the entities that have the keys of the rows, or DROP TABLE and CREATE TABLE .. AS"
            )));
        }
    };
    let target = Target { mode, ..target };
    let input = fit::to_table(whole(input)?, &target)?;
    let reads_itself = fit::reads(&input, &target.table);
    let most_rejects = target.most_rejects;
    let write = WriteExec::new(input, target, reads_itself)?;
    let all = CoalescePartitionsExec::new(Arc::new(write));
    Ok(Arc::new(TotalExec::new(Arc::new(all), name, most_rejects)))
}
