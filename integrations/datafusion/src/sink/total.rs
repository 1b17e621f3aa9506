//! Adds what the partitions of a write report, and fails if too many rows were rejected.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray as _, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{TryStreamExt as _, stream};
use rowkey::{Error, ErrorKind};

use crate::error;

/// What DataFusion expects of an `INSERT`.
static COUNT: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])));

/// The number of rows that a [`WriteExec`](super::WriteExec) has written.
///
/// An aggregation would do for the number. But whether there were too many rejects is known only when the rejects of all partitions are
/// added, which a cluster writes in several processes.
pub(crate) struct TotalExec {
    input: Arc<dyn ExecutionPlan>,
    table: String,
    most_rejects: u64,
    properties: Arc<PlanProperties>,
}

/// What was written.
#[derive(Default)]
struct Total {
    written: u64,
    rejected: u64,
    reason: Option<String>,
}

impl Total {
    /// Adds the rows of `WriteExec`.
    fn add(&mut self, batch: &RecordBatch) {
        let sum = |at: usize| -> u64 {
            batch.column(at).as_primitive::<UInt64Type>().values().iter().sum()
        };
        self.written += sum(0);
        self.rejected += sum(1);
        let reasons = batch.column(2).as_string::<i32>();
        let first = reasons.iter().flatten().next();
        self.reason = self.reason.take().or_else(|| first.map(str::to_owned));
    }

    fn count(self, table: &str, most_rejects: u64) -> Result<u64> {
        let Self { written, rejected, reason } = self;
        if rejected <= most_rejects {
            return Ok(written);
        }
        let (all, are) = (written + rejected, if written == 1 { "is" } else { "are" });
        let reason = reason.unwrap_or_else(|| "unknown".to_owned());
        let text = format!(
            "{rejected} of {all} rows for the table {table} were rejected; {written} {are} written; first reason: {reason}"
        );
        // Reasons are texts, as they come from other processes. A program may act on this one.
        if !reason.contains("EntityAlreadyExists") {
            return Err(DataFusionError::Execution(text));
        }
        let exists = Error::refused(ErrorKind::AlreadyExists, text);
        Err(error::of_service(exists.advise(
            "REPLACE INTO, or the write mode upsert, replaces what is stored; rejects can be allowed",
        )))
    }
}

impl TotalExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, table: String, most_rejects: u64) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&COUNT)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, table, most_rejects, properties: Arc::new(properties) }
    }

    /// The name of the table, for messages.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "for plans as messages"))]
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "for plans as messages"))]
    pub(crate) fn most_rejects(&self) -> u64 {
        self.most_rejects
    }
}

impl ExecutionPlan for TotalExec {
    fn name(&self) -> &'static str {
        "TotalExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = super::write::one(children)?;
        Ok(Arc::new(Self::new(input, self.table.clone(), self.most_rejects)))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let parts = self.input.execute(partition, context)?;
        let (table, most_rejects) = (self.table.clone(), self.most_rejects);
        let total = async move {
            let add = |mut total: Total, batch: RecordBatch| async move {
                total.add(&batch);
                Ok(total)
            };
            let total = parts.try_fold(Total::default(), add).await?;
            let count = total.count(&table, most_rejects)?;
            Ok(RecordBatch::try_new(
                Arc::clone(&COUNT),
                vec![Arc::new(UInt64Array::from(vec![count]))],
            )?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(total))))
    }
}

impl DisplayAs for TotalExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TotalExec: table={}, most_rejects={}", self.table, self.most_rejects)
    }
}

impl fmt::Debug for TotalExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}
