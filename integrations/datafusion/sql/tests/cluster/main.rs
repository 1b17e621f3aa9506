//! A cluster of processes: a scheduler, executors and clients.
//!
//! - `queries`: rows are those of one process · `killed`: executors that are killed · `accounts`: names instead of credentials
//! - `leaves`: a defect of Ballista · `support`: the processes

#![allow(clippy::unwrap_used)]

mod accounts;
mod killed;
mod leaves;
mod queries;
mod support;
