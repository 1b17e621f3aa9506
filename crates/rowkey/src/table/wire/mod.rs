//! The client's half of the Table service's protocol.
//!
//! - [`encode`]: intent to request, one function an operation
//! - [`decode`]: headers of answers; bodies are read by [`rowkey_wire::odata`] and [`rowkey_wire::batch`]

// Decoders read numbers, dates and lengths that anyone sent: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod decode;
pub(crate) mod encode;
