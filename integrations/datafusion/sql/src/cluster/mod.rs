//! Plans that a cluster runs, and the processes of a cluster.
//!
//! - `client`: what runs here and what on the cluster · `remote`: the part there · `job`: submits it, waits for it, cancels it
//! - `failed`: errors of plans · `lost`: errors of processes that are not there · `address`: where a scheduler listens
//! - `scheduler`, `executor`: the processes · `engine`: what an executor does with a plan
//! - `log`: what they log · `signals`: what stops a statement

mod address;
mod client;
mod engine;
mod executor;
mod failed;
mod job;
mod log;
mod lost;
mod remote;
mod scheduler;
mod signals;

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use rowkey_datafusion::cluster::TableCodec;

pub(crate) use address::address;
pub(crate) use client::{check, execute, upgraded};
pub(crate) use executor::Executor;
pub(crate) use scheduler::Scheduler;
pub(crate) use signals::stopped;

/// Messages of plans, the same for the client, the scheduler and the executors.
fn codec() -> Arc<TableCodec> {
    Arc::new(TableCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default())))
}
