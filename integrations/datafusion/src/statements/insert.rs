//! What `INSERT INTO` would do without a word: columns by position, and values that are cut or rounded.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, TableReference, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, Statement, Values, WriteOp};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast;

use crate::catalog::Catalogs;
use crate::columns::{PARTITION_KEY, ROW_KEY, TIMESTAMP, unchanged};
use crate::error;

/// Refuses an `INSERT INTO` that names no columns and whose query has a column of the table in the place of another one, and one that would cut or round values.
///
/// The columns of a table come from a sample, so their order is none that a program has chosen; SQL goes by position.
pub(super) fn check(state: &SessionState, text: &str, plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(DmlStatement { op, table_name, input, target, .. }) = explained(plan)
    else {
        return Ok(());
    };
    let columns = target.schema();
    // What files and tables in memory can have is the engine's to say.
    if [PARTITION_KEY, ROW_KEY].iter().any(|key| columns.fields().find(key).is_none()) {
        return Ok(());
    }
    if !matches!(op, WriteOp::Insert(_)) {
        return other(op, table_name);
    }
    if matches!(plan, LogicalPlan::Statement(Statement::Prepare(_))) {
        return plan_err!(
            "PREPARE of a statement that writes to {table_name} is not supported, because the types of its values are not known; run it as it is"
        );
    }
    // With the conversions of the engine, as those of UNION and CASE.
    let input = state.analyzer().execute_and_check(
        input.as_ref().clone(),
        state.config_options(),
        |_, _| {},
    )?;
    let LogicalPlan::Projection(projection) = &input else { return Ok(()) };
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
        let literal = projected(source, &projection.input);
        if let Some(to) = cast.filter(|to| !is_kept(literal, to)) {
            let from = source.get_type(projection.input.schema())?;
            unchanged(table_name, &written, &from, to)?;
        }
    }
    // The engine converts `VALUES` where they stand, also in a subquery.
    input.apply(|node| {
        if let LogicalPlan::Values(list) = node {
            values(table_name, list)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The error of an `INSERT INTO` that does not fit the columns of its table, with what to do; or the error itself.
pub(super) async fn told(
    session: &SessionContext,
    text: &str,
    error: DataFusionError,
) -> DataFusionError {
    let state = session.state();
    let Ok(Some(ast::TableObject::TableName(name))) =
        inserted(&state, text).map(|insert| insert.map(|insert| insert.table))
    else {
        return error;
    };
    let table = TableReference::parse_str_normalized(&name.to_string(), true);
    let catalogs = state.config().get_extension::<Catalogs>();
    let is_ours = catalogs.is_some_and(|catalogs| catalogs.find(state.config(), &table).is_some());
    let (true, Ok(source)) = (is_ours, session.table_provider(table.clone()).await) else {
        return error;
    };
    let schema = source.schema();
    let mut names = schema.fields().iter().map(|field| field.name().as_str());
    if names.all(|name| matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP)) {
        return error::plan(format!(
            "the table {table} has no rows, so no columns but its keys and the Timestamp; name them: CREATE TABLE IF NOT EXISTS {table} \
             (PartitionKey TEXT, RowKey TEXT, …)"
        ));
    }
    let text = error.to_string();
    if COUNT.iter().any(|count| text.contains(count)) {
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return error::plan(format!(
            "INSERT INTO {table} without a list of columns needs a value for each column, which are {}; name the columns: \
             INSERT INTO {table} (PartitionKey, RowKey, …)",
            names.join(", ")
        ));
    }
    error
}

/// What the engine says of another number of columns, and of values.
const COUNT: [&str; 2] =
    ["Column count doesn't match insert query", "Inconsistent data length across values list"];

/// Checks the rows of `VALUES`.
fn values(table: &TableReference, values: &Values) -> Result<()> {
    for expression in values.values.iter().flatten() {
        if let Expr::Cast(cast) = expression
            && !is_kept(&cast.expr, cast.field.data_type())
        {
            let from = cast.expr.get_type(&DFSchema::empty())?;
            unchanged(table, "of its value", &from, cast.field.data_type())?;
        }
    }
    // The engine would say that its own `column1` is not nullable.
    let keys = values.schema.fields().iter().map(|field| !field.is_nullable());
    let is_key: Vec<_> = keys.collect();
    for row in &values.values {
        if row.iter().zip(&is_key).any(|(value, is_key)| *is_key && is_null(value)) {
            return plan_err!(
                "a row for the table {table} has a key that is NULL; each needs a PartitionKey and a RowKey"
            );
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
pub(super) fn explained(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Explain(explained) => &explained.plan,
        LogicalPlan::Analyze(analyzed) => &analyzed.input,
        LogicalPlan::Statement(Statement::Prepare(prepared)) => &prepared.input,
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

/// What a column of a query is computed by, or the expression itself.
fn projected<'e>(expression: &'e Expr, input: &'e LogicalPlan) -> &'e Expr {
    let (Expr::Column(column), LogicalPlan::Projection(projection)) = (expression, input) else {
        return expression;
    };
    let at = input.schema().index_of_column(column).ok();
    match at.and_then(|at| projection.expr.get(at)) {
        Some(Expr::Alias(alias)) => &alias.expr,
        found => found.unwrap_or(expression),
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

/// Whether an `INSERT INTO` has a list of columns.
fn names_columns(state: &SessionState, text: &str) -> Result<bool> {
    Ok(inserted(state, text)?.is_none_or(|insert| !insert.columns.is_empty()))
}

/// The `INSERT INTO` of a text, if it is one.
fn inserted(state: &SessionState, text: &str) -> Result<Option<ast::Insert>> {
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(text, &dialect)?;
    while let parser::Statement::Explain(explained) = statement {
        statement = *explained.statement;
    }
    let parser::Statement::Statement(statement) = statement else { return Ok(None) };
    Ok(match *statement {
        ast::Statement::Insert(insert) => Some(insert),
        _ => None,
    })
}
