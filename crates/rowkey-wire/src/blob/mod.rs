//! Formats of the Blob service that client and server share. This project supports containers,
//! block blobs, append blobs, leases, snapshots and copies within an account.
//!
//! - [`headers`]: names of headers specific to blobs
//! - [`name`]: rules for names of containers and blobs
//! - [`checksum`]: MD5 and CRC64 of bodies, computed incrementally
//! - `crc64`: the CRC64 of the services
//! - `content`: blob types, content headers, checksums and lease actions

pub mod checksum;
mod content;
mod crc64;
pub mod headers;
pub mod name;

pub use content::{
    AppendLimits, BlobType, BlockSource, ContentHeaders, LeaseAction, PublicAccess, Sums,
};
