//! `rowkey-sql scheduler`: divides plans among executors.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::JobId;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use clap::Args;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::{codec, log};
use crate::error::{Error, Exit, Result};

const EXAMPLES: &str = "\
Examples:
  rowkey-sql scheduler
  rowkey-sql scheduler --port 50050 --bind 0.0.0.0 --host sql.internal";

const ENDING: &str = "\
The port has no authentication: clients, executors and the REST API at http://HOST:PORT/api use it. Keep it in a
trusted network. The scheduler needs no storage account, and no plan or answer of it has a credential. Plans show
the conditions of queries with their values.";

/// Ballista reports as errors that it cannot show the metrics of some stages, such as those of a `LIMIT` with an order.
const LOG: &str = "warn,ballista_scheduler::display=off";

/// Runs the scheduler of a cluster, until it is stopped.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = ENDING)]
pub(crate) struct Scheduler {
    /// The port. 0: one that is free, which the first line of output names.
    #[arg(short, long, default_value_t = 50050)]
    port: u16,
    /// The address to listen at. `0.0.0.0`: all of this machine.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// The name of this machine for executors.
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    host: String,
    /// An executor that is silent for so long is lost: others run its tasks again.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..))]
    executor_timeout: u64,
    /// How long a statement waits without any executor, before it fails.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// What to log to stderr, as `warn` or `info,datafusion=warn`.
    #[arg(long, value_name = "FILTER", env = "ROWKEY_SQL_LOG", default_value = LOG)]
    log: String,
}

impl Scheduler {
    pub(crate) async fn run(self) -> Result<()> {
        log::start(&self.log);
        let (bind, port) = (self.bind, self.port);
        let listener = TcpListener::bind((bind, port)).await;
        let listener = listener.map_err(|error| {
            Error::new(Exit::Failed, format!("the scheduler cannot listen at {bind}:{port}: {error}; use another --port or --bind"))
        })?;
        let port = listener.local_addr()?.port();
        let config = SchedulerConfig {
            bind_host: bind.to_string(),
            bind_port: port,
            external_host: self.host,
            executor_timeout_seconds: self.executor_timeout,
            expire_dead_executor_interval_seconds: 1,
            no_executors_grace_period_seconds: self.patience,
            override_physical_codec: Some(codec()),
            ..SchedulerConfig::default()
        };
        let failed = |error| Error::new(Exit::Failed, format!("the scheduler stopped: {error}"));
        let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
        let scheduler =
            create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config));
        let scheduler = scheduler.await.map_err(failed)?;
        writeln!(io::stdout(), "the scheduler listens at {bind}:{port}")?;
        let patience = Duration::from_secs(self.patience);
        tokio::select! {
            ended = start_grpc_service_with_listener(listener, scheduler.clone()) => ended.map_err(failed),
            never = watch(scheduler, patience) => match never {},
        }
    }
}

/// Cancels statements that wait too long for an executor. Ballista fails those alone whose executors it loses, and others wait for ever.
#[expect(clippy::disallowed_methods, reason = "a process is waited for, not a clock of a test")]
async fn watch(
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    patience: Duration,
) -> Infallible {
    let mut waiting: HashMap<JobId, Instant> = HashMap::new();
    loop {
        sleep(Duration::from_secs(1)).await;
        let executors = scheduler.state.executor_manager.get_executors_state().await;
        if !executors.is_ok_and(|executors| executors.is_empty()) {
            waiting.clear();
            continue;
        }
        let jobs = scheduler.state.task_manager.get_running_job_cache();
        waiting.retain(|job, _| jobs.contains_key(job));
        for job in jobs.keys() {
            let since = *waiting.entry(job.clone()).or_insert_with(Instant::now);
            // Ballista is first, whose reason says more.
            if since.elapsed() > patience + Duration::from_secs(2) {
                // It fails if the scheduler ends.
                let _ = scheduler.cancel_job(job.clone()).await;
            }
        }
    }
}
