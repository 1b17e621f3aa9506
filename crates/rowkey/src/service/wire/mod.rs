//! What the Table, Queue and Blob services have in common on the wire: the client's half.
//!
//! - [`error_body`]: the bodies of failed requests
//! - [`metadata`]: headers of metadata
//! - [`stats`]: replication statistics

// Decoders read numbers, dates and lengths that anyone sent: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod error_body;
pub(crate) mod metadata;
pub(crate) mod stats;
