//! The part of a plan that runs on the cluster, as a leaf of the part that runs here.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt as _;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_datafusion::cluster::prepare;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::codec;
use super::failed::failed;

/// How long a client waits for a scheduler that is being started.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the scheduler listens, or as long as is sensible: then the error is that of the plan.
#[expect(clippy::disallowed_methods, reason = "a process is waited for, not a clock of a test")]
async fn reach(scheduler: &str) {
    let started = Instant::now();
    while TcpStream::connect(scheduler).await.is_err() && started.elapsed() < PATIENCE {
        sleep(Duration::from_millis(200)).await;
    }
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
        let (scheduler, url) = (self.scheduler.clone(), format!("http://{}", self.scheduler));
        let rows = async move {
            let config = context.session_config().clone();
            let (ballista, codec) = (config.ballista_config(), codec());
            let session = context.session_id();
            reach(&scheduler).await;
            execute_physical_plan::<PhysicalPlanNode>(
                url,
                &ballista,
                plan,
                codec.as_ref(),
                session,
                config,
            )
            .await
        };
        let rows = stream::once(rows).try_flatten().map_err(failed);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.boxed())))
    }
}
