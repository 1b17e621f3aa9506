//! The Blob service's formats: parses requests into operations, and renders responses.
//!
//! | module | contents |
//! |---|---|
//! | [`op`] | [`Op`](op::Op): the operations, as a closed set |
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`values`] | single headers and options |
//! | [`unsupported`] | unsupported features, and their error |
//! | [`render`] | lists of containers and blobs |
//! | [`marker`] | continuation markers of listings |
//! | [`block_list`] | the bodies of Put Block List and Get Block List |
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
