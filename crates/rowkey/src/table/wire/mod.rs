//! The client's half of the Table service's protocol.
//!
//! - [`encode`]: intent to request, one function an operation
//! - [`decode`]: headers of responses; bodies are read by [`odata`] and [`batch`]
//! - [`batch`]: entity group transactions
//! - [`mod@odata`]: entities as JSON

// Decoders read numbers, dates and lengths that anyone sent: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod batch;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod odata;
