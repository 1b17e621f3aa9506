//! Clients against the minimal server: their own CPU and allocations an operation.
//!
//! - [`compare`]: the rounds, each in a process of its own; [`figures`]: what came of it, as a table
//! - [`run`]: what such a process does
//! - [`ours`], [`by_hand`], [`over_reqwest`], [`over_hyper`], [`old`]: the contenders
//!   in Rust; the official ones for JavaScript and Python are in `sdk/`

pub mod by_hand;
pub mod compare;
pub mod figures;
pub mod old;
pub mod ours;
pub mod over_hyper;
pub mod over_reqwest;
pub mod run;
