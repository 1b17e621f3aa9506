//! `EXPLAIN`: the engine's plan, and below it what is requested of tables.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use rowkey_datafusion::TableRequests;

use crate::args::Form;
use crate::error::Result;
use crate::output;

/// What a plan requests. Sends nothing but what planning needs.
pub(crate) async fn requests(
    session: &SessionContext,
    plan: &LogicalPlan,
) -> Result<Vec<TableRequests>> {
    let plan = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => &create.input,
        LogicalPlan::Ddl(_) => return Ok(Vec::new()),
        plan => plan,
    };
    let plan = session.state().create_physical_plan(plan).await?;
    Ok(rowkey_datafusion::requests(&plan))
}

/// Writes a plan: as text in a table, otherwise as rows, of which the last one is the requests.
pub(crate) fn write(
    form: Form,
    batches: Vec<RecordBatch>,
    requests: Vec<TableRequests>,
) -> Result<()> {
    let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(()) };
    let mut plan =
        concat_batches(&schema, &batches).map_err(datafusion::common::DataFusionError::from)?;
    if !requests.is_empty() && schema.fields().len() == 2 {
        let mut text = String::new();
        for scan in requests {
            let _ = write!(text, "{scan}");
        }
        let columns = [vec!["requests"], vec![text.as_str()]]
            .map(|cells| Arc::new(StringArray::from(cells)) as _);
        let row = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec())
            .map_err(datafusion::common::DataFusionError::from)?;
        plan = concat_batches(&schema, [&plan, &row])
            .map_err(datafusion::common::DataFusionError::from)?;
    }
    if form != Form::Table {
        return output::batch(form, &plan);
    }
    let mut text = String::new();
    let options = FormatOptions::default();
    let columns: Vec<_> = plan
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()
        .map_err(datafusion::common::DataFusionError::from)?;
    for row in 0..plan.num_rows() {
        for (number, column) in columns.iter().enumerate() {
            let cell = column.value(row).to_string();
            for line in cell.lines() {
                let indent = if number == 0 { "" } else { "  " };
                let _ = write!(text, "{indent}");
                line.chars().for_each(|c| output::push(&mut text, c));
                text.push('\n');
            }
        }
    }
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}
