//! Writes the rows of each partition of a plan.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, EvaluationType, SchedulingType,
};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _,
    InputDistributionRequirements, PlanProperties,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, future, stream};
use rowkey::DynamicEntity;
use rowkey::pace::Pace;
use rowkey::patterns::job::Job;

use super::{Target, WriteMode};
use crate::columns::{PARTITION_KEY, ROW_KEY, Writer};
use crate::error;

/// Rows that are made into entities at once. A batch of the engine has more.
const ROWS: usize = 1_000;
/// Batches that are read ahead.
const BATCHES: usize = 1;
/// Transactions that all partitions of a plan have in flight at once, and the most and fewest of one of them.
const TRANSACTIONS: usize = 32;
const OF_PARTITION: (usize, usize) = (2, 8);

/// What a partition of the input reports when it is written.
static WRITTEN: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("written", DataType::UInt64, false),
        Field::new("rejected", DataType::UInt64, false),
        Field::new("reason", DataType::Utf8, true),
    ]))
});

/// Writes the rows of its input to a table. Each partition is written by a stream of its own, which has one row.
pub(crate) struct WriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Target,
    /// The order of the keys, if the input reads the table to which it is written.
    order: Option<LexOrdering>,
    /// Shared by the partitions.
    pace: Pace,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl WriteExec {
    /// If the input reads the table to which it is written, a scan would meet the rows that were just written, and a statement that
    /// gives each row a greater key would never end. So its rows are sorted before the first one is written: that reads all of them, and
    /// spills to disk what exceeds the memory of the session.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Target,
        reads_itself: bool,
    ) -> Result<Self> {
        // Errors of the columns come before the first request.
        Writer::new(&target.table, &target.schema, &target.rows)?;
        let order = match reads_itself {
            false => None,
            true => {
                let key = |name| {
                    Ok(PhysicalSortExpr::new_default(Arc::new(Column::new_with_schema(
                        name,
                        &target.schema,
                    )?)))
                };
                let keys = [PARTITION_KEY, ROW_KEY].into_iter().map(key);
                LexOrdering::new(keys.collect::<Result<Vec<_>>>()?)
            }
        };
        Ok(Self::with(input, target, order))
    }

    fn with(input: Arc<dyn ExecutionPlan>, target: Target, order: Option<LexOrdering>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&WRITTEN)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        let metrics = ExecutionPlanMetricsSet::new();
        Self {
            input,
            target,
            order,
            pace: Pace::background(),
            metrics,
            properties: Arc::new(properties),
        }
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Whether the rows are sorted first.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_sorted(&self) -> bool {
        self.order.is_some()
    }

    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "for plans as messages"))]
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

/// The only child.
pub(super) fn one(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    match (children.pop(), children.is_empty()) {
        (Some(child), true) => Ok(child),
        _ => internal_err!("a write has one input"),
    }
}

impl ExecutionPlan for WriteExec {
    fn name(&self) -> &'static str {
        "WriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        // The first partition must not be written while the second is read.
        let needs = if self.order.is_some() {
            Distribution::SinglePartition
        } else {
            Distribution::UnspecifiedDistribution
        };
        InputDistributionRequirements::new(vec![needs])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    /// Rows of a partition of the table stay together.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::with(one(children)?, self.target.clone(), self.order.clone())))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for sort in self.order.iter().flatten() {
            if f(&sort.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        let (fewest, most) = OF_PARTITION;
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let writing = Writing {
            target: self.target.clone(),
            writer: Writer::new(&self.target.table, &self.target.schema, &self.target.rows)?,
            pace: self.pace.clone(),
            transactions: (TRANSACTIONS / partitions.max(1)).clamp(fewest, most),
            written: counter("written"),
            rejected: counter("rejected"),
        };
        let written = writing.all_of(read_ahead(self.input.execute(partition, context)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(written))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The write of a partition of the input.
struct Writing {
    target: Target,
    writer: Writer,
    pace: Pace,
    transactions: usize,
    written: Count,
    rejected: Count,
}

/// Why the input ended early.
type Failed = Arc<Mutex<Option<DataFusionError>>>;

impl Writing {
    async fn all_of(self, input: SendableRecordBatchStream) -> Result<RecordBatch> {
        let Self { target, writer, pace, transactions, written, rejected } = self;
        let table = &target.table;
        let failed = Failed::default();
        let entities = entities(input, writer, Arc::clone(&failed));
        let job = match target.mode {
            WriteMode::Insert => Job::insert(table, entities),
            WriteMode::Upsert => Job::upsert(table, entities),
        };
        let mut known = (0, 0);
        let job = job
            .pace(pace)
            .patience(table.account().options().timeout)
            .concurrency(transactions)
            // A row that is rejected stops no others.
            .stop_after(u64::MAX)
            .progress(move |progress| {
                let total = progress.report().total;
                let add = |count: &Count, rows: u64| {
                    count.add(usize::try_from(rows).unwrap_or(usize::MAX))
                };
                add(&written, total.right - known.0);
                add(&rejected, total.failed - known.1);
                known = (total.right, total.failed);
            });
        let report = Box::pin(job.run()).await;
        if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let report = report.map_err(|ended| {
            let written = ended.checkpoint.report().total.right;
            let during =
                format!("INSERT INTO {}, with {written} rows of this stream written", table.name());
            error::of_service(ended.error.during(during))
        })?;
        let reason = report.problems.first().map(|problem| problem.error.as_str());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(vec![report.total.right])),
            Arc::new(UInt64Array::from(vec![report.total.failed])),
            Arc::new(StringArray::from(vec![reason])),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&WRITTEN), columns)?)
    }
}

/// A stream that is read by a task of its own.
///
/// Otherwise the requests of a scan would have the pace of the job, and wait in its line while the job does not ask for rows: requests
/// behind them would wait, too, and one be sent each second.
fn read_ahead(mut input: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut rows = RecordBatchReceiverStream::builder(input.schema(), BATCHES);
    let to = rows.tx();
    rows.spawn(async move {
        while let Some(batch) = input.next().await {
            let is_last = batch.is_err();
            // Without a receiver the write is over.
            if to.send(batch).await.is_err() || is_last {
                break;
            }
        }
        Ok(())
    });
    rows.build()
}

/// The rows of a stream as entities, as they are asked for. It ends at the first error, which is kept.
fn entities(
    input: SendableRecordBatchStream,
    writer: Writer,
    failed: Failed,
) -> impl Stream<Item = DynamicEntity> + Send + 'static {
    let slices = input.map_ok(|batch| {
        let starts = (0..batch.num_rows()).step_by(ROWS);
        stream::iter(starts.map(move |at| {
            Ok::<_, DataFusionError>(batch.slice(at, ROWS.min(batch.num_rows() - at)))
        }))
    });
    let entities = slices.try_flatten().map(move |slice| writer.entities(&slice?));
    // A statement that is dropped ends when its task yields, and rows that are computed never wait.
    let entities = entities.then(async |entities| {
        tokio::task::yield_now().await;
        entities
    });
    let until_error = entities.scan(failed, |failed, entities| {
        let entities = entities.map_err(|error| {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        });
        future::ready(entities.ok().map(stream::iter))
    });
    until_error.flatten()
}

impl DisplayAs for WriteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteExec: table={}, mode={:?}", self.target.table.name(), self.target.mode)
    }
}

impl fmt::Debug for WriteExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}
