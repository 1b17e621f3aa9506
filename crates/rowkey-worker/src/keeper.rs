//! The thread that renews messages and the janitor's lease: one in the process, with a runtime of its own.
//!
//! Code of a handler that computes or blocks keeps a thread of its runtime, and with a runtime of one
//! thread all of them. Messages of its neighbours are renewed all the same, because this thread runs
//! nothing else.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rowkey::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

static THREAD: Mutex<Option<Handle>> = Mutex::new(None);

/// A task that ends when this is dropped, at the await it has reached.
pub(crate) struct Owned<R>(pub(crate) JoinHandle<R>);

impl<R> Drop for Owned<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a future on the thread of renewals, which the first call starts.
pub(crate) fn spawn<R: Send + 'static>(
    future: impl Future<Output = R> + Send + 'static,
) -> Result<Owned<R>> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = match &mut *thread {
        Some(handle) => handle,
        none => none.insert(start().map_err(|error| {
            let what = "the thread that renews messages cannot be started";
            Error::refused(ErrorKind::Unavailable, what).with_source(error)
        })?),
    };
    Ok(Owned(handle.spawn(future)))
}

fn start() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new().name("rowkey-renewals".to_owned());
    thread.spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}
