//! The soak: processes that put tasks and do them, handlers that panic, hang, block and fail, requests that
//! fail, outages of the queue, and processes that are killed and stopped at any moment. In the end each
//! task has had its effect exactly once.
//!
//! `cargo test -p rowkey-tests --test soak` does a small one, `cargo xtask nightly` one of 500,000 tasks:
//!
//! ```text
//! ROWKEY_SOAK=500000 cargo test --release -p rowkey-tests --test soak
//! ```
//!
//! - `jobs`: the tasks, the rows that they change, and how they are put
//! - `doer`: the handler, and its faults
//! - `roles`: the processes of writers and workers
//! - `processes`: the processes as their parent sees them
//! - `chaos`: external faults
//! - `clock`: the server's time in all processes
//! - `verdict`: the expected final state

#![cfg_attr(unix, expect(clippy::print_stdout, reason = "the figures are what it is for"))]
#![cfg_attr(unix, expect(clippy::unwrap_used, reason = "a soak that cannot go on fails"))]

#[cfg(unix)]
mod chaos;
#[cfg(unix)]
mod clock;
#[cfg(unix)]
mod doer;
#[cfg(unix)]
mod jobs;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod roles;
#[cfg(unix)]
mod soak;
#[cfg(unix)]
mod verdict;

/// What everything here returns.
type Result<T = ()> = rowkey_tests::TestResult<T>;

/// Processes are stopped by signals, which Unix has.
#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() -> Result {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build()?;
    if let Ok(role) = std::env::var(processes::Role::VARIABLE) {
        return runtime.block_on(roles::run(&role));
    }
    let tasks = std::env::var("ROWKEY_SOAK").ok().and_then(|tasks| tasks.parse().ok());
    runtime.block_on(soak::run(tasks.unwrap_or_else(soak::usual)))
}
