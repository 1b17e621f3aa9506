//! The operations of the Table service.
//!
//! - [`name`]: which names a table may have
//! - [`op`]: [`op::Op`], the closed set of operations that the server knows
//! - [`parse`]: request to [`op::Op`], or the rejection the service would give (the server's half)
//! - [`render`]: answers as the service writes them (the server's half)
//! - [`token`]: continuation tokens (the server's half)

pub mod name;
pub mod op;
pub mod parse;
pub mod render;
pub mod token;
