//! Copies are whole: a property that no row of the sample had is an error, and not left out.
//!
//! The columns of a table come from a sample. A scan asks the service for its columns alone, so a copy of all columns would be without the
//! properties that the sample did not show, and an upsert of a table into itself would delete them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
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

/// The plan of rows that are copied: its scans of all columns fail at an entity that has more properties. Those below an aggregation copy no rows.
pub(crate) fn whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let scans = plan.transform_down(|node| {
        if node.is::<AggregateExec>() {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let exec = node.downcast_ref::<DataSourceExec>();
        let scan = exec.and_then(|exec| exec.downcast_to_file_source::<EntitySource>());
        let whole = scan.and_then(|(config, source)| Some((config, source.whole()?)));
        Ok(match whole {
            Some((config, source)) => {
                let config = FileScanConfigBuilder::from(config.clone());
                let config = config.with_source(Arc::new(source)).build();
                Transformed::yes(DataSourceExec::from_data_source(config) as _)
            }
            None => Transformed::no(node),
        })
    });
    scans.data()
}
