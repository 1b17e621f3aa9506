//! Scans that wait for joins, on a cluster.
//!
//! A join tells the scan of its larger side which values it has, by an expression that both hold. A message makes two of it, and an executor
//! of Ballista empties that of the join. So the client takes the expressions out of joins, and writes down in a scan which join it was: the
//! how-manieth hash join above it. An executor whose part of the plan has both gives them one expression again. A join whose larger side is
//! sent to other executors has its scan in another part, which then reads without waiting.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::scan::EntitySource;

/// What a scan waits for.
#[derive(Clone)]
pub(crate) struct Linked {
    /// The expression, of columns of the table.
    pub(crate) told: Arc<dyn PhysicalExpr>,
    /// How many hash joins are between the scan and that which tells.
    pub(crate) between: usize,
    /// The keys of the join that it is about. Empty until it comes from a message.
    pub(crate) keys: Vec<Arc<dyn PhysicalExpr>>,
}

/// The scan of a node, if it is one.
fn scan(node: &Arc<dyn ExecutionPlan>) -> Option<&EntitySource> {
    Some(node.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<EntitySource>()?.1)
}

fn with_source(node: &Arc<dyn ExecutionPlan>, source: EntitySource) -> Arc<dyn ExecutionPlan> {
    let exec = node.downcast_ref::<DataSourceExec>();
    match exec.and_then(|exec| exec.downcast_to_file_source::<EntitySource>()) {
        Some((config, _)) => {
            let config =
                FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
            DataSourceExec::from_data_source(config)
        }
        None => Arc::clone(node),
    }
}

/// Whether a row of the only child, or of one of them, is the node's row in the same part of the plan.
fn is_passed(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_border = ["RepartitionExec", "CoalescePartitionsExec", "SortPreservingMergeExec"]
        .contains(&node.name());
    !is_border && (node.children().len() == 1 || node.is::<UnionExec>())
}

/// Makes a plan ready for messages: what joins tell is written down in scans.
///
/// [The module](super) shows it between the other steps.
pub fn prepare(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    prepared(plan, &mut Vec::new())
}

/// `above` has the identifiers that each hash join above tells, the nearest last.
fn prepared(
    node: Arc<dyn ExecutionPlan>,
    above: &mut Vec<Vec<u64>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(source) = scan(&node) {
        let mut linked = Vec::new();
        for told in source.told_parts() {
            let at = above
                .iter()
                .rev()
                .position(|ids| told.expression_id().is_some_and(|id| ids.contains(&id)));
            if let Some(between) = at {
                linked.push(Linked { told, between, keys: Vec::new() });
            }
        }
        return Ok(with_source(&node, source.linking(linked)));
    }
    let children: Vec<_> = node.children().into_iter().cloned().collect();
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let produced = join.dynamic_expressions_produced();
        let ids = match join.partition_mode() {
            PartitionMode::CollectLeft => {
                produced.iter().filter_map(|told| told.expression_id()).collect()
            }
            _ => Vec::new(),
        };
        let [left, right] = [join.left(), join.right()].map(Arc::clone);
        let left = prepared(left, &mut Vec::new())?;
        above.push(ids);
        let right = prepared(right, above);
        above.pop();
        // Without what it tells: the scheduler could not exchange its sides.
        let node =
            join.builder().reset_state().with_new_children(vec![left, right?])?.build_exec()?;
        return Ok(if is_demoted(join) {
            Arc::new(CoalescePartitionsExec::new(node))
        } else {
            node
        });
    }
    let is_passed = is_passed(&node);
    let children = children.into_iter().map(|child| match is_passed {
        true => prepared(child, above),
        false => prepared(child, &mut Vec::new()),
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(node, children)
}

/// Whether the scheduler will divide a join into partitions that has one here: one that also has rows of the smaller side alone, which each
/// task would add. What is above it was planned for one partition, and would be run for each: a count would have a row from each of them.
fn is_demoted(join: &HashJoinExec) -> bool {
    let is_of_larger_side = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Right
            | JoinType::RightSemi
            | JoinType::RightAnti
            | JoinType::RightMark
    );
    *join.partition_mode() == PartitionMode::CollectLeft
        && !is_of_larger_side
        && join.properties().output_partitioning().partition_count() == 1
}

/// A hash join above a scan.
struct Join {
    /// The keys of the side of the scan. Empty if it tells nothing.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// What it tells.
    tells: Option<Arc<dyn PhysicalExpr>>,
}

/// Gives scans and joins of a part of a plan one expression again. To be called before it is executed, behind
/// [`resolve`](super::resolve).
///
/// A scan waits for a minute at most, and then reads without knowing what the join needs. That changes no result.
///
/// [The module](super) shows it between the other steps.
pub fn link(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Joins would tell nothing.
    if !config.optimizer.enable_join_dynamic_filter_pushdown {
        return Ok(plan);
    }
    linked(plan, &mut Vec::new())
}

fn linked(node: Arc<dyn ExecutionPlan>, above: &mut Vec<Join>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(source) = scan(&node) {
        let mut told = Vec::new();
        for one in source.linked() {
            let at = above.len().checked_sub(one.between + 1);
            let Some(join) = at.and_then(|at| above.get_mut(at)) else { continue };
            if !join.keys.is_empty() && join.keys == one.keys {
                told.push(join.tell(one)?);
            }
        }
        return Ok(with_source(&node, source.told_by(told)));
    }
    let children: Vec<_> = node.children().into_iter().cloned().collect();
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let [left, right] = [join.left(), join.right()].map(Arc::clone);
        let left = linked(left, &mut Vec::new())?;
        let keys = match join.partition_mode() {
            PartitionMode::CollectLeft => {
                join.on().iter().map(|(_, key)| Arc::clone(key)).collect()
            }
            _ => Vec::new(),
        };
        above.push(Join { keys, tells: None });
        let right = linked(right, above);
        let tells = above.pop().and_then(|join| join.tells);
        let join = join.builder().with_new_children(vec![left, right?])?.build()?;
        let tells = tells.and_then(|tells| {
            (tells as Arc<dyn std::any::Any + Send + Sync>)
                .downcast::<DynamicFilterPhysicalExpr>()
                .ok()
        });
        return Ok(match tells {
            Some(tells) => Arc::new(join.with_dynamic_filter_expr(tells)?),
            None => Arc::new(join),
        });
    }
    let is_passed = is_passed(&node);
    let children = children.into_iter().map(|child| match is_passed {
        true => linked(child, above),
        false => linked(child, &mut Vec::new()),
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(node, children)
}

impl Join {
    /// What it tells a scan, of the columns of the table. The copies of an expression that are made of its children share what it says.
    fn tell(&mut self, scan: &Linked) -> Result<Arc<dyn PhysicalExpr>> {
        match &self.tells {
            None => {
                self.tells = Some(Arc::clone(&scan.told).with_new_children(self.keys.clone())?);
                Ok(Arc::clone(&scan.told))
            }
            Some(tells) => {
                let columns = scan.told.children().into_iter().cloned().collect();
                Arc::clone(tells).with_new_children(columns)
            }
        }
    }
}
