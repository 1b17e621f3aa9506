//! A plan as a job of the cluster: it is submitted, waited for, and cancelled if its rows are no longer wanted.
//!
//! Ballista has a function for it, which tells no one the name of the job, so that it cannot be cancelled, and has errors of connections as
//! texts for debugging.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use ballista_core::BALLISTA_VERSION;
use ballista_core::client::BallistaClient;
use ballista_core::extension::BallistaGrpcMetadataInterceptor;
use ballista_core::serde::protobuf::execute_query_result::Result as Submitted;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, ExecuteQueryParams, GetJobStatusParams, PartitionLocation,
    execute_query_failure_result,
};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use ballista_core::version::BALLISTA_VERSION_HEADER;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, internal_err};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};

use super::failed::of_job;
use super::lost;
use crate::error::{Error, Exit, Result};

/// The rows of a job.
pub(super) type Rows = stream::BoxStream<'static, datafusion::common::Result<RecordBatch>>;

/// How long a client waits for a scheduler that is being started, or that does not answer in the middle.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process that ends waits until its job is cancelled.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest time between two questions about a job.
const PAUSE: Duration = Duration::from_millis(50);

/// Codes of gRPC.
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const OUT_OF_RANGE: i32 = 11;

fn endpoint(scheduler: &str) -> String {
    format!("http://{scheduler}")
}

/// Waits until the scheduler listens, or as long as is sensible.
#[expect(clippy::disallowed_methods, reason = "a process is waited for, not a clock of a test")]
async fn reach(scheduler: &str) -> Result<()> {
    let reached = timeout(PATIENCE, async {
        while TcpStream::connect(scheduler).await.is_err() {
            sleep(Duration::from_millis(200)).await;
        }
    });
    if reached.await.is_ok() {
        return Ok(());
    }
    Err(match timeout(PATIENCE, lookup_host(scheduler)).await {
        Ok(Ok(_)) => lost::silent(scheduler),
        _ => lost::unknown_host(scheduler),
    })
}

/// A job that runs. It is cancelled when this is dropped before it has ended.
struct Running {
    scheduler: String,
    id: String,
    has_ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (scheduler, id) = (endpoint(&self.scheduler), std::mem::take(&mut self.id));
        // The process may end right behind this, or its runtime may: so it is done in this place, in a thread with a runtime of its own.
        let cancelling = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let cancel = async {
                let config = GrpcClientConfig::default();
                let connection = create_grpc_client_endpoint(scheduler, Some(&config)).ok()?;
                let mut client = SchedulerGrpcClient::new(connection.connect().await.ok()?);
                client.cancel_job(CancelJobParams { job_id: id }).await.ok()
            };
            // There is no job to cancel at a scheduler that does not answer.
            let _ = runtime.block_on(async { timeout(FAREWELL, cancel).await });
        });
        let _ = cancelling.join();
    }
}

