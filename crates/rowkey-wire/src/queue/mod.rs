//! The operations of the Queue service.
//!
//! - [`name`]: which names a queue may have
//! - [`op`]: [`op::Op`], the closed set of operations that the server knows
//! - [`parse`]: request to [`op::Op`], or the rejection the service would give (the server's half)
//! - [`render`]: answers as the service writes them (the server's half)
//! - [`receipt`]: what pop receipts hold (the server's half; clients take them as they are)

pub mod name;
pub mod op;
pub mod parse;
pub mod receipt;
pub mod render;

#[cfg(test)]
mod tests;
