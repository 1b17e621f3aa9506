//! Statements that create and drop tables of an account; all others are DataFusion's.
//!
//! - this file: [`sql`], and `DROP TABLE` · `create`: `CREATE TABLE` · `insert`: what `INSERT INTO` must not do · `columns`: the columns of a query as those of a table

use std::sync::Arc;

use datafusion::common::{Result, not_impl_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, DropTable, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use rowkey::{Error, ErrorKind};

use crate::catalog::{Catalog, Catalogs};
use crate::{error, files};

mod columns;
mod create;
mod insert;

/// Decides whether a plan may be executed.
type Allow<'a> = &'a (dyn Fn(&Arc<dyn ExecutionPlan>) -> Result<()> + Sync);

/// Plans a statement, as [`SessionContext::sql`] does, and creates and drops tables of the accounts of [`session_of`](crate::session_of).
///
/// - `CREATE TABLE copies AS SELECT …` creates the table in the account, and returns a [`DataFrame`] that writes the rows when it is executed,
///   without collecting them; its row is their number. What a failed or interrupted one leaves is the table with the rows that were
///   written: [`WriteMode`](crate::WriteMode) says whether `INSERT INTO` can continue it. The query needs the columns `PartitionKey` and `RowKey`; the
///   others are stored with the type that fits. A `Timestamp` is left out, because the service sets it.
/// - `CREATE TABLE orders (PartitionKey TEXT, RowKey TEXT, cents BIGINT)` creates an empty table. An account keeps no columns of a table, so they
///   last as long as the session. With `IF NOT EXISTS`, a table that exists gets these columns in the session, beside those of the sample.
/// - `DROP TABLE orders` deletes the table with all its entities, without a question.
///
/// With `IF NOT EXISTS` and `IF EXISTS`, nothing is done, and no error returned, if the table exists or does not. The service blocks the name of a
/// table for about 40 seconds after it is dropped; `CREATE TABLE` waits that long.
///
/// All else is done by `SessionContext::sql`: also tables of other catalogs, and views and files of the session.
///
/// ```
/// use rowkey_datafusion::{Accounts, SessionOptions, session_of, sql};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("orders").create().await?;
/// # account.table("orders").insert(&rowkey::DynamicEntity::new("contoso", "1")).await?;
/// let session = session_of(&Accounts::of([account])?, SessionOptions::default())?;
/// let copy = "CREATE TABLE copies AS SELECT * FROM orders WHERE PartitionKey = 'contoso'";
/// sql(&session, copy).await?.collect().await?;
/// assert_eq!(sql(&session, "SELECT * FROM copies").await?.count().await?, 1);
/// # Ok(()) }
/// ```
pub async fn sql(session: &SessionContext, text: &str) -> Result<DataFrame> {
    let plan = plan(session, text).await?;
    run_if(session, plan, &|_| Ok(())).await
}

/// Plans a statement, as `SessionState::create_logical_plan` does.
///
/// Fails for an `INSERT INTO` without a list of columns whose query has columns of other names in these places, because the order of a table's
/// columns is that of their names; and for one that would change numbers: fractions that would be cut, and integers that a Double may round.
pub async fn plan(session: &SessionContext, text: &str) -> Result<LogicalPlan> {
    let state = session.state();
    let plan = match state.create_logical_plan(text).await {
        Ok(plan) => plan,
        Err(error) => return Err(insert::told(session, text, error).await),
    };
    insert::check(&state, text, &plan)?;
    without_effect(&plan)?;
    if let LogicalPlan::Copy(copy) = insert::explained(&plan) {
        files::check_target(&copy.output_url)?;
    }
    if let Some(table) = insert::many(&plan)
        && let Some(catalogs) = state.config().get_extension::<Catalogs>()
        && let Some((catalog, name)) = catalogs.find(state.config(), table)
    {
        catalog.grows(name);
    }
    Ok(plan)
}

/// The same for a plan of the engine, if `allow` permits the plan of the rows that a new table will have: it is asked before the table is
/// created.
///
/// Other plans are the caller's to permit, before it executes the [`DataFrame`].
pub async fn run_if(
    session: &SessionContext,
    plan: LogicalPlan,
    allow: Allow<'_>,
) -> Result<DataFrame> {
    let state = session.state();
    let name = match &plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if !create.temporary => {
            create.name.clone()
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => drop.name.clone(),
        _ => return session.execute_logical_plan(plan).await,
    };
    let catalogs = state.config().get_extension::<Catalogs>();
    let found = catalogs.as_ref().and_then(|catalogs| catalogs.find(state.config(), &name));
    let Some((catalog, name)) = found.filter(|(catalog, name)| !catalog.is_registered(name)) else {
        return session.execute_logical_plan(plan).await;
    };
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            Box::pin(create::create(state.clone(), catalog, name, create, allow)).await
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(statement)) => {
            drop(state.clone(), catalog, name, &statement).await
        }
        plan => session.execute_logical_plan(plan).await,
    }
}

/// Refuses what the engine would accept and not do.
fn without_effect(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Ddl(statement) = plan else { return Ok(()) };
    match statement {
        DdlStatement::CreateIndex(_) => not_impl_err!(
            "CREATE INDEX is not supported: a table has no index but its keys; `rowkey::store::Store` keeps copies of entities for other orders"
        ),
        DdlStatement::CreateCatalog(_) | DdlStatement::CreateCatalogSchema(_) => not_impl_err!(
            "CREATE DATABASE and CREATE SCHEMA are not supported: an account is a catalog, and its tables are in the schema tables; a variable that begins with \
             ROWKEY_CONNECTION_STRING_ adds an account"
        ),
        _ => Ok(()),
    }
}

async fn drop(
    state: SessionState,
    catalog: &Catalog,
    name: &str,
    statement: &DropTable,
) -> Result<DataFrame> {
    let existed = catalog.table(name).delete_table_if_exists().await.map_err(error::of_service)?;
    catalog.forget(name);
    if !existed && !statement.if_exists {
        let absent = Error::refused(ErrorKind::NotFound, "the table does not exist");
        let absent = absent.of("DROP TABLE", name).advise("DROP TABLE IF EXISTS allows that");
        return Err(error::of_service(absent));
    }
    nothing(state)
}

/// A result without rows.
fn nothing(state: SessionState) -> Result<DataFrame> {
    Ok(DataFrame::new(state, LogicalPlanBuilder::empty(false).build()?))
}
