//! The Blob service's formats: parses requests into [operations](crate::op), and renders responses.
//!
//! | module | contents |
//! |---|---|
//! | [`parse`] | requests to operations, or to the service's errors |
//! | [`values`] | single headers and options |
//! | [`unsupported`] | unsupported features, and their error |
//! | [`render`] | lists of containers and blobs |
//! | [`block_list`] | the bodies of Put Block List and Get Block List |
//! | [`batch`] | several requests in one, and their responses |

pub(crate) mod batch;
pub(crate) mod block_list;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod unsupported;
mod values;

#[cfg(test)]
mod tests;
