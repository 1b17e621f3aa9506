//! Clients against the minimal server: their own CPU and allocations an operation.
//!
//! - [`compare`]: the rounds, each in a process of its own, and the table
//! - [`run`]: what such a process does
//! - [`ours`], [`by_hand`], [`over_reqwest`], [`over_hyper`], [`old`]: the contenders

pub mod by_hand;
pub mod compare;
pub mod old;
pub mod ours;
pub mod over_hyper;
pub mod over_reqwest;
pub mod run;
