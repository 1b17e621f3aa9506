//! Submits plans to a cluster.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt as _;
use ballista_core::optimizer::with_ballista_optimizer_rules;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream, replace_children_if_necessary};
use datafusion::prelude::SessionContext;
use rowkey_datafusion::cluster::is_of_tables;

use super::remote::RemoteExec;
use crate::error::{Error, Result};

/// What a session is made from, as long as it is used.
struct Kept {
    _session: SessionContext,
}

/// A session that plans for a cluster. Of what operators tell each other while they run, that of joins alone is prepared for other processes.
pub(crate) fn upgraded(session: &SessionContext) -> SessionContext {
    let state = session.state();
    let config = state.config().clone().upgrade_for_ballista();
    let settings = [
        // Ballista would sort both sides of each join, and send all rows of the larger one to other executors.
        ("datafusion.optimizer.prefer_hash_join", true),
        // This one sets the next three, and it is sent to executors behind them.
        ("datafusion.optimizer.enable_dynamic_filter_pushdown", true),
        ("datafusion.optimizer.enable_topk_dynamic_filter_pushdown", false),
        ("datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown", false),
    ];
    let config =
        settings.into_iter().fold(config, |config, (key, value)| config.set_bool(key, value));
    // The tables of files look into the state of the session that they were made for.
    let config = config.with_extension(Arc::new(Kept { _session: session.clone() }));
    let rules = with_ballista_optimizer_rules(state.optimizers());
    let state = SessionStateBuilder::new_from_existing(state)
        .with_config(config)
        .with_optimizer_rules(rules);
    SessionContext::new_with_state(state.build())
}

/// Refuses a subquery in the place of a value that may have several rows: a cluster makes a join of it, which would multiply rows.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    let mut is_refused = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarSubquery(subquery) = part {
                    is_refused |= subquery.outer_ref_columns.is_empty()
                        && subquery.subquery.max_rows().is_none_or(|rows| rows > 1);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if is_refused {
        return Err(Error::usage(
            "a subquery in the place of a value may have several rows, which a cluster does not notice; add LIMIT 1 or an aggregate such as max(..), or run it \
             without --scheduler",
        ));
    }
    Ok(())
}

/// Runs a plan on the cluster with this scheduler, `HOST:PORT`.
///
/// A plan without tables, as that of `SHOW TABLES`, runs here. So do the root of `COPY … TO`, whose file is one of this machine or of an
/// account that it knows, and that of `EXPLAIN ANALYZE`.
pub(crate) async fn execute(
    scheduler: &str,
    session: &SessionContext,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    if plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
        return Err(Error::usage(
            "a recursive query does not run on a cluster; run it without --scheduler",
        ));
    }
    let plan = if is_of_tables(&plan) { below_root(plan, scheduler)? } else { plan };
    Ok(execute_stream(plan, session.task_ctx())?)
}

/// Sends what is below the roots that run here.
fn below_root(plan: Arc<dyn ExecutionPlan>, scheduler: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let is_here = plan.is::<DataSinkExec>() || plan.is::<AnalyzeExec>();
    let input = match plan.children().as_slice() {
        [input] if is_here => Arc::clone(input),
        _ => return Ok(Arc::new(RemoteExec::new(plan, scheduler))),
    };
    let input = below_root(input, scheduler)?;
    Ok(replace_children_if_necessary(plan, vec![input])?)
}
