//! What `INSERT INTO` would do without a word: columns by position, and values that are cut or rounded.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;

/// Refuses an `INSERT INTO` that names no columns and whose query has a column of the table in the place of another one, and one that would cut or round values.
///
/// The columns of a table come from a sample, so their order is none that a program has chosen; SQL goes by position.
pub(super) fn check(state: &SessionState, text: &str, plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(DmlStatement { op, table_name, input, target, .. }) = explained(plan)
    else {
        return Ok(());
    };
    if !matches!(op, WriteOp::Insert(_)) {
        return other(op, table_name);
    }
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
            if let Expr::Cast(cast) = expression
                && !is_kept(&cast.expr, cast.field.data_type())
            {
                let from = cast.expr.get_type(&DFSchema::empty())?;
                uncut(table_name, "of its value", &from, cast.field.data_type())?;
            }
        }
        // The engine would say that its own `column1` is not nullable.
        let keys = values.schema.fields().iter().map(|field| !field.is_nullable());
        let is_key: Vec<_> = keys.collect();
        for row in &values.values {
            if row.iter().zip(&is_key).any(|(value, is_key)| *is_key && is_null(value)) {
                return plan_err!(
                    "a row for the table {table_name} has a key that is NULL; each needs a PartitionKey and a RowKey"
                );
            }
        }
    }
    Ok(())
}

/// The table to which a plan writes the rows of a query. `VALUES` are few.
pub(super) fn many(plan: &LogicalPlan) -> Option<&TableReference> {
    let LogicalPlan::Dml(DmlStatement { op: WriteOp::Insert(_), table_name, input, .. }) =
        explained(plan)
    else {
        return None;
    };
    let is_values = matches!(&**input, LogicalPlan::Projection(projection) if matches!(&*projection.input, LogicalPlan::Values(_)));
    (!is_values).then_some(table_name)
}

/// The plan that an `EXPLAIN` is about, or the plan itself.
fn explained(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Explain(explained) => &explained.plan,
        LogicalPlan::Analyze(analyzed) => &analyzed.input,
        plan => plan,
    }
}

/// Refuses statements that change or delete entities.
fn other(op: &WriteOp, table: &TableReference) -> Result<()> {
    match op {
        WriteOp::Update => plan_err!(
            "UPDATE {table} is not supported; REPLACE INTO {table} SELECT .. writes whole entities with the keys that the rows have"
        ),
        WriteOp::Delete => plan_err!(
            "DELETE FROM {table} is not supported; `rowkey purge` deletes the entities that a filter selects"
        ),
        WriteOp::Truncate => plan_err!(
            "TRUNCATE {table} is not supported; `rowkey purge {table} --all` deletes every entity"
        ),
        WriteOp::MergeInto(_) => plan_err!(
            "MERGE INTO {table} is not supported; REPLACE INTO {table} SELECT .. replaces the entities that exist and adds the others"
        ),
        _ => Ok(()),
    }
}

/// Whether an expression is NULL, converted or not.
fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Whether an integer in the statement is the same number as a Double.
fn is_kept(expression: &Expr, to: &DataType) -> bool {
    let Expr::Literal(value, _) = expression else { return false };
    let integer = value.cast_to(&DataType::Int64).ok();
    let integer = integer.and_then(|value| i64::try_from(value).ok());
    *to == DataType::Float64
        && value.data_type().is_integer()
        && integer.is_some_and(|integer| integer.unsigned_abs() <= EXACT)
}

/// Up to here each integer is a Double.
const EXACT: u64 = 1 << 53;
/// Digits of a decimal number that a Double keeps.
const DIGITS: u8 = 15;

/// Refuses a conversion that cuts values, or may round them.
fn uncut(table: &TableReference, column: &str, from: &DataType, to: &DataType) -> Result<()> {
    let decimal = match from {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => Some((*digits, *scale)),
        _ => None,
    };
    let has_fractions = from.is_floating() || decimal.is_some_and(|(_, scale)| scale > 0);
    if (has_fractions && to.is_integer()) || (from.is_numeric() && *to == DataType::Boolean) {
        return plan_err!(
            "INSERT INTO {table} would cut values of the type {from} to {to} for the column {column}; convert them in a SELECT, as by \
             CAST(round(x) AS BIGINT)"
        );
    }
    let is_long = matches!(from, DataType::Int64 | DataType::UInt64)
        || decimal.is_some_and(|(digits, _)| digits > DIGITS);
    if is_long && *to == DataType::Float64 {
        return plan_err!(
            "INSERT INTO {table} would round values of the type {from} that have more than {DIGITS} digits to {to} for the column {column}; \
             convert them in a SELECT, by CAST(x AS DOUBLE)"
        );
    }
    Ok(())
}

/// Whether an `INSERT INTO` has a list of columns.
fn names_columns(state: &SessionState, text: &str) -> Result<bool> {
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(text, &dialect)?;
    while let Statement::Explain(explained) = statement {
        statement = *explained.statement;
    }
    let Statement::Statement(statement) = statement else { return Ok(true) };
    Ok(match *statement {
        ast::Statement::Insert(insert) => !insert.columns.is_empty(),
        _ => true,
    })
}
