//! Entity group transactions: several operations in one `multipart/mixed` body, both halves.
//!
//! | half | request | response |
//! |---|---|---|
//! | client | [`encode`]: [`BatchWriter`], [`encode_query`] | [`decode`]: [`decode_response`], [`failure`] |
//! | server | [`parse`]: [`parse_request`] | [`render`]: [`ResponseWriter`] |
//!
//! What reads bodies shares [`multipart`], which finds the messages in them; what writes them
//! shares nothing.
//!
//! Reference: [Performing entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).

pub mod decode;
pub mod encode;
pub mod multipart;
pub mod parse;
pub mod render;

#[cfg(test)]
mod tests;

pub use decode::{PartResponse, decode_response, failure};
pub use encode::{BatchWriter, encode_query};
pub use multipart::{BatchError, BatchFault};
pub use parse::{BatchRequest, PartHead, PartRequest, parse_request, table};
pub use render::ResponseWriter;
