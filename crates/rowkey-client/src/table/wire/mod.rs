//! The client side of the Table service's protocol.
//!
//! - [`encode`]: requests, with one function for each operation
//! - [`decode`]: headers of responses; bodies are decoded by [`page`] and [`crate::transport::batch`]
//! - [`batch`]: entity group transactions: their requests
//! - [`page`]: pages of entities and of table names

// Decoders read untrusted numbers, dates and lengths: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod batch;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod page;
