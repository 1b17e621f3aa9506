//! What an executor does with the plan of a task.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use rowkey_datafusion::Accounts;
use rowkey_datafusion::cluster::{link, resolve};

use super::failed::marked;

/// Gives the plan of a task the accounts of this process.
pub(super) struct Engine {
    accounts: Accounts,
    inner: DefaultExecutionEngine,
}

impl Engine {
    pub(super) fn new(accounts: Accounts) -> Self {
        Self { accounts, inner: DefaultExecutionEngine::new() }
    }
}

impl ExecutionEngine for Engine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let plan = resolve(plan, &self.accounts).and_then(|plan| link(plan, config.options()));
        let stage = plan.and_then(|plan| {
            let create = &self.inner;
            create.create_query_stage_exec(job, stage, task, partitions, plan, folder, config)
        });
        Ok(Arc::new(Stage(stage.map_err(marked)?)))
    }
}

/// A part of a plan whose errors have the words of the client. Ballista sends the form for debugging to who asked.
#[derive(Debug)]
struct Stage(Arc<dyn QueryStageExecutor>);

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        self.0.execute_query_stage(task, context).await.map_err(marked)
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        // Ballista forgets that a task is done if it reports metrics of another number of operators than the stage has, as a task of a
        // union does that has some of its branches. The query would never end.
        Vec::new()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.0.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.0.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.0.collect_column_stats()
    }
}
