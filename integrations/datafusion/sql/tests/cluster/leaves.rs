//! The defect of Ballista because of which a scan of a table is a scan of files.
//!
//! Ballista 55 divides a stage among tasks by giving each task some of the partitions of the plan's leaves. It does so for file scans and tables
//! in memory alone. A leaf of any other kind stays whole in the plan of each task, which runs all of it: each row is counted once a task.

use std::fmt;
use std::sync::Arc;

use ballista_scheduler::state::task_builder::restrict_plan_to_partitions;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, not_impl_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, Partitioning,
    PhysicalExpr, PlanProperties,
};
use rowkey_datafusion::{Accounts, SessionOptions, session_of};

use crate::support::{Cluster, orders};

/// A leaf of an own kind.
#[derive(Debug)]
struct Leaf(Arc<PlanProperties>);

impl Leaf {
    fn new(partitions: usize) -> Self {
        let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]));
        Self(Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )))
    }
}

impl DisplayAs for Leaf {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaf")
    }
}

impl ExecutionPlan for Leaf {
    fn name(&self) -> &'static str {
        "Leaf"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.0
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

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        not_impl_err!("it is planned only")
    }
}

/// The partitions of the plan of a task that shall run some of them.
fn partitions(plan: &Arc<dyn ExecutionPlan>, of_task: &[usize]) -> usize {
    let plan = restrict_plan_to_partitions(Arc::clone(plan), of_task).unwrap();
    plan.output_partitioning().partition_count()
}

/// If this fails, a version of Ballista has mended it: then the page about clusters is to be changed.
#[test]
fn a_leaf_of_an_own_kind_is_run_whole_in_each_task() {
    let leaf: Arc<dyn ExecutionPlan> = Arc::new(Leaf::new(5));
    let runs: usize = [[0, 1], [2, 3]].iter().map(|task| partitions(&leaf, task)).sum();
    assert_eq!(runs + partitions(&leaf, &[4]), 15, "5 partitions are run 3 times");
    // A union of leaves with a partition each does not help.
    let each = (0..5).map(|_| Arc::new(Leaf::new(1)) as Arc<dyn ExecutionPlan>).collect();
    let union = UnionExec::try_new(each).unwrap();
    assert_eq!((0..5).map(|task| partitions(&union, &[task])).sum::<usize>(), 25);
}

/// What makes the rows of a cluster right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_a_table_is_divided_among_tasks() {
    let server = rowkey_emulator::Server::start().await.unwrap();
    let account =
        rowkey::StorageAccount::from_connection_string(server.connection_string()).unwrap();
    Cluster::fill(&account, "orders", orders()).await;
    let session =
        session_of(&Accounts::of([account]).unwrap(), SessionOptions::default().splits(5)).unwrap();
    let scan = session
        .sql("SELECT RowKey FROM orders")
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let all = scan.output_partitioning().partition_count();
    assert!(all > 2, "{all}");
    for of_task in [&[0][..], &[1], &[0, 2]] {
        assert_eq!(partitions(&scan, of_task), of_task.len());
    }
    let runs: usize = (0..all).map(|task| partitions(&scan, &[task])).sum();
    assert_eq!(runs, all);
}
