//! The Queue service's formats: parses requests into [operations](crate::op), and renders responses.
//!
//! | module | contents |
//! |---|---|
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`render`] | messages and lists of queues |
//! | [`receipt`] | pop receipts, which are opaque to clients |

pub(crate) mod parse;
pub(crate) mod receipt;
pub(crate) mod render;

#[cfg(test)]
mod tests;
