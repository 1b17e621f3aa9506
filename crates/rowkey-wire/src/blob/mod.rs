//! The operations of the Blob service that this project knows: containers, block blobs, append
//! blobs, leases, snapshots, copies within an account.
//!
//! - [`headers`]: names of headers that only blobs have
//! - [`name`]: which names containers and blobs may have
//! - [`tag`]: entity tags of blobs, and the conditions that requests carry
//! - [`checksum`]: MD5 and CRC64 of bodies, a piece at a time
//! - [`tags`]: blob index tags
//! - [`tag_filter`]: expressions over them, in conditions and searches
//! - [`tier`]: access tiers
//! - [`block_list`]: the documents that say which blocks make up a blob, both halves
//! - [`op`]: [`op::Op`], the closed set of operations that the server knows
//! - [`parse`]: request to [`op::Op`], or the rejection the service would give (the server's half)
//! - [`values`]: single headers and options to what they mean (the server's half)
//! - [`render`]: lists of containers and blobs as the service writes them (the server's half)
//! - [`batch`]: several requests in one, and their responses (the server's half)
//! - [`unsupported`]: which features the server refuses, and how (the server's half)
//! - [`marker`]: where a list goes on (the server's half)

pub mod batch;
pub mod block_list;
pub mod checksum;
pub mod headers;
pub mod marker;
pub mod name;
pub mod op;
pub mod parse;
pub mod render;
pub mod tag;
pub mod tag_filter;
pub mod tags;
pub mod tier;
pub mod unsupported;
pub mod values;

#[cfg(test)]
mod tests;
