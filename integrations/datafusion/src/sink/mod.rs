//! Writes: `INSERT INTO` a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;
use rowkey::Table;

/// What `INSERT INTO` does with a row whose key an entity has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// The row is rejected.
    #[default]
    Insert,
    /// The entity is replaced.
    Upsert,
}

pub(crate) fn insert(
    _table: &Table,
    _schema: &SchemaRef,
    _mode: WriteMode,
    _input: Arc<dyn ExecutionPlan>,
    _operation: InsertOp,
) -> Result<Arc<dyn ExecutionPlan>> {
    not_impl_err!("INSERT")
}
