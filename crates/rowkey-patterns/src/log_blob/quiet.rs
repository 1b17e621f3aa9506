//! Suppresses the events of a writer's own requests: logging them would cause more requests.

use std::cell::Cell;
use std::pin::pin;

thread_local! {
    /// Whether this thread is currently working for a log writer.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; layers of this crate do not log the events that it traces.
pub(super) async fn quietly<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // The thread polls other futures between the polls of this one.
        let _quiet = QuietGuard { before: QUIET.replace(true) };
        work.as_mut().poll(context)
    })
    .await
}

/// Returns whether the layers of this crate must not log.
#[cfg(feature = "tracing-subscriber")]
pub(super) fn is_quiet() -> bool {
    QUIET.get()
}

struct QuietGuard {
    before: bool,
}

impl Drop for QuietGuard {
    fn drop(&mut self) {
        QUIET.set(self.before);
    }
}
