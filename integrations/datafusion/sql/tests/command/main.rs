//! Tests of the program, against a server of this project with accounts of its own.

mod exits;
mod explain;
mod files;
mod output;
#[cfg(target_os = "linux")]
mod prompt;
mod queries;
mod scans;
mod support;
