//! Accounts of plans, by name.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use rowkey::service::Service;
use rowkey::{Credential, StorageAccount, Table};

use crate::scan::EntitySource;
use crate::sink::{Target, WriteExec};
use crate::{Accounts, error};

/// An account of which nothing but the name is known. The host does not exist, by RFC 6761.
pub(super) fn unresolved(name: &str) -> Result<StorageAccount> {
    let account = StorageAccount::builder().name(name).credential(Credential::anonymous());
    let account = account.endpoint(Service::Table, &format!("http://unresolved.invalid/{name}"));
    account.and_then(|account| account.build()).map_err(error::of_service)
}

/// Gives the scans and writes of a plan the accounts of this process, by their names.
///
/// Fails if one is not known here: the error names it and the environment variable to set.
///
/// [The module](super) shows it between the other steps.
pub fn resolve(
    plan: Arc<dyn ExecutionPlan>,
    accounts: &Accounts,
) -> Result<Arc<dyn ExecutionPlan>> {
    let table = |table: &Table| {
        Ok::<_, datafusion::error::DataFusionError>(
            accounts.get(table.account().name())?.table(table.name()),
        )
    };
    let resolved = plan.transform_up(|node| {
        if let Some(exec) = node.downcast_ref::<DataSourceExec>()
            && let Some((config, source)) = exec.downcast_to_file_source::<EntitySource>()
        {
            let source = source.of_table(table(&source.table)?);
            let config =
                FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
            return Ok(Transformed::yes(
                DataSourceExec::from_data_source(config) as Arc<dyn ExecutionPlan>
            ));
        }
        if let Some(write) = node.downcast_ref::<WriteExec>() {
            let target = Target { table: table(&write.target().table)?, ..write.target().clone() };
            let write = WriteExec::new(Arc::clone(write.input()), target, write.is_sorted())?;
            return Ok(Transformed::yes(Arc::new(write) as Arc<dyn ExecutionPlan>));
        }
        Ok(Transformed::no(node))
    });
    resolved.data()
}

/// Whether a plan reads or writes a table.
///
/// [The module](super) shows it between the other steps.
pub fn is_of_tables(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_scan = |exec: &DataSourceExec| exec.downcast_to_file_source::<EntitySource>().is_some();
    plan.downcast_ref::<DataSourceExec>().is_some_and(is_scan)
        || plan.downcast_ref::<WriteExec>().is_some()
        || plan.children().into_iter().any(is_of_tables)
}
