//! The operations of the Table service.
//!
//! - [`encode`]: one function an operation, intent to request (the client's half)
//! - [`name`]: which names a table may have
//! - [`decode`]: answers to what they mean (the client's half)
//! - [`op`]: [`op::Op`], the closed set of operations that the server knows
//! - [`parse`]: request to [`op::Op`], or the rejection the service would give (the server's half)
//! - [`render`]: answers as the service writes them (the server's half)
//! - [`token`]: continuation tokens (the server's half)

pub mod decode;
pub mod encode;
pub mod name;
pub mod op;
pub mod parse;
pub mod render;
pub mod token;

pub use crate::request::Request;
