//! Entity group transactions: the operations of a request. The messages in a body are found by
//! [`rowkey_wire::multipart`], which writes responses, too.
//!
//! Reference: [Performing entity group transactions](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).

mod parse;

#[cfg(test)]
mod tests;

pub(crate) use parse::{BatchRequest, PartHead, PartRequest, parse_request, table};
