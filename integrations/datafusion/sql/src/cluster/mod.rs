//! Plans that a cluster runs.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use crate::error::{Error, Exit, Result};

/// Runs a plan on the cluster with this scheduler, `HOST:PORT`.
pub(crate) async fn execute(
    _scheduler: &str,
    _session: &SessionContext,
    _plan: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    Err(Error::new(Exit::Failed, "--scheduler is not built"))
}
