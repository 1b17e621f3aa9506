//! `CREATE TABLE`, with rows and without.

use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::TableProvider as _;
use datafusion::common::{Constraint, Result, not_impl_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    CreateMemoryTable, EmptyRelation, LogicalPlan, LogicalPlanBuilder, lit,
};
use datafusion::prelude::DataFrame;
use rowkey::{Error, ErrorKind};

use super::{Allow, columns, nothing};
use crate::catalog::Catalog;
use crate::columns::{PARTITION_KEY, ROW_KEY};
use crate::error;
use crate::scan::TableSource;

/// How long the service may block the name of a table that was dropped, and some more.
const BLOCKED: Duration = Duration::from_secs(90);

pub(super) async fn create(
    state: SessionState,
    catalog: &Catalog,
    name: &str,
    create: CreateMemoryTable,
    allow: Allow<'_>,
) -> Result<DataFrame> {
    if create.or_replace {
        return not_impl_err!(
            "CREATE OR REPLACE TABLE would delete all entities of the table {name}; DROP TABLE {name} first"
        );
    }
    check(name, &create)?;
    let query = state.optimize(&create.input)?;
    let columns = columns::of_query(name, query.schema().as_arrow())?;
    let table = catalog.table(name);
    let (mode, most_rejects) = catalog.mode();
    let source = TableSource::new(table.clone(), columns, mode, most_rejects);
    let rows = if is_empty(&create.input) {
        None
    } else {
        let (rows, target) =
            (Arc::unwrap_or_clone(create.input), provider_as_source(Arc::new(source.clone())));
        let insert = LogicalPlanBuilder::insert_into(rows, create.name, target, InsertOp::Append)?;
        let rows = DataFrame::new(state.clone(), insert.build()?);
        // Errors of the query come before the table is created.
        allow(&rows.clone().create_physical_plan().await?)?;
        Some(rows)
    };
    let created = table.create_if_missing_within(BLOCKED).await.map_err(error::of_service)?;
    if !created && !create.if_not_exists {
        let exists = Error::refused(ErrorKind::AlreadyExists, "the table exists already");
        return Err(error::of_service(
            exists
                .of("CREATE TABLE", name)
                .advise("CREATE TABLE IF NOT EXISTS allows that, and INSERT INTO adds rows to it"),
        ));
    }
    match rows {
        Some(rows) if created => {
            // A sample of its rows may not show all columns.
            catalog.keep(name, source.schema());
            Ok(rows)
        }
        Some(_) => {
            let none = LogicalPlanBuilder::empty(true).project([lit(0_u64).alias("count")])?;
            Ok(DataFrame::new(state, none.build()?))
        }
        None => {
            // Also of one that exists: its rows or a sample of them may not have all columns.
            catalog.keep(name, source.schema());
            nothing(state)
        }
    }
}

/// Whether a statement has columns and no query.
const fn is_empty(input: &LogicalPlan) -> bool {
    matches!(input, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, .. }))
}

/// Refuses what a table of an account cannot have.
fn check(name: &str, create: &CreateMemoryTable) -> Result<()> {
    if let Some((column, _)) = create.column_defaults.first() {
        return not_impl_err!(
            "the column {column} of the table {name} has a default value, which an account does not keep; insert the value"
        );
    }
    let schema = create.input.schema();
    let is_key = |name: &str| matches!(name, PARTITION_KEY | ROW_KEY);
    let required =
        schema.fields().iter().find(|field| !field.is_nullable() && !is_key(field.name()));
    if let Some(column) = required.filter(|_| is_empty(&create.input)) {
        return not_impl_err!(
            "the column {} of the table {name} is NOT NULL, which an account does not check; leave that out",
            column.name()
        );
    }
    for constraint in create.constraints.iter() {
        let keys = match constraint {
            Constraint::PrimaryKey(columns) => {
                columns.iter().map(|at| schema.field(*at).name().as_str()).collect()
            }
            Constraint::Unique(_) => Vec::new(),
        };
        if !(keys.len() == 2 && keys.contains(&PARTITION_KEY) && keys.contains(&ROW_KEY)) {
            return not_impl_err!(
                "the table {name} has another key than (PartitionKey, RowKey), which no table of an account has; leave the constraint out"
            );
        }
    }
    Ok(())
}
