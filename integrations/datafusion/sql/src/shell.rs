//! Runs statements: plans, asks before a whole table is read, executes, and writes the rows.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use rowkey_datafusion::{run_if, table_scans};

use crate::args::{Cli, Form};
use crate::cluster;
use crate::connect;
use crate::error::{Error, Exit, Result};
use crate::explain;
use crate::output;

/// A session, and how its results are shown.
pub(crate) struct Shell {
    pub(crate) session: SessionContext,
    form: Form,
    /// Whether whole tables may be read.
    scan: bool,
    scheduler: Option<String>,
}

impl Shell {
    pub(crate) fn new(cli: &Cli) -> Result<Self> {
        let form = match cli.output {
            Some(form) => form,
            None if io::stdout().is_terminal() => Form::Table,
            None => Form::Json,
        };
        if form == Form::Parquet && io::stdout().is_terminal() {
            return Err(Error::usage(
                "a terminal cannot show Parquet; redirect stdout to a file, or use another --output",
            ));
        }
        Ok(Self {
            session: connect::session(cli)?,
            form,
            scan: cli.scan,
            scheduler: cli.scheduler.clone(),
        })
    }

    /// Whether these statements can be written in the form.
    pub(crate) fn check(&self, statements: &[String]) -> Result<()> {
        if self.form == Form::Parquet && statements.len() != 1 {
            let count = statements.len();
            return Err(Error::usage(format!(
                "a Parquet file has the rows of one query, not of {count}; use `COPY (SELECT …) TO` for each"
            )));
        }
        Ok(())
    }

    /// Runs one statement.
    pub(crate) async fn run(&self, statement: &str) -> Result<()> {
        let plan = rowkey_datafusion::plan(&self.session, statement).await?;
        match &plan {
            LogicalPlan::Explain(explained) => {
                let requests = explain::requests(&self.session, &explained.plan).await?;
                let frame = self.session.execute_logical_plan(plan).await?;
                let batches = frame.collect().await?;
                return explain::write(self.form, batches, requests);
            }
            LogicalPlan::Ddl(_) => {
                let frame = self.ddl(plan).await?;
                return if frame.schema().fields().is_empty() {
                    // It is done when it is planned.
                    Ok(())
                } else {
                    self.execute(frame, &|_| Ok(())).await
                };
            }
            _ => {}
        }
        let frame = self.session.execute_logical_plan(plan).await?;
        self.execute(frame, &|plan| self.allow(plan)).await
    }

    /// Creates or drops a table. The rows of a new one are those that the result writes when it is executed.
    async fn ddl(&self, plan: LogicalPlan) -> Result<DataFrame> {
        // Why the plan was refused, which is not the engine's to say.
        let refused = Mutex::new(None);
        let allow = |plan: &Arc<dyn ExecutionPlan>| {
            self.allow(plan).map_err(|error| {
                *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                DataFusionError::Plan("the plan was refused".to_owned())
            })
        };
        let done = run_if(&self.session, plan, &allow).await;
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.map_err(|error| refused.unwrap_or_else(|| error.into()))
    }

    async fn execute(
        &self,
        frame: DataFrame,
        allow: &(dyn Fn(&Arc<dyn ExecutionPlan>) -> Result<()> + Sync),
    ) -> Result<()> {
        let is_text = matches!(frame.logical_plan(), LogicalPlan::Analyze(_));
        if self.scheduler.is_some() {
            cluster::check(frame.logical_plan())?;
        }
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.map_err(Error::of_plan)?;
        output::check(self.form, &plan.schema())?;
        allow(&plan)?;
        let rows: SendableRecordBatchStream = match &self.scheduler {
            Some(scheduler) => cluster::execute(scheduler, &self.session, plan).await?,
            None => execute_stream(plan, context)?,
        };
        if is_text && self.form == Form::Table {
            let batches = datafusion::physical_plan::common::collect(rows).await?;
            return explain::write(self.form, batches, Vec::new());
        }
        output::write(self.form, rows).await
    }

    /// Asks before whole tables are read.
    fn allow(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let tables = table_scans(plan);
        if self.scan || tables.is_empty() {
            return Ok(());
        }
        let (noun, names) = (if tables.len() == 1 { "table" } else { "tables" }, tables.join(", "));
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Error::usage(format!(
                "the service would read the whole {noun} {names}, because the conditions have no single PartitionKey; add a \
                 condition on PartitionKey or a LIMIT of at most 1000, or allow it: add --scan"
            )));
        }
        // In one piece, so that nothing else appears inside.
        let question =
            format!("The service reads the whole {noun} {names} for it. Type `yes` to go on: ");
        io::stderr().write_all(question.as_bytes())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if answer.trim().eq_ignore_ascii_case("yes") {
            return Ok(());
        }
        Err(Error::new(Exit::Failed, "not run: the answer was not `yes`"))
    }
}
