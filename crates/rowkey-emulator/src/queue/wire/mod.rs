//! The Queue service's formats: parses requests into operations, and renders responses.
//!
//! | module | contents |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the operations, as a closed set |
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`render`] | messages and lists of queues |
//! | [`receipt`] | pop receipts, which are opaque to clients |

pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod receipt;
pub(crate) mod render;

#[cfg(test)]
mod tests;
