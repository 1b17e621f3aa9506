//! Runs code of the program in a task of the runtime, where it may panic, and returns the text of a panic.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::{JoinError, JoinHandle};

/// The text of a panic. The panic's value may panic when it is dropped; that is ignored.
pub(crate) fn text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("without a text").to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Leaked, because it may panic once more.
        let _ = ManuallyDrop::new(again);
    }
    text
}

/// The text of the panic that ended a task; `None` if it was aborted, or the runtime was shut down.
pub(crate) fn of(error: JoinError) -> Option<String> {
    error.try_into_panic().ok().map(text)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a panic or a blocked poll affects only its own task"
)]
pub(crate) fn spawn<R: Send + 'static>(
    work: impl Future<Output = R> + Send + 'static,
) -> JoinHandle<R> {
    tokio::spawn(work)
}
