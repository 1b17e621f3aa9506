//! The thread that renews messages and leases: one per process, with its own runtime.
//!
//! A handler that computes or blocks occupies a thread of its runtime; in a single-threaded runtime, the only
//! one. Messages of other handlers are renewed anyway, because this thread runs nothing else.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rowkey_client::{Error, ErrorKind, Result};
use rowkey_patterns::lease_lock::Held;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

static THREAD: Mutex<Option<Handle>> = Mutex::new(None);

/// A task that is aborted at its current await when this is dropped.
pub(crate) struct AbortOnDrop<R>(pub(crate) JoinHandle<R>);

impl<R> Drop for AbortOnDrop<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a future on the renewal thread, which the first call starts.
pub(crate) fn spawn<R: Send + 'static>(
    future: impl Future<Output = R> + Send + 'static,
) -> Result<AbortOnDrop<R>> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = match &mut *thread {
        Some(handle) => handle,
        none => none.insert(start().map_err(|error| {
            let what = "the renewal thread cannot be started";
            Error::refused(ErrorKind::Unavailable, what).with_source(error)
        })?),
    };
    Ok(AbortOnDrop(handle.spawn(future)))
}

/// Sends a request from the renewal thread, because connections belong to the runtime that opened them.
pub(crate) async fn run<R: Send + 'static>(
    request: impl Future<Output = Result<R>> + Send + 'static,
) -> Result<R> {
    let mut task = spawn(request)?;
    (&mut task.0).await.unwrap_or_else(|_| {
        Err(Error::refused(ErrorKind::Unexpected, "a request for a lock did not end"))
    })
}

/// Releases a lease.
pub(crate) async fn release(held: &Arc<Held>) {
    let held = Arc::clone(held);
    if let Err(error) = run(async move { held.release().await }).await {
        tracing::debug!(%error, "a lease ends with its term");
    }
}

fn start() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new().name("rowkey-renewals".to_owned());
    thread.spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}
