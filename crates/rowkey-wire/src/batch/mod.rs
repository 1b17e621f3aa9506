//! Entity group transactions: several operations in one `multipart/mixed` body.
//!
//! - [`multipart`]: finds the messages in a body; what reads requests and what reads responses share it
//! - [`parse_request`]: the operations of a request (the server's half)
//! - [`ResponseWriter`]: the body of a response (the server's half)
//!
//! Reference: [Performing entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).

pub mod multipart;
mod parse;
mod render;

#[cfg(test)]
mod tests;

pub use parse::{BatchRequest, PartHead, PartRequest, parse_request, table};
pub use render::ResponseWriter;
