//! `rowkey-sql executor`: runs parts of plans.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::RuntimeProducer;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use clap::Args;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use rowkey_datafusion::{Accounts, SessionOptions, session_of};

use super::address::{address, parts};
use super::engine::Engine;
use super::{codec, log};
use crate::error::{Error, Exit, Result};

const EXAMPLES: &str = "\
Examples:
  rowkey-sql executor --scheduler localhost:50050
  rowkey-sql executor --scheduler sql.internal:50050 --bind 0.0.0.0 --host worker-1.internal --port 50051 --task-port 50052 --memory 4096";

const ENDING: &str = "\
Each executor finds accounts by their names in its own environment: ROWKEY_CONNECTION_STRING and the variables that
begin with ROWKEY_CONNECTION_STRING_. The ports have no authentication: keep them in a trusted network.";

/// How often an executor says that it lives. Less than the least timeout of a scheduler.
const HEARTBEAT_SECONDS: u64 = 1;

/// Runs an executor of a cluster, until it is stopped.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = ENDING)]
pub(crate) struct Executor {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    scheduler: String,
    /// The port from which clients and other executors fetch rows. 0: one that is free.
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    /// The port at which the scheduler hands over tasks. 0: one that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    task_port: u16,
    /// The address to listen at. `0.0.0.0`: all of this machine.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// The name of this machine for the scheduler, clients and other executors.
    #[arg(long, value_name = "NAME", default_value = "127.0.0.1")]
    host: String,
    /// How many tasks to run at once. Default: the number of processors.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    tasks: Option<u16>,
    /// Keep at most this many MiB of sorts, joins and groups in memory. Default: 70 % of the machine's.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    memory: Option<u32>,
    /// The folder of intermediate results. Default: one that is removed at the end.
    #[arg(long, value_name = "FOLDER")]
    work_dir: Option<PathBuf>,
    /// What to log to stderr, as `warn` or `info,datafusion=warn`.
    #[arg(long, value_name = "FILTER", env = "ROWKEY_SQL_LOG", default_value = "warn")]
    log: String,
}

impl Executor {
    pub(crate) async fn run(self) -> Result<()> {
        log::start(&self.log);
        let (host, port) = parts(&self.scheduler).map_err(Error::usage)?;
        // Without any account there is nothing to run, which is better said now.
        let accounts = Accounts::from_env()?;
        let [rows, tasks] = self.ports()?;
        let (temporary, folder) = match &self.work_dir {
            Some(folder) => (None, folder.clone()),
            None => {
                let folder = tempfile::Builder::new().prefix("rowkey-sql-").tempdir()?;
                let path = folder.path().to_owned();
                (Some(folder), path)
            }
        };
        std::fs::create_dir_all(&folder).map_err(|error| {
            Error::new(
                Exit::Failed,
                format!(
                    "the folder {} cannot be made: {error}; use another --work-dir",
                    folder.display()
                ),
            )
        })?;
        // Files in blob containers are found by it.
        let stores =
            session_of(&accounts, SessionOptions::default()).map(|session| session.runtime_env());
        let stores = stores.unwrap_or_default();
        let spills = folder.clone();
        let runtime: RuntimeProducer = Arc::new(move |_| {
            RuntimeEnvBuilder::from_runtime_env(&stores)
                .with_temp_file_path(spills.clone())
                .build_arc()
        });
        let config = ExecutorProcessConfig {
            bind_host: self.bind.to_string(),
            external_host: Some(self.host.clone()),
            port: rows,
            grpc_port: tasks,
            scheduler_host: host.to_owned(),
            scheduler_port: port,
            scheduler_connect_timeout_seconds: 30,
            vcores: self.tasks.map_or(0, usize::from),
            work_dir: Some(folder.display().to_string()),
            memory_pool_size: self.memory.map(|mib| u64::from(mib) << 20),
            executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
            override_runtime_producer: Some(runtime),
            override_physical_codec: Some(codec()),
            override_execution_engine: Some(Arc::new(Engine::new(accounts))),
            ..ExecutorProcessConfig::default()
        };
        writeln!(
            io::stdout(),
            "the executor at {}:{rows} works for the scheduler {}",
            self.host,
            self.scheduler
        )?;
        let ended = start_executor_process(Arc::new(config)).await;
        drop(temporary);
        ended.map_err(|error| {
            Error::new(
                Exit::Failed,
                format!(
                    "the executor stopped: {error}; is the scheduler {} running?",
                    self.scheduler
                ),
            )
        })
    }

    /// The port for rows and that for tasks: those that are given, and free ones.
    fn ports(&self) -> Result<[u16; 2]> {
        // Held together, so that they differ.
        let held =
            [self.port, self.task_port].map(|port| (port, TcpListener::bind((self.bind, port))));
        let mut ports = [0; 2];
        for (to, (port, held)) in ports.iter_mut().zip(&held) {
            let held = held.as_ref().map_err(|error| {
                let bind = self.bind;
                Error::new(Exit::Failed, format!("the executor cannot listen at {bind}:{port}: {error}; use another port or --bind"))
            })?;
            *to = held.local_addr()?.port();
        }
        Ok(ports)
    }
}
