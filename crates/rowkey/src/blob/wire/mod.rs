//! The client's half of the Blob service's protocol.
//!
//! - [`encode`]: intent to request, one function an operation
//! - [`decode`]: answers to what they mean
//! - [`delegation`]: user delegation keys

// Decoders read numbers, dates and lengths that anyone sent: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod decode;
pub(crate) mod delegation;
pub(crate) mod encode;

#[cfg(test)]
mod tests;
