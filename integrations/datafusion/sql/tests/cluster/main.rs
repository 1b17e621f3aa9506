//! A cluster of processes: a scheduler, executors and clients.
//!
//! - `queries`: rows are those of one process · `killed`: executors that are killed · `accounts`: names instead of credentials
//! - `errors`: words and exit codes · `lost`: schedulers and executors that are not there · `stopped`: Ctrl-C
//! - `leaves`: a defect of Ballista · `support`: the processes

#![allow(clippy::unwrap_used)]

mod accounts;
mod errors;
mod killed;
mod leaves;
mod lost;
mod queries;
#[cfg(target_os = "linux")]
mod stopped;
mod support;
