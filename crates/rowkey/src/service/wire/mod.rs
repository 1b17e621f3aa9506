//! The parts of the protocol that the Table, Queue and Blob services share: the client's half.
//!
//! - [`delegation`]: user delegation keys
//! - [`metadata`]: metadata headers
//! - [`stats`]: replication statistics

// Decoders read numbers, dates and lengths from untrusted input: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod delegation;
pub(crate) mod metadata;
pub(crate) mod stats;
