//! The columns of rows that are inserted become those of the table.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue, TableReference};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use rowkey::Table;

use super::Target;
use crate::columns::unchanged;
use crate::error;
use crate::scan::EntitySource;

/// The rows with the columns of the table, by name; columns that they have not are NULL.
pub(super) fn to_table(
    input: Arc<dyn ExecutionPlan>,
    target: &Target,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (from, to) = (input.schema(), &target.schema);
    let is_same = from.fields().len() == to.fields().len()
        && from
            .fields()
            .iter()
            .zip(to.fields())
            .all(|(from, to)| from.name() == to.name() && from.data_type() == to.data_type());
    if is_same {
        return Ok(input);
    }
    let name = target.table.name();
    if let Some(unknown) = from.fields().iter().find(|field| to.index_of(field.name()).is_err()) {
        return Err(error::plan(format!(
            "the table {name} has no column {}; name it with `TableSource::column`, or do not insert it",
            unknown.name()
        )));
    }
    let columns = to.fields().iter().map(|field| {
        let expr: Arc<dyn PhysicalExpr> = match from.index_of(field.name()) {
            Ok(at) if from.field(at).data_type() == field.data_type() => {
                Arc::new(Column::new(field.name(), at))
            }
            Ok(at) => {
                let from = from.field(at).data_type();
                unchanged(&TableReference::bare(name), field.name(), from, field.data_type())?;
                let column = Arc::new(Column::new(field.name(), at));
                Arc::new(CastExpr::new(column, field.data_type().clone(), None))
            }
            Err(_) if field.is_nullable() => {
                Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?))
            }
            Err(_) => {
                return Err(error::plan(format!(
                    "a row for the table {name} needs a {}; add that column",
                    field.name()
                )));
            }
        };
        Ok(ProjectionExpr { expr, alias: field.name().clone() })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
}

/// Whether a plan reads this table.
pub(super) fn reads(plan: &Arc<dyn ExecutionPlan>, table: &Table) -> bool {
    let exec = plan.downcast_ref::<DataSourceExec>();
    let scan = exec.and_then(|exec| exec.downcast_to_file_source::<EntitySource>());
    scan.is_some_and(|(_, scan)| scan.table.is_same_table(table))
        || plan.children().into_iter().any(|child| reads(child, table))
}
