//! The Blob service's half of the wire: requests to operations, and operations' results to answers.
//!
//! | module | what is in it |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the closed set of operations |
//! | [`parse`] | a request to an operation, or the rejection that the service would give |
//! | [`values`] | single headers and options to what they mean |
//! | [`unsupported`] | which features are refused, and how |
//! | [`render`] | lists of containers and blobs |
//! | [`marker`] | where a list goes on |
//! | [`block_list`] | which blocks make up a blob |
//! | [`batch`] | several requests in one, and their responses |
//! | [`tag`] | entity tags, and the conditions that requests carry |
//! | [`tags`], [`tag_filter`] | blob index tags, and expressions over them |
//! | [`tier`] | access tiers |

pub(crate) mod batch;
pub(crate) mod block_list;
pub(crate) mod marker;
pub(crate) mod op;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod tag;
pub(crate) mod tag_filter;
pub(crate) mod tags;
pub(crate) mod tier;
pub(crate) mod unsupported;
mod values;

#[cfg(test)]
mod tests;
