//! The parts of the protocol that the Table, Queue and Blob services share: the client's half.
//!
//! - [`documents`]: the requests for properties, statistics and user delegation keys
//! - [`delegation`]: the documents of user delegation keys
//! - [`metadata`]: metadata headers

// Decoders read numbers, dates and lengths from untrusted input: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod delegation;
pub(crate) mod documents;
pub(crate) mod metadata;
