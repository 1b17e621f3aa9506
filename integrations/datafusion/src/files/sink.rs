//! Files are written whole or not at all.
//!
//! The engine's writers take an error of the rows for their end, and complete the file, which is a valid one with a part of the rows, in the
//! place of that which was there. So they write to stores that keep what is complete until the writer has succeeded.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::staged::Staged;

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
        let written = self.0.sink().write_all(rows, &context).await;
        staged.finish(written).await
    }
}
