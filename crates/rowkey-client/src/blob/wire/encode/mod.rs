//! Encodes requests, one function for each operation: the client's half.
//!
//! - `blobs`: whole blobs, their properties, copies, snapshots
//! - `blocks`: blocks and block lists
//! - `containers`: containers and listings
//! - `leases`: leases on blobs and containers
//! - `parts`: shared parts: [`Conditions`], [`BlobPath`]
//!
//! Names and numbers are assumed to be valid; the caller checks names first, see [`rowkey_wire::blob::name`].

mod blobs;
mod blocks;
mod containers;
mod leases;
mod parts;

#[cfg(test)]
mod tests;

pub(crate) use blobs::{
    Copy, DeleteSnapshots, Range, RangeChecksum, abort_copy, copy, delete, get, get_properties,
    put_append, put_block_blob, set_metadata, set_properties, snapshot,
};
pub(crate) use blocks::{append_block, block_list, put_block, put_block_list};
pub(crate) use containers::{
    ListBlobs, ListContainers, batch, create_container, delete_container, get_container_acl,
    get_container_properties, list_blobs, list_containers, set_container_acl,
    set_container_metadata,
};
pub(crate) use leases::{Target, lease};
pub(crate) use parts::{BlobPath, Conditions};
