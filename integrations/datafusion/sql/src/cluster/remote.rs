//! The part of a plan that runs on the cluster, as a leaf of the part that runs here.

use std::fmt;
use std::sync::Arc;

use ballista_core::extension::SessionConfigExt as _;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::{ExecuteQueryParams, KeyValuePair};
use ballista_core::utils::GrpcClientConfig;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion_proto::physical_plan::AsExecutionPlan as _;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use rowkey_datafusion::cluster::prepare;

use super::{codec, job, lost};
use crate::error::Error;

/// More than all settings of a session have in a message, in bytes.
const SETTINGS: usize = 1 << 16;

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Sends a plan to the scheduler when it is executed, and has the rows of its partitions one after the other.
#[derive(Debug)]
pub(super) struct RemoteExec {
    plan: Arc<dyn ExecutionPlan>,
    scheduler: String,
    properties: Arc<PlanProperties>,
}

impl RemoteExec {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, scheduler: &str) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { plan, scheduler: scheduler.to_owned(), properties: Arc::new(properties) }
    }
}

impl DisplayAs for RemoteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteExec: scheduler={}", self.scheduler)
    }
}

impl ExecutionPlan for RemoteExec {
    fn name(&self) -> &'static str {
        "RemoteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
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
        if partition > 0 {
            return internal_err!("a remote plan has one partition");
        }
        let plan = prepare(Arc::clone(&self.plan))?;
        let mut message = Vec::new();
        PhysicalPlanNode::try_from_physical_plan(plan, codec().as_ref())?
            .try_encode(&mut message)?;
        let size = message.len() + SETTINGS;
        let config = context.session_config();
        let settings = config.options().entries().into_iter();
        let settings =
            settings.map(|entry| KeyValuePair { key: entry.key, value: entry.value }).collect();
        let session_id = context.session_id();
        let request = ExecuteQueryParams {
            // Both are for the log of the scheduler.
            operation_id: session_id.clone(),
            session_id,
            settings,
            query: Some(Query::PhysicalPlan(message)),
        };
        let limits = GrpcClientConfig::from(&config.ballista_config());
        if size > limits.max_message_size {
            return Err(external(lost::too_large(limits.max_message_size)));
        }
        let rows = job::run(self.scheduler.clone(), request, limits).map_err(external);
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.boxed())))
    }
}
