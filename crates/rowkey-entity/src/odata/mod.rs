//! Entities as OData JSON: [`encode`], as the body of a request; [`decode`], from the body of a
//! response.

// Decoders read untrusted numbers, dates and lengths: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod decode;
pub(crate) mod encode;
