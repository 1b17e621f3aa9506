//! Scans wait for what joins tell them.
//!
//! A hash join reads its smaller side first, and tells the scan of the other side which values it has. A scan that begins before would
//! read the whole table, so it waits. Only for joins: what a `LIMIT` with an order tells comes from the scan's own rows, so waiting for it
//! would never end.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::EntitySource;

/// The rule by which scans wait for joins. [`session`](crate::session) has it; a program that builds its own session adds it behind all other rules.
///
/// Without it no result changes, but the scan on the larger side of a join may read more than the join needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinPruning;

impl PhysicalOptimizerRule for JoinPruning {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            // Each round runs its joins anew, and those tell nothing.
            if node.is::<RecursiveQueryExec>() {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let produced = join.dynamic_expressions_produced();
            let produced: Vec<u64> =
                produced.iter().filter_map(|filter| filter.expression_id()).collect();
            if produced.is_empty() {
                return Ok(Transformed::no(node));
            }
            // The side that is read second.
            let (build, probe) = (Arc::clone(join.left()), Arc::clone(join.right()));
            let probe = probe.transform_down(|scan| waiting(scan, &produced)).data()?;
            let node = replace_children_if_necessary(node, vec![build, probe])?;
            Ok(Transformed::yes(node))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "azure_table_join_pruning"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan that waits for those of these conditions that it is told.
fn waiting(
    node: Arc<dyn ExecutionPlan>,
    produced: &[u64],
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(exec) = node.downcast_ref::<DataSourceExec>() else {
        return Ok(Transformed::no(node));
    };
    let Some((config, source)) = exec.downcast_to_file_source::<EntitySource>() else {
        return Ok(Transformed::no(node));
    };
    let mut awaited = source.awaited().to_vec();
    awaited.extend(source.told().into_iter().filter(|id| produced.contains(id)));
    if awaited.len() == source.awaited().len() {
        return Ok(Transformed::no(node));
    }
    let config = FileScanConfigBuilder::from(config.clone())
        .with_source(Arc::new(source.awaiting(awaited)))
        .build();
    Ok(Transformed::yes(DataSourceExec::from_data_source(config)))
}
