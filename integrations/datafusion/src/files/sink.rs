//! Files are written whole or not at all.
//!
//! The engine's writers take an error of the rows for their end, and complete the file, which is a valid one with a part of the rows, in the
//! place of that which was there. So they write to stores that keep what is complete until the writer has succeeded.

use std::fmt;
use std::sync::Arc;

use arrow::array::Array as _;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::physical_plan::FileSink as _;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt as _;

use super::staged::Staged;
use crate::error;

/// The rule by which `COPY … TO` and `INSERT INTO` the table of a file write whole files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StagedFiles;

impl PhysicalOptimizerRule for StagedFiles {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let sink = node.downcast_ref::<DataSinkExec>();
            let Some(exec) = sink.filter(|exec| !exec.sink().is::<Staging>()) else {
                return Ok(Transformed::no(node));
            };
            let whole = DataSinkExec::new(
                Arc::clone(exec.input()),
                Arc::new(Staging(exec.clone())),
                exec.sort_order().clone(),
            );
            Ok(Transformed::yes(Arc::new(whole) as _))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "azure_table_staged_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The columns of whose values the engine makes folders.
fn folders(sink: &dyn DataSink) -> &[(String, DataType)] {
    let config = if let Some(sink) = sink.downcast_ref::<CsvSink>() {
        sink.config()
    } else if let Some(sink) = sink.downcast_ref::<JsonSink>() {
        sink.config()
    } else if let Some(sink) = sink.downcast_ref::<ParquetSink>() {
        sink.config()
    } else {
        return &[];
    };
    &config.table_partition_cols
}

/// The rows, and an error at one that has NULL where the engine makes a folder of a value: it would write the folder of 0, or of an empty text.
fn in_folders(sink: &dyn DataSink, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let at = |(name, _): &(String, DataType)| Some((schema.index_of(name).ok()?, name.clone()));
    let columns: Vec<_> = folders(sink).iter().filter_map(at).collect();
    if columns.is_empty() {
        return rows;
    }
    let checked = rows.map(move |batch| {
        let batch = batch?;
        for (at, name) in &columns {
            if batch.column(*at).logical_null_count() > 0 {
                return Err(error::execution(format!(
                    "a row has NULL in the column {name}, by which the files are PARTITIONED, and would be in the folder of another value; give it a \
                     value in the query, as by coalesce({name}, ..), or leave such rows out"
                )));
            }
        }
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, checked))
}

/// The sink of a node of the engine.
struct Staging(DataSinkExec);

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sink().fmt(f)
    }
}

impl DisplayAs for Staging {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sink().fmt_as(kind, f)
    }
}

#[async_trait]
impl DataSink for Staging {
    fn metrics(&self) -> Option<MetricsSet> {
        self.0.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.0.sink().schema()
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let staged = Arc::new(Staged::default());
        let context = Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            Arc::new(staged.runtime(&context.runtime_env())),
        ));
        let written = self.0.sink().write_all(in_folders(self.0.sink(), rows), &context).await;
        staged.finish(written).await
    }
}
