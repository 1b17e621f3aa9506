//! The program `rowkey` in a process of its own, against the server in this process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod connections;
mod dead_letters;
mod entities;
mod exits;
mod inspect;
mod jobs;
mod killed;
mod pages;
mod purge;
mod query;
mod queue;
mod sas;
#[cfg(unix)]
mod serve;
mod stopped;
mod support;
mod sync;
mod tables;
#[cfg(target_os = "linux")]
mod terminal;
mod transfer;
