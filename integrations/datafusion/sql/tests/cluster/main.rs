//! A cluster of processes: a scheduler, executors and clients.
//!
//! - `queries`: rows are those of one process · `killed`: executors that are killed · `accounts`: names instead of credentials
//! - `errors`: words and exit codes · `leaves`: a defect of Ballista · `support`: the processes

#![allow(clippy::unwrap_used)]

mod accounts;
mod errors;
mod killed;
mod leaves;
mod queries;
mod support;
