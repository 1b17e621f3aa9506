//! The client's half of the Queue service's protocol.
//!
//! - [`encode`]: requests, one function for each operation
//! - [`decode`]: what responses mean

// Decoders read numbers, dates and lengths from untrusted input: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod decode;
pub(crate) mod encode;

#[cfg(test)]
mod tests;
