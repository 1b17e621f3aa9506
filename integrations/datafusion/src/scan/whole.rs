//! Copies are whole: a property that no row of the sample had is an error, and not left out.
//!
//! The columns of a table come from a sample. A scan asks the service for its columns alone, so a copy of all columns would be without the
//! properties that the sample did not show, and an upsert of a table into itself would delete them.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::EntitySource;

/// The rule by which files that `COPY .. TO` writes are whole copies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeFiles;

impl PhysicalOptimizerRule for WholeFiles {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            if !node.is::<DataSinkExec>() {
                return Ok(Transformed::no(node));
            }
            let inputs = node.children().into_iter().cloned().map(whole);
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let node = replace_children_if_necessary(node, inputs)?;
            Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "azure_table_whole_files"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan of rows that are copied: its scans of all columns fail at an entity that has more properties.
///
/// An aggregation copies the rows of a scan if each property is in a column by which it groups, as `DISTINCT` does.
pub(crate) fn whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    below(plan, None)
}

/// `copied` has the columns that aggregations above leave as they are, if there are any.
fn below(
    node: Arc<dyn ExecutionPlan>,
    copied: Option<&HashSet<String>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let exec = node.downcast_ref::<DataSourceExec>();
    if let Some((config, source)) =
        exec.and_then(|exec| exec.downcast_to_file_source::<EntitySource>())
    {
        let is_copied = |name: &str| copied.is_none_or(|copied| copied.contains(name));
        let Some(source) = source.whole(is_copied) else { return Ok(node) };
        let config = FileScanConfigBuilder::from(config.clone());
        return Ok(DataSourceExec::from_data_source(config.with_source(Arc::new(source)).build()));
    }
    let grouped = node.downcast_ref::<AggregateExec>().map(|aggregate| {
        let mut columns = left(aggregate);
        columns.retain(|name| copied.is_none_or(|copied| copied.contains(name)));
        columns
    });
    let children = node.children().into_iter().cloned();
    let children = children.map(|child| below(child, grouped.as_ref().or(copied)));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(node, children)
}

/// The columns that an aggregation leaves as they are.
fn left(aggregate: &AggregateExec) -> HashSet<String> {
    let groups = aggregate.group_expr().expr().iter().map(|(group, _)| Arc::clone(group));
    // What `DISTINCT ON` becomes.
    let firsts = aggregate
        .aggr_expr()
        .iter()
        .filter(|function| matches!(function.fun().name(), "first_value" | "last_value"));
    let firsts = firsts.flat_map(|function| function.expressions());
    groups
        .chain(firsts)
        .flat_map(|group| collect_columns(&group))
        .map(|column| column.name().to_owned())
        .collect()
}
