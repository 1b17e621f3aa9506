//! The client's encoding of entity group transactions: several operations in one `multipart/mixed`
//! body.
//!
//! - [`encode`]: [`BatchWriter`], [`encode_query`]
//! - [`decode`]: [`decode_response`], [`failure`], for the parts that [`multipart`] finds
//!
//! [`multipart`]: rowkey_wire::multipart

mod decode;
mod encode;

#[cfg(test)]
mod tests;

pub(crate) use decode::{PartResponse, decode_response, failure};
pub(crate) use encode::{BatchWriter, encode_query};
