//! Tests of the program, against a server of this project with accounts of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exits;
mod explain;
mod files;
mod output;
#[cfg(target_os = "linux")]
mod prompt;
mod queries;
mod scans;
mod support;
