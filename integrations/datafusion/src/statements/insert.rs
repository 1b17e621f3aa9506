//! What `INSERT INTO` would do without a word: columns by position, and values that are cut.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

/// Refuses an `INSERT INTO` that names no columns and whose query has a column of the table in the place of another one, and one that would cut values.
///
/// The columns of a table come from a sample, so their order is none that a program has chosen; SQL goes by position.
pub(super) fn check(state: &SessionState, text: &str, plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(DmlStatement {
        op: WriteOp::Insert(_), table_name, input, target, ..
    }) = plan
    else {
        return Ok(());
    };
    let columns = target.schema();
    let LogicalPlan::Projection(projection) = &**input else { return Ok(()) };
    let names_columns = names_columns(state, text)?;
    for expression in &projection.expr {
        let (written, source) = match expression {
            Expr::Alias(alias) => (alias.name.clone(), &*alias.expr),
            other => (other.qualified_name().1, other),
        };
        let (cast, source) = match source {
            Expr::Cast(cast) => (Some(cast.field.data_type()), &*cast.expr),
            other => (None, other),
        };
        if let Expr::Column(column) = source
            && !names_columns
            && column.name != written
            && columns.fields().find(&column.name).is_some()
        {
            return plan_err!(
                "INSERT INTO {table_name} without a list of columns is by position, and would write the column {} as {written}; name the columns: \
                 INSERT INTO {table_name} (PartitionKey, RowKey, …)",
                column.name
            );
        }
        if let Some(to) = cast {
            let from = source.get_type(projection.input.schema())?;
            uncut(table_name, &written, &from, to)?;
        }
    }
    // The engine converts `VALUES` where they stand.
    if let LogicalPlan::Values(values) = &*projection.input {
        for expression in values.values.iter().flatten() {
            if let Expr::Cast(cast) = expression {
                let from = cast.expr.get_type(&DFSchema::empty())?;
                uncut(table_name, "of its value", &from, cast.field.data_type())?;
            }
        }
    }
    Ok(())
}

/// Refuses a conversion that cuts values.
fn uncut(table: &TableReference, column: &str, from: &DataType, to: &DataType) -> Result<()> {
    if (from.is_floating() && to.is_integer()) || (from.is_numeric() && *to == DataType::Boolean) {
        return plan_err!(
            "INSERT INTO {table} would cut values of the type {from} to {to} for the column {column}; convert them in the query, as by \
             CAST(round(x) AS BIGINT)"
        );
    }
    Ok(())
}

/// Whether an `INSERT INTO` has a list of columns.
fn names_columns(state: &SessionState, text: &str) -> Result<bool> {
    let dialect = state.config().options().sql_parser.dialect;
    let statement = state.sql_to_statement(text, &dialect)?;
    let Statement::Statement(statement) = statement else { return Ok(true) };
    Ok(match *statement {
        ast::Statement::Insert(insert) => !insert.columns.is_empty(),
        _ => true,
    })
}
