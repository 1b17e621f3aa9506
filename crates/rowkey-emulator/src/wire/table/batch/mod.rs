//! Entity group transactions: the operations of a request. [`rowkey_wire::multipart`] finds the
//! messages in a body and writes responses.
//!
//! Reference: [Performing entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).

mod parse;

#[cfg(test)]
mod tests;

pub(crate) use parse::{BatchRequest, PartHead, PartRequest, parse_request, table};
