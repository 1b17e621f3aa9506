//! The Queue service's half of the wire: requests to operations, and operations' results to answers.
//!
//! | module | what is in it |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the closed set of operations |
//! | [`parse`] | a request to an operation, or the rejection that the service would give |
//! | [`render`] | messages and lists of queues |
//! | [`receipt`] | what pop receipts hold; clients take them as they are |

pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod receipt;
pub(crate) mod render;

#[cfg(test)]
mod tests;
