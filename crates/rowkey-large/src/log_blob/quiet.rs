//! A writer's own requests are no events of its own log: writing them would cause more of them.

use std::cell::Cell;
use std::pin::pin;

thread_local! {
    /// Whether this thread works for a writer of a log just now.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`; meanwhile, nothing that it traces is logged by a layer of this crate.
pub(super) async fn quietly<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        // Polls of others come between those of this one.
        let _quiet = Quiet { before: QUIET.replace(true) };
        work.as_mut().poll(context)
    })
    .await
}

/// Whether a layer of this crate is to say nothing.
#[cfg(feature = "tracing-subscriber")]
pub(super) fn is_quiet() -> bool {
    QUIET.get()
}

struct Quiet {
    before: bool,
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(self.before);
    }
}