/// Runs a job, and returns the rows of its partitions one after the other.
#[expect(
    clippy::disallowed_methods,
    reason = "a process is waited for, not a clock of a test, and a submission that is not waited for ends"
)]
pub(super) async fn run(
    scheduler: String,
    request: ExecuteQueryParams,
    config: GrpcClientConfig,
) -> Result<Rows> {
    reach(&scheduler).await?;
    let limit = config.max_message_size;
    let is_other = |_| lost::no_scheduler(&scheduler);
    let connection = create_grpc_client_endpoint(endpoint(&scheduler), Some(&config))
        .map_err(is_other)?
        .connect()
        .await
        .map_err(is_other)?;
    let version = (BALLISTA_VERSION_HEADER.to_owned(), BALLISTA_VERSION.to_owned());
    let version = BallistaGrpcMetadataInterceptor::new(HashMap::from([version]));
    let mut client = SchedulerGrpcClient::with_interceptor(connection, version)
        .max_encoding_message_size(limit)
        .max_decoding_message_size(limit);
    // A scheduler knows no such job. What answers something else is none.
    let none = client.get_job_status(GetJobStatusParams { job_id: String::new() });
    if !matches!(timeout(PATIENCE, none).await, Ok(Ok(_))) {
        return Err(lost::no_scheduler(&scheduler));
    }

    let mut submitting = client.clone();
    let at = scheduler.clone();
    // In a task of its own, so that a job is known, and cancelled, whose submission is not waited for.
    let submitted = tokio::spawn(async move {
        let answer = submitting.execute_query(request).await.map_err(|status| {
            let (code, message) = (status.code() as i32, status.message());
            match code {
                RESOURCE_EXHAUSTED | OUT_OF_RANGE => lost::too_large(limit),
                FAILED_PRECONDITION => lost::other_version(&at, message),
                _ if message.starts_with("Failed to ") => lost::refused(&at, message),
                _ => lost::lost(&at),
            }
        });
        match answer?.into_inner().result {
            Some(Submitted::Success(job)) => {
                Ok(Running { scheduler: at, id: job.job_id, has_ended: false })
            }
            Some(Submitted::Failure(failure)) => Err(match failure.failure {
                Some(execute_query_failure_result::Failure::PlanParsingFailure(text)) => {
                    lost::refused(&at, &text)
                }
                _ => lost::refused(&at, "it gives no reason"),
            }),
            None => Err(lost::no_scheduler(&at)),
        }
    });
    let submitted = submitted.await.map_err(|error| Error::new(Exit::Failed, error.to_string()));
    let mut job = submitted??;

    let mut pause = Duration::from_millis(5);
    let mut is_known = false;
    let mut heard = Instant::now();
    let locations = loop {
        let asked = client.get_job_status(GetJobStatusParams { job_id: job.id.clone() }).await;
        let answer = asked.ok().map(|answer| answer.into_inner().status);
        match answer.map(|status| status.and_then(|status| status.status)) {
            // A job appears soon behind its submission, and a scheduler that was started again has none.
            Some(None) if is_known || heard.elapsed() > PATIENCE => {
                job.has_ended = true;
                return Err(lost::forgotten(&scheduler));
            }
            None if heard.elapsed() > PATIENCE => {
                job.has_ended = true;
                return Err(lost::lost(&scheduler));
            }
            None | Some(None) => {}
            Some(Some(Status::Queued(_) | Status::Running(_))) => {
                (is_known, heard) = (true, Instant::now());
            }
            Some(Some(Status::Failed(failed))) => {
                job.has_ended = true;
                return Err(of_job(&failed.error, &scheduler));
            }
            Some(Some(Status::Successful(done))) => {
                job.has_ended = true;
                break done.partition_location;
            }
        }
        sleep(pause).await;
        pause = PAUSE.min(pause * 2);
    };
    let rows = locations.into_iter().map(move |location| {
        let config = config.clone();
        stream::once(fetch(location, config)).try_flatten()
    });
    Ok(stream::iter(rows).flatten().boxed())
}

/// The rows of a partition of the result, from the executor that has them.
async fn fetch(
    location: PartitionLocation,
    config: GrpcClientConfig,
) -> datafusion::common::Result<Rows> {
    let layout = location.layout();
    let (Some(executor), Some(partition)) = (location.executor_meta, location.partition_id) else {
        return internal_err!("a part of the result is nowhere");
    };
    let port = u16::try_from(executor.port).unwrap_or_default();
    let rows = async {
        let mut client = BallistaClient::try_new(
            &executor.host,
            port,
            config.max_message_size,
            config.use_tls,
            None,
            config.io_retries_times,
            config.io_retry_wait_time_ms,
            config.initial_connection_window_size,
            config.initial_stream_window_size,
        )
        .await?;
        let (id, partition, file) = (&executor.id, partition.into(), location.file_id);
        client
            .fetch_partition_proxied(id, &partition, file, layout, &executor.host, port, true)
            .await
    };
    // All that can fail is the way to the executor: the job is done.
    let lost = lost::lost_rows(&executor.host, port);
    let lost = move || DataFusionError::External(Box::new(lost.clone()));
    match rows.await {
        Ok(rows) => Ok(rows.map_err(move |_| lost()).boxed()),
        Err(_) => Err(lost()),
    }
}
