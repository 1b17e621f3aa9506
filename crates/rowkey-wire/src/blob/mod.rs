//! The operations of the Blob service that this project knows: containers, block blobs, append
//! blobs, leases, snapshots, copies within an account.
//!
//! - [`headers`]: names of headers that only blobs have
//! - [`name`]: which names containers and blobs may have
//! - [`checksum`]: MD5 and CRC64 of bodies, a piece at a time
//! - `content`: kinds of blobs, their headers, sums and leases

pub mod checksum;
mod content;
pub mod headers;
pub mod name;

pub use content::{
    AppendLimits, BlobType, BlockSource, ContentHeaders, LeaseAction, PublicAccess, Sums,
};
